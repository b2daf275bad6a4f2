package apiserver_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// hostPolicyFile is the sample policy for hosts of the shared fleet.
const hostPolicyFile = "../../examples/shared-fleet-hosts/policy.yaml"

// createIn creates an HTTPScaledObject with hosts in a fleet, "" for that of its namespace. It returns the rejection.
func (c *cluster) createIn(t *testing.T, namespace, name, fleet string, hosts ...string) string {
	t.Helper()
	annotations := "{}"
	if fleet != "" {
		annotations = fmt.Sprintf("{http.kedify.io/fleet: %q}", fleet)
	}
	body, err := yaml.YAMLToJSON(fmt.Appendf(nil, `
apiVersion: http.keda.sh/v1alpha1
kind: HTTPScaledObject
metadata: {name: %s, annotations: %s}
spec: {hosts: ["%s"], scaleTargetRef: {service: shop, port: 80}}
`, name, annotations, strings.Join(hosts, `", "`)))
	if err != nil {
		t.Fatal(err)
	}
	return rejection(t, c.admin.Post().AbsPath(pathOf(namespace, "")).SetHeader("Content-Type", "application/json").
		Body(body).Do(t.Context()).Error())
}

// TestHostPolicy creates and changes objects with the sample policy. Its ConfigMap lists shop.example.com for namespace
// shop and example.com for namespace platform.
func TestHostPolicy(t *testing.T) {
	const shop, platform, other = "shop", "platform", "shop-other"
	for _, namespace := range []string{shop, platform, other} {
		shared.newNamespace(t, namespace)
	}
	if old := shared.createIn(t, other, "before", "shared", "old.example.com"); old != "" {
		t.Fatal(old)
	}
	policy, err := os.ReadFile(hostPolicyFile)
	if err != nil {
		t.Fatal(err)
	}
	shared.apply(t, "", string(policy))
	await.True(t, "the policy is active", func() bool {
		return strings.Contains(shared.createIn(t, other, "probe", "shared", "probe.test"), "not a host of namespace")
	})
	for name, test := range map[string]struct {
		namespace, fleet string
		hosts            []string
		rejected         string // the rejected hosts, "" for an accepted object
	}{
		"own-domain":      {shop, "shared", []string{"shop.example.com"}, ""},
		"below-it":        {shop, "shared", []string{"pay.shop.example.com", "*.shop.example.com"}, ""},
		"longer-domain":   {platform, "shared", []string{"shop.example.com"}, "shop.example.com"},
		"rest-of-domain":  {platform, "shared", []string{"www.example.com", "example.com"}, ""},
		"parent-domain":   {shop, "shared", []string{"www.example.com"}, "www.example.com"},
		"other-namespace": {other, "shared", []string{"pay.shop.example.com"}, "pay.shop.example.com"},
		"any-host":        {shop, "shared", []string{"shop.example.com", "*"}, "*"},
		"similar-suffix":  {shop, "shared", []string{"myshop.example.com"}, "myshop.example.com"},
		"other-spelling":  {other, "shared", []string{"SHOP.example.com.", "b.test:80"}, "SHOP.example.com., b.test:80"},
		"invalid-fleet":   {other, "Shared", []string{"shop.example.com"}, "shop.example.com"},
		"own-fleet":       {other, "", []string{"shop.example.com", "*"}, ""},
	} {
		got := shared.createIn(t, test.namespace, name, test.fleet, test.hosts...)
		want := "spec.hosts: " + test.rejected + ": not a host of namespace " + test.namespace
		if (got == "") != (test.rejected == "") || !strings.Contains(got, want) && test.rejected != "" {
			t.Errorf("%s: rejected with %q, want %q", name, got, test.rejected)
		}
	}
	const toShared = `{"metadata":{"annotations":{"http.kedify.io/fleet":"shared"}}}`
	const toOwn = `{"metadata":{"annotations":{"http.kedify.io/fleet":null}},"spec":{"hosts":["*"]}}`
	const toInvalid = `{"metadata":{"annotations":{"http.kedify.io/fleet":"Shared"}},"spec":{"hosts":["www.example.com"]}}`
	const split = `{"metadata":{"annotations":{"http.kedify.io/weighted-backends":"x"}}}`
	for _, step := range []struct {
		name, namespace, object, patch string
		isRejected                     bool
	}{
		{"host added", shop, "own-domain", `{"spec":{"hosts":["shop.example.com","www.example.com"]}}`, true},
		{"own host added", shop, "own-domain", `{"spec":{"hosts":["shop.example.com","a.shop.example.com"]}}`, false},
		{"moved to the fleet", other, "own-fleet", toShared, true},
		{"from before", other, "before", split, false},
		{"host added to it", other, "before", `{"spec":{"hosts":["old.example.com","new.example.com"]}}`, true},
		{"moved out of the fleet", other, "before", toOwn, false},
		{"moved back", other, "before", toShared, true},
		{"invalid fleet and a foreign host", shop, "below-it", toInvalid, true},
		{"invalid fleet", shop, "below-it", `{"metadata":{"annotations":{"http.kedify.io/fleet":"Shared"}}}`, false},
		{"a foreign host in an invalid fleet", shop, "below-it", `{"spec":{"hosts":["www.example.com"]}}`, true},
	} {
		got := rejection(t, patch(t.Context(), shared.admin, pathOf(step.namespace, step.object), step.patch))
		if (got != "") != step.isRejected {
			t.Errorf("%s: rejected with %q, want a rejection: %v", step.name, got, step.isRejected)
		}
	}
}
