package agent_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/yaml"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
)

// TestRolesOfAnEarlierVersion has an agent whose roles lack the permissions for IngressClasses and BackendTLSPolicies,
// as in an upgrade in which the new roles are applied after the new Deployment. The agent becomes ready and does
// everything for which they do not matter. Its log and the condition name the missing permissions. It wires the backends
// as soon as the roles are applied. Wired ones stay if it starts without the permissions again, while proxies are
// ready. After an outage of the proxies it wires them when it has the permissions.
//
//nolint:paralleltest // it replaces the shared cluster
func TestRolesOfAnEarlierVersion(t *testing.T) {
	folder := clusterOfItsOwn(t)
	applyFiles(t, "", append(gatewayAPI(), manifests+"crd/http.keda.sh_httpscaledobjects.yaml")...)
	apply(t, "", earlierRoles(t, "ingressclasses", "backendtlspolicies")...)
	agent := startReady(t, folder)
	team := namespace(t, "team")
	apply(t, team, originalIngress, originalRoute, shop(simple))
	awaitParts(t, team, len(proxyParts))
	slice(t, team)
	programmed(t, team, "shop")
	awaitWiring(t, team, "shop", httpv1alpha1.ReasonPermissionMissing)
	var found httpv1alpha1.HTTPScaledObject
	get(t, httpScaledObject(team, "shop"), &found)
	autowired := meta.FindStatusCondition(found.Status.Conditions, httpv1alpha1.ConditionAutowired)
	log, err := os.ReadFile(filepath.Join(folder, "agent.log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, missing := range []string{"ingressclasses.networking.k8s.io", "backendtlspolicies.gateway.networking.k8s.io"} {
		fix := "the agent may not list and watch " + missing + ": grant it the permission"
		if !strings.Contains(autowired.Message, fix) || !strings.Contains(string(log), fix) {
			t.Errorf("the condition or the log does not contain %q: %s", fix, autowired.Message)
		}
	}
	awaitBackends(t, team, "shop:80 cart:80")

	t.Log("the roles are applied")
	applyFiles(t, "", manifests+"agent/rbac.yaml")
	awaitBackends(t, team, "kedify-proxy:8080 cart:80")
	awaitWiring(t, team, "shop", httpv1alpha1.ReasonWired)

	t.Log("the agent starts without them")
	if err := agent.Kill(); err != nil {
		t.Fatal(err)
	}
	apply(t, "", earlierRoles(t, "ingressclasses", "backendtlspolicies")...)
	later := filepath.Join(folder, "later")
	if err := os.Mkdir(later, 0o700); err != nil {
		t.Fatal(err)
	}
	startReady(t, later)
	apply(t, team, shop(`{hosts: shop.test, port: "80", service: shop, targetValue: "7"}`))
	awaitObject(t, team, "shop", "the new target value", func(object *httpv1alpha1.HTTPScaledObject) bool {
		return object.Spec.ScalingMetric.RequestRate.TargetValue == 7
	})
	awaitBackends(t, team, "kedify-proxy:8080 cart:80")
	awaitWiring(t, team, "shop", httpv1alpha1.ReasonWired)
	endpoint(t, team, false)
	awaitBackends(t, team, "shop:80 cart:80")
	endpoint(t, team, true)
	programmed(t, team, "shop")
	awaitWiring(t, team, "shop", httpv1alpha1.ReasonPermissionMissing)
	awaitBackends(t, team, "shop:80 cart:80")
	applyFiles(t, "", manifests+"agent/rbac.yaml")
	awaitBackends(t, team, "kedify-proxy:8080 cart:80")
}

// earlierRoles returns the roles of config/agent without the rules for some resources.
func earlierRoles(t *testing.T, without ...string) (roles []string) {
	t.Helper()
	text, err := os.ReadFile(manifests + "agent/rbac.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var role map[string]any
		if err := yaml.Unmarshal([]byte(document), &role); err != nil {
			t.Fatal(err)
		}
		rules, isRole := role["rules"].([]any)
		if !isRole {
			continue
		}
		role["rules"] = slices.DeleteFunc(rules, func(rule any) bool {
			resource, _ := rule.(map[string]any)["resources"].([]any)[0].(string)
			return slices.Contains(without, resource)
		})
		changed, err := yaml.Marshal(role)
		if err != nil {
			t.Fatal(err)
		}
		roles = append(roles, string(changed))
	}
	return roles
}
