package interceptorroutes

import (
	"maps"
	"slices"
	"testing"
	"time"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// rejected is the response to a request that matches no route.
const rejected = "404"

// routing is one scenario: the rules of InterceptorRoutes by their app, and which app receives each request.
type routing struct {
	routes map[string]string
	want   map[request]string
}

// routings returns the scenarios by name.
func routings() map[string]routing {
	all := map[string]routing{}
	maps.Copy(all, byHost())
	maps.Copy(all, byPathAndHeader())
	maps.Copy(all, bySeveralRules())
	return all
}

// byHost returns the scenarios with hosts only.
func byHost() map[string]routing {
	return map[string]routing{
		"a host": {
			map[string]string{"host": "rules: [{hosts: [host.test]}]"},
			map[request]string{{host: "host.test"}: "host", {host: "unknown.host.test"}: rejected},
		},
		"several hosts": {
			map[string]string{"hosts": "rules: [{hosts: [a.hosts.test, b.hosts.test]}]"},
			map[request]string{
				{host: "a.hosts.test"}: "hosts", {host: "b.hosts.test"}: "hosts", {host: "c.hosts.test"}: rejected,
			},
		},
		"a wildcard host": {
			map[string]string{
				"exact":    "rules: [{hosts: [exact.wild.test]}]",
				"wildcard": "rules: [{hosts: ['*.wild.test']}]",
				"deeper":   "rules: [{hosts: ['*.deep.wild.test']}]",
			},
			map[request]string{
				{host: "exact.wild.test"}: "exact", {host: "any.wild.test"}: "wildcard", {host: "any.deep.wild.test"}: "deeper",
				{host: "unmatched.other.test"}: rejected,
			},
		},
	}
}

// byPathAndHeader returns the scenarios with one condition or two.
func byPathAndHeader() map[string]routing {
	return map[string]routing{
		"a path": {
			map[string]string{
				"path-a": "rules: [{hosts: [path.test], paths: [{value: /svc-a}]}]",
				"path-b": "rules: [{hosts: [path.test], paths: [{value: /svc-b}]}]",
			},
			map[request]string{
				{host: "path.test", path: "/svc-a"}: "path-a", {host: "path.test", path: "/svc-a/x"}: "path-a",
				{host: "path.test", path: "/svc-b"}: "path-b", {host: "path.test", path: "/unknown"}: rejected,
				{host: "path.test", path: "/svc-abc"}: rejected,
			},
		},
		"a host and a path": {
			map[string]string{
				"both-a": "rules: [{hosts: [a.both.test], paths: [{value: /svc}]}]",
				"both-b": "rules: [{hosts: [b.both.test], paths: [{value: /svc}]}]",
			},
			map[request]string{
				{host: "a.both.test", path: "/svc"}: "both-a", {host: "b.both.test", path: "/svc"}: "both-b",
				{host: "unknown.both.test", path: "/svc"}: rejected,
			},
		},
		"the value of a header": {
			map[string]string{
				"foo": "rules: [{headers: [{name: X-Route, value: foo}]}]",
				"bar": "rules: [{headers: [{name: X-Route, value: bar}]}]",
			},
			map[request]string{
				{host: "header.test", header: "X-Route: foo"}: "foo", {host: "header.test", header: "x-route: bar"}: "bar",
				{host: "header.test"}: rejected, {host: "header.test", header: "X-Route: Foo"}: rejected,
			},
		},
		"the presence of a header": {
			map[string]string{
				"verbose": "rules: [{hosts: [presence.test], headers: [{name: X-Debug, value: verbose}]}]",
				"present": "rules: [{hosts: [presence.test], headers: [{name: X-Debug}]}]",
			},
			map[request]string{
				{host: "presence.test", header: "X-Debug: verbose"}: "verbose",
				{host: "presence.test", header: "X-Debug: minimal"}: "present",
				{host: "presence.test"}:                             rejected,
			},
		},
		"the name of a port": {
			map[string]string{"port-name": "target: {service: port-name, portName: web}, rules: [{hosts: [port.test]}]"},
			map[request]string{{host: "port.test"}: "port-name"},
		},
	}
}

// bySeveralRules returns the scenarios in which a route has several rules, or several routes match a request.
func bySeveralRules() map[string]routing {
	return map[string]routing{
		"several rules of one route": {
			map[string]string{"rules": "rules: [{hosts: [a.rules.test]}, {hosts: [b.rules.test], paths: [{value: /svc}]}]"},
			map[request]string{
				{host: "a.rules.test"}: "rules", {host: "a.rules.test", path: "/any"}: "rules",
				{host: "b.rules.test", path: "/svc"}: "rules", {host: "b.rules.test", path: "/other"}: rejected,
				{host: "unknown.rules.test"}: rejected,
			},
		},
		"the precedence of rules": {
			map[string]string{
				"everything": "rules: [{hosts: [order.test]}]",
				"short":      "rules: [{hosts: [order.test], paths: [{value: /a}]}]",
				"long":       "rules: [{hosts: [order.test], paths: [{value: /a/b}]}, {hosts: [order.test], paths: [{value: /c}]}]",
				"tenant":     "rules: [{hosts: [order.test], paths: [{value: /a}], headers: [{name: X-Tenant, value: '1'}]}]",
				"any-tenant": "rules: [{hosts: [order.test], paths: [{value: /a}], headers: [{name: X-Tenant}]}]",
			},
			map[request]string{
				{host: "order.test"}: "everything", {host: "order.test", path: "/a"}: "short",
				{host: "order.test", path: "/a/b/c"}: "long", {host: "order.test", path: "/c"}: "long",
				{host: "order.test", path: "/a", header: "X-Tenant: 1"}:   "tenant",
				{host: "order.test", path: "/a", header: "X-Tenant: 2"}:   "any-tenant",
				{host: "order.test", path: "/a/b", header: "X-Tenant: 1"}: "long",
				{host: "order.test", path: "/", header: "X-Tenant: 1"}:    "everything",
			},
		},
	}
}

// TestRouting creates the InterceptorRoutes of each scenario, and sends its requests.
func TestRouting(t *testing.T) {
	scenarios := routings()
	for _, name := range slices.Sorted(maps.Keys(scenarios)) {
		t.Run(name, func(t *testing.T) {
			for app, fields := range scenarios[name].routes {
				shared.readyApp(t, app)
				shared.addRoute(t, app, fields)
			}
			expect(t, scenarios[name].want)
		})
	}
}

// TestOlderRoute: of two routes with equal rules the older one is served, until it is deleted.
func TestOlderRoute(t *testing.T) {
	const rules = "rules: [{hosts: [equal.test]}]"
	shared.readyApp(t, "z-older")
	shared.addRoute(t, "z-older", rules)
	shared.readyApp(t, "a-younger")
	created := shared.route(t, "z-older").CreationTimestamp.Unix() // Kubernetes stores seconds.
	await.True(t, "another second", func() bool { return time.Now().Unix() > created })
	shared.setRoute(t, "a-younger", rules)
	shared.awaitReason(t, "a-younger", httpv1alpha1.ConditionAccepted, httpv1alpha1.ReasonRouteConflict)
	expect(t, map[request]string{{host: "equal.test"}: "z-older"})
	shared.remove(t, "z-older")
	shared.awaitProgrammed(t, "a-younger")
	expect(t, map[request]string{{host: "equal.test"}: "a-younger"})
}
