package apiserver_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
)

// TestNetworkPolicies: an API server accepts the policies of config and of the chart. No network plugin enforces them
// here; TestNetworkPolicies in config compares the admitted clients.
func TestNetworkPolicies(t *testing.T) {
	t.Parallel()
	const folder, rendered = "../../config/network-policies/", "../chart/testdata/restricted-network/rendered.yaml"
	for _, namespace := range []string{"policies-proxies", "http-canary"} {
		shared.newNamespace(t, namespace)
	}
	if err := apiserver.ApplyFiles(t.Context(), shared.admin, "policies-proxies", folder+"kedify-proxy.yaml"); err != nil {
		t.Fatal(err)
	}
	if err := apiserver.ApplyFiles(t.Context(), shared.admin, "", folder+"agent.yaml", folder+"interceptor.yaml",
		folder+"scaler.yaml"); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(rendered)
	if err != nil {
		t.Fatal(err)
	}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		if strings.Contains(document, "\nkind: NetworkPolicy\n") {
			shared.apply(t, "", document)
		}
	}
	components := []string{"kedify-http-agent", "kedify-http-interceptor", "kedify-http-scaler"}
	for namespace, want := range map[string][]string{
		"policies-proxies": {"kedify-proxy"}, "keda": components, "http-canary": components,
	} {
		body, err := shared.admin.Get().AbsPath("/apis/networking.k8s.io/v1/namespaces/" + namespace + "/networkpolicies").
			DoRaw(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var list networkingv1.NetworkPolicyList
		if err := json.Unmarshal(body, &list); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, policy := range list.Items {
			names = append(names, policy.Name)
		}
		slices.Sort(names)
		if diff := cmp.Diff(want, names); diff != "" {
			t.Errorf("%s (-want +got):\n%s", namespace, diff)
		}
	}
}
