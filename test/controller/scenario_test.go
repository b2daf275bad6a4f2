package controller_test

import (
	"fmt"
	"strings"
)

// inProgress is the label of a route with a canary under way.
const inProgress = "\nrollouts.argoproj.io/gatewayapi-canary=in-progress"

// httpRoute returns an HTTPRoute with rules, which are in YAML's flow style.
func httpRoute(name string, rules ...string) string {
	return fmt.Sprintf("{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {name: %s}, "+
		"spec: {parentRefs: [{name: gateway}], rules: [%s]}}",
		name, strings.Join(rules, ", "))
}

// rule returns a rule of an HTTPRoute with further fields and backends, in the format of the route.
func rule(path, further string, backends ...string) string {
	refs := make([]string, 0, len(backends))
	for _, backend := range backends {
		name, weight, weighted := strings.Cut(backend, ":")
		if weighted {
			weight = ", weight: " + weight
		}
		refs = append(refs, fmt.Sprintf("{name: %s, port: 80%s}", name, weight))
	}
	if further != "" {
		further += ", "
	}
	return fmt.Sprintf("{matches: [{path: {type: PathPrefix, value: %s}}], %sbackendRefs: [%s]}", path, further,
		strings.Join(refs, ", "))
}

// headerStep returns a step that sets a header route.
func headerStep(name, header, value string) string {
	return fmt.Sprintf("{setHeaderRoute: {name: %s, match: [{headerName: %s, headerValue: {exact: %s}}]}}", name, header,
		value)
}

func weightSteps(s *environment) {
	s.apply(httpRoute("web", rule("/", "", "web-stable", "web-canary")))
	s.rollout("web", "{httpRoute: web}", "[]", "[{setWeight: 20}, {pause: {}}, {setWeight: 60}, {pause: {}}]")
	s.expectRoute("weights that are absent are filled in", "httproutes/web", "/ -> web-stable:100 web-canary:0")
	s.update("web", "2")
	s.expectRoute("first step", "httproutes/web", "/ -> web-stable:80 web-canary:20"+inProgress)
	s.promote("web")
	s.expectRoute("second step", "httproutes/web", "/ -> web-stable:40 web-canary:60"+inProgress)
	s.paused("web")
	s.finish("web")
	s.expectRoute("promoted", "httproutes/web", "/ -> web-stable:100 web-canary:0")
	s.event("web", "Traffic weight updated from 20 to 60")
}

func abortRestoresRoute(s *environment) {
	s.apply(httpRoute("web", rule("/", "", "web-stable", "web-canary")))
	s.rollout("web", "{httpRoute: web}", "[{name: qa}]",
		"["+headerStep("qa", "role", "qa")+", {setWeight: 20}, {pause: {}}]")
	s.update("web", "2")
	s.expectRoute("in the canary", "httproutes/web",
		"/ -> web-stable:80 web-canary:20\n/ role=qa -> web-canary:1"+inProgress)
	s.abort("web")
	s.expectRoute("aborted", "httproutes/web", "/ -> web-stable:100 web-canary:0")
}

func fullPromotionRemovesHeaderRoutes(s *environment) {
	s.apply(httpRoute("web", rule("/", "", "web-stable", "web-canary")))
	s.rollout("web", "{httpRoute: web}", "[{name: qa}]",
		"[{setWeight: 50}, "+headerStep("qa", "role", "qa")+", {pause: {}}, {setWeight: 60}, {pause: {}}]")
	s.update("web", "2")
	s.expectRoute("in the canary", "httproutes/web",
		"/ -> web-stable:50 web-canary:50\n/ role=qa -> web-canary:1"+inProgress)
	s.merge(s.path("web")+"/status", `{"status":{"promoteFull":true}}`)
	s.expectRoute("promoted in full", "httproutes/web", "/ -> web-stable:100 web-canary:0")
}

func headerRouteOrder(s *environment) {
	s.apply(httpRoute("web", rule("/", "", "web-stable", "web-canary")))
	s.rollout("web", "{httpRoutes: [{name: web, useHeaderRoutes: true}]}", "[{name: first}, {name: second}]",
		"["+headerStep("second", "role", "qa")+", {setWeight: 20}, {pause: {}}, "+
			headerStep("first", "x-user", "me")+", {pause: {}}, {setHeaderRoute: {name: second}}, {pause: {}}]")
	s.update("web", "2")
	s.expectRoute("header before weight", "httproutes/web",
		"/ -> web-stable:80 web-canary:20\n/ role=qa -> web-canary:1"+inProgress)
	s.promote("web")
	s.expectRoute("the second one", "httproutes/web",
		"/ -> web-stable:80 web-canary:20\n/ x-user=me -> web-canary:1\n/ role=qa -> web-canary:1"+inProgress)
	s.paused("web")
	s.promote("web")
	s.expectRoute("a step without matches", "httproutes/web",
		"/ -> web-stable:80 web-canary:20\n/ x-user=me -> web-canary:1"+inProgress)
	s.paused("web")
	s.finish("web")
	s.expectRoute("promoted", "httproutes/web", "/ -> web-stable:100 web-canary:0")
}

func rulesWithBothServices(s *environment) {
	const filters = "filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: x-a, value: b}]}}]"
	s.apply(httpRoute("web",
		rule("/a", filters, "web-stable:100", "web-canary:0"),
		rule("/b", filters, "other:7", "web-canary", "web-stable", "another:3"),
		rule("/only-canary", "", "web-canary"),
		rule("/foreign", filters, "other:1")))
	s.rollout("web", "{httpRoute: web}", "[{name: qa}]",
		"[{setWeight: 25}, "+headerStep("qa", "role", "qa")+", {pause: {}}]")
	rest := "\n/only-canary -> web-canary:1\n/foreign +RequestHeaderModifier -> other:1"
	s.update("web", "2")
	s.expectRoute("weight before header", "httproutes/web", "/a +RequestHeaderModifier -> web-stable:75 web-canary:25\n"+
		"/b +RequestHeaderModifier -> other:7 web-canary:25 web-stable:75 another:3"+rest+
		"\n/a role=qa +RequestHeaderModifier -> web-canary:1\n/b role=qa +RequestHeaderModifier -> web-canary:1"+inProgress)
	s.finish("web")
	s.expectRoute("promoted", "httproutes/web", "/a +RequestHeaderModifier -> web-stable:100 web-canary:0\n"+
		"/b +RequestHeaderModifier -> other:7 web-canary:0 web-stable:100 another:3"+rest)
}

func twoRolloutsOnOneRoute(s *environment) {
	s.apply(httpRoute("shared", rule("/web", "", "web-stable", "web-canary"),
		rule("/api", "", "api-stable", "api-canary")))
	for _, name := range []string{"web", "api"} {
		s.rollout(name, "{httpRoute: shared}", "[{name: qa-"+name+"}]",
			"["+headerStep("qa-"+name, "role", name)+", {setWeight: 20}, {pause: {}}]")
		s.update(name, "2")
	}
	s.expectRoute("both in a canary", "httproutes/shared",
		"/web -> web-stable:80 web-canary:20\n/api -> api-stable:80 api-canary:20\n"+
			"/api role=api -> api-canary:1\n/web role=web -> web-canary:1"+inProgress)
	s.finish("web")
	s.expectRoute("one promoted", "httproutes/shared",
		"/web -> web-stable:100 web-canary:0\n/api -> api-stable:80 api-canary:20\n/api role=api -> api-canary:1"+inProgress)
	s.abort("api")
	s.expectRoute("the other aborted", "httproutes/shared",
		"/web -> web-stable:100 web-canary:0\n/api -> api-stable:100 api-canary:0")
}

func routeInOtherNamespace(s *environment) {
	gateways := s.namespace + "-gw"
	s.apply("{apiVersion: v1, kind: Namespace, metadata: {name: "+gateways+"}}",
		strings.ReplaceAll(strings.ReplaceAll(httpRoute("web, namespace: "+gateways,
			rule("/", "", "web-stable", "web-canary"), rule("/alike", "", "web-stable:1", "web-canary:1")),
			"{name: web-stable, port: 80}", "{name: web-stable, port: 80, namespace: "+s.namespace+"}"),
			"{name: web-canary, port: 80}", "{name: web-canary, port: 80, namespace: "+s.namespace+"}"))
	s.rollout("web", "{httpRoutes: [{name: web, namespace: "+gateways+"}]}", "[]", "[{setWeight: 20}, {pause: {}}]")
	s.update("web", "2")
	s.expectRouteIn("in the canary", gateways, "httproutes/web",
		"/ -> web-stable:80 web-canary:20\n/alike -> web-stable:1 web-canary:1"+inProgress)
	s.finish("web")
	s.expectRouteIn("promoted", gateways, "httproutes/web",
		"/ -> web-stable:100 web-canary:0\n/alike -> web-stable:1 web-canary:1")
}

func headerOnlyCanaryHasLabel(s *environment) {
	s.apply(httpRoute("web", rule("/", "", "web-stable", "web-canary")))
	s.rollout("web", "{httpRoute: web}", "[{name: qa}]",
		"[{setCanaryScale: {replicas: 1}}, "+headerStep("qa", "role", "qa")+", {pause: {}}]")
	s.update("web", "2")
	s.expectRoute("paused", "httproutes/web", "/ -> web-stable:100 web-canary:0\n/ role=qa -> web-canary:1"+inProgress)
	s.finish("web")
	s.expectRoute("promoted", "httproutes/web", "/ -> web-stable:100 web-canary:0")
}

func ruleLimitError(s *environment) {
	var rules, want []string
	for i := range 9 {
		rules = append(rules, rule(fmt.Sprint("/", i), "", "web-stable", "web-canary"))
		want = append(want, fmt.Sprintf("/%d -> web-stable:100 web-canary:0", i))
	}
	s.apply(httpRoute("web", rules...))
	s.rollout("web", "{httpRoute: web}", "[{name: qa}]",
		"[{setCanaryScale: {replicas: 1}}, "+headerStep("qa", "role", "qa")+", {pause: {}}]")
	s.merge(s.path("web"), `{"spec":{"template":{"metadata":{"annotations":{"version":"2"}}}}}`)
	s.event("web", fmt.Sprintf("HTTPRoute %[1]q of rollout %[1]q: exceeds a limit of the Gateway API: "+
		"spec.rules would have 18 rules, "+
		"9 of them for managed routes (one for each managed route and each rule that has both Services), the maximum is 16",
		s.namespace+"/web"))
	s.expectRoute("nothing is written", "httproutes/web", strings.Join(want, "\n"))
}

func otherRouteKinds(s *environment) {
	resources := map[string]string{
		"TCPRoute": "", "UDPRoute": "", "GRPCRoute": "", "TLSRoute": "hostnames: [a.example.com], ",
	}
	var given []string
	for kind, further := range resources {
		s.apply(fmt.Sprintf("{apiVersion: gateway.networking.k8s.io/%s, kind: %s, metadata: {name: web}, "+
			"spec: {parentRefs: [{name: gateway}], %s"+
			"rules: [{backendRefs: [{name: web-stable, port: 80}, {name: web-canary, port: 80}]}]}}",
			s.release.versions[strings.ToLower(kind)+"s"], kind, further))
		given = append(given, strings.ToLower(strings.TrimSuffix(kind, "Route"))+"Route: web")
	}
	s.rollout("web", "{"+strings.Join(given, ", ")+"}", "[]", "[{setWeight: 30}, {pause: {}}]")
	s.update("web", "2")
	for kind := range resources {
		s.expectRoute("in the canary", strings.ToLower(kind)+"s/web", "-> web-stable:70 web-canary:30"+inProgress)
	}
	s.finish("web")
	for kind := range resources {
		s.expectRoute("promoted", strings.ToLower(kind)+"s/web", "-> web-stable:100 web-canary:0")
	}
}
