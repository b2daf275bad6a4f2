package gatewayapi_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kedify/argo-rollouts-plugin/internal/router/gatewayapi"
	"github.com/kedify/argo-rollouts-plugin/test/kit/routertest"
)

const (
	stickyConfig = `{"httpRoute":"web","stickiness":{"cookie":{"name":"side"}}}`
	bySide       = `{"sessionName":"side","type":"Cookie"}`
	byDefault    = `{"sessionName":"kedify-session","type":"Cookie"}`
)

// experimental returns the schema of a cluster with the experimental channel of the Gateway API.
func experimental() routertest.Schema {
	schema := newest()
	schema.HasSessions = true
	return schema
}

// withSessions returns routeOf with sessions of its author in the only rule.
func withSessions(kind, name, sessions string) string {
	return strings.Replace(routeOf(kind, name), "rules: [{", "rules: [{sessionPersistence: "+sessions+", ", 1)
}

// sessions returns the sessions in the first rule of a route as JSON; empty if there are none.
func sessions(t *testing.T, api *routertest.RoutesServer, resource, name string) string {
	t.Helper()
	rules, _, _ := unstructured.NestedSlice(api.Object(resource, "shop", name), "spec", "rules")
	value, has := rules[0].(map[string]any)["sessionPersistence"]
	if !has {
		return ""
	}
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestStickiness: the router writes sessions with the weights of a canary and removes them with its last weights, each
// in one request.
func TestStickiness(t *testing.T) {
	t.Parallel()
	type call struct {
		weight   int32
		sessions string // afterwards
		writes   int
	}
	aborted := func(rollout *v1alpha1.Rollout) { rollout.Status.Abort = true }
	tests := map[string]struct {
		config string
		change func(*v1alpha1.Rollout) // before the last call
		calls  []call
	}{
		"a canary that is promoted": {
			config: stickyConfig,
			calls:  []call{{0, "", 1}, {20, bySide, 1}, {20, bySide, 0}, {50, bySide, 1}, {100, "", 1}, {0, "", 1}, {0, "", 0}},
		},
		"a canary that is aborted": {
			config: stickyConfig, change: aborted, calls: []call{{20, bySide, 1}, {50, bySide, 1}, {0, "", 1}},
		},
		"an abort in several steps": {
			config: stickyConfig, change: aborted, calls: []call{{50, bySide, 1}, {30, bySide, 1}},
		},
		"the default name": {
			config: `{"httpRoute":"web","stickiness":{"cookie":{}}}`, calls: []call{{20, byDefault, 1}, {0, "", 1}},
		},
		"a lifetime": {
			config: `{"httpRoute":"web","stickiness":{"cookie":{"name":"side","maxAge":604800}}}`,
			calls: []call{{20, `{"absoluteTimeout":"168h","cookieConfig":{"lifetimeType":"Permanent"},` +
				`"sessionName":"side","type":"Cookie"}`, 1}, {0, "", 1}},
		},
		"a lifetime with seconds": {
			config: `{"httpRoute":"web","stickiness":{"cookie":{"name":"side","maxAge":3723}}}`,
			calls: []call{{20, `{"absoluteTimeout":"1h2m3s","cookieConfig":{"lifetimeType":"Permanent"},` +
				`"sessionName":"side","type":"Cookie"}`, 1}},
		},
		"by a header": {
			config: `{"httpRoute":"web","stickiness":{"sessionHeader":"x-session"}}`,
			calls:  []call{{20, `{"sessionName":"x-session","type":"Header"}`, 1}, {0, "", 1}},
		},
		"no longer configured": {
			config: stickyConfig, calls: []call{{20, bySide, 1}, {20, "", 1}},
			change: func(rollout *v1alpha1.Rollout) { configure(rollout, config) },
		},
		"another one in the middle of a canary": {
			config: stickyConfig, calls: []call{{20, bySide, 1}, {20, byDefault, 1}},
			change: func(rollout *v1alpha1.Rollout) {
				configure(rollout, `{"httpRoute":"web","stickiness":{"cookie":{}}}`)
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := routertest.NewRoutesServer(t, experimental(), httpRoute("web"))
			router, rollout := newRouter(api), routertest.Rollout(gatewayapi.Type, test.config)
			for i, call := range test.calls {
				if i == len(test.calls)-1 && test.change != nil {
					test.change(rollout)
				}
				before := len(api.Requests(http.MethodPut, ""))
				if err := router.SetWeight(t.Context(), rollout, call.weight, nil); err != nil {
					t.Fatalf("weight %d: %v", call.weight, err)
				}
				got := fmt.Sprint(weights(api, "httproutes", "web"), " ", sessions(t, api, "httproutes", "web"))
				if want := fmt.Sprintf("%d/%d %s", 100-call.weight, call.weight, call.sessions); got != want {
					t.Errorf("call %d: the route has %s, want %s", i, got, want)
				}
				if writes := len(api.Requests(http.MethodPut, "")) - before; writes != call.writes {
					t.Errorf("call %d: %d writes, want %d", i, writes, call.writes)
				}
			}
		})
	}
}

// configure changes the router's configuration.
func configure(rollout *v1alpha1.Rollout, config string) {
	rollout.Spec.Strategy.Canary.TrafficRouting.Plugins[gatewayapi.Type] = []byte(config)
}

// TestStickinessOfGRPCRoutes: a GRPCRoute has the same field.
func TestStickinessOfGRPCRoutes(t *testing.T) {
	t.Parallel()
	api := routertest.NewRoutesServer(t, experimental(), routeOf("GRPCRoute", "web"))
	rollout := routertest.Rollout(gatewayapi.Type, `{"grpcRoute":"web","stickiness":{"cookie":{}}}`)
	if err := newRouter(api).SetWeight(t.Context(), rollout, 20, nil); err != nil {
		t.Fatal(err)
	}
	if got := sessions(t, api, "grpcroutes", "web"); got != byDefault {
		t.Errorf("sessions %s", got)
	}
}

// TestStickinessOfTheAuthor: sessions of the route's author stay. With stickiness in the Rollout they are an error as
// long as weights would depend on them, so that nothing but the end of a canary is written.
func TestStickinessOfTheAuthor(t *testing.T) {
	t.Parallel()
	const own = `{"sessionName":"mine","type":"Cookie"}`
	api := routertest.NewRoutesServer(t, experimental(), withSessions("HTTPRoute", "web", own))
	router, rollout := newRouter(api), routertest.Rollout(gatewayapi.Type, stickyConfig)
	err := router.SetWeight(t.Context(), rollout, 20, nil)
	const want = `HTTPRoute "shop/web" of rollout "shop/web": conflict with something that this Rollout does not own: ` +
		`spec.rules[0].sessionPersistence is set`
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("error is\n%v, want\n%s…", err, want)
	}
	if writes := len(api.Requests(http.MethodPut, "")); writes != 0 {
		t.Errorf("%d writes, want none", writes)
	}
	configure(rollout, config)
	for _, weight := range []int32{20, 0, 20} {
		if err := router.SetWeight(t.Context(), rollout, weight, nil); err != nil {
			t.Fatal(err)
		}
		if got := sessions(t, api, "httproutes", "web"); got != own {
			t.Errorf("at %d the author's sessions are %s", weight, got)
		}
	}
	configure(rollout, stickyConfig)
	if err := router.SetWeight(t.Context(), rollout, 50, nil); err == nil || weights(api, "httproutes", "web") != "80/20" {
		t.Errorf("stickiness in the middle of a canary: %v, weights %s", err, weights(api, "httproutes", "web"))
	}
	if err := router.SetWeight(t.Context(), rollout, 0, nil); err != nil || sessions(t, api, "httproutes", "web") != own {
		t.Errorf("the end of the canary: %v, sessions %s", err, sessions(t, api, "httproutes", "web"))
	}
}

// noSessions is the error for CRDs without sessions.
const noSessions = `HTTPRoute "shop/web" of rollout "shop/web": not supported by this route: the CRD of HTTPRoute in the ` +
	`cluster has no spec.rules[].sessionPersistence, which stickiness needs, so the weights of this route are not raised: ` +
	`install the experimental channel of the Gateway API, or remove stickiness from the Rollout`

// TestStickinessNeedsTheExperimentalChannel: without the field in the CRD, no weight of a canary is written. The end of
// a canary is.
func TestStickinessNeedsTheExperimentalChannel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := routertest.NewRoutesInMemory(t, newest(), httpRoute("web"), httpRoute("another"))
		router := newRouter(api)
		rollout := routertest.Rollout(gatewayapi.Type, `{"httpRoutes":[{"name":"another"},{"name":"web"}],"stickiness":{"cookie":{}}}`)
		if err := router.SetWeight(deadlined(t), rollout, 0, nil); err != nil {
			t.Errorf("at rest: %v", err)
		}
		writes := len(api.Requests(http.MethodPut, ""))
		err := router.SetWeight(deadlined(t), rollout, 20, nil)
		if err == nil || !strings.Contains(err.Error(), noSessions) || len(api.Requests(http.MethodPut, "")) != writes {
			t.Errorf("error is\n%v, want\n%s\nand no write", err, noSessions)
		}
		if verified, err := router.VerifyWeight(deadlined(t), rollout, 20, nil); verified || err != nil {
			t.Errorf("VerifyWeight: %v, %v", verified, err)
		}
		// The CRD is replaced: the router notices it within seconds, not after the lifetime of its catalog.
		api.Publish(experimental())
		<-time.After(11 * time.Second)
		if err := router.SetWeight(deadlined(t), rollout, 20, nil); err != nil {
			t.Errorf("with the experimental channel: %v", err)
		}
		if got := sessions(t, api, "httproutes", "another"); got != byDefault {
			t.Errorf("sessions %s", got)
		}
	})
}

// TestStickinessWithoutASchema: if the schema may not be read, or the CRD was replaced since, the API server rejects
// the write instead of dropping the field.
func TestStickinessWithoutASchema(t *testing.T) {
	t.Parallel()
	forbid := func(api *routertest.RoutesServer) {
		api.PutOther("/openapi/v3/apis/gateway.networking.k8s.io/v1", routertest.RespondError(
			apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no rule"))))
	}
	for name, test := range map[string]struct {
		schema routertest.Schema
		change func(*routertest.RoutesServer)
		want   string
	}{
		"experimental, not readable": {experimental(), forbid, ""},
		"standard, not readable":     {newest(), forbid, noSessions},
		"replaced since":             {experimental(), (*routertest.RoutesServer).DropSessions, noSessions},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := routertest.NewRoutesServer(t, test.schema, httpRoute("web"))
			test.change(api)
			rollout := routertest.Rollout(gatewayapi.Type, `{"httpRoute":"web","stickiness":{"cookie":{}}}`)
			err := newRouter(api).SetWeight(t.Context(), rollout, 20, nil)
			switch {
			case test.want == "" && (err != nil || sessions(t, api, "httproutes", "web") != byDefault):
				t.Errorf("%v, sessions %s", err, sessions(t, api, "httproutes", "web"))
			case test.want != "" && (err == nil || err.Error() != test.want || weights(api, "httproutes", "web") == "80/20"):
				t.Errorf("error is\n%v, want\n%s\nand no weights, got %s", err, test.want, weights(api, "httproutes", "web"))
			}
		})
	}
}

// TestGatewayWithoutSessions: a Gateway that reports that it does not implement the sessions blocks the step, also if it
// accepts the route.
func TestGatewayWithoutSessions(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		condition, status, reason, message string
		config                             string
		first, later                       bool
	}{
		"accepted without the field": {
			"Accepted", "True", "UnsupportedField", "spec.rules[0].sessionPersistence: Forbidden", stickyConfig, false, false,
		},
		"a value is not supported": {
			"Accepted", "False", "UnsupportedValue", "Session persistence needs NGINX Plus", stickyConfig, false, false,
		},
		"a rule is dropped": {
			"PartiallyInvalid", "True", "UnsupportedValue", "session persistence of type Header", stickyConfig, false, false,
		},
		"another field": {"Accepted", "True", "UnsupportedField", "spec.rules[0].retry", stickyConfig, true, true},
		"a filter is not supported": {
			"Accepted", "False", "UnsupportedValue", "filter RequestMirror", stickyConfig, false, false,
		},
		"no stickiness": {
			"Accepted", "True", "UnsupportedField", "spec.rules[0].sessionPersistence: Forbidden", config, true, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				api := routertest.NewRoutesInMemory(t, experimental(), httpRoute("web"))
				router, rollout := newRouter(api), routertest.Rollout(gatewayapi.Type, test.config)
				if err := router.SetWeight(deadlined(t), rollout, 20, nil); err != nil {
					t.Fatal(err)
				}
				api.Accept("httproutes", "shop", "web", true)
				api.Change("httproutes", "shop", "web", func(route map[string]any) {
					setCondition(route, map[string]any{
						"type": test.condition, "status": test.status, "reason": test.reason, "message": test.message,
						"observedGeneration": route["metadata"].(map[string]any)["generation"],
					})
				})
				for i, want := range []bool{test.first, test.later} {
					after := time.Duration(i) * 70 * time.Second
					<-time.After(after)
					verified, err := router.VerifyWeight(deadlined(t), rollout, 20, nil)
					if err != nil || verified != want {
						t.Errorf("after %v: VerifyWeight: %v, %v; want %v", after, verified, err, want)
					}
				}
				if test.later {
					return
				}
				fix := "remove stickiness"
				if name == "a filter is not supported" {
					fix = "verifyRouteStatus: false"
				}
				events := api.Events()
				if len(events) != 1 || events[0].Reason != "WeightNotVerified" ||
					!strings.Contains(events[0].Message, test.message) || !strings.Contains(events[0].Message, fix) {
					t.Errorf("events %+v, want one that names the condition and the fix", events)
				}
			})
		})
	}
}

// setCondition replaces or adds a condition of the only parent.
func setCondition(route, condition map[string]any) {
	parents := route["status"].(map[string]any)["parents"].([]any)
	parent := parents[0].(map[string]any)
	conditions := []any{condition}
	for _, other := range parent["conditions"].([]any) {
		if other.(map[string]any)["type"] != condition["type"] {
			conditions = append(conditions, other)
		}
	}
	parent["conditions"] = conditions
}
