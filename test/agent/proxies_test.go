package agent_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// Paths, below a namespace, of what proxies are made of.
var proxyParts = map[string]string{
	"Deployment":          "/apis/apps/v1/namespaces/%s/deployments/kedify-proxy",
	"Service":             "/api/v1/namespaces/%s/services/kedify-proxy",
	"admin Service":       "/api/v1/namespaces/%s/services/kedify-proxy-admin",
	"ConfigMap":           "/api/v1/namespaces/%s/configmaps/kedify-proxy-bootstrap",
	"PodDisruptionBudget": "/apis/policy/v1/namespaces/%s/poddisruptionbudgets/kedify-proxy",
}

// part is the path of a part of the proxies of a namespace.
func part(name, namespace string) string { return fmt.Sprintf(proxyParts[name], namespace) }

// parts are what there is of the proxies of a namespace, by name.
func parts(t *testing.T, namespace string) map[string]metav1.PartialObjectMetadata {
	t.Helper()
	found := map[string]metav1.PartialObjectMetadata{}
	for name := range proxyParts {
		var object metav1.PartialObjectMetadata
		if get(t, part(name, namespace), &object) {
			found[name] = object
		}
	}
	return found
}

// awaitParts waits until there are so many parts of the proxies of a namespace.
func awaitParts(t *testing.T, namespace string, want int) map[string]metav1.PartialObjectMetadata {
	t.Helper()
	var found map[string]metav1.PartialObjectMetadata
	await.True(t, fmt.Sprintf("%s: %d parts of proxies", namespace, want), func() bool {
		found = parts(t, namespace)
		return len(found) == want
	})
	return found
}

// awaitProxy waits until the Deployment of the proxies of a namespace is as it should be.
func awaitProxy(t *testing.T, namespace, what string, holds func(*appsv1.Deployment) bool) *appsv1.Deployment {
	t.Helper()
	var found *appsv1.Deployment
	await.True(t, namespace+": proxies "+what, func() bool {
		found = new(appsv1.Deployment)
		return get(t, part("Deployment", namespace), found) && holds(found)
	})
	return found
}

// awaitInstalled waits until condition ProxyInstalled of HTTPScaledObject shop has a reason, and none if that is
// empty. It returns the message.
func awaitInstalled(t *testing.T, namespace, reason string) (message string) {
	t.Helper()
	awaitObject(t, namespace, "shop", "ProxyInstalled because "+reason, func(object *httpv1alpha1.HTTPScaledObject) bool {
		found := meta.FindStatusCondition(object.Status.Conditions, httpv1alpha1.ConditionProxyInstalled)
		if found != nil {
			message = found.Message
		}
		return found == nil && reason == "" || found != nil && found.Reason == reason
	})
	return message
}

// TestInstallAndRemoveProxies creates the first ScaledObject of a namespace, and deletes the last one while its
// Ingress is wired.
func TestInstallAndRemoveProxies(t *testing.T) {
	t.Parallel()
	team := namespace(t, "fleet")
	apply(t, team, originalIngress, originalRoute)
	before := webs(t, team)
	apply(t, team, shop(simple))
	for name, found := range awaitParts(t, team, len(proxyParts)) {
		if len(found.Finalizers)+len(found.OwnerReferences) > 0 ||
			found.Labels[httpv1alpha1.LabelManagedBy] != httpv1alpha1.ManagedByAgent {
			t.Errorf("%s has finalizers %v, owners %v, labels %v", name, found.Finalizers, found.OwnerReferences, found.Labels)
		}
	}
	var service corev1.Service
	get(t, part("Service", team), &service)
	ports := service.Spec.Ports
	if len(ports) != 3 || ports[0].Port != 8080 || ports[1].Port != 8443 || ports[2].Port != 8081 ||
		ports[2].AppProtocol == nil || *ports[2].AppProtocol != "kubernetes.io/h2c" || ports[2].TargetPort != ports[0].TargetPort {
		t.Errorf("ports %+v", ports)
	}
	endpoint := slice(t, team)
	programmed(t, team, "shop")
	awaitBackends(t, team, "kedify-proxy:8080 cart:80")
	awaitInstalled(t, team, "")

	remove(t, scaledObject(team, "shop"))
	areOriginal(t, before, awaitBackends(t, team, "shop:80 cart:80"))
	await.True(t, "the proxies end", func() bool { return !get(t, part("Deployment", team), new(appsv1.Deployment)) })
	if left := parts(t, team); len(left) != len(proxyParts)-1 {
		t.Errorf("while a proxy ends its requests, what is left is %v", left)
	}
	remove(t, endpoint)
	awaitParts(t, team, 0)

	done := writes(t, team)
	order := []string{
		"patch ingresses/", "patch httproutes/", "patch ingresses/", "patch httproutes/", "delete httpscaledobjects/",
		"delete deployments/", "delete services/",
	}
	for _, each := range done {
		if len(order) > 0 && each == order[0] {
			order = order[1:]
		}
	}
	if len(order) > 0 {
		t.Errorf("%v did not come in this order in %v", order, done)
	}
}

// slice creates a ready endpoint of Service kedify-proxy, and returns its path.
func slice(t *testing.T, namespace string) string {
	t.Helper()
	apply(t, namespace, `{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: proxies, labels: {kubernetes.io/service-name: kedify-proxy}},
		addressType: IPv4, ports: [{name: http, port: 8080}], endpoints: [{addresses: [10.0.0.1], conditions: {ready: true}}]}`)
	return "/apis/discovery.k8s.io/v1/namespaces/" + namespace + "/endpointslices/proxies"
}

// TestProxiesNeededAgain deletes the last ScaledObject, and creates another one before the delay is over.
func TestProxiesNeededAgain(t *testing.T) {
	t.Parallel()
	team := namespace(t, "fleet-again")
	apply(t, team, shop(simple))
	uid := awaitParts(t, team, len(proxyParts))["Deployment"].UID
	remove(t, scaledObject(team, "shop"))
	isUnneeded := func(found *appsv1.Deployment) bool {
		return found.Annotations[httpv1alpha1.AnnotationProxyUnneeded] != ""
	}
	awaitProxy(t, team, "are not needed", isUnneeded)
	apply(t, team, shop(simple))
	found := awaitProxy(t, team, "are needed", func(found *appsv1.Deployment) bool { return !isUnneeded(found) })
	if found.UID != uid {
		t.Errorf("it is another one")
	}
}

// TestManualProxies installs config/kedify-proxy before the agent does.
func TestManualProxies(t *testing.T) {
	t.Parallel()
	team := namespace(t, "fleet-by-hand")
	for _, name := range []string{"configmap", "services", "poddisruptionbudget", "deployment"} {
		applyFiles(t, team, manifests+"kedify-proxy/"+name+".yaml")
	}
	before := parts(t, team)
	apply(t, team, shop(simple))
	awaitInstalled(t, team, httpv1alpha1.ReasonNotManagedByAgent)
	remove(t, scaledObject(team, "shop"))
	awaitGone(t, team, "shop")
	last := namespace(t, "fleet-by-hand-bound") // what comes after is reconciled after
	apply(t, last, shop(simple))
	awaitParts(t, last, len(proxyParts))
	if diff := cmp.Diff(before, parts(t, team)); diff != "" {
		t.Errorf("third-party proxies (-before +after):\n%s", diff)
	}
}

// TestAdoptManualProxies hands manually installed proxies over to the agent, by its label, and back.
func TestAdoptManualProxies(t *testing.T) {
	t.Parallel()
	team := namespace(t, "fleet-handed-over")
	for _, name := range []string{"configmap", "services", "poddisruptionbudget", "deployment"} {
		applyFiles(t, team, manifests+"kedify-proxy/"+name+".yaml")
	}
	uid := parts(t, team)["Deployment"].UID
	apply(t, team, shop(simple))
	awaitInstalled(t, team, httpv1alpha1.ReasonNotManagedByAgent)
	label := func(value string) {
		t.Helper()
		for name := range proxyParts {
			patch(t, part(name, team), `{"metadata": {"labels": {"app.kubernetes.io/managed-by": `+value+`}}}`)
		}
	}
	label(`"kedify-http-agent"`)
	awaitInstalled(t, team, "")
	found := awaitProxy(t, team, "are the agent's", func(found *appsv1.Deployment) bool {
		return found.Annotations[httpv1alpha1.AnnotationProxyApplied] != ""
	})
	if found.UID != uid {
		t.Error("it is another Deployment")
	}
	label("null")
	awaitInstalled(t, team, httpv1alpha1.ReasonNotManagedByAgent)
}

// TestProxyNameTaken has one object of someone else with a proxy's name, until it is deleted.
func TestProxyNameTaken(t *testing.T) {
	t.Parallel()
	team := namespace(t, "fleet-taken")
	apply(t, team, `{apiVersion: v1, kind: ConfigMap, metadata: {name: kedify-proxy-bootstrap}, data: {mine: "1"}}`,
		shop(simple))
	message := awaitInstalled(t, team, httpv1alpha1.ReasonNameInUse)
	awaitEvent(t, team, httpv1alpha1.ReasonNameInUse, message)
	if found := parts(t, team); len(found) != 1 || found["ConfigMap"].Labels != nil ||
		!strings.Contains(message, "ConfigMap kedify-proxy-bootstrap") {
		t.Errorf("%q, and there is %v", message, found)
	}
	remove(t, part("ConfigMap", team))
	awaitParts(t, team, len(proxyParts))
	awaitInstalled(t, team, "")
}

// TestNamespaceSettings changes the annotations of the Namespace, and reverts manual changes of the settings.
func TestNamespaceSettings(t *testing.T) {
	t.Parallel()
	team := namespace(t, "fleet-settings")
	path := "/api/v1/namespaces/" + team
	patch(t, path, `{"metadata": {"annotations": {"http.kedify.io/proxy-replicas": "2", "http.kedify.io/proxy-image": "mirror.test/envoy:v1.40.0"}}}`)
	apply(t, team, shop(simple))
	image := func(found *appsv1.Deployment) string { return found.Spec.Template.Spec.Containers[0].Image }
	awaitProxy(t, team, "as the annotations say", func(found *appsv1.Deployment) bool {
		return *found.Spec.Replicas == 2 && image(found) == "mirror.test/envoy:v1.40.0"
	})
	patch(t, part("Deployment", team),
		`{"spec": {"replicas": 5, "paused": true}, "metadata": {"labels": {"app": "mine"}}}`)
	awaitProxy(t, team, "scaled by a user and otherwise unchanged", func(found *appsv1.Deployment) bool {
		return *found.Spec.Replicas == 5 && found.Labels["app"] == "kedify-proxy"
	})
	remove(t, part("admin Service", team))
	awaitParts(t, team, len(proxyParts))

	patch(t, path, `{"metadata": {"annotations": {"http.kedify.io/proxy-replicas": "many", "http.kedify.io/proxy-resources": "{limits: {memory: 512Mi}}"}}}`)
	message := awaitInstalled(t, team, httpv1alpha1.ReasonInvalidProxySettings)
	found := awaitProxy(t, team, "of the agent's number",
		func(found *appsv1.Deployment) bool { return *found.Spec.Replicas == 1 })
	if memory := found.Spec.Template.Spec.Containers[0].Resources.Limits.Memory().String(); memory != "512Mi" {
		t.Errorf("the limit of memory is %s", memory)
	}
	await.True(t, "an Event on the Namespace", func() bool {
		var list corev1.EventList
		get(t, "/api/v1/namespaces/default/events", &list)
		return slices.ContainsFunc(list.Items, func(event corev1.Event) bool {
			return event.InvolvedObject.Kind == "Namespace" && event.InvolvedObject.Name == team && event.Message == message
		})
	})
	patch(t, path,
		`{"metadata": {"annotations": {"http.kedify.io/proxy-replicas": null, "http.kedify.io/proxy-image": null}}}`)
	awaitInstalled(t, team, "")
	awaitProxy(t, team, "with the image of config/kedify-proxy", func(found *appsv1.Deployment) bool {
		return image(found) == "envoyproxy/envoy:v1.40.0"
	})
}

// TestProxyObjectSettings has settings of the Pods, the Service and Envoy, under the agent's admission policies, and
// removes them again.
func TestProxyObjectSettings(t *testing.T) {
	t.Parallel()
	team := namespace(t, "fleet-objects")
	annotate := func(pairs map[string]any) {
		t.Helper()
		text, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": pairs}})
		if err != nil {
			t.Fatal(err)
		}
		patch(t, "/api/v1/namespaces/"+team, string(text))
	}
	service := func() (found corev1.Service) {
		get(t, part("Service", team), &found)
		return found
	}
	annotate(map[string]any{
		httpv1alpha1.AnnotationProxyPod: `{labels: {team: edge}, nodeSelector: {pool: edge}, priorityClassName: edge,
			affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [
				{weight: 1, podAffinityTerm: {topologyKey: rack, labelSelector: {matchLabels: {app: kedify-proxy}}}}]}}}`,
		httpv1alpha1.AnnotationProxyService: `{type: LoadBalancer, externalTrafficPolicy: Local,
			annotations: {example.com/scheme: internal}}`,
		httpv1alpha1.AnnotationProxyEnvoyConfig: `{layered_runtime: {layers: []}}`,
	})
	apply(t, team, shop(simple))
	awaitProxy(t, team, "with the settings of Pods", func(found *appsv1.Deployment) bool {
		pod := found.Spec.Template
		return pod.Labels["team"] == "edge" && pod.Labels["app"] == "kedify-proxy" && pod.Spec.PriorityClassName == "edge" &&
			pod.Spec.NodeSelector["pool"] == "edge" && pod.Spec.Affinity != nil && len(pod.Spec.Tolerations) == 2 &&
			slices.Contains(pod.Spec.Containers[0].Args, "{layered_runtime: {layers: []}}")
	})
	await.True(t, "a load balancer", func() bool {
		found := service()
		return found.Spec.Type == corev1.ServiceTypeLoadBalancer && found.Annotations["example.com/scheme"] == "internal" &&
			found.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal && found.Spec.Ports[0].NodePort != 0
	})

	annotate(map[string]any{httpv1alpha1.AnnotationProxyPod: `{tolerations: [{key: example.com/edge, operator: Exists}]}`})
	if message := awaitInstalled(t, team, httpv1alpha1.ReasonWriteRejected); !strings.Contains(message, "agent.admissionPolicies.proxyTolerationKeys") {
		t.Errorf("the message does not name the fix: %s", message)
	}
	annotate(map[string]any{
		httpv1alpha1.AnnotationProxyPod: nil, httpv1alpha1.AnnotationProxyService: nil,
		httpv1alpha1.AnnotationProxyEnvoyConfig: `{admin: {}}`,
	})
	if message := awaitInstalled(t, team, httpv1alpha1.ReasonInvalidProxySettings); !strings.Contains(message, "admin: the interceptor") {
		t.Errorf("the message does not name the field: %s", message)
	}
	annotate(map[string]any{httpv1alpha1.AnnotationProxyEnvoyConfig: nil})
	awaitInstalled(t, team, "")
	awaitProxy(t, team, "without the settings", func(found *appsv1.Deployment) bool {
		pod := found.Spec.Template
		return pod.Labels["team"] == "" && pod.Spec.PriorityClassName == "" && pod.Spec.NodeSelector == nil &&
			pod.Spec.Affinity == nil && !slices.Contains(pod.Spec.Containers[0].Args, "--config-yaml")
	})
	await.True(t, "a Service for the cluster only", func() bool {
		found := service()
		return found.Spec.Type == corev1.ServiceTypeClusterIP && found.Annotations["example.com/scheme"] == "" &&
			found.Spec.ExternalTrafficPolicy == "" && found.Spec.Ports[0].NodePort == 0
	})
}

// TestKEDAScalesTheProxies enables scaling in a Namespace, changes it, and removes the proxies.
func TestKEDAScalesTheProxies(t *testing.T) {
	t.Parallel()
	team := namespace(t, "fleet-scaled")
	ask := func(number string) {
		t.Helper()
		patch(t, "/api/v1/namespaces/"+team,
			`{"metadata": {"annotations": {"http.kedify.io/proxy-max-replicas": `+number+`}}}`)
	}
	ask(`"3"`)
	apply(t, team, shop(simple))
	awaitParts(t, team, len(proxyParts))
	awaitMost := func(want int64) {
		t.Helper()
		await.True(t, fmt.Sprintf("at most %d proxies", want), func() bool {
			var found apis.ScaledObject
			isThere := get(t, scaledObject(team, "kedify-proxy"), &found)
			return !isThere && want == 0 || isThere && want > 0 && *found.Spec.MaxReplicaCount == want &&
				*found.Spec.MinReplicaCount == 1 &&
				found.Spec.Triggers[0].Type == "cpu" && found.Labels[httpv1alpha1.LabelManagedBy] == httpv1alpha1.ManagedByAgent
		})
	}
	awaitMost(3)
	patch(t, scaledObject(team, "kedify-proxy"), `{"spec": {"maxReplicaCount": 30}}`)
	awaitMost(3)
	ask(`"1"`)
	if message := awaitInstalled(t, team, httpv1alpha1.ReasonInvalidProxySettings); !strings.Contains(message,
		"the maximum number of proxies, 1, must exceed") {
		t.Error(message)
	}
	awaitMost(0)
	ask(`"5"`)
	awaitMost(5)
	remove(t, scaledObject(team, "shop"))
	awaitMost(0)
	awaitParts(t, team, 0)
	done := writes(t, team)
	last := -1
	for i, each := range done {
		if each == "delete scaledobjects/" {
			last = i
		}
	}
	if last < 0 || slices.Index(done, "delete deployments/") < last {
		t.Errorf("what scales the proxies does not go before them: %v", done)
	}
}

// TestTerminatingNamespace deletes a namespace, and then its Deployment like Kubernetes' own controller.
func TestTerminatingNamespace(t *testing.T) {
	t.Parallel()
	team := namespace(t, "fleet-ends")
	apply(t, team, shop(simple))
	awaitParts(t, team, len(proxyParts))
	remove(t, "/api/v1/namespaces/"+team)
	last := namespace(t, "fleet-ends-bound")
	patch(t, "/api/v1/namespaces/"+last, `{"metadata": {"annotations": {"http.kedify.io/proxy-replicas": "2"}}}`)
	apply(t, last, shop(simple))
	awaitProxy(t, last, "are there, after the agent has seen that the other namespace goes",
		func(found *appsv1.Deployment) bool {
			return *found.Spec.Replicas == 2
		})
	remove(t, part("Deployment", team))
	remove(t, part("Deployment", last))
	awaitParts(t, last, len(proxyParts))
	if found := parts(t, team); len(found) != len(proxyParts)-1 {
		t.Errorf("there is %v", found)
	}
}
