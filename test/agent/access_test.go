package agent_test

import (
	"context"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// account is the ServiceAccount of the agent.
const account = "system:serviceaccount:keda:kedify-http-agent"

// background is the context of requests that outlive one test.
func background() context.Context { return context.Background() }

// TestPermissions makes the agent do everything that it does. It compares the agent's requests so far, in other
// tests as well, with the roles of config/agent: every permission must be used, and every request permitted.
func TestPermissions(t *testing.T) {
	t.Parallel()
	withWebhook(t, "rights") // uses the certificate and the CA bundle
	team := namespace(t, "rights-used")
	patch(t, "/api/v1/namespaces/"+team, `{"metadata": {"annotations": {"http.kedify.io/proxy-max-replicas": "3"}}}`)
	apply(t, team, shop(`{hosts: shop.test, port: "80", service: shop, colour: red}`))
	awaitObject(t, team, "shop", "made", there)
	awaitEvent(t, team, httpv1alpha1.ReasonKeyIgnored,
		`spec.triggers[0].metadata.colour "red": unknown key, ignored; remove it`)
	awaitParts(t, team, len(proxyParts))
	remove(t, scaledObject(team, "shop"))
	awaitGone(t, team, "shop")
	awaitParts(t, team, 0)
	wiredNamespace(t, "rights-wired")
	wiredService(t, "rights-mesh")
	wiredRoute(t, "rights-routes")
	clients, _ := takenOver(t, "rights-clients")
	apply(t, clients, shop(`{hosts: "*", port: "80", service: shop, trafficAutowire: "false"}`))
	awaitClients(t, clients, "shop")

	granted := permissions(t, manifests+"agent/rbac.yaml")
	rare := []string{
		// Renewed certificates, repeated Events and rejected patches of another version may not occur here.
		"update secrets/kedify-http-agent-webhook in keda", "update secrets/kedify-http-interceptor-tls in keda",
		"create configmaps/kedify-http-interceptor-ca in keda", "patch events", "get scaledobjects.keda.sh",
		"create scaledobjects.keda.sh/kedify-proxy",
		"get ingresses.networking.k8s.io", "get httproutes.gateway.networking.k8s.io",
		"get virtualservices.networking.istio.io", "get routes.route.openshift.io", "get services",
		// The API server requires this permission in addition to patch when an apply creates, and audits the patch.
		"create httpscaledobjects.http.keda.sh", "create services",
		// TestProxiesOfInterceptorRoutes has a condition written.
		"patch interceptorroutes/status.http.keda.sh",
		// TestClientService has a fallback Service deleted.
		"delete services",
		"create deployments.apps/kedify-proxy", "create configmaps/kedify-proxy-bootstrap",
		// TestSharedFleet has these written and deleted, and fails if that is forbidden.
		"create referencegrants.gateway.networking.k8s.io in keda", "patch referencegrants.gateway.networking.k8s.io in keda",
		"delete referencegrants.gateway.networking.k8s.io in keda",
		"create services/kedify-proxy", "create services/kedify-proxy-admin",
		"create poddisruptionbudgets.policy/kedify-proxy",
	}
	await.True(t, "the Lease is renewed, and kinds are watched that were installed later",
		func() bool {
			used := requested(t)
			return used["update leases.coordination.k8s.io/kedify-http-agent in keda"] && used["watch rollouts.argoproj.io"] &&
				used["watch httproutes.gateway.networking.k8s.io"] && used["watch virtualservices.networking.istio.io"] &&
				used["watch destinationrules.networking.istio.io"] && used["watch routes.route.openshift.io"] &&
				used["watch backendtlspolicies.gateway.networking.k8s.io"] && used["watch referencegrants.gateway.networking.k8s.io in keda"]
		})
	used := requested(t)
	for _, right := range rare {
		used[right] = true
	}
	for right := range maps.Clone(used) { // API servers without streams need a list before a watch
		if watched, isWatch := strings.CutPrefix(right, "watch "); isWatch {
			used["list "+watched] = true
		}
	}
	if diff := cmp.Diff(granted, slices.Sorted(maps.Keys(used))); diff != "" {
		t.Errorf("rights (-granted +used):\n%s", diff)
	}
}

// permissions lists what the roles of a manifest grant: verb resource[.group][/name][ in namespace].
func permissions(t *testing.T, file string) []string {
	t.Helper()
	manifest, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for document := range strings.SplitSeq(string(manifest), "\n---\n") {
		var role rbacv1.Role // a ClusterRole has the same fields, and no namespace
		if err := yaml.Unmarshal([]byte(document), &role); err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			for _, resource := range rule.Resources {
				for _, name := range append(rule.ResourceNames, "")[:max(1, len(rule.ResourceNames))] {
					for _, verb := range rule.Verbs {
						found[permission(verb, resource, rule.APIGroups[0], name, role.Namespace)] = true
					}
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// requested lists the agent's requests so far, in the same format. A forbidden request is a failure.
func requested(t *testing.T) map[string]bool {
	t.Helper()
	events, err := shared.audit.RequestsOf(account)
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, event := range events {
		ref := event.ObjectRef
		if event.ResponseStatus.Code == 403 {
			t.Fatalf("the agent was forbidden to %s %s %s/%s", event.Verb, ref.Resource, ref.Namespace, ref.Name)
		}
		resource, name, namespace := ref.Resource, "", ""
		if ref.Subresource != "" {
			resource += "/" + ref.Subresource
		}
		switch {
		case resource == "referencegrants": // named after namespaces
			namespace = ref.Namespace
		case slices.Contains([]string{"leases", "secrets", "mutatingwebhookconfigurations"}, resource):
			namespace = ref.Namespace
			if event.Verb != "create" {
				name = ref.Name
			}
		case resource == "scaledobjects" && event.Verb == "delete":
			name = ref.Name
		case resource == "configmaps" && ref.Name == httpv1alpha1.InterceptorCA:
			name, namespace = ref.Name, ref.Namespace
		case resource == "services" && !strings.HasPrefix(ref.Name, "kedify-proxy"): // users choose their names
		case slices.Contains([]string{"deployments", "configmaps", "services", "poddisruptionbudgets"}, resource):
			name = ref.Name
		}
		if resource != "" { // discovery has none
			used[permission(event.Verb, resource, ref.APIGroup, name, namespace)] = true
		}
	}
	return used
}

// permission formats a permission.
func permission(verb, resource, group, name, namespace string) string {
	var text strings.Builder
	for _, part := range []struct {
		before, text string
	}{{"", verb}, {" ", resource}, {".", group}, {"/", name}, {" in ", namespace}} {
		if part.text != "" {
			text.WriteString(part.before + part.text)
		}
	}
	return text.String()
}
