package gatewayapi_test

import (
	"log/slog"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/internal/router/gatewayapi"
	"github.com/kedify/argo-rollouts-plugin/test/kit/routertest"
)

// field is the router's configuration in a Rollout, as messages name it.
const field = `spec.strategy.canary.trafficRouting.plugins["argoproj-labs/gatewayAPI"]`

// allKeys are the keys as messages list them.
const allKeys = "configMap, disableInProgressLabel, grpcRoute, grpcRouteRuleName, grpcRouteSelector, grpcRoutes, " +
	"httpRoute, httpRouteRuleName, httpRouteSelector, httpRoutes, " +
	"immediateAbort, inProgressLabelKey, inProgressLabelValue, limitWeightToReadyPods, namespace, safePromotion, skipManagedRoutesOnSetWeight, " +
	"stickiness, tcpRoute, tcpRouteRuleName, tcpRouteSelector, tcpRoutes, tlsRoute, " +
	"tlsRouteRuleName, tlsRouteSelector, tlsRoutes, udpRoute, udpRouteRuleName, udpRouteSelector, udpRoutes, " +
	"verifyRouteStatus"

func TestInvalidConfigurations(t *testing.T) {
	t.Parallel()
	const remedy = "write {httpRoute: <name of an HTTPRoute>} there"
	tests := map[string]struct{ config, want string }{
		"none":          {"", field + " is missing: " + remedy},
		"null":          {"null", field + " is null, not an object: " + remedy},
		"not an object": {`"web"`, field + ` is "web", not an object: ` + remedy},
		"no route":      {`{"namespace":"shop"}`, field + " names no route: " + remedy},
		"an empty name": {`{"httpRoute":""}`, field + " names no route: " + remedy},
		"an unknown key": {`{"httpRoute":"web","route":"web"}`, field +
			` has the unknown key "route": remove it, the keys are ` + allKeys},
		"a name that is a number": {`{"httpRoute":7}`, field + ".httpRoute is 7: write a name"},
		"a name that cannot be one": {`{"tcpRoute":"A_b"}`, field +
			`.tcpRoute names "A_b", which cannot be a route's name: `},
		"a namespace that cannot be": {`{"httpRoute":"web","namespace":"A"}`, field +
			`.httpRoute is in namespace "A", which cannot be a namespace's name: `},
		"a rule without a route": {`{"httpRouteRuleName":"main"}`, field +
			`.httpRoute names "", which cannot be a route's name: `},
		"a list that is none": {`{"httpRoutes":{"name":"web"}}`, field +
			`.httpRoutes is {"name":"web"}: write a list of {name, namespace, ruleName, useHeaderRoutes}: `},
		"an unknown key in a list": {
			`{"httpRoutes":[{"name":"web","useHeaderRoute":true}]}`,
			`unknown field "useHeaderRoute"`,
		},
		"no name in a list": {`{"udpRoutes":[{}]}`, field +
			`.udpRoutes[0] names "", which cannot be a route's name: `},
		"a route with two rules": {
			`{"httpRoutes":[{"name":"web","ruleName":"a"},{"name":"web","ruleName":"b"}]}`, field +
				`.httpRoutes[1] names HTTPRoute "shop/web" again, with another ruleName than ` +
				field + ".httpRoutes[0]: name it once; without a ruleName, every rule with both Services is in scope",
		},
		"an option that is not a boolean": {`{"httpRoute":"web","verifyRouteStatus":"no"}`, field +
			`.verifyRouteStatus is "no": write true or false`},
		"a label's key": {`{"httpRoute":"web","inProgressLabelKey":"a b"}`, field +
			`.inProgressLabelKey is "a b", which cannot be a label's key: `},
		"a label's value": {`{"httpRoute":"web","inProgressLabelValue":"a b"}`, field +
			`.inProgressLabelValue is "a b", which cannot be a label's value: `},
		"a selector that is none": {`{"httpRouteSelector":"app=web"}`, field +
			`.httpRouteSelector is "app=web": write a label selector, e.g. {matchLabels: {app: shop}}`},
		"a selector's bad operator": {`{"httpRouteSelector":{"matchExpressions":[{"key":"a","operator":"Is"}]}}`, field +
			".httpRouteSelector: "},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := routertest.NewRoutesServer(t, newest(), httpRoute("web"))
			router, rollout := newRouter(api), routertest.Rollout(gatewayapi.Type, test.config)
			err := router.SetWeight(t.Context(), rollout, 20, nil)
			if err == nil || !strings.Contains(err.Error(), test.want) ||
				!strings.HasPrefix(err.Error(), `rollout "shop/web": `+field) {
				t.Errorf("error is\n%v, want in it\n%s", err, test.want)
			}
			if verified, err := router.VerifyWeight(t.Context(), rollout, 20, nil); err == nil || verified {
				t.Errorf("VerifyWeight: %v, %v", verified, err)
			}
			if reads := len(api.Requests("GET", "")); reads > 0 {
				t.Errorf("%d requests for an invalid configuration", reads)
			}
		})
	}
}

func TestConfigurationsOfTheArgoprojLabsPluginWork(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		config string
		label  string // "" for none
	}{
		"a single route": {
			`{"httpRoute":"web","namespace":"shop"}`,
			"rollouts.argoproj.io/gatewayapi-canary: in-progress",
		},
		"a list": {
			`{"httpRoutes":[{"name":"web","useHeaderRoutes":true}],"namespace":"shop"}`,
			"rollouts.argoproj.io/gatewayapi-canary: in-progress",
		},
		"both": {
			`{"httpRoute":"web","httpRoutes":[{"name":"web"}]}`,
			"rollouts.argoproj.io/gatewayapi-canary: in-progress",
		},
		"keys in another case": {`{"httproutes":[{"name":"web"}]}`, "rollouts.argoproj.io/gatewayapi-canary: in-progress"},
		"keys of old versions": {
			`{"httpRoute":"web","configMap":"state","skipManagedRoutesOnSetWeight":true}`,
			"rollouts.argoproj.io/gatewayapi-canary: in-progress",
		},
		"a selector": {
			`{"httpRouteSelector":{"matchExpressions":[{"key":"app","operator":"Exists"}]}}`,
			"rollouts.argoproj.io/gatewayapi-canary: in-progress",
		},
		"a label of its own": {`{"httpRoute":"web","inProgressLabelKey":"a/b","inProgressLabelValue":"c"}`, "a/b: c"},
		"no label":           {`{"httpRoute":"web","disableInProgressLabel":true}`, ""},
		"keys without a value": {
			`{"httpRoute":"web","tcpRoutes":null}`,
			"rollouts.argoproj.io/gatewayapi-canary: in-progress",
		},
		"a namespace in a list": {
			`{"httpRoutes":[{"name":"web","namespace":"shop"}],"namespace":"elsewhere"}`,
			"rollouts.argoproj.io/gatewayapi-canary: in-progress",
		},
		"no header routes wanted": {
			`{"httpRoutes":[{"name":"web","useHeaderRoutes":false}]}`,
			"rollouts.argoproj.io/gatewayapi-canary: in-progress",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := routertest.NewRoutesServer(t, newest(), httpRoute("web"))
			if err := newRouter(api).SetWeight(t.Context(), routertest.Rollout(gatewayapi.Type, test.config), 20,
				nil); err != nil {
				t.Fatal(err)
			}
			if got := weights(api, "httproutes", "web"); got != "80/20" {
				t.Errorf("weights %s", got)
			}
			labels := api.Object("httproutes", "shop", "web")["metadata"].(map[string]any)["labels"].(map[string]any)
			key, value, labelled := strings.Cut(test.label, ": ")
			if want := map[bool]int{true: 2, false: 1}[labelled]; len(labels) != want || labelled && labels[key] != value {
				t.Errorf("labels are %v, want %q next to the user's", labels, test.label)
			}
		})
	}
}

func TestRoutesOfOtherNamespacesNeedPermission(t *testing.T) {
	t.Parallel()
	elsewhere := strings.NewReplacer("namespace: shop, name: web", "namespace: gateways, name: web", "port: 80",
		"port: 80, namespace: shop").Replace(httpRoute("web"))
	tests := map[string]struct{ allowed, config, want string }{
		"all":                  {"*", `{"httpRoute":"web","namespace":"gateways"}`, ""},
		"this one":             {"a, gateways", `{"httpRoute":"web","namespace":"gateways"}`, ""},
		"another one":          {"a", `{"httpRoute":"web","namespace":"gateways"}`, "httpRoute"},
		"none":                 {"", `{"httpRoute":"web","namespace":"gateways"}`, "httpRoute"},
		"none, by a selection": {"", `{"httpRouteSelector":{},"namespace":"gateways"}`, "httpRouteSelector"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := routertest.NewRoutesServer(t, newest(), elsewhere)
			var allowed gatewayapi.Namespaces
			if err := allowed.UnmarshalText([]byte(test.allowed)); err != nil {
				t.Fatal(err)
			}
			client := gatewayapi.NewClient(func() (*rest.Config, error) { return api.Config(), nil })
			err := gatewayapi.New(client, allowed, slog.New(slog.DiscardHandler)).SetWeight(t.Context(),
				routertest.Rollout(gatewayapi.Type, test.config), 20, nil)
			want := `rollout "shop/web": ` + field + "." + test.want +
				` is in namespace "gateways": only Rollouts of that namespace may reference routes there: correct it, or add ` +
				"the namespace to the plugin's flag -routeNamespaces"
			if (err != nil) != (test.want != "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("error is\n%v, want\n%s", err, want)
			}
		})
	}
}
