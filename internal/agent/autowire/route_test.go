package autowire_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/autowire"
	"github.com/kedify/argo-rollouts-plugin/internal/trigger"
)

// shopOpenShift is a Route with much that is not ours.
const shopOpenShift = `
apiVersion: route.openshift.io/v1
kind: Route
metadata: {name: web, namespace: team, annotations: {team: a, haproxy.router.openshift.io/timeout: 2m}}
spec:
  host: shop.test
  path: /api
  to: {kind: Service, name: shop, weight: 90}
  alternateBackends:
  - {kind: Service, name: other, weight: 0, future: field}
  port: {targetPort: 80, future: field}
  tls: {termination: edge, insecureEdgeTerminationPolicy: Redirect, certificate: a, key: b}
  httpHeaders: {actions: {request: [{name: X-Team, action: {type: Set, set: {value: a}}}]}}
  wildcardPolicy: None
status: {ingress: [{host: shop.test, routerName: default, conditions: [{type: Admitted, status: "True"}]}]}
`

// TestWireRoute compares one complete Route before, while and after it is wired.
func TestWireRoute(t *testing.T) {
	t.Parallel()
	w := newFixture(t, shopOpenShift)
	w.Targets = []autowire.Target{target("shop", "shop.test")}
	found := w.converge(t)
	want := strings.Replace(shopOpenShift, "name: shop, weight: 90", "name: kedify-proxy, weight: 90", 1)
	want = strings.Replace(want, "targetPort: 80", "targetPort: http", 1)
	want = strings.Replace(want, "team: a", `team: a, http.kedify.io/autowire-undo: '[`+
		`{"op":"test","path":"/spec/to/name","value":"kedify-proxy"},`+
		`{"op":"test","path":"/spec/port/targetPort","value":"http"},`+
		`{"op":"replace","path":"/spec/port/targetPort","value":80},`+
		`{"op":"replace","path":"/spec/to/name","value":"shop"},`+
		`{"op":"remove","path":"/metadata/annotations/http.kedify.io~1autowire-undo","value":null}]'`, 1)
	if diff := cmp.Diff(asYAML(t, canonicalJSON(t, want)), asYAML(t, w.stored[0])); diff != "" {
		t.Errorf("wired (-want +got):\n%s", diff)
	}
	says := fmt.Sprintf("%s: %s", found.Changes[0].Reason, found.Changes[0].Message)
	if want := "Wired: backends for shop.test/api point to Service kedify-proxy"; says != want {
		t.Errorf("Event %q, want %q", says, want)
	}
	condition := w.plan(t).Conditions["shop"]
	if condition.Status != "True" || condition.Message != "Route web, shop.test/api" {
		t.Errorf("condition %+v", condition)
	}
	if settings := w.Targets[0].Settings; settings != byCookie {
		t.Errorf("settings %s", settings)
	}
	w.isOriginal(t, shopOpenShift)
}

// openShift returns a Route for host shop.test, with other fields of its spec given as YAML.
func openShift(spec string) string {
	return `{kind: Route, metadata: {name: web, namespace: team}, spec: {host: shop.test, ` + spec + `}}`
}

// routeTo are the backend and the port for the application.
const routeTo = `to: {kind: Service, name: shop, weight: 100}, port: {targetPort: http}`

// TestRouteConditions has one Route in each case.
func TestRouteConditions(t *testing.T) {
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
	shared, shop := target("shop", "shop.test"), target("shop", "shop.test")
	shared.IsShared = true
	annotated := func(annotations, spec string) string {
		return `{kind: Route, metadata: {name: web, namespace: team, annotations: {` + annotations + `}}, spec: {host: shop.test, ` + spec + `}}`
	}
	hosted := func(spec, hosts string) string {
		return `{kind: Route, metadata: {name: web, namespace: team}, spec: {` + spec + routeTo + `}, status: {ingress: [` + hosts + `]}}`
	}
	const wired, none = "Wired: Route web, shop.test/", "NoMatchingBackend: no Ingress, HTTPRoute, VirtualService or Route has a backend"
	const header = `httpHeaders: {actions: {request: [{name: host, action: {type: Set, set: {value: `
	const router = "haproxy.router.openshift.io/"
	tests := map[string]struct {
		route  string
		target autowire.Target
		says   string // the condition's reason, and a part of its message
	}{
		"same host":                  {openShift(routeTo), shop, wired},
		"another host":               {openShift(routeTo), target("shop", "cart.test"), none},
		"another Service":            {openShift(`to: {kind: Service, name: cart}, port: {targetPort: http}`), shop, none},
		"no kind":                    {openShift(`to: {name: shop}, port: {targetPort: http}`), shop, wired},
		"another kind":               {openShift(`to: {kind: Bucket, name: shop}, port: {targetPort: http}`), shop, none},
		"another port":               {openShift(`to: {name: shop}, port: {targetPort: admin}`), shop, none},
		"the number of a port":       {openShift(`to: {name: shop}, port: {targetPort: 80}`), shop, wired},
		"the number as a text":       {openShift(`to: {name: shop}, port: {targetPort: "80"}`), shop, wired},
		"no port, of two":            {openShift(`to: {name: shop}`), shop, none},
		"unknown port":               {openShift(`to: {name: shop}, port: {targetPort: web}`), shop, none},
		"port out of range":          {openShift(`to: {name: shop}, port: {targetPort: 4294967295}`), shop, none},
		"in the status":              {hosted("", `{host: shop.test}`), shop, wired},
		"two in the status":          {hosted("", `{host: cart.test}, {host: shop.test}, {host: cart.test}`), shop, "Wired: Route web, cart.test/ and others (requests that match no trigger get status 404)"},
		"another one in the status":  {hosted("subdomain: shop, ", `{host: cart.test}`), shop, none},
		"the spec precedes it":       {hosted("host: shop.test, ", `{host: cart.test}`), shop, wired},
		"no host yet":                {hosted("", ``), shop, "Wired: Route web, / (requests"},
		"a wildcard":                 {hosted("host: www.shop.test, wildcardPolicy: Subdomain, ", ``), target("shop", "*.shop.test"), "Wired: Route web, *.shop.test/"},
		"no wildcard":                {hosted("host: www.shop.test, wildcardPolicy: None, ", ``), target("shop", "api.shop.test"), none},
		"one host of a wildcard":     {hosted("host: www.shop.test, wildcardPolicy: Subdomain, ", ``), target("shop", "api.shop.test"), "Wired: Route web, *.shop.test/ (requests"},
		"a shorter prefix":           {openShift(`path: /api/v1, ` + routeTo), paths("/api"), "Wired: Route web, shop.test/api/v1"},
		"a longer prefix":            {openShift(routeTo), paths("/api"), "Wired: Route web, shop.test/ (requests"},
		"a part of a segment":        {openShift(`path: /ap, ` + routeTo), paths("/api"), none},
		"edge":                       {openShift(`tls: {termination: edge}, ` + routeTo), shop, wired},
		"insecure, too":              {openShift(`tls: {termination: edge, insecureEdgeTerminationPolicy: Allow}, ` + routeTo), shop, wired},
		"passthrough":                {openShift(`tls: {termination: passthrough}, ` + routeTo), shop, "UnsupportedSetting: Route web, shop.test/: spec.tls.termination: passthrough sends encrypted connections to the backend, in which the proxies cannot read the requests of other certificates; use termination edge"},
		"reencrypt":                  {openShift(`tls: {termination: reencrypt}, ` + routeTo), shop, "UnsupportedSetting: Route web, shop.test/: with spec.tls.termination: reencrypt, the router verifies the certificate of Service kedify-proxy: by destinationCACertificate, or by OpenShift's service CA and the name kedify-proxy.team.svc; use termination edge, or give the proxies such a certificate and list reencrypt in annotation http.kedify.io/autowire-accept of the Route"},
		"reencrypt, accepted":        {annotated("http.kedify.io/autowire-accept: reencrypt", `tls: {termination: reencrypt}, `+routeTo), shop, "ProtocolMismatch: Route web, shop.test/: spec.tls.termination: reencrypt uses TLS to the application, and the proxies would use clear text; set appProtocol: https on port 80 of Service shop"},
		"host by a header":           {`{kind: Route, metadata: {name: web, namespace: team}, spec: {host: b.test, ` + header + `shop.test}}}]}}, ` + routeTo + `}}`, shop, "Wired: Route web, b.test/"},
		"another host by a header":   {openShift(header + `b.test}}}]}}, ` + routeTo), shop, none},
		"an expression in a header":  {openShift(header + `"%[req.hdr(x-host)]"}}}]}}, ` + routeTo), shop, "UnsupportedFilter: Route web, shop.test/: header Host in spec.httpHeaders may change its requests in a way that the agent cannot determine; remove it, or list httpHeaders in annotation http.kedify.io/autowire-accept of the Route if"},
		"no header Host":             {openShift(`httpHeaders: {actions: {request: [{name: Host, action: {type: Delete}}]}}, ` + routeTo), shop, "UnsupportedFilter: Route web, shop.test/: header Host in spec.httpHeaders"},
		"another header":             {openShift(`httpHeaders: {actions: {request: [{name: x-host, action: {type: Set, set: {value: b.test}}}]}}, ` + routeTo), shop, wired},
		"target path by a rewrite":   {annotated(router+"rewrite-target: /api", `path: /x, `+routeTo), paths("/api"), "Wired: Route web, shop.test/x"},
		"another path by a rewrite":  {annotated(router+"rewrite-target: /", `path: /api, `+routeTo), paths("/api"), `RequestMismatch: Route web, shop.test/api: annotation haproxy.router.openshift.io/rewrite-target: "/" makes the proxies receive requests for shop.test/, which HTTPScaledObject "shop" does not match; add "/" to pathPrefixes of its trigger`},
		"a special character":        {annotated(router+`rewrite-target: "/a#b"`, routeTo), shop, `UnsupportedAnnotation: Route web, shop.test/: annotation haproxy.router.openshift.io/rewrite-target: "/a#b" may change its requests or connections in a way that the agent cannot determine; remove it, or list it in annotation http.kedify.io/autowire-accept of the Route`},
		"no path for a rewrite":      {annotated(router+"rewrite-target: api", routeTo), shop, wired},
		"connections of a Pod":       {annotated(router+`pod-concurrent-connections: "20"`, routeTo), shop, "UnsupportedAnnotation: Route web, shop.test/: annotation haproxy.router.openshift.io/pod-concurrent-connections"},
		"connections, accepted":      {annotated(`http.kedify.io/autowire-accept: haproxy.router.openshift.io/pod-concurrent-connections, `+router+`pod-concurrent-connections: "20"`, routeTo), shop, wired},
		"letter case of headers":     {annotated(router+`h1-adjust-case: "true"`, routeTo), shop, "UnsupportedAnnotation"},
		"no letter case of headers":  {annotated(router+`h1-adjust-case: "false"`, routeTo), shop, wired},
		"annotations of others":      {annotated(router+`timeout: 1m, `+router+`ip_allowlist: 10.0.0.0/8, nginx.ingress.kubernetes.io/rewrite-target: /x, konghq.com/rewrite: /x`, routeTo), shop, wired},
		"an alternate backend":       {openShift(`to: {name: other, weight: 1}, alternateBackends: [{kind: Service, name: shop, weight: 5}], port: {targetPort: http}`), shop, wired},
		"with a Service of its port": {openShift(`to: {name: shop, weight: 1}, alternateBackends: [{name: cart, weight: 5}], port: {targetPort: 80}`), shop, "UnsupportedSetting: Route web, shop.test/: its spec.port.targetPort selects the ports of all its backends, and \"http\", for Service kedify-proxy, would select other ports of Service cart; name the port of that Service \"http\", and use this name in the Route"},
		"a canary without requests":  {openShift(`to: {name: shop, weight: 100}, alternateBackends: [{name: stable, weight: 0}], port: {targetPort: 80}`), shop, wired},
		"the same Service twice":     {openShift(`to: {name: shop, weight: 1}, alternateBackends: [{name: shop, weight: 5}], port: {targetPort: http}`), shop, "UnsupportedSetting: Route web, shop.test/: it has backend shop twice, of which the router uses only the last weight; remove one; "},
		"Routes only":                {openShift(routeTo), of(trigger.AutowireRoute), "Wired"},
		"Ingresses only":             {openShift(routeTo), of(trigger.AutowireIngress), "NoMatchingBackend: no Ingress has a backend"},
		"the shared fleet":           {openShift(routeTo), shared, "UnsupportedSetting: Route web, shop.test/: the shared fleet is in another namespace, which no Route can reference; use an HTTPRoute, or remove annotation http.kedify.io/fleet"},
		"manual":                     {openShift(`to: {name: kedify-proxy}, port: {targetPort: http}`), shop, wired},
		"with a manual proxy":        {openShift(`to: {name: shop, weight: 9}, alternateBackends: [{name: kedify-proxy, weight: 1}], port: {targetPort: http}`), shop, "UnsupportedSetting: Route web, shop.test/: its rule also has a backend that the agent did not write, Service kedify-proxy"},
		"of an Ingress":              {`{kind: Route, metadata: {name: web, namespace: team, ownerReferences: [{apiVersion: networking.k8s.io/v1, kind: Ingress, name: shop, uid: a, controller: true}]}, spec: {host: shop.test, ` + routeTo + `}}`, shop, "ManagedByTrafficRouter: Route web, shop.test/: OpenShift has created it for Ingress shop and would revert changes; it follows the Ingress, which trafficAutowire: ingress wires"},
		"of an operator":             {`{kind: Route, metadata: {name: web, namespace: team, ownerReferences: [{apiVersion: example.com/v1, kind: Shop, name: shop, uid: a, controller: true}]}, spec: {host: shop.test, ` + routeTo + `}}`, shop, wired},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t, test.route)
			w.Services["cart"] = service("", corev1.ServicePort{Name: "web", Port: 80})
			w.Services["stable"] = service("", corev1.ServicePort{Name: "http", Port: 80}, corev1.ServicePort{Name: "admin", Port: 81})
			w.Targets = []autowire.Target{test.target}
			condition := w.converge(t).Conditions["shop"]
			if says := condition.Reason + ": " + condition.Message; !strings.HasPrefix(says, test.says) {
				t.Errorf("condition %q, want %q", says, test.says)
			}
			if isMarked := annotation(t, w.stored[0], undo) != ""; isMarked != (condition.Status == "True") && name != "manual" {
				t.Errorf("wired: %v\n%s", isMarked, asYAML(t, w.stored[0]))
			}
			w.isOriginal(t, test.route)
		})
	}
}

// TestPortOfRoute has ports of Services by which a Route finds those of the application and of the proxies.
func TestPortOfRoute(t *testing.T) {
	t.Parallel()
	named := func(name string, port int32, target string) corev1.ServicePort {
		return corev1.ServicePort{Name: name, Port: port, TargetPort: intstr.Parse(target)}
	}
	kedify := []corev1.ServicePort{named("http", 8080, "http"), named("https", 8443, "https"), named("h2c", 8081, "http")}
	tests := map[string]struct {
		shop, proxies  []corev1.ServicePort
		before, during string // field port
		says           string // for a Route that is not wired
	}{
		"by its name":                {[]corev1.ServicePort{named("web", 80, "8000")}, kedify, `{targetPort: web}`, `{targetPort: http}`, ""},
		"by the port of the Pods":    {[]corev1.ServicePort{named("web", 80, "8000"), named("admin", 81, "80")}, kedify, `{targetPort: 8000}`, `{targetPort: http}`, ""},
		"not by its number":          {[]corev1.ServicePort{named("web", 80, "8000"), named("admin", 81, "80")}, kedify, `{targetPort: 80}`, "", "NoMatchingBackend"},
		"by the name of another one": {[]corev1.ServicePort{named("web", 80, "admin"), named("admin", 81, "web")}, kedify, `{targetPort: admin}`, "", "NoMatchingBackend"},
		"by an unknown number":       {[]corev1.ServicePort{named("web", 80, "web")}, kedify, `{targetPort: 8000}`, `{targetPort: http}`, ""},
		"by one of two unknown ones": {[]corev1.ServicePort{named("web", 80, "web"), named("admin", 81, "admin")}, kedify, `{targetPort: 8000}`, "", "NoMatchingBackend"},
		"by a number of two ports":   {[]corev1.ServicePort{named("old", 8000, "8000"), named("web", 80, "8000")}, kedify, `{targetPort: 8000}`, `{targetPort: http}`, ""},
		"not UDP":                    {[]corev1.ServicePort{{Name: "quic", Port: 443, Protocol: corev1.ProtocolUDP}, named("web", 80, "8000")}, kedify, ``, `{targetPort: http}`, ""},
		"the only one":               {[]corev1.ServicePort{named("", 80, "8000")}, kedify, ``, `{targetPort: http}`, ""},
		"the same name":              {[]corev1.ServicePort{named("http", 80, "8000")}, kedify, `{targetPort: http}`, `{targetPort: http}`, ""},
		"HTTP/2":                     {[]corev1.ServicePort{named("grpc", 80, "8000")}, kedify, `{targetPort: grpc}`, `{targetPort: h2c}`, ""},
		"proxies by a number":        {[]corev1.ServicePort{named("web", 80, "8000")}, []corev1.ServicePort{named("", 8080, "8088")}, `{targetPort: web}`, `{targetPort: 8088}`, ""},
		"proxies by another name":    {[]corev1.ServicePort{named("web", 80, "8000")}, []corev1.ServicePort{named("plain", 8080, "8088")}, `{targetPort: web}`, `{targetPort: plain}`, ""},
		"proxies by no name": {
			[]corev1.ServicePort{named("web", 80, "8000")},
			[]corev1.ServicePort{named("", 8080, "http")},
			`{targetPort: web}`, "",
			"UnsupportedSetting: Route web, shop.test/: port 8080 of Service kedify-proxy has no name, by which a Route could reference it; give it one",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := openShift(`to: {name: shop}`)
			if test.before != "" {
				before = openShift(`to: {name: shop}, port: ` + test.before)
			}
			w := newFixture(t, before)
			w.HasHTTP2Proxy = true
			w.Services["shop"], w.Services["kedify-proxy"] = service("", test.shop...), service("", test.proxies...)
			w.Targets = []autowire.Target{target("shop", "shop.test")}
			condition := w.converge(t).Conditions["shop"]
			if says := condition.Reason + ": " + condition.Message; !strings.HasPrefix(says, test.says) {
				t.Errorf("condition %q, want %q", says, test.says)
			}
			if test.during != "" {
				during := withRecord(t, openShift(`to: {name: kedify-proxy}, port: `+test.during), annotation(t, w.stored[0], undo))
				if diff := cmp.Diff(asYAML(t, during), asYAML(t, w.stored[0])); diff != "" {
					t.Errorf("wired (-want +got):\n%s", diff)
				}
			}
			w.isOriginal(t, before)
		})
	}
}

// withRecord returns an object, given as YAML, with a restore record, as JSON.
func withRecord(t *testing.T, object, record string) string {
	t.Helper()
	return edited(t, canonicalJSON(t, object), func(value map[string]any) {
		value["metadata"].(map[string]any)["annotations"] = map[string]any{undo: record}
	})
}

// isReported applies all changes, and compares the beginning of the condition.
func (w *fixture) isReported(t *testing.T, says string) {
	t.Helper()
	condition := w.converge(t).Conditions["shop"]
	if got := condition.Reason + ": " + condition.Message; !strings.HasPrefix(got, says) {
		t.Errorf("condition %q, want %q", got, says)
	}
}

// TestRestoreRouteAlone restores a Route as uninstalling does, without anything else of its namespace.
func TestRestoreRouteAlone(t *testing.T) {
	t.Parallel()
	for _, original := range []string{shopOpenShift, openShift(`to: {name: shop}, port: {targetPort: http}`), openShift(`to: {name: shop}`)} {
		w := newFixture(t, original)
		w.Services["shop"] = service("", corev1.ServicePort{Name: "http", Port: 80})
		w.Targets = []autowire.Target{target("shop", "shop.test")}
		w.isReported(t, "Wired: Route web, shop.test/")
		alone := &fixture{stored: w.stored}
		for _, change := range alone.plan(t).Changes {
			alone.write(t, change)
		}
		if diff := cmp.Diff(canonicalJSON(t, original), alone.stored[0]); diff != "" {
			t.Errorf("restored (-want +got):\n%s", diff)
		}
	}
}

// TestEditPortWhileWired has a user, and then a tool, that write the port of a wired Route.
func TestEditPortWhileWired(t *testing.T) {
	t.Parallel()
	w := newFixture(t, openShift(`to: {name: shop, weight: 1}, alternateBackends: [{name: other}], port: {targetPort: 80}`))
	w.Services["shop"] = service("", corev1.ServicePort{Name: "web", Port: 80, TargetPort: intstr.FromInt32(80)})
	w.Targets = []autowire.Target{target("shop", "shop.test")}
	w.isReported(t, "Wired: Route web, shop.test/")
	write := func(port any) {
		w.stored[0] = edited(t, w.stored[0], func(object map[string]any) {
			object["spec"].(map[string]any)["port"] = map[string]any{"targetPort": port}
		})
	}
	write("web") // a user has renamed it
	w.isReported(t, "Wired: Route web, shop.test/")
	if !strings.Contains(w.stored[0], `"port":{"targetPort":"http"}`) {
		t.Errorf("the port is not that of the proxies:\n%s", asYAML(t, w.stored[0]))
	}
	w.isOriginal(t, openShift(`to: {name: shop, weight: 1}, alternateBackends: [{name: other}], port: {targetPort: web}`))
	write("web") // a tool restores it, and ignores the names
	w.isReported(t, "Wired: Route web, shop.test/")
	write("web")
	w.isReported(t, "BackendRevertedByOther: Route web, shop.test/: an unknown field manager has restored it; the agent retries later")
	want := openShift(`to: {name: shop, weight: 1}, alternateBackends: [{name: other}], port: {targetPort: web}`)
	got := edited(t, w.stored[0], func(object map[string]any) { delete(object["metadata"].(map[string]any), "annotations") })
	if diff := cmp.Diff(asYAML(t, canonicalJSON(t, want)), asYAML(t, got)); diff != "" {
		t.Errorf("restored (-want +got):\n%s", diff)
	}
}

// TestRestoredNamesOfRoute has a tool that restores the names of the backends of a wired Route, and ignores the port.
func TestRestoredNamesOfRoute(t *testing.T) {
	t.Parallel()
	original := openShift(`to: {name: shop}, port: {targetPort: 80}`)
	w := newFixture(t, original)
	w.Targets = []autowire.Target{target("shop", "shop.test")}
	w.isReported(t, "Wired: Route web, shop.test/")
	w.stored[0] = edited(t, w.stored[0], func(object map[string]any) {
		object["spec"].(map[string]any)["to"] = map[string]any{"name": "shop"}
	})
	w.isReported(t, "Wired: Route web, shop.test/")
	if text := w.unwired(t)[0]; !strings.Contains(text, `"port":{"targetPort":80},"to":{"name":"shop"}`) {
		t.Errorf("unwired:\n%s", asYAML(t, text))
	}
}

// TestAppliedAlternateBackend has a tool that restores an alternate backend by server-side apply, which adds it next to the
// one of the agent.
func TestAppliedAlternateBackend(t *testing.T) {
	t.Parallel()
	original := openShift(`to: {name: other}, alternateBackends: [{kind: Service, name: shop, weight: 10}], port: {targetPort: 80}`)
	w := newFixture(t, original)
	w.Targets = []autowire.Target{target("shop", "shop.test")}
	w.isReported(t, "Wired: Route web, shop.test/")
	apply := func() {
		w.stored[0] = edited(t, w.stored[0], func(object map[string]any) {
			spec := object["spec"].(map[string]any)
			shop := map[string]any{"kind": "Service", "name": "shop", "weight": 10}
			spec["alternateBackends"] = append([]any{shop}, spec["alternateBackends"].([]any)...)
			spec["port"] = map[string]any{"targetPort": 80}
		})
	}
	withoutAnnotations := func() string {
		return edited(t, w.stored[0], func(object map[string]any) { delete(object["metadata"].(map[string]any), "annotations") })
	}
	apply()
	found := w.plan(t)
	if condition := found.Conditions["shop"]; condition.Reason != "BackendRevertedByOther" || len(found.Changes) != 1 {
		t.Fatalf("plan %+v", found)
	}
	w.write(t, found.Changes[0])
	if diff := cmp.Diff(asYAML(t, canonicalJSON(t, original)), asYAML(t, withoutAnnotations())); diff != "" {
		t.Errorf("after the first write (-want +got):\n%s", diff)
	}
	w.isReported(t, "Wired: Route web, shop.test/")
	apply()
	w.write(t, w.plan(t).Changes[0])
	w.isReported(t, "BackendRevertedByOther: Route web, shop.test/: an unknown field manager has restored it; the agent retries later")
	if diff := cmp.Diff(asYAML(t, canonicalJSON(t, original)), asYAML(t, withoutAnnotations())); diff != "" {
		t.Errorf("in the cool-down (-want +got):\n%s", diff)
	}
}

// TestSwitchBackendsOfRoute has two triggers one after the other, each for one backend of a Route.
func TestSwitchBackendsOfRoute(t *testing.T) {
	t.Parallel()
	for _, names := range [][]string{{"shop", "stable"}, {"stable", "shop"}} {
		original := openShift(`to: {name: ` + names[0] + `}, alternateBackends: [{name: ` + names[1] + `}], port: {targetPort: 80}`)
		w := newFixture(t, original)
		w.Services["stable"] = w.Services["shop"]
		for _, name := range []string{"shop", "stable", "shop"} {
			of := target("shop", "shop.test")
			of.Service = name
			w.Targets = []autowire.Target{of}
			w.isReported(t, "Wired: Route web, shop.test/")
			if !strings.Contains(w.stored[0], `"targetPort":"http"`) {
				t.Errorf("the port is not that of the proxies:\n%s", asYAML(t, w.stored[0]))
			}
		}
		w.isOriginal(t, original)
	}
}

// TestTLSOfRoute has a Route with termination reencrypt whose owner accepts it.
func TestTLSOfRoute(t *testing.T) {
	t.Parallel()
	original := strings.Replace(openShift(`tls: {termination: reencrypt}, `+routeTo), "name: web,",
		`name: web, annotations: {http.kedify.io/autowire-accept: reencrypt},`, 1)
	w := newFixture(t, original)
	w.HasTLSProxy = true
	w.Services["shop"].Spec.Ports[0].AppProtocol = new("https")
	of := target("shop", "shop.test")
	w.Targets = []autowire.Target{of}
	w.expect(t, "UnsupportedSetting: Route web, shop.test/: spec.tls.termination: reencrypt requires TLS to the backends, and "+
		`HTTPScaledObject "shop" has no certificate; set tlsSecretName in its trigger`)
	of.Certificate = autowire.CertificateActive
	w.Targets = []autowire.Target{of}
	w.expect(t, "Wired: Route web, shop.test/ over TLS")
	if !strings.Contains(w.stored[0], `"port":{"targetPort":"https"}`) {
		t.Errorf("the port is not that for TLS:\n%s", asYAML(t, w.stored[0]))
	}
	w.isOriginal(t, original)

	plain := newFixture(t, openShift(`tls: {termination: edge}, `+routeTo))
	plain.Services["shop"].Spec.Ports[0].AppProtocol = new("https")
	plain.Targets = []autowire.Target{target("shop", "shop.test")}
	plain.expect(t, "ProtocolMismatch: Route web, shop.test/: spec.tls.termination: edge uses clear text to the application, and the "+
		"proxies would use TLS; set appProtocol: http on port 80 of Service shop")
}

// TestAffinityOfRoute has the settings of OpenShift's router for session affinity.
func TestAffinityOfRoute(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ annotations, settings string }{
		"a cookie by default":    {`team: a`, byCookie},
		"no cookie":              {`haproxy.router.openshift.io/disable_cookies: "true"`, ``},
		"no cookie, by a number": {`haproxy.router.openshift.io/disable_cookies: "1"`, ``},
		"a cookie":               {`haproxy.router.openshift.io/disable_cookies: "no"`, byCookie},
		"an address":             {`haproxy.router.openshift.io/disable_cookies: "TRUE", haproxy.router.openshift.io/balance: source`, `{"sessionAffinity":{"sourceAddress":{}}}`},
		"a cookie, and another":  {`haproxy.router.openshift.io/balance: source`, byCookie},
		"no address":             {`haproxy.router.openshift.io/disable_cookies: "t", haproxy.router.openshift.io/balance: random`, ``},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t, strings.Replace(openShift(routeTo), "name: web,", `name: web, annotations: {`+test.annotations+`},`, 1))
			w.Targets = []autowire.Target{target("shop", "shop.test")}
			w.expect(t, "Wired: Route web, shop.test/")
			if got := w.Targets[0].Settings; got != test.settings {
				t.Errorf("settings %q, want %q", got, test.settings)
			}
		})
	}
}

// TestRolloutsOfRoute has Rollouts that name Route web of namespace team for OpenShift's router.
func TestRolloutsOfRoute(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		namespace, plugins string
		isRouted           bool
	}{
		"by its name":          {"team", `argoproj-labs/openshift: {routes: [api, web]}`, true},
		"another one":          {"team", `argoproj-labs/openshift: {routes: [api]}`, false},
		"of another namespace": {"other", `argoproj-labs/openshift: {routes: [web]}`, false},
		"unreadable":           {"team", `argoproj-labs/openshift: {routes: web}`, false},
		"of another plugin":    {"team", `argoproj-labs/gatewayAPI: {httpRoute: web}`, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var made apis.Rollout
			text := `{metadata: {namespace: ` + test.namespace + `, name: shop}, spec: {strategy: {canary: {trafficRouting: {plugins: {` + test.plugins + `}}}}}}`
			if err := yaml.Unmarshal([]byte(text), &made); err != nil {
				t.Fatal(err)
			}
			original := strings.Replace(openShift(routeTo), "name: web,",
				`name: web, annotations: {haproxy.router.openshift.io/disable_cookies: "true"},`, 1)
			w := newFixture(t, original)
			w.Targets = []autowire.Target{target("shop", "shop.test")}
			w.converge(t)
			w.rollouts = []apis.Rollout{{}, made}
			condition := w.converge(t).Conditions["shop"]
			want := "Wired: Route web, shop.test/"
			if test.isRouted {
				want = "ManagedByTrafficRouter: Route web, shop.test/: plugin argoproj-labs/openshift of Rollout " + test.namespace + "/shop manages its weights"
			}
			if got := condition.Reason + ": " + condition.Message; got != want {
				t.Errorf("condition %q, want %q", got, want)
			}
			w.isOriginal(t, original)
		})
	}
}

// TestRouteWithTwoTriggersOfOpenShift has weights for Services of two triggers.
func TestRouteWithTwoTriggersOfOpenShift(t *testing.T) {
	t.Parallel()
	w := newFixture(t, openShift(`to: {name: shop}, alternateBackends: [{name: stable}], port: {targetPort: http}`))
	w.Services["stable"] = w.Services["shop"]
	stable := target("stable", "shop.test")
	stable.Service = "stable"
	w.Targets = []autowire.Target{target("shop", "shop.test"), stable}
	w.expect(t, "UnsupportedSetting: Route web, shop.test/: its rule also splits traffic to Service stable of another trigger")
}

// TestIngressOfOpenShift has an annotation of OpenShift's router on an Ingress, for which OpenShift creates Routes.
func TestIngressOfOpenShift(t *testing.T) {
	t.Parallel()
	w := newFixture(t, `{metadata: {name: web, annotations: {haproxy.router.openshift.io/rewrite-target: /x}}, spec: {rules: [
		{host: shop.test, http: {paths: [{path: /api, pathType: Prefix, backend: {service: {name: shop, port: {number: 80}}}}]}}]}}`)
	of := target("shop", "shop.test")
	of.PathPrefixes = []string{"/api"}
	w.Targets = []autowire.Target{of}
	w.expect(t, `RequestMismatch: Ingress web, shop.test/api: annotation haproxy.router.openshift.io/rewrite-target: "/x" makes the `+
		"proxies receive requests for shop.test/x")
}

// TestTrimRoute keeps of the metadata what a plan reads. The private key of a Route is not even decoded.
func TestTrimRoute(t *testing.T) {
	t.Parallel()
	var object apis.Route
	if err := yaml.Unmarshal([]byte(strings.Replace(shopOpenShift, "name: web,", `name: web, labels: {a: b}, finalizers: [c],
		ownerReferences: [{kind: Shop, name: a}, {kind: Ingress, name: b, controller: true}],`, 1)), &object); err != nil {
		t.Fatal(err)
	}
	for range 2 { // client-go may trim an object again
		autowire.NewTrimmer().Route(&object)
	}
	text := canonicalJSON(t, asText(t, object))
	want := canonicalJSON(t, `{apiVersion: route.openshift.io/v1, kind: Route, metadata: {name: web, namespace: team, annotations: {
		haproxy.router.openshift.io/timeout: ""}, ownerReferences: [{apiVersion: "", kind: Ingress, name: b, uid: "", controller: true}]},
		spec: {host: shop.test, path: /api, wildcardPolicy: None, to: {kind: Service, name: shop}, alternateBackends: [{kind: Service,
		name: other}], port: {targetPort: 80, future: field}, tls: {termination: edge}, httpHeaders: {actions: {request: [{name: X-Team,
		action: {set: {value: a}}}]}}}, status: {ingress: [{host: shop.test}]}}`)
	if diff := cmp.Diff(asYAML(t, want), asYAML(t, text)); diff != "" {
		t.Errorf("trimmed (-want +got):\n%s", diff)
	}
}

// asText returns a value as YAML.
func asText(t *testing.T, value any) string {
	t.Helper()
	text, err := yaml.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
