package autowire_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/autowire"
	"github.com/kedify/argo-rollouts-plugin/internal/trigger"
)

// clientService is a Service with much that is not ours, as an API server stores it.
const clientService = `
apiVersion: v1
kind: Service
metadata: {name: shop, namespace: team, uid: shop-uid, labels: {team: a}, annotations: {team: a, example.com/future: b}}
spec:
  type: LoadBalancer
  clusterIP: 10.96.0.7
  clusterIPs: [10.96.0.7]
  ipFamilies: [IPv4]
  ipFamilyPolicy: SingleStack
  allocateLoadBalancerNodePorts: true
  externalTrafficPolicy: Cluster
  internalTrafficPolicy: Cluster
  sessionAffinity: None
  loadBalancerSourceRanges: [10.0.0.0/8]
  selector: {app: shop}
  ports:
  - {name: http, protocol: TCP, port: 80, targetPort: 9090, nodePort: 30080}
  - {name: alternative, protocol: TCP, port: 8080, targetPort: 9090, nodePort: 30081, appProtocol: http}
`

// newServices returns a namespace with Services, given as YAML, the proxies' Service and one HTTPScaledObject that
// forwards to Service shop-fallback.
func newServices(t *testing.T, services ...string) *fixture {
	t.Helper()
	w := newFixture(t, services...)
	w.Services = map[string]*corev1.Service{"kedify-proxy": service("", corev1.ServicePort{Name: "http", Port: 8080, TargetPort: intstr.FromString("http")},
		corev1.ServicePort{Name: "https", Port: 8443, TargetPort: intstr.FromString("https")})}
	w.Services["kedify-proxy"].Name = "kedify-proxy"
	w.Targets = []autowire.Target{serviceTarget("shop", "*")}
	return w
}

// serviceTarget returns an HTTPScaledObject for clients of Service shop.
func serviceTarget(name string, hosts ...string) autowire.Target {
	return autowire.Target{
		Name: name, Hosts: hosts, Service: "shop-fallback", AutowireService: "shop", Fallback: "shop-fallback",
		Port: networkingv1.ServiceBackendPort{Number: 80}, IsProgrammed: true, Kinds: []trigger.AutowireKind{trigger.AutowireService},
	}
}

// wire applies the fallback Services of a plan, and converges.
func (w *fixture) wire(t *testing.T) autowire.Plan {
	t.Helper()
	w.applyServices(w.plan(t).Services)
	if again := w.plan(t).Services; len(again) > 0 {
		t.Fatalf("fallback Services not converged: %+v", again[0])
	}
	return w.converge(t)
}

// applyServices writes fallback Services, as the API server stores them.
func (w *fixture) applyServices(changes []autowire.ServiceChange) {
	for _, change := range changes {
		if change.Delete != nil {
			delete(w.Services, change.Delete.Name)
			continue
		}
		stored := change.Apply.DeepCopy()
		stored.UID = "uid"
		w.Services[stored.Name] = autowire.NewTrimmer().Service(stored)
	}
}

// TestWireService compares one complete Service before, while and after it is taken over, and its fallback Service.
func TestWireService(t *testing.T) {
	t.Parallel()
	w := newServices(t, clientService)
	before := w.plan(t)
	if len(before.Changes) > 0 || len(before.Services) != 1 || before.Conditions["shop"].Reason != "NotProgrammed" {
		t.Fatalf("without a fallback Service: %+v", before)
	}
	made, err := json.Marshal(before.Services[0].Apply)
	if err != nil {
		t.Fatal(err)
	}
	const fallback = `
apiVersion: v1
kind: Service
metadata:
  name: shop-fallback
  namespace: team
  labels: {app.kubernetes.io/managed-by: kedify-http-agent}
  ownerReferences: [{apiVersion: v1, kind: Service, name: shop, uid: shop-uid}]
spec:
  type: ClusterIP
  ipFamilies: [IPv4]
  ipFamilyPolicy: SingleStack
  sessionAffinity: None
  selector: {app: shop}
  ports:
  - {name: http, protocol: TCP, port: 80, targetPort: 9090}
  - {name: alternative, protocol: TCP, port: 8080, targetPort: 9090, appProtocol: http}
status: {loadBalancer: {}}
`
	if diff := cmp.Diff(asYAML(t, canonicalJSON(t, fallback)), asYAML(t, string(made))); diff != "" {
		t.Errorf("fallback Service (-want +got):\n%s", diff)
	}
	found := w.wire(t)
	want := strings.NewReplacer("selector: {app: shop}", "selector: {app: kedify-proxy}", "targetPort: 9090", "targetPort: http",
		"team: a, example.com", `team: a, http.kedify.io/autowire-undo: '[`+
			`{"op":"test","path":"/spec/selector","value":{"app":"kedify-proxy"}},`+
			`{"op":"test","path":"/spec/ports/0/port","value":80},{"op":"test","path":"/spec/ports/0/targetPort","value":"http"},`+
			`{"op":"test","path":"/spec/ports/1/port","value":8080},{"op":"test","path":"/spec/ports/1/targetPort","value":"http"},`+
			`{"op":"replace","path":"/spec/selector","value":{"app":"shop"}},`+
			`{"op":"replace","path":"/spec/ports/0/targetPort","value":9090},`+
			`{"op":"replace","path":"/spec/ports/1/targetPort","value":9090},`+
			`{"op":"remove","path":"/metadata/annotations/http.kedify.io~1autowire-undo","value":null}]', example.com`).Replace(clientService)
	if diff := cmp.Diff(asYAML(t, canonicalJSON(t, want)), asYAML(t, w.stored[0])); diff != "" {
		t.Errorf("wired (-want +got):\n%s", diff)
	}
	says := fmt.Sprintf("%s: %s", found.Changes[0].Reason, found.Changes[0].Message)
	if want := "Wired: backends for ports 80, 8080 point to Service kedify-proxy"; says != want {
		t.Errorf("Event %q, want %q", says, want)
	}
	if found := w.converge(t).Conditions["shop"]; found.Status != "True" || found.Message != "Service shop, ports 80, 8080" {
		t.Errorf("condition %+v", found)
	}
	w.isOriginal(t, clientService)
}

// withService returns clientService with another text, or a Service with one port for clients in the cluster.
func withService(pairs ...string) string { return strings.NewReplacer(pairs...).Replace(clientService) }

// inCluster is a Service for clients in the cluster.
const inCluster = `{kind: Service, metadata: {name: shop, namespace: team}, spec: {type: ClusterIP, clusterIP: 10.96.0.8, ` +
	`selector: {app: shop}, ports: [{name: http, port: 80, targetPort: http}]}}`

// TestServiceConditions has one Service in each case.
func TestServiceConditions(t *testing.T) {
	t.Parallel()
	change := func(edit func(*autowire.Target)) autowire.Target {
		made := serviceTarget("shop", "*")
		edit(&made)
		return made
	}
	all := serviceTarget("shop", "*")
	spec := func(text string) string { return strings.Replace(inCluster, "spec: {", "spec: {"+text+", ", 1) }
	named := strings.NewReplacer("name: http,", "name: https,").Replace(inCluster)
	noAgent := `Service shop, port 80: `
	tests := map[string]struct {
		service string
		target  autowire.Target
		says    string // the condition's reason, and a part of its message
	}{
		"every host":                  {inCluster, all, "Wired: Service shop, port 80"},
		"its short name":              {inCluster, serviceTarget("shop", "shop"), "Wired: Service shop, port 80 (requests for host shop.team.svc.cluster.local, shop.team.svc, shop.team get status 404)"},
		"its name in another domain":  {inCluster, serviceTarget("shop", "shop.team.svc.corp.test"), "Wired"},
		"another host":                {inCluster, serviceTarget("shop", "shop.test"), `RequestMismatch: ` + noAgent + `clients in the cluster send its name as host, and the proxies would answer 404, because HTTPScaledObject "shop" matches none of shop.team.svc.cluster.local, shop.team.svc, shop.team, shop; add those`},
		"another host, from outside":  {clientService, serviceTarget("shop", "shop.test"), "Wired: Service shop, ports 80, 8080 (requests for host shop.team.svc.cluster.local,"},
		"no such Service":             {strings.Replace(inCluster, "name: shop,", "name: other,", 1), all, "NoMatchingBackend: Service shop, which clients call, does not exist"},
		"ExternalName":                {strings.Replace(inCluster, "type: ClusterIP, clusterIP: 10.96.0.8", "type: ExternalName, externalName: a.test", 1), all, "UnsupportedSetting: " + noAgent + "it has type ExternalName"},
		"headless":                    {strings.Replace(inCluster, "10.96.0.8", "None", 1), all, "UnsupportedSetting: " + noAgent + "it is headless"},
		"no selector":                 {strings.Replace(inCluster, "selector: {app: shop}, ", "", 1), all, "UnsupportedSetting: " + noAgent + "it has no selector, and the Service to which the proxies forward has none that the agent could give it; name one that selects the application in fallbackService of the trigger"},
		"a Rollout's Service":         {strings.Replace(inCluster, "{app: shop}", "{app: shop, rollouts-pod-template-hash: abc}", 1), all, "UnsupportedSetting: " + noAgent + "Argo Rollouts manages its selector (Rollout unknown); name a Service of its own in key service"},
		"a Rollout's, by annotation":  {strings.Replace(inCluster, "name: shop,", "name: shop, annotations: {argo-rollouts.argoproj.io/managed-by-rollouts: web},", 1), all, "UnsupportedSetting: " + noAgent + "Argo Rollouts manages its selector (Rollout web)"},
		"unready Pods":                {spec("publishNotReadyAddresses: true"), all, "UnsupportedSetting: " + noAgent + "it has publishNotReadyAddresses"},
		"a local load balancer":       {withService("externalTrafficPolicy: Cluster", "externalTrafficPolicy: Local"), all, "UnsupportedSetting: Service shop, ports 80, 8080: it has externalTrafficPolicy: Local"},
		"local clients":               {spec("internalTrafficPolicy: Local"), all, "UnsupportedSetting: " + noAgent + "it has internalTrafficPolicy: Local"},
		"PROXY protocol":              {withService("team: a, example.com", "service.beta.kubernetes.io/aws-load-balancer-proxy-protocol: '*', example.com"), all, "UnsupportedAnnotation: Service shop, ports 80, 8080: annotation service.beta.kubernetes.io/aws-load-balancer-proxy-protocol: \"*\" makes the load balancer send the PROXY protocol"},
		"PROXY protocol, off":         {withService("team: a, example.com", "load-balancer.hetzner.cloud/uses-proxyprotocol: 'false', example.com"), all, "Wired"},
		"PROXY protocol, accepted":    {withService("team: a, example.com", "x/proxy-protocol: v1, http.kedify.io/autowire-accept: x/proxy-protocol, example.com"), all, "Wired"},
		"UDP":                         {withService("protocol: TCP, port: 8080", "protocol: UDP, port: 8080"), all, "UnsupportedSetting: Service shop, ports 80, 8080: its port 8080 is for UDP"},
		"a port of its own":           {withService("port: 8080, targetPort: 9090", "port: 8080, targetPort: 9091"), all, `UnsupportedSetting: Service shop, ports 80, 8080: its port 8080 leads to another port of the application than port 80 of HTTPScaledObject "shop", and all ports would lead to the proxies; move port 8080 to a Service of its own`},
		"no port of the trigger":      {inCluster, change(func(to *autowire.Target) { to.Port.Number = 81 }), `UnsupportedSetting: ` + noAgent + `it has no port 81`},
		"a named port of the trigger": {inCluster, change(func(to *autowire.Target) { to.Port = networkingv1.ServiceBackendPort{Name: "http"} }), "Wired"},
		"HTTP/2":                      {strings.Replace(inCluster, "name: http,", "name: grpc, appProtocol: kubernetes.io/h2c,", 1), all, "Wired"},
		"TLS without a certificate":   {named, all, `UnsupportedSetting: ` + noAgent + `clients use TLS to its port 80, and HTTPScaledObject "shop" has no certificate; set tlsSecretName`},
		"TLS":                         {named, change(func(to *autowire.Target) { to.Certificate = autowire.CertificateActive }), "Wired: Service shop, port 80 over TLS"},
		"TLS, missing":                {named, change(func(to *autowire.Target) { to.Certificate = autowire.CertificateMissing }), "NoCertificate"},
		"TLS on one port":             {withService("appProtocol: http}", "appProtocol: https}"), all, "UnsupportedSetting: Service shop, ports 80, 8080: its ports 8080 and 80 lead to the same port of the application, and only one of them selects TLS"},
		"perhaps TLS":                 {strings.Replace(inCluster, "port: 80, targetPort: http", "port: 80, targetPort: 8443", 1), all, "UnsupportedSetting: " + noAgent + "its port 80 may be one for TLS, and has no appProtocol; set appProtocol: https on it"},
		"another label":               {strings.Replace(inCluster, "{app: shop}", "{app: shop, tier: web}", 1), all, "UnsupportedSetting: " + noAgent + "its selector has label tier, which the proxies' Pods lack; add label tier: kedify-proxy to them: by annotation http.kedify.io/proxy-pod: '{\"labels\": {\"tier\": \"kedify-proxy\"}}' of the Namespace"},
		"a new label":                 {strings.Replace(inCluster, "{app: shop}", "{next: shop}", 1), all, "ProxyUnavailable: " + noAgent + "not every Pod of Deployment kedify-proxy has label next yet"},
		"the same Service":            {inCluster, change(func(to *autowire.Target) { to.Service, to.Fallback = "shop", "" }), `UnsupportedSetting: ` + noAgent + `HTTPScaledObject "shop" forwards to the same Service, so the proxies would send requests to themselves`},
		"not forwarding yet":          {inCluster, change(func(to *autowire.Target) { to.Service = "shop" }), `NotProgrammed: ` + noAgent + `HTTPScaledObject "shop" does not forward to Service shop-fallback yet`},
		"a weight for itself":         {inCluster, change(func(to *autowire.Target) { to.Weighted = []string{"shop-fallback", "shop"} }), `UnsupportedSetting: ` + noAgent + `HTTPScaledObject "shop" forwards to it, too`},
		"the shared fleet":            {inCluster, change(func(to *autowire.Target) { to.IsShared = true }), "UnsupportedSetting: " + noAgent + "the shared fleet is in another namespace, which no Service can reference"},
		"not programmed":              {inCluster, change(func(to *autowire.Target) { to.IsProgrammed = false }), "NotProgrammed: " + noAgent + "not every Ready proxy has acknowledged"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newServices(t, test.service)
			w.HasTLSProxy = true
			w.Targets, w.NextProxyLabels = []autowire.Target{test.target}, map[string]string{"next": "kedify-proxy"}
			w.wire(t)
			condition := w.converge(t).Conditions["shop"]
			if says := condition.Reason + ": " + condition.Message; !strings.HasPrefix(says, test.says) {
				t.Errorf("condition %q, want %q", says, test.says)
			}
			if isMarked := annotation(t, w.stored[0], undo) != ""; isMarked != (condition.Status == "True") {
				t.Errorf("wired: %v\n%s", isMarked, asYAML(t, w.stored[0]))
			}
			w.isOriginal(t, test.service)
		})
	}
}

// TestFallbackOfUser has a fallback Service that a user wrote: the agent uses it if it selects the application, and never
// changes it.
func TestFallbackOfUser(t *testing.T) {
	t.Parallel()
	port := corev1.ServicePort{Name: "web", Port: 80}
	for name, test := range map[string]struct {
		selector map[string]string
		port     corev1.ServicePort
		says     string
	}{
		"the same Pods":  {map[string]string{"app": "shop"}, port, "Wired"},
		"one version":    {map[string]string{"app": "shop", "rollouts-pod-template-hash": "abc"}, port, "Wired"},
		"other Pods":     {map[string]string{"app": "cart"}, port, `UnsupportedSetting: Service shop, port 80: Service shop-fallback, to which HTTPScaledObject "shop" forwards, does not select the same Pods; add app: shop to its selector`},
		"no selector":    {nil, port, "UnsupportedSetting"},
		"another port":   {map[string]string{"app": "shop"}, corev1.ServicePort{Port: 81}, `UnsupportedSetting: Service shop, port 80: Service shop-fallback, to which HTTPScaledObject "shop" forwards, has no port 80; add it`},
		"of the proxies": {map[string]string{"app": "kedify-proxy"}, port, "UnsupportedSetting"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newServices(t, inCluster)
			w.Services["shop-fallback"] = &corev1.Service{Spec: corev1.ServiceSpec{Selector: test.selector, Ports: []corev1.ServicePort{test.port}}}
			w.Services["shop-fallback"].Name = "shop-fallback"
			if changes := w.plan(t).Services; len(changes) > 0 {
				t.Errorf("changes of the user's Service: %+v", changes)
			}
			condition := w.converge(t).Conditions["shop"]
			if says := condition.Reason + ": " + condition.Message; !strings.HasPrefix(says, test.says) {
				t.Errorf("condition %q, want %q", says, test.says)
			}
			w.isOriginal(t, inCluster)
		})
	}
}

// TestLoops has a second HTTPScaledObject, without autowiring, that forwards to a Service before and after it is taken
// over.
func TestLoops(t *testing.T) {
	t.Parallel()
	w := newServices(t, inCluster)
	w.Rivals = []autowire.Target{{Name: "other", Hosts: []string{"other.test"}, Service: "shop"}}
	const says = `UnsupportedSetting: Service shop, port 80: HTTPScaledObject "other" forwards to it, too, so the proxies would ` +
		"send those requests to themselves; let it forward to Service shop-fallback"
	w.wire(t)
	w.reports(t, says)
	w.Rivals[0].Service = "shop-fallback"
	w.reports(t, "Wired: Service shop, port 80")
	w.Rivals[0].Service = "shop"
	w.reports(t, says)
	if annotation(t, w.stored[0], undo) != "" {
		t.Errorf("still wired:\n%s", asYAML(t, w.stored[0]))
	}
	w.isOriginal(t, inCluster)
}

// reports fails unless the condition starts with a text.
func (w *fixture) reports(t *testing.T, says string) {
	t.Helper()
	condition := w.converge(t).Conditions["shop"]
	if got := condition.Reason + ": " + condition.Message; !strings.HasPrefix(got, says) {
		t.Errorf("condition %q, want %q", got, says)
	}
}

// isRestored fails unless the first object, unwired by the agent, is the original.
func (w *fixture) isRestored(t *testing.T, original string) {
	t.Helper()
	if diff := cmp.Diff(canonicalJSON(t, original), w.unwired(t)[0]); diff != "" {
		t.Errorf("unwired (-want +got):\n%s", diff)
	}
}

// TestAffinityOfService has a Service with a session affinity, which the proxies take over.
func TestAffinityOfService(t *testing.T) {
	t.Parallel()
	original := withService("sessionAffinity: None", "sessionAffinity: ClientIP")
	w := newServices(t, original)
	w.applyServices(w.plan(t).Services)
	found := w.plan(t)
	if want := `{"sessionAffinity":{"sourceAddress":{}}}`; found.Settings["shop"] != want || len(found.Changes) > 0 {
		t.Errorf("settings %q, changes %v; want %q before the change", found.Settings["shop"], found.Changes, want)
	}
	w.expect(t, "Wired: Service shop, ports 80, 8080")
	if w.Services["shop-fallback"].Spec.SessionAffinity != corev1.ServiceAffinityClientIP {
		t.Error("the fallback Service has no session affinity")
	}
	w.isOriginal(t, original)
}

// TestKubectlApplyWhileWired applies the manifest of a wired Service as kubectl apply, Helm 3 and Argo CD do: as a patch
// of the fields in which the manifest differs from the stored object. The result is exactly the original.
func TestKubectlApplyWhileWired(t *testing.T) {
	t.Parallel()
	manifest := []byte(canonicalJSON(t, `{apiVersion: v1, kind: Service, metadata: {name: shop, namespace: team}, spec: {`+
		`selector: {app: shop}, ports: [{name: http, port: 80, targetPort: 9090}, {name: alternative, port: 8080, targetPort: 9090}]}}`))
	w := newServices(t, clientService)
	w.wire(t)
	schema, err := strategicpatch.NewPatchMetaFromStruct(corev1.Service{})
	if err != nil {
		t.Fatal(err)
	}
	patch, err := strategicpatch.CreateThreeWayMergePatch(manifest, manifest, []byte(w.stored[0]), schema, true)
	if err != nil {
		t.Fatal(err)
	}
	applied, err := strategicpatch.StrategicMergePatch([]byte(w.stored[0]), patch, corev1.Service{})
	if err != nil {
		t.Fatal(err)
	}
	spec := func(text string) (found map[string]any) {
		if err := json.Unmarshal([]byte(text), &found); err != nil {
			t.Fatal(err)
		}
		return found["spec"].(map[string]any)
	}
	if diff := cmp.Diff(spec(canonicalJSON(t, clientService)), spec(string(applied))); diff != "" {
		t.Errorf("applied (-want +got):\n%s", diff)
	}
	w.stored[0] = string(applied)
	change := w.converge(t).Changes[0]
	if want := "an unknown field manager has restored backends that pointed to Service kedify-proxy (1 of 5; autowiring stops after that)"; change.Reason != "BackendRevertedByOther" || change.Message != want {
		t.Errorf("Event %s: %s", change.Reason, change.Message)
	}
	w.isRestored(t, clientService)
}

// TestHalfRestoredService has a manifest without targetPort: a tool restores the selector only. The agent completes it,
// in the first plan, whether it wires the Service again or not.
func TestHalfRestoredService(t *testing.T) {
	t.Parallel()
	original := withService("targetPort: 9090", "targetPort: 80")
	for _, hasProxy := range []bool{true, false} {
		w := newServices(t, original)
		w.wire(t)
		w.stored[0] = strings.Replace(w.stored[0], `"selector":{"app":"kedify-proxy"}`, `"selector":{"app":"shop"}`, 1)
		w.HasProxy = hasProxy
		if found := w.converge(t); len(found.Changes) != 1 {
			t.Errorf("changes %+v", found.Changes)
		}
		if isWired := annotation(t, w.stored[0], undo) != ""; isWired != hasProxy {
			t.Errorf("wired: %v", isWired)
		}
		if !hasProxy && strings.Contains(w.stored[0], `"targetPort":"http"`) {
			t.Errorf("not completed:\n%s", asYAML(t, w.stored[0]))
		}
		w.isRestored(t, original)
	}
}

// TestEditServiceWhileWired has a user who adds a port and a label to a wired Service, in new places.
func TestEditServiceWhileWired(t *testing.T) {
	t.Parallel()
	w := newServices(t, clientService)
	w.wire(t)
	const port = `{"name":"third","port":81,"protocol":"TCP","targetPort":9090}`
	w.stored[0] = strings.Replace(w.stored[0], `"ports":[`, `"ports":[`+port+`,`, 1)
	w.applyServices(w.plan(t).Services)
	w.reports(t, "Wired: Service shop, ports 81, 80, 8080")
	w.isOriginal(t, withService("  ports:\n", "  ports:\n  - {name: third, port: 81, protocol: TCP, targetPort: 9090}\n"))

	w.stored[0] = strings.Replace(w.stored[0], `"selector":{"app":"kedify-proxy"}`, `"selector":{"app":"kedify-proxy","tier":"web"}`, 1)
	w.reports(t, "UnsupportedSetting: Service shop, ports 81, 80, 8080: its selector has label tier")
	if !strings.Contains(w.stored[0], `"selector":{"app":"shop","tier":"web"}`) {
		t.Errorf("selector:\n%s", asYAML(t, w.stored[0]))
	}
}

// TestUnusedFallback: the fallback Service of a restored Service stays for 30 s after nothing forwards to it.
func TestUnusedFallback(t *testing.T) {
	t.Parallel()
	w := newServices(t, inCluster)
	w.wire(t)
	w.Targets[0].Kinds, w.Targets[0].AutowireService = []trigger.AutowireKind{trigger.AutowireIngress}, ""
	if found := w.converge(t); len(found.Services) > 0 {
		t.Errorf("a change of the Service that is forwarded to: %+v", found.Services)
	}
	w.Targets[0].Service, w.Targets[0].Fallback = "shop", ""
	found := w.plan(t)
	if len(found.Services) != 1 || found.Services[0].Apply == nil || found.RequeueAfter != 30*time.Second {
		t.Fatalf("unused: %+v, again in %s", found.Services, found.RequeueAfter)
	}
	w.applyServices(found.Services)
	if mark := w.Services["shop-fallback"].Annotations[httpv1alpha1.AnnotationProxyUnneeded]; mark != "2026-05-01T12:00:00Z" {
		t.Errorf("unused since %q", mark)
	}
	if w.Now = w.Now.Add(29 * time.Second); len(w.plan(t).Services) > 0 {
		t.Error("deleted too early")
	}
	w.Now = w.Now.Add(time.Second)
	if found := w.plan(t).Services; len(found) != 1 || found[0].Delete == nil {
		t.Errorf("after 30 s: %+v", found)
	}
	w.Targets[0] = serviceTarget("shop", "*")
	if found := w.plan(t).Services; len(found) != 1 || found[0].Apply == nil || len(found[0].Apply.Annotations) > 0 {
		t.Errorf("used again: %+v", found)
	}
}

// TestFallbackNotWritten has an API server that rejects the fallback Service.
func TestFallbackNotWritten(t *testing.T) {
	t.Parallel()
	w := newServices(t, inCluster)
	w.ServiceErrors = map[string]string{"shop-fallback": "forbidden"}
	condition := w.plan(t).Conditions["shop"]
	const want = "Service shop, port 80: Service shop-fallback, which selects the application's Pods for the proxies, is missing, " +
		"and the API server rejected the agent's write: forbidden; create it manually"
	if condition.Reason != "WriteRejected" || condition.Message != want {
		t.Errorf("condition %s: %s", condition.Reason, condition.Message)
	}
}

// TestServiceRecords has restore records that the agent has not written.
func TestServiceRecords(t *testing.T) {
	t.Parallel()
	for _, record := range []string{`x`, `[]`, `[{"op":"replace","path":"/spec/rules/0/x","value":1}]`, `[{"op":"test","path":"/spec/selector","value":1}]`} {
		w := newServices(t, strings.Replace(inCluster, "name: shop,", "name: shop, annotations: {http.kedify.io/autowire-undo: '"+record+"'},", 1))
		found := w.plan(t)
		if reason := found.Conditions["shop"].Reason; len(found.Changes) > 0 || reason != "InvalidRestoreRecord" {
			t.Errorf("record %s: %s, %+v", record, reason, found.Changes)
		}
	}
}
