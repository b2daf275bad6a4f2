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

// anyone is a client of a port without restriction, pod one in any Pod.
const anyone, pod = "anyone", "a Pod"

// clients returns the labels of Pods that connect to a component, by name. Those of KEDA's operator are in its
// manifests and in its chart.
func clients(t *testing.T) map[string]labels.Set {
	t.Helper()
	all := map[string]labels.Set{"keda-operator": {"app": "keda-operator"}, pod: {"app": "another"}}
	for name, c := range components(t) {
		all[name] = c.deployment.Spec.Template.Labels
	}
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
				if matches(t, peer.PodSelector, client) {
					found[name] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// matches reports whether the selector of a peer, or none, selects a client.
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
	everyPod := []string{pod, "agent", "interceptor", "keda-operator", "kedify-proxy", "scaler"}
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
			t.Errorf("%s: policies about %s", name, policies)
		}
	}
}
