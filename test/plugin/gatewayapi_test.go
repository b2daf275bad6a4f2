package plugin_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/argoproj/argo-rollouts/utils/plugin/types"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kedify/argo-rollouts-plugin/internal/router/gatewayapi"
	"github.com/kedify/argo-rollouts-plugin/test/kit/routertest"
)

// route is the HTTPRoute shop/web with both Services of routertest.Rollout.
const route = `{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {namespace: shop, name: web},
  spec: {parentRefs: [{name: gateway}],
  rules: [{backendRefs: [{name: web-stable, port: 80}, {name: web-canary, port: 80}]}]}}`

// startGateway returns an API server with the HTTPRoute shop/web and a process of the router argoproj-labs/gatewayAPI
// that uses it.
func startGateway(t *testing.T, args ...string) (*routertest.RoutesServer, controller) {
	t.Helper()
	api := routertest.NewRoutesServer(t, routertest.Schema{Version: "v1", HasRuleNames: true, HasMirrorPercent: true},
		route)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	api.WriteKubeconfig(t, file)
	return api, startRouter(t, gatewayapi.Type, gatewayBinary, file, args...)
}

// inCanary returns a Rollout at the step with that index of a canary with a header route and a mirror route.
func inCanary(index int32) *v1alpha1.Rollout {
	rollout := routertest.Rollout(gatewayapi.Type, `{"httpRoute":"web"}`)
	rollout.Annotations = map[string]string{"rollout.argoproj.io/revision": "2"}
	rollout.Status.StableRS, rollout.Status.CurrentPodHash, rollout.Status.CurrentStepIndex = "old", "new", &index
	canary := rollout.Spec.Strategy.Canary
	canary.TrafficRouting.ManagedRoutes = []v1alpha1.MangedRoutes{{Name: "qa"}, {Name: "copies"}}
	canary.Steps = []v1alpha1.CanaryStep{
		{SetHeaderRoute: &v1alpha1.SetHeaderRoute{
			Name: "qa", Match: []v1alpha1.HeaderRoutingMatch{{
				HeaderName:  "role",
				HeaderValue: &v1alpha1.StringMatch{Exact: "qa"},
			}},
		}},
		{SetMirrorRoute: &v1alpha1.SetMirrorRoute{
			Name: "copies", Percentage: new(int32(10)),
			Match: []v1alpha1.RouteMatch{{Path: &v1alpha1.StringMatch{Prefix: "/api"}}},
		}},
		{SetWeight: new(int32)},
	}
	return rollout
}

// ruleNames returns the names of the rules of shop/web, and the weights of the last one.
func ruleNames(api *routertest.RoutesServer) string {
	rules, _, _ := unstructured.NestedSlice(api.Object("httproutes", "shop", "web"), "spec", "rules")
	var words []string
	for _, rule := range rules {
		if name, named := rule.(map[string]any)["name"]; named {
			words = append(words, fmt.Sprint(name))
			continue
		}
		for _, backend := range rule.(map[string]any)["backendRefs"].([]any) {
			words = append(words, fmt.Sprint(backend.(map[string]any)["weight"]))
		}
	}
	return strings.Join(words, " ")
}

func TestGatewayCanaryOverTheSocket(t *testing.T) {
	t.Parallel()
	api, client := startGateway(t)
	expect := func(when, want string) {
		t.Helper()
		if got := ruleNames(api); got != want {
			t.Errorf("%s the route has %q, want %q", when, got, want)
		}
	}
	first, last := inCanary(0), inCanary(2) // gob drops an index of 0
	must(t, "SetHeaderRoute", client.SetHeaderRoute(first, first.Spec.Strategy.Canary.Steps[0].SetHeaderRoute))
	expect("after the first step", "<nil> <nil> qa")
	must(t, "SetWeight", client.SetWeight(first, 0, nil))
	expect("with a weight of 0", "100 0 qa")
	second := inCanary(1)
	must(t, "SetMirrorRoute", client.SetMirrorRoute(second, second.Spec.Strategy.Canary.Steps[1].SetMirrorRoute))
	expect("after the second step", "copies 100 0 qa")
	must(t, "SetWeight", client.SetWeight(last, 20, nil))
	expect("at 20", "copies 80 20 qa")
	if verified, answer := client.VerifyWeight(last, 20, nil); answer.HasError() || verified != types.NotVerified {
		t.Errorf("VerifyWeight before the Gateway has accepted it: %v, %v", verified, answer)
	}
	api.Accept("httproutes", "shop", "web", true)
	if verified, answer := client.VerifyWeight(last, 20, nil); answer.HasError() || verified != types.Verified {
		t.Errorf("VerifyWeight afterwards: %v, %v", verified, answer)
	}
	must(t, "RemoveManagedRoutes", client.RemoveManagedRoutes(last))
	expect("after RemoveManagedRoutes", "80 20")
	last.Status.Abort = true
	must(t, "SetWeight", client.SetWeight(last, 0, nil))
	expect("aborted", "100 0")
	for _, request := range api.Requests(http.MethodPut, "") {
		if request.FieldManager != gatewayapi.FieldManager || request.UserAgent != "gatewayapi-plugin/"+builtVersion {
			t.Errorf("written by field manager %q, user agent %q", request.FieldManager, request.UserAgent)
		}
	}
}

func TestKilledGatewayPluginContinues(t *testing.T) {
	t.Parallel()
	api, first := startGateway(t)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	api.WriteKubeconfig(t, file)
	rollout := inCanary(2)
	must(t, "SetWeight", first.SetWeight(rollout, 20, nil))
	process, err := os.FindProcess(first.process.ReattachConfig().Pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Kill(); err != nil {
		t.Fatal(err)
	}
	if answer := first.SetWeight(rollout, 50, nil); !answer.HasError() {
		t.Error("a killed plugin answered")
	}
	second := startRouter(t, gatewayapi.Type, gatewayBinary, file)
	must(t, "SetWeight", second.SetWeight(rollout, 20, nil))
	if writes := len(api.Requests(http.MethodPut, "")); writes != 1 {
		t.Errorf("%d writes, want the one of the first process", writes)
	}
}

func TestEmptyRolloutIsAnErrorOfTheGatewayPluginNotACrash(t *testing.T) {
	t.Parallel()
	_, client := startGateway(t)
	for _, rollout := range []*v1alpha1.Rollout{
		{}, {Spec: v1alpha1.RolloutSpec{Strategy: v1alpha1.RolloutStrategy{Canary: &v1alpha1.CanaryStrategy{}}}},
	} {
		answers := map[string]types.RpcError{
			"SetWeight":           client.SetWeight(rollout, 20, nil),
			"RemoveManagedRoutes": client.RemoveManagedRoutes(rollout),
			"SetHeaderRoute":      client.SetHeaderRoute(rollout, &v1alpha1.SetHeaderRoute{}),
			"SetMirrorRoute":      client.SetMirrorRoute(rollout, &v1alpha1.SetMirrorRoute{}),
		}
		for call, answer := range answers {
			if !strings.Contains(answer.ErrorString, "spec.strategy.canary") || strings.Contains(answer.ErrorString, "panic") {
				t.Errorf("%s answered %q", call, answer.ErrorString)
			}
		}
		if answer := client.UpdateHash(rollout, "new", "new", nil); answer.HasError() {
			t.Errorf("UpdateHash returned %v, which SetWeight reports", answer)
		}
		if verified, answer := client.VerifyWeight(rollout, 20, nil); !answer.HasError() || verified != types.NotVerified {
			t.Errorf("VerifyWeight answered %v, %v", verified, answer)
		}
	}
	if err := client.control.Ping(); err != nil {
		t.Errorf("Ping after it: %v", err)
	}
}

func TestFlagsOfTheArgoprojLabsPlugin(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		args []string
		log  string // the log line of a written route
	}{
		"none":       {nil, "[INFO]  gatewayapi-plugin: weights written: "},
		"limits":     {[]string{"-kubeClientQPS=40", "-kubeClientBurst=80"}, "[INFO]  gatewayapi-plugin: weights written: "},
		"JSON":       {[]string{"-logformat=json"}, "[INFO]  gatewayapi-plugin: weights written: "},
		"JSON again": {[]string{"--logformat", "json"}, "[INFO]  gatewayapi-plugin: weights written: "},
		"text":       {[]string{"-logformat=text"}, ""}, // the controller shows such lines at debug level only
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api, client := startGateway(t, test.args...)
			must(t, "SetWeight", client.SetWeight(inCanary(2), 20, nil))
			if got := ruleNames(api); got != "copies 80 20 qa" {
				t.Errorf("the route has %q", got)
			}
			client.process.Kill() // ends the journal
			if shown := strings.Contains(client.log.String(), "weights written"); shown != (test.log != "") ||
				!strings.Contains(client.log.String(), test.log) {
				t.Errorf("the log is\n%s", client.log)
			}
		})
	}
}

func TestRouteNamespacesLimit(t *testing.T) {
	t.Parallel()
	_, client := startGateway(t, "-routeNamespaces=gateways")
	rollout := routertest.Rollout(gatewayapi.Type, `{"httpRoute":"web","namespace":"default"}`)
	if answer := client.SetWeight(rollout, 20, nil); !strings.Contains(answer.ErrorString, "-routeNamespaces") {
		t.Errorf("SetWeight answered %q", answer.ErrorString)
	}
}
