package proxies_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/proxies"
)

// byHand returns the objects of config/kedify-proxy, by short name, as kubectl apply -k applies them.
func byHand(t *testing.T) map[string]map[string]any {
	t.Helper()
	const folder = "../../../config/kedify-proxy"
	var list struct{ Resources []string }
	text, err := os.ReadFile(filepath.Join(folder, "kustomization.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	found := map[string]map[string]any{}
	for _, file := range list.Resources {
		text, err := os.ReadFile(filepath.Join(folder, file))
		if err != nil {
			t.Fatal(err)
		}
		for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
			object := new(unstructured.Unstructured)
			asJSON, err := yaml.YAMLToJSON(document)
			if err != nil {
				t.Fatal(err)
			}
			if err := object.UnmarshalJSON(asJSON); err != nil {
				t.Fatal(err)
			}
			found[short(object)] = object.Object
		}
	}
	return found
}

// applied returns the objects that the agent applies to a namespace, by short name.
func applied(t *testing.T, namespace proxies.Namespace) map[string]map[string]any {
	t.Helper()
	w := &fixture{Namespace: namespace}
	w.step(t)
	found := map[string]map[string]any{}
	for _, object := range w.Existing {
		object.SetUID("")
		object.SetResourceVersion("")
		found[short(object)] = object.Object
	}
	return found
}

// TestAgentAppliesConfigKedifyProxy compares the applied objects with config/kedify-proxy: the agent adds only its
// own label and annotations.
func TestAgentAppliesConfigKedifyProxy(t *testing.T) {
	want := byHand(t)
	for name, object := range want {
		metadata := object["metadata"].(map[string]any)
		metadata["namespace"] = "team"
		metadata["labels"].(map[string]any)[httpv1alpha1.LabelManagedBy] = httpv1alpha1.ManagedByAgent
		if name == "deploy" && object["spec"].(map[string]any)["replicas"] != int64(1) {
			t.Errorf("replicas %v, want the 1 that the agent's flag has", object["spec"])
		}
	}
	got := applied(t, proxies.Namespace{Name: "team", IsNeeded: true, Settings: proxies.Settings{Replicas: 1, InterceptorNamespace: "keda"}})
	for name, object := range got {
		annotations := object["metadata"].(map[string]any)["annotations"].(map[string]any)
		if hash, _ := annotations[httpv1alpha1.AnnotationProxyApplied].(string); len(hash) != 16 {
			t.Errorf("%s: annotations %v", name, annotations)
		}
		delete(annotations, httpv1alpha1.AnnotationProxyApplied)
		delete(annotations, httpv1alpha1.AnnotationProxyReplicas)
		if len(annotations) == 0 {
			delete(object["metadata"].(map[string]any), "annotations")
		}
	}
	template := got["deploy"]["spec"].(map[string]any)["template"].(map[string]any)
	delete(template["metadata"].(map[string]any)["annotations"].(map[string]any), httpv1alpha1.AnnotationProxyBootstrap)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("objects (-manually +by the agent):\n%s", diff)
	}
}

// TestProxiesAreExcludedFromMeshes checks the labels and annotations that prevent Istio and Linkerd from injecting
// a sidecar.
func TestProxiesAreExcludedFromMeshes(t *testing.T) {
	metadata := byHand(t)["deploy"]["spec"].(map[string]any)["template"].(map[string]any)["metadata"].(map[string]any)
	if metadata["labels"].(map[string]any)["sidecar.istio.io/inject"] != "false" || metadata["annotations"].(map[string]any)["linkerd.io/inject"] != "disabled" {
		t.Errorf("metadata of Pods: %v", metadata)
	}
}

// TestPorts compares the probes and Service kedify-proxy-admin with the ports of the bootstrap: probes use the listener
// on the Pod network, and the Service, which `kubectl port-forward` uses, leads to the admin interface.
func TestPorts(t *testing.T) {
	objects := byHand(t)
	var admin corev1.Service
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(objects["svc-admin"], &admin); err != nil {
		t.Fatal(err)
	}
	envoy := envoyContainer(t, objects)
	numbers := map[string]int32{}
	for _, port := range envoy.Ports {
		numbers[port.Name] = port.ContainerPort
	}
	for name, probe := range map[string]*corev1.Probe{"startup": envoy.StartupProbe, "liveness": envoy.LivenessProbe} {
		if probe.TCPSocket == nil || numbers[probe.TCPSocket.Port.String()] != 9901 {
			t.Errorf("%s probe: %v: other clients can use all connections, so it must need no answer", name, probe)
		}
	}
	if probe := envoy.ReadinessProbe.HTTPGet; probe.Path != "/ready" || numbers[probe.Port.String()] != 9901 {
		t.Errorf("readiness probe: %s of port %s", probe.Path, probe.Port.String())
	}
	if port := admin.Spec.Ports[0]; port.Port != 9901 || numbers[port.TargetPort.String()] != 9902 {
		t.Errorf("Service kedify-proxy-admin: port %d leads to %s", port.Port, port.TargetPort.String())
	}
	bootstrap := objects["cm-bootstrap"]["data"].(map[string]any)["envoy.yaml"].(string)
	for _, address := range []string{
		"{address: 0.0.0.0, port_value: 9901}", "admin:\n  address:\n    socket_address: {address: 127.0.0.1, port_value: 9902}\n",
	} {
		if !strings.Contains(bootstrap, address) {
			t.Errorf("the bootstrap lacks %s", address)
		}
	}
}

// envoyContainer returns the container of a proxy.
func envoyContainer(t *testing.T, objects map[string]map[string]any) corev1.Container {
	t.Helper()
	var deployment appsv1.Deployment
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(objects["deploy"], &deployment); err != nil {
		t.Fatal(err)
	}
	return deployment.Spec.Template.Spec.Containers[0]
}

// TestPatienceOfProbes compares how long a proxy may answer its probes late, and how long it may answer that it is not
// ready. The kubelet starts the next probe after the period, or after the timeout if that is longer.
func TestPatienceOfProbes(t *testing.T) {
	envoy := envoyContainer(t, byHand(t))
	const failures = 3 // the default of failureThreshold
	late := func(probe *corev1.Probe) int32 {
		return max(failures, probe.FailureThreshold) * max(probe.PeriodSeconds, probe.TimeoutSeconds)
	}
	if got := late(envoy.ReadinessProbe); got < 30 {
		t.Errorf("a proxy that answers late is not ready after %d s: other proxies have the same lack of CPU time", got)
	}
	if readiness, liveness := late(envoy.ReadinessProbe), late(envoy.LivenessProbe); readiness >= liveness {
		t.Errorf("a proxy that hangs is restarted after %d s, and receives connections for %d s", liveness, readiness)
	}
	if got := max(failures, envoy.ReadinessProbe.FailureThreshold) * envoy.ReadinessProbe.PeriodSeconds; got > 6 {
		t.Errorf("a proxy that answers that it is not ready receives connections for %d s", got)
	}
}

// TestSettings has the effect of each setting.
func TestSettings(t *testing.T) {
	needs := func(annotations ...string) proxies.Namespace {
		n := proxies.Namespace{Name: "team", IsNeeded: true, Annotations: map[string]string{}}
		for i := 0; i < len(annotations); i += 2 {
			n.Annotations[annotations[i]] = annotations[i+1]
		}
		return n
	}
	elsewhere, overIPv6 := needs(), needs()
	elsewhere.Settings.InterceptorNamespace = "kedify"
	overIPv6.Settings.IPv6 = true
	tests := map[string]struct {
		of   proxies.Namespace
		want []string // lines that are new
	}{
		"nothing": {needs(), nil},
		"an image": {needs(httpv1alpha1.AnnotationProxyImage, "mirror.test:5000/envoy@sha256:abc"), []string{
			"image: mirror.test:5000/envoy@sha256:abc",
		}},
		"three of them": {needs(httpv1alpha1.AnnotationProxyReplicas, "3"), []string{"http.kedify.io/proxy-replicas: \"3\"", "replicas: 3"}},
		"resources": {needs(httpv1alpha1.AnnotationProxyResources, `{"limits": {"cpu": "2000m", "memory": "600Mi"}}`), []string{
			"max_heap_size_bytes: 524288000", "cpu: \"2\"", "memory: 600Mi",
		}},
		"where the Pods run": {needs(httpv1alpha1.AnnotationProxyPod, `{
			labels: {team: edge}, annotations: {example.com/scrape: "no"}, nodeSelector: {pool: edge}, priorityClassName: edge,
			tolerations: [{key: example.com/edge, operator: Exists}], imagePullSecrets: [{name: registry}],
			affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: rack}]}},
		}`), []string{
			"example.com/scrape: \"no\"", "team: edge",
			"affinity:", "podAntiAffinity:", "requiredDuringSchedulingIgnoredDuringExecution:", "- topologyKey: rack",
			"imagePullSecrets:", "- name: registry", "nodeSelector:", "pool: edge", "priorityClassName: edge",
			"- key: example.com/edge",
		}},
		"other constraints": {needs(httpv1alpha1.AnnotationProxyPod,
			`{"topologySpreadConstraints": [{"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]}`), []string{
			"- maxSkew: 2", "topologyKey: zone", "whenUnsatisfiable: DoNotSchedule",
		}},
		"a load balancer": {needs(httpv1alpha1.AnnotationProxyService, `{
			type: LoadBalancer, loadBalancerClass: example.com/nlb, loadBalancerSourceRanges: [10.0.0.0/8],
			externalTrafficPolicy: Local, annotations: {example.com/scheme: internal}, labels: {team: edge},
		}`), []string{
			"example.com/scheme: internal", "team: edge", "externalTrafficPolicy: Local", "loadBalancerClass: example.com/nlb",
			"loadBalancerSourceRanges:", "- 10.0.0.0/8", "type: LoadBalancer",
		}},
		"more of Envoy": {needs(httpv1alpha1.AnnotationProxyEnvoyConfig, `{layered_runtime: {layers: []}}`), []string{
			"- --config-yaml", "- '{layered_runtime: {layers: []}}'",
		}},
		"nothing in them": {needs(httpv1alpha1.AnnotationProxyPod, "{}", httpv1alpha1.AnnotationProxyService, "{}",
			httpv1alpha1.AnnotationProxyEnvoyConfig, "{}"), nil},
		"no limits": {needs(httpv1alpha1.AnnotationProxyResources, `requests: {cpu: 200m}`), []string{"cpu: 200m"}},
		"IPv6":      {overIPv6, []string{`socket_address: {address: "::", port_value: 9901, ipv4_compat: true}`}},
		"an interceptor elsewhere": {elsewhere, []string{
			"socket_address: {address: keda-add-ons-http-interceptor-kedify-proxy-metric-sink.kedify, port_value: 5678}",
			"socket_address: {address: keda-add-ons-http-interceptor-kedify-proxy-metric-sink.kedify, port_value: 9901}",
		}},
	}
	standard := lines(t, applied(t, needs()))
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			before := map[string]bool{}
			for _, line := range standard {
				before[line] = true
			}
			var found []string
			for _, line := range lines(t, applied(t, test.of)) {
				isHash := strings.HasPrefix(line, httpv1alpha1.AnnotationProxyApplied) || strings.HasPrefix(line, httpv1alpha1.AnnotationProxyBootstrap)
				if !before[line] && !isHash {
					found = append(found, line)
				}
			}
			if diff := cmp.Diff(test.want, found); diff != "" {
				t.Errorf("what is new (-want +got):\n%s", diff)
			}
		})
	}
}

// TestProxiesTrustTheInterceptor has proxies that connect by TLS. A renewed CA changes the ConfigMap and replaces no Pod.
func TestProxiesTrustTheInterceptor(t *testing.T) {
	w := newFixture()
	w.Settings.InterceptorNamespace = "kedify"
	w.step(t)
	bootstrap := func() string {
		found, _, _ := unstructured.NestedString(w.find(t, "deploy").Object,
			"spec", "template", "metadata", "annotations", httpv1alpha1.AnnotationProxyBootstrap)
		return found
	}
	file := func(name string) string {
		text, _, _ := unstructured.NestedString(w.find(t, "cm-bootstrap").Object, "data", name)
		return text
	}
	plaintext := bootstrap()
	w.Settings.CA = []byte("first\n")
	if done, _ := w.step(t); done != "+cm-bootstrap +deploy again in 5s" || bootstrap() == plaintext {
		t.Errorf("with TLS: %s", done)
	}
	const name = "keda-add-ons-http-interceptor-kedify-proxy-metric-sink.kedify.svc"
	if text := file("envoy.yaml"); strings.Count(text, "sni: "+name+"\n") != 2 || strings.Count(text, "name: envoy.transport_sockets.tls") != 2 {
		t.Errorf("bootstrap:\n%s", text)
	}
	for _, text := range []string{
		"            - name: envoy.formatter.file_content", "%FILE_CONTENT(/var/run/secrets/kedify/token:/var/run/secrets/kedify)%",
	} {
		if strings.Count(file("envoy.yaml"), text) != 2 {
			t.Errorf("the bootstrap does not send the token: %s", file("envoy.yaml"))
		}
	}
	deployment, err := yaml.Marshal(w.find(t, "deploy").Object)
	for _, text := range []string{
		"- mountPath: /var/run/secrets/kedify\n", "audience: kedify-http-interceptor\n", "automountServiceAccountToken: false\n",
	} {
		if err != nil || !strings.Contains(string(deployment), text) {
			t.Errorf("the Deployment lacks %q, %v:\n%s", text, err, deployment)
		}
	}
	if text := file("interceptor-ca.json"); !strings.Contains(text, `"inline_string":"first\n"`) || !strings.Contains(text, `{"exact":"`+name+`"}`) {
		t.Errorf("CAs: %s", text)
	}
	secure := bootstrap()
	w.Settings.CA = []byte("second\n")
	if done, _ := w.step(t); done != "+cm-bootstrap +svc" || bootstrap() != secure || !strings.Contains(file("interceptor-ca.json"), "second") {
		t.Errorf("with another CA: %s", done)
	}
	w.Settings.CA = nil
	if done, _ := w.step(t); done != "+cm-bootstrap +svc +deploy" || bootstrap() != plaintext {
		t.Errorf("without TLS again: %s", done)
	}
}

// lines returns the ConfigMap, the Service and the Deployment as lines of YAML.
func lines(t *testing.T, objects map[string]map[string]any) []string {
	t.Helper()
	var found []string
	for _, name := range []string{"cm-bootstrap", "svc", "deploy"} {
		text, err := yaml.Marshal(objects[name])
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

// TestInvalidResources has rejected values and their errors.
func TestInvalidResources(t *testing.T) {
	tests := map[string]struct{ text, says string }{
		"no object":            {"1Gi", "does not have the form of container resources"},
		"another key":          {`{limit: {memory: 1Gi}}`, "does not have the form of container resources"},
		"no quantity":          {`{limits: {memory: much}}`, "does not have the form of container resources"},
		"nothing":              {`{}`, "must contain requests, limits or both"},
		"claims":               {`{limits: {memory: 1Gi}, claims: [{name: gpu}]}`, "must contain requests, limits or both, and nothing else"},
		"another resource":     {`{limits: {example.com/gpu: 1}}`, "example.com/gpu: 1; only cpu and memory are allowed"},
		"negative":             {`{requests: {cpu: -1}}`, "cpu: -1; only cpu and memory are allowed, and only positive amounts"},
		"request above limit":  {`{requests: {memory: 2Gi}, limits: {memory: 1Gi}}`, "memory: the request 2Gi exceeds the limit 1Gi"},
		"memory below minimum": {`{limits: {memory: 64Mi}}`, "the memory limit 64Mi is below the minimum 128Mi"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := proxies.ParseResources(test.text); err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("error %v, want one with %q", err, test.says)
			}
		})
	}
}

// TestInvalidProxyObjects has rejected settings of the proxies' objects and their errors.
func TestInvalidProxyObjects(t *testing.T) {
	pod := func(text string) error { _, err := proxies.ParsePod(text); return err }
	service := func(text string) error { _, err := proxies.ParseService(text); return err }
	envoy := func(text string) error { _, err := proxies.ParseEnvoyConfig(text); return err }
	tests := map[string]struct {
		parse      func(text string) error
		text, says string
	}{
		"no object":                     {pod, "edge", "does not have the form of settings of Pods"},
		"a field of containers":         {pod, "{hostNetwork: true}", `unknown field "hostNetwork"`},
		"a list as an object":           {pod, "{tolerations: {key: a}}", "does not have the form of settings of Pods"},
		"the label of the selector":     {pod, "{labels: {app: mine}}", `labels: "app" is set by the agent`},
		"a mesh":                        {pod, "{annotations: {linkerd.io/inject: enabled}}", `annotations: "linkerd.io/inject" is set by the agent`},
		"a label of this project":       {pod, "{labels: {app.kubernetes.io/managed-by: me}}", `labels: "app.kubernetes.io/managed-by" is set`},
		"no value of a label":           {pod, "{labels: {team: a b}}", "labels: Invalid value: \"a b\""},
		"no Service":                    {service, "NodePort", "does not have the form of settings of a Service"},
		"ports":                         {service, "{ports: []}", `unknown field "ports"`},
		"another type":                  {service, "{type: ExternalName}", `type: "ExternalName" is not ClusterIP, NodePort or LoadBalancer`},
		"Contour's annotation":          {service, `{annotations: {projectcontour.io/upstream-protocol.h2c: "1"}}`, `"projectcontour.io/upstream-protocol.h2c" is set`},
		"the mode of the proxies":       {service, "{annotations: {http.kedify.io/proxy-authentication: permissive}}", "is set by the agent"},
		"a class without load balancer": {service, "{loadBalancerClass: a}", "loadBalancerClass requires type LoadBalancer"},
		"ranges of a NodePort":          {service, "{type: NodePort, loadBalancerSourceRanges: [10.0.0.0/8]}", "loadBalancerSourceRanges require type"},
		"a policy for no client":        {service, "{externalTrafficPolicy: Local}", "externalTrafficPolicy requires type NodePort or LoadBalancer"},
		"no bootstrap":                  {envoy, "[1]", "is not a YAML mapping with fields of Envoy's bootstrap"},
		"another control plane":         {envoy, "{stats_sinks: [], dynamic_resources: {}}", "dynamic_resources: the interceptor and the probes need the value"},
		"another name":                  {envoy, "node: {id: mine}", "node: the interceptor"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if err := test.parse(test.text); err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("error %v, want one with %q", err, test.says)
			}
		})
	}
}
