package controller_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/kedify/argo-rollouts-plugin/test/kit/rolloutscontroller"
)

// accept reports the status of a Gateway that accepts the current generation of the HTTPRoute web.
func (s *environment) accept() {
	s.t.Helper()
	path := "/apis/gateway.networking.k8s.io/v1/namespaces/" + s.namespace + "/httproutes/web"
	var route struct{ Metadata struct{ Generation int64 } }
	body, err := s.admin.Get().AbsPath(path).DoRaw(s.t.Context())
	if err == nil {
		err = json.Unmarshal(body, &route)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	condition := func(kind string) string {
		return fmt.Sprintf(`{"type":%q,"status":"True","reason":%q,"message":"","observedGeneration":%d,`+
			`"lastTransitionTime":"2026-01-01T00:00:00Z"}`, kind, kind, route.Metadata.Generation)
	}
	s.merge(path+"/status", fmt.Sprintf(`{"status":{"parents":[{"parentRef":{"name":"silent"},`+
		`"controllerName":"example.com/gateway","conditions":[%s,%s]}]}}`, condition("Accepted"), condition("ResolvedRefs")))
}

// versions returns the hashes of the stable version and of the current one of the Rollout web.
func (s *environment) versions(ctx context.Context) (stable, current string) {
	var read struct {
		Status struct{ StableRS, CurrentPodHash string }
	}
	body, err := s.admin.Get().AbsPath(s.path("web")).DoRaw(ctx)
	if err == nil {
		err = json.Unmarshal(body, &read)
	}
	if err != nil {
		s.t.Error(err)
	}
	return read.Status.StableRS, read.Status.CurrentPodHash
}

// silence starts a canary whose Gateway accepts the first weight, and then reports nothing for more than a minute after
// the full weight.
func silence(s *environment) {
	route := httpRoute("web", rule("/", "", "web-stable", "web-canary"))
	s.apply(strings.ReplaceAll(route, "{name: gateway}", "{name: "+rolloutscontroller.SilentGateway+"}"))
	s.rollout("web", "{httpRoute: web}", "[]", "[{setWeight: 50}, {pause: {}}]")
	s.accept()
	s.merge(s.path("web"), `{"spec":{"template":{"metadata":{"annotations":{"version":"2"}}}}}`)
	s.expectRoute("first step", "httproutes/web", "/ -> web-stable:50 web-canary:50"+inProgress)
	s.accept()
	s.paused("web")
	s.promote("web")
	s.expectRoute("the full weight", "httproutes/web", "/ -> web-stable:0 web-canary:100"+inProgress)
	s.event("web", "(example.com/gateway): condition Accepted is about generation")
	if stable, current := s.versions(s.t.Context()); stable == current {
		s.t.Errorf("version %s is promoted without a report of the Gateway", current)
	}
}

func silentGatewayStopsPromotion(s *environment) {
	silence(s)
	s.accept()
	s.await("the Rollout is promoted", "Healthy", func(ctx context.Context) string { return s.phase(ctx, "web") })
	s.expectRoute("promoted", "httproutes/web", "/ -> web-stable:100 web-canary:0")
}

func silentGatewayAllowsAbort(s *environment) {
	silence(s)
	s.abort("web")
	s.expectRoute("aborted", "httproutes/web", "/ -> web-stable:100 web-canary:0")
}
