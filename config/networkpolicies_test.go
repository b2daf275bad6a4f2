package config_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"
)

// anyone stands for every client, inside and outside of the cluster, and pod for a Pod without the labels of a
// component.
const anyone, pod = "anyone", "a Pod"

// client is a Pod that connects to a component.
type client struct {
	namespace string
	labels    labels.Set
}

// clients returns the Pods that connect to a component, by name, and a tenant's Pods with the labels of others. KEDA's
// manifests and its chart set the label of keda-operator.
func clients(t *testing.T) map[string]client {
	t.Helper()
	all := map[string]client{
		pod: {"team", labels.Set{"app": "another"}}, "keda-operator": {"keda", labels.Set{"app": "keda-operator"}},
		"a tenant's keda-operator": {"team", labels.Set{"app": "keda-operator"}},
	}
	for name, c := range components(t) {
		all[name] = client{"keda", c.deployment.Spec.Template.Labels}
		if name != "kedify-proxy" {
			all["a tenant's "+name] = client{"team", c.deployment.Spec.Template.Labels}
		}
	}
	proxy := all["kedify-proxy"]
	proxy.namespace = "team"
	all["kedify-proxy"] = proxy
	return all
}

// allowed returns the clients that a policy lets connect to a port, sorted.
func allowed(t *testing.T, policy networkingv1.NetworkPolicy, port int32) []string {
	t.Helper()
	found := map[string]bool{}
	for _, rule := range policy.Spec.Ingress {
		if !slices.ContainsFunc(rule.Ports, func(p networkingv1.NetworkPolicyPort) bool { return p.Port.IntVal == port }) {
			continue
		}
		if len(rule.From) == 0 {
			found[anyone] = true
		}
		for _, peer := range rule.From {
			for name, client := range clients(t) {
				isInside := peer.NamespaceSelector == nil && client.namespace == policy.Namespace
				inNamespace := labels.Set{"kubernetes.io/metadata.name": client.namespace}
				if (isInside || peer.NamespaceSelector != nil && matches(t, peer.NamespaceSelector, inNamespace)) &&
					matches(t, peer.PodSelector, client.labels) {
					found[name] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// matches reports whether a selector of a peer selects labels. A peer without a Pod selector selects every Pod.
func matches(t *testing.T, selector *metav1.LabelSelector, client labels.Set) bool {
	t.Helper()
	if selector == nil {
		return true
	}
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		t.Fatal(err)
	}
	return parsed.Matches(client)
}

// TestNetworkPolicies: each port of a component is open to exactly its clients. Port 9902 of the proxies is not on the
// network.
func TestNetworkPolicies(t *testing.T) {
	t.Parallel()
	everyPod := slices.Sorted(maps.Keys(clients(t)))
	open := []string{anyone}
	for name, want := range map[string]map[int32][]string{
		"interceptor": {
			5678: {"interceptor", "kedify-proxy"}, 9901: {"interceptor", "kedify-proxy"}, 9090: {"scaler"},
			8080: open, 2223: open,
		},
		"scaler":       {9090: {"keda-operator"}, 8080: open, 2223: open},
		"agent":        {9443: open, 8081: open, 2223: everyPod},
		"kedify-proxy": {8080: open, 8443: open, 9901: everyPod, 9902: nil},
	} {
		text, err := os.ReadFile(filepath.Join("network-policies", name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		var policy networkingv1.NetworkPolicy
		if err := yaml.UnmarshalStrict(text, &policy); err != nil {
			t.Fatal(err)
		}
		deployment := components(t)[name].deployment
		if diff := cmp.Diff(*deployment.Spec.Selector, policy.Spec.PodSelector); diff != "" ||
			policy.Namespace != deployment.Namespace {
			t.Errorf("%s: namespace %q, Pods (-Deployment +policy):\n%s", name, policy.Namespace, diff)
		}
		got := map[int32][]string{}
		for _, port := range deployment.Spec.Template.Spec.Containers[0].Ports {
			got[port.ContainerPort] = allowed(t, policy, port.ContainerPort)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: clients of the ports (-want +got):\n%s", name, diff)
		}
		if policies := fmt.Sprint(policy.Spec.PolicyTypes); policies != "[Ingress]" {
			t.Errorf("%s: policyTypes %s, want [Ingress]", name, policies)
		}
	}
}
