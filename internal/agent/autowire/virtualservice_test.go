package autowire_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/autowire"
	"github.com/kedify/argo-rollouts-plugin/internal/trigger"
)

// shopService is a VirtualService with much that is not ours.
const shopService = `
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: web, namespace: team, annotations: {team: a}}
spec:
  gateways: [istio-system/public, mesh]
  hosts: [shop.test, "*.www.test"]
  exportTo: ["."]
  http:
  - name: old
    match: [{uri: {prefix: /old}}]
    redirect: {uri: /}
  - name: cart
    match: [{uri: {prefix: /cart}, headers: {tenant: {exact: a}}}]
    route: [{destination: {host: cart, port: {number: 80}}}]
  - name: static
    match: [{uri: {exact: /robots.txt}}]
    directResponse: {status: 404}
  - name: team
    match: [{uri: {prefix: /team}}]
    delegate: {name: team, namespace: other}
  - match: [{uri: {prefix: /}, withoutHeaders: {x-internal: {}}, name: all}]
    route:
    - {destination: {host: other, port: {number: 80}}, weight: 10, headers: {request: {remove: [a]}}}
    - {destination: {host: shop, port: {number: 80}}, weight: 60}
    - {destination: {host: shop.team.svc.cluster.local, port: {number: 80}}, weight: 10}
    - {destination: {host: shop.elsewhere.svc.cluster.local, port: {number: 80}}, weight: 10}
    - {destination: {host: shop.team, port: {number: 80}}, weight: 10}
    fault: {delay: {fixedDelay: 1s, percentage: {value: 1}}}
    mirrors: [{destination: {host: shop, port: {number: 80}}, percentage: {value: 10}}]
    retries: {attempts: 2, perTryTimeout: 2s}
    timeout: 10s
    headers: {response: {remove: [b]}}
    corsPolicy: {allowMethods: [GET]}
  tcp: [{match: [{port: 9000}], route: [{destination: {host: shop, port: {number: 80}}}]}]
  tls: [{match: [{sniHosts: [shop.test]}], route: [{destination: {host: shop, port: {number: 80}}}]}]
`

// TestWireVirtualService compares one complete VirtualService before, while and after it is wired.
func TestWireVirtualService(t *testing.T) {
	t.Parallel()
	w := newFixture(t, shopService)
	w.Targets = []autowire.Target{target("shop", "shop.test", "*.www.test")}
	found := w.converge(t)
	want := strings.Replace(shopService, "{host: shop, port: {number: 80}}, weight: 60", "{host: kedify-proxy, port: {number: 8080}}, weight: 60", 1)
	want = strings.Replace(want, "{host: shop.team.svc.cluster.local, port: {number: 80}}", "{host: kedify-proxy.team.svc.cluster.local, port: {number: 8080}}", 1)
	tests := `{"op":"test","path":"/spec/hosts","value":["shop.test","*.www.test"]},` +
		`{"op":"test","path":"/spec/http/4/match","value":[{"name":"all","uri":{"prefix":"/"},"withoutHeaders":{"x-internal":{}}}]},`
	want = strings.Replace(want, "team: a", `team: a, http.kedify.io/autowire-undo: '[`+
		tests+`{"op":"test","path":"/spec/http/4/route/1/destination/host","value":"kedify-proxy"},`+
		`{"op":"replace","path":"/spec/http/4/route/1/destination/host","value":"shop"},`+
		`{"op":"replace","path":"/spec/http/4/route/1/destination/port/number","value":80},`+
		tests+`{"op":"test","path":"/spec/http/4/route/2/destination/host","value":"kedify-proxy.team.svc.cluster.local"},`+
		`{"op":"replace","path":"/spec/http/4/route/2/destination/host","value":"shop.team.svc.cluster.local"},`+
		`{"op":"replace","path":"/spec/http/4/route/2/destination/port/number","value":80},`+
		`{"op":"remove","path":"/metadata/annotations/http.kedify.io~1autowire-undo","value":null}]'`, 1)
	if diff := cmp.Diff(asYAML(t, canonicalJSON(t, want)), asYAML(t, w.stored[0])); diff != "" {
		t.Errorf("wired (-want +got):\n%s", diff)
	}
	says := fmt.Sprintf("%s: %s", found.Changes[0].Reason, found.Changes[0].Message)
	if want := "Wired: backends for shop.test/ and others, shop.test/ and others point to Service kedify-proxy"; says != want {
		t.Errorf("Event %q, want %q", says, want)
	}
	condition := found.Conditions["shop"]
	if condition.Status != "True" || condition.Reason != "Wired" ||
		condition.Message != "VirtualService web, shop.test/ and others; VirtualService web, shop.test/ and others" {
		t.Errorf("condition %+v", condition)
	}
	w.isOriginal(t, shopService)
}

// isOriginal fails unless the first object, unwired by the agent and by its annotation, is the original.
func (w *fixture) isOriginal(t *testing.T, original string) {
	t.Helper()
	if diff := cmp.Diff(canonicalJSON(t, original), w.unwired(t)[0]); diff != "" {
		t.Errorf("unwired (-want +got):\n%s", diff)
	}
	record := annotation(t, w.stored[0], undo)
	if record == "" {
		record = "[]"
	}
	if diff := cmp.Diff(canonicalJSON(t, original), patched(t, w.stored[0], record)); diff != "" {
		t.Errorf("unwired by the annotation (-want +got):\n%s", diff)
	}
}

// virtualService returns a VirtualService with one HTTP route, given as YAML, for hosts.
func virtualService(hosts, rule string) string {
	return `{kind: VirtualService, metadata: {name: web, namespace: team}, spec: {hosts: [` + hosts + `], http: [{` + rule + `}]}}`
}

// destinationShop is a route to the application.
const destinationShop = `route: [{destination: {host: shop, port: {number: 80}}}]`

// TestVirtualServiceConditions has one HTTP route in each case.
func TestVirtualServiceConditions(t *testing.T) {
	t.Parallel()
	paths := func(prefixes ...string) autowire.Target {
		made := target("shop", "shop.test")
		made.PathPrefixes = prefixes
		return made
	}
	of := func(kind trigger.AutowireKind) autowire.Target {
		made := target("shop", "shop.test")
		made.Kinds = []trigger.AutowireKind{kind}
		return made
	}
	shared := target("shop", "shop.test")
	shared.IsShared = true
	matching := func(kind, value string) string {
		return `match: [{uri: {` + kind + `: ` + value + `}}], ` + destinationShop
	}
	to := func(destination string) string { return `route: [{destination: {` + destination + `}}]` }
	const wired, none = "Wired: VirtualService web, shop.test/", "NoMatchingBackend"
	tests := map[string]struct {
		service string
		target  autowire.Target
		says    string // the condition's reason, and a part of its message
	}{
		"same host":                      {virtualService("shop.test", destinationShop), target("shop", "shop.test"), wired},
		"another host":                   {virtualService("cart.test", destinationShop), target("shop", "shop.test"), "NoMatchingBackend: no Ingress, HTTPRoute, VirtualService or Route has a backend with Service shop"},
		"one of two hosts":               {virtualService("cart.test, shop.test", destinationShop), target("shop", "shop.test"), "Wired: VirtualService web, cart.test/ and others (requests that match no trigger get status 404)"},
		"a delegate":                     {`{kind: VirtualService, metadata: {name: web, namespace: team}, spec: {http: [{` + destinationShop + `}]}}`, target("shop", "shop.test"), "Wired: VirtualService web, / (requests"},
		"a wildcard":                     {virtualService(`"*.test"`, destinationShop), target("shop", "shop.test"), "Wired: VirtualService web, *.test/ (requests"},
		"every host":                     {virtualService(`"*"`, destinationShop), target("shop", "shop.test"), "Wired: VirtualService web, */ (requests"},
		"a short name":                   {virtualService("shop", destinationShop), target("shop", "shop"), "Wired: VirtualService web, shop/ and others (requests"},
		"all names of a Service":         {virtualService("shop", destinationShop), target("shop", "shop", "shop.team", "shop.team.svc", "shop.team.svc.cluster.local"), "Wired: VirtualService web, shop/ and others"},
		"full name for a short one":      {virtualService("shop", destinationShop), target("shop", "shop.team.svc.cluster.local"), "Wired"},
		"short name for a full one":      {virtualService("shop.team.svc.corp", destinationShop), target("shop", "shop"), "Wired: VirtualService web, shop.team.svc.corp/ and others"},
		"full name of another namespace": {virtualService("shop.other.svc.cluster.local", destinationShop), target("shop", "shop.other"), "Wired: VirtualService web, shop.other.svc.cluster.local/ and others"},
		"no short name of another one":   {virtualService("shop.other.svc.cluster.local", destinationShop), target("shop", "shop"), none},
		"no HTTP route":                  {`{kind: VirtualService, metadata: {name: web, namespace: team}, spec: {hosts: [shop.test], tcp: [{` + destinationShop + `}]}}`, target("shop", "shop.test"), none},
		"another Service":                {virtualService("shop.test", to(`host: cart, port: {number: 80}`)), target("shop", "shop.test"), none},
		"another port":                   {virtualService("shop.test", to(`host: shop, port: {number: 81}`)), target("shop", "shop.test"), none},
		"no port, of two":                {virtualService("shop.test", to(`host: shop`)), target("shop", "shop.test"), none},
		"port out of range":              {virtualService("shop.test", to(`host: shop, port: {number: 4294967295}`)), target("shop", "shop.test"), none},
		"port without a number":          {virtualService("shop.test", to(`host: shop, port: {}`)), target("shop", "shop.test"), none},
		"no host":                        {virtualService("shop.test", to(`host: ""`)), target("shop", "shop.test"), none},
		"full name":                      {virtualService("shop.test", to(`host: shop.team.svc.cluster.local, port: {number: 80}`)), target("shop", "shop.test"), wired},
		"full name, another domain":      {virtualService("shop.test", to(`host: shop.team.svc.example.com, port: {number: 80}`)), target("shop", "shop.test"), wired},
		"of a ClusterSet":                {virtualService("shop.test", to(`host: shop.team.svc.clusterset.local, port: {number: 80}`)), target("shop", "shop.test"), none},
		"incomplete name":                {virtualService("shop.test", to(`host: shop.team.svc, port: {number: 80}`)), target("shop", "shop.test"), none},
		"in another namespace":           {virtualService("shop.test", to(`host: shop.b.svc.cluster.local, port: {number: 80}`)), target("shop", "shop.test"), none},
		"an external host":               {virtualService("shop.test", to(`host: shop.example.com, port: {number: 80}`)), target("shop", "shop.test"), none},
		"a subset": {
			virtualService("shop.test", to(`host: shop, subset: v1, port: {number: 80}`)), target("shop", "shop.test"),
			"UnsupportedSetting: VirtualService web, shop.test/: its destination selects subset v1 of a DestinationRule, and the " +
				"proxies would send requests to all Pods of Service shop; remove the subset, and let the Rollout split the traffic",
		},
		"a shorter prefix":               {virtualService("shop.test", matching("prefix", "/api/v1")), paths("/api"), "Wired: VirtualService web, shop.test/api/v1"},
		"a longer prefix":                {virtualService("shop.test", matching("prefix", "/")), paths("/api"), "Wired: VirtualService web, shop.test/ (requests"},
		"a part of a segment":            {virtualService("shop.test", matching("prefix", "/ap")), paths("/api"), "Wired: VirtualService web, shop.test/ap (requests"},
		"another prefix":                 {virtualService("shop.test", matching("prefix", "/api")), paths("/ap"), none},
		"another prefix, longer":         {virtualService("shop.test", matching("prefix", "/cart")), paths("/api"), none},
		"an exact path":                  {virtualService("shop.test", matching("exact", "/api")), paths("/api"), "Wired: VirtualService web, shop.test/api"},
		"exact path of another app":      {virtualService("shop.test", matching("exact", "/")), paths("/api"), none},
		"an expression":                  {virtualService("shop.test", matching("regex", `"/api/v[12]"`)), paths("/api"), "Wired"},
		"another expression":             {virtualService("shop.test", matching("regex", "/a/b.*")), paths("/api"), none},
		"one of two paths":               {virtualService("shop.test", `match: [{uri: {prefix: /x}}, {uri: {prefix: /api}}], `+destinationShop), paths("/api"), "Wired: VirtualService web, shop.test/x and others (requests"},
		"a header":                       {virtualService("shop.test", `match: [{headers: {a: {exact: b}}}], `+destinationShop), target("shop", "shop.test"), wired},
		"an authority":                   {virtualService(`"*.test"`, `match: [{authority: {exact: "shop.test:8080"}}], `+destinationShop), target("shop", "shop.test"), wired},
		"another authority":              {virtualService(`"*.test"`, `match: [{authority: {exact: cart.test}}], `+destinationShop), target("shop", "shop.test"), none},
		"an authority's prefix":          {virtualService("shop.test", `match: [{authority: {prefix: shop}}], `+destinationShop), target("shop", "shop.test"), wired},
		"another host by a rewrite":      {virtualService("shop.test", `rewrite: {authority: b.test}, `+destinationShop), target("shop", "shop.test"), none},
		"target host by a rewrite":       {virtualService("b.test", `rewrite: {authority: shop.test}, `+destinationShop), target("shop", "shop.test"), "Wired: VirtualService web, b.test/"},
		"target host by a header":        {virtualService("b.test", `headers: {request: {set: {Host: shop.test}}}, `+destinationShop), target("shop", "shop.test"), "Wired: VirtualService web, b.test/"},
		"target host by an added header": {virtualService("b.test", `headers: {request: {add: {":authority": "shop.test:80"}}}, `+destinationShop), target("shop", "shop.test"), "Wired: VirtualService web, b.test/"},
		"a rewrite precedes a header":    {virtualService("b.test", `rewrite: {authority: shop.test}, headers: {request: {set: {host: c.test}}}, `+destinationShop), target("shop", "shop.test"), "Wired: VirtualService web, b.test/"},
		"a header of the destination":    {virtualService("b.test", `route: [{destination: {host: shop, port: {number: 80}}, headers: {request: {set: {host: shop.test}}}}]`), target("shop", "shop.test"), "Wired: VirtualService web, b.test/"},
		"header of the only destination": {virtualService("b.test", `headers: {request: {set: {host: c.test}}}, route: [{destination: {host: shop, port: {number: 80}}, headers: {request: {set: {host: shop.test}}}}]`), target("shop", "shop.test"), none},
		"header of one of two":           {virtualService("b.test", `headers: {request: {set: {host: c.test}}}, route: [{destination: {host: other}, weight: 1}, {weight: 1, destination: {host: shop, port: {number: 80}}, headers: {request: {set: {host: shop.test}}}}]`), target("shop", "shop.test"), "Wired: VirtualService web, b.test/"},
		"another header":                 {virtualService("shop.test", `headers: {request: {set: {x-host: b.test}}}, `+destinationShop), target("shop", "shop.test"), wired},
		"target path by a rewrite":       {virtualService("shop.test", `match: [{uri: {prefix: /x}}], rewrite: {uri: /api}, `+destinationShop), paths("/api"), "Wired: VirtualService web, shop.test/x"},
		"another path by a rewrite":      {virtualService("shop.test", `match: [{uri: {exact: /api}}], rewrite: {uri: /}, `+destinationShop), paths("/api"), none},
		"a wider path by a rewrite":      {virtualService("shop.test", `match: [{uri: {prefix: /api}}], rewrite: {uri: /}, `+destinationShop), paths("/api"), `RequestMismatch: VirtualService web, shop.test/api: rewrite.uri makes the proxies receive requests for shop.test/, which HTTPScaledObject "shop" does not match; add "/" to pathPrefixes of its trigger`},
		"a rewritten expression":         {virtualService("shop.test", `match: [{uri: {regex: "/x/.*"}}], rewrite: {uri: /api/v1}, `+destinationShop), paths("/api"), "Wired: VirtualService web, shop.test/x/"},
		"a regular rewrite":              {virtualService("shop.test", `rewrite: {uriRegexRewrite: {match: a, rewrite: b}}, `+destinationShop), target("shop", "shop.test"), "UnsupportedFilter: VirtualService web, shop.test/: rewrite.uriRegexRewrite of its route may change its requests in a way that the agent cannot determine; remove it, or list uriRegexRewrite in annotation http.kedify.io/autowire-accept of the VirtualService if"},
		"the same Service twice":         {virtualService("shop.test", `route: [{destination: {host: shop, port: {number: 80}}, weight: 1}, {destination: {host: shop.team.svc.cluster.local, port: {number: 80}}, weight: 2}]`), target("shop", "shop.test"), "Wired: VirtualService web, shop.test/; VirtualService web, shop.test/"},
		"VirtualServices only":           {virtualService("shop.test", destinationShop), of(trigger.AutowireVirtualService), "Wired"},
		"HTTPRoutes only":                {virtualService("shop.test", destinationShop), of(trigger.AutowireHTTPRoute), "NoMatchingBackend: no HTTPRoute has a backend"},
		"the shared fleet":               {virtualService("shop.test", destinationShop), shared, "UnsupportedSetting: VirtualService web, shop.test/: the shared fleet is in another namespace, and the agent points VirtualServices at proxies of their own namespace only; use an HTTPRoute, or remove annotation http.kedify.io/fleet"},
		"manual":                         {virtualService("shop.test", to(`host: kedify-proxy.team.svc.cluster.local, port: {number: 8080}`)), target("shop", "shop.test"), wired},
		"with a manual proxy backend":    {virtualService("shop.test", `route: [{destination: {host: shop, port: {number: 80}}, weight: 9}, {destination: {host: kedify-proxy, port: {number: 8080}}, weight: 1}]`), target("shop", "shop.test"), "UnsupportedSetting: VirtualService web, shop.test/: its rule also has a backend that the agent did not write, Service kedify-proxy"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t, test.service)
			w.Targets = []autowire.Target{test.target}
			condition := w.converge(t).Conditions["shop"]
			if says := condition.Reason + ": " + condition.Message; !strings.HasPrefix(says, test.says) {
				t.Errorf("condition %q, want %q", says, test.says)
			}
			if isMarked := annotation(t, w.stored[0], undo) != ""; isMarked != (condition.Status == "True") && name != "manual" {
				t.Errorf("wired: %v\n%s", isMarked, asYAML(t, w.stored[0]))
			}
			w.isOriginal(t, test.service)
		})
	}
}

// TestDestinationWithoutPort has a destination without a port, for a Service with one port and then with two.
func TestDestinationWithoutPort(t *testing.T) {
	t.Parallel()
	original := virtualService("shop.test", `route: [{destination: {host: shop.team.svc.cluster.local}}]`)
	w := newFixture(t, original)
	w.Services["shop"] = service("", corev1.ServicePort{Name: "http", Port: 80})
	w.Targets = []autowire.Target{target("shop", "shop.test")}
	w.converge(t)
	if want := `"destination":{"host":"kedify-proxy.team.svc.cluster.local","port":{"number":8080}}`; !strings.Contains(w.stored[0], want) {
		t.Errorf("%s lacks %s", w.stored[0], want)
	}
	if record := annotation(t, w.stored[0], undo); !strings.Contains(record, `{"op":"remove","path":"/spec/http/0/route/0/destination/port",`) {
		t.Errorf("restore record %s", record)
	}
	w.isOriginal(t, original)

	w.stored[0] = restored(t, w.stored[0], canonicalJSON(t, original))
	if reason := w.converge(t).Changes[0].Reason; reason != "BackendRevertedByOther" {
		t.Errorf("restored by a tool: Event %s", reason)
	}
	w.Services["shop"].Spec.Ports = append(w.Services["shop"].Spec.Ports, corev1.ServicePort{Name: "admin", Port: 81})
	if reason := w.converge(t).Conditions["shop"].Reason; reason != "NoMatchingBackend" || strings.Contains(w.stored[0], "kedify") {
		t.Errorf("two ports: %s\n%s", reason, w.stored[0])
	}
}

// TestEditHostWhileWired has a user who writes the proxies' Service with its full name.
func TestEditHostWhileWired(t *testing.T) {
	t.Parallel()
	original := virtualService("shop.test", destinationShop)
	w := newFixture(t, original)
	w.Targets = []autowire.Target{target("shop", "shop.test")}
	w.converge(t)
	w.stored[0] = strings.Replace(w.stored[0], `"host":"kedify-proxy"`, `"host":"kedify-proxy.team.svc.cluster.local"`, 1)
	w.converge(t)
	w.isOriginal(t, original)
}

// TestVirtualServiceProtocol has applications with HTTP/2, behind proxies with and without the port for it.
func TestVirtualServiceProtocol(t *testing.T) {
	t.Parallel()
	h2c := "kubernetes.io/h2c"
	original := virtualService("shop.test", destinationShop)
	w := newFixture(t, original)
	w.HasHTTP2Proxy, w.Services["kedify-proxy"] = true, http2Proxies("")
	w.Services["shop"] = service("", corev1.ServicePort{Name: "http", Port: 80, AppProtocol: &h2c})
	w.Targets = []autowire.Target{target("shop", "shop.test")}
	w.expect(t, "Wired: VirtualService web, shop.test/ over HTTP/2")
	w.isOriginal(t, original)
	w.stored = w.unwired(t)
	w.Services["kedify-proxy"] = service("", corev1.ServicePort{Name: "http", Port: 8080})
	w.expect(t, "ProtocolMismatch: VirtualService web, shop.test/: port 80 of Service shop uses HTTP/2, and the proxies would "+
		"receive HTTP/1.1; add port 8081 to Service kedify-proxy")
}

// TestAnnotationsOfVirtualService has annotations of Ingress controllers, which Istio does not read.
func TestAnnotationsOfVirtualService(t *testing.T) {
	t.Parallel()
	original := strings.Replace(virtualService("shop.test", destinationShop), "name: web,",
		`name: web, annotations: {nginx.ingress.kubernetes.io/rewrite-target: /x, konghq.com/rewrite: /x},`, 1)
	w := newFixture(t, original)
	w.Services["shop"].Annotations = map[string]string{"traefik.ingress.kubernetes.io/service.serversscheme": "https"}
	w.Targets = []autowire.Target{target("shop", "shop.test")}
	w.expect(t, "Wired: VirtualService web, shop.test/")
	w.isOriginal(t, original)
}

// TestRolloutsOfVirtualService has Rollouts that name VirtualService web of namespace team for Istio's router.
func TestRolloutsOfVirtualService(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		namespace, istio string
		isRouted         bool
		namespaces       []string
	}{
		"by its name":                   {"team", `{virtualService: {name: web, routes: [a]}}`, true, []string{"team"}},
		"in a list":                     {"team", `{virtualServices: [{name: api}, {name: web}]}`, true, []string{"team"}},
		"another one":                   {"team", `{virtualService: {name: api}}`, false, []string{"team"}},
		"with its namespace":            {"other", `{virtualService: {name: web.team}}`, true, []string{"other", "team"}},
		"with its namespace, in full":   {"other", `{virtualService: {name: web.team.cluster.local}}`, true, []string{"other", "team"}},
		"of another namespace":          {"other", `{virtualService: {name: web}}`, false, []string{"other"}},
		"with another namespace":        {"team", `{virtualService: {name: web.other}}`, false, []string{"team", "other"}},
		"with dots, by Argo 1.9":        {"other", `{virtualService: {name: web.team.svc}}`, true, []string{"other", "svc", "team"}},
		"a DestinationRule and no more": {"team", `{destinationRule: {name: web}}`, false, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var made apis.Rollout
			text := `{metadata: {namespace: ` + test.namespace + `, name: shop}, spec: {strategy: {canary: {trafficRouting: {istio: ` + test.istio + `}}}}}`
			if err := yaml.Unmarshal([]byte(text), &made); err != nil {
				t.Fatal(err)
			}
			var namespaces []string
			for _, routing := range autowire.Routings(made) {
				namespaces = append(namespaces, routing.Namespaces()...)
			}
			if diff := cmp.Diff(test.namespaces, namespaces); diff != "" {
				t.Errorf("namespaces (-want +got):\n%s", diff)
			}
			original := virtualService("shop.test", destinationShop)
			w := newFixture(t, original)
			w.Targets = []autowire.Target{target("shop", "shop.test")}
			w.converge(t)
			w.rollouts = []apis.Rollout{{}, made}
			condition := w.converge(t).Conditions["shop"]
			want := "Wired: VirtualService web, shop.test/"
			if test.isRouted {
				want = "ManagedByTrafficRouter: VirtualService web, shop.test/: traffic router istio of Rollout " + test.namespace + "/shop manages its weights"
			}
			if got := condition.Reason + ": " + condition.Message; got != want {
				t.Errorf("condition %q, want %q", got, want)
			}
			w.isOriginal(t, original)
		})
	}
}

// TestRouteWithTwoTriggers has a route with weights for Services of two triggers.
func TestRouteWithTwoTriggers(t *testing.T) {
	t.Parallel()
	w := newFixture(t, virtualService("shop.test", `route: [{destination: {host: shop, port: {number: 80}}, weight: 90}, `+
		`{destination: {host: cart, port: {number: 80}}, weight: 10}]`))
	cart := target("cart", "shop.test")
	cart.Service = "cart"
	w.Targets = []autowire.Target{target("shop", "shop.test"), cart}
	w.expect(t, "UnsupportedSetting: VirtualService web, shop.test/: its rule also splits traffic to Service cart of another trigger")
}
