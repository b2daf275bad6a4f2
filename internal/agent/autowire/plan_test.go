package autowire_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/agent/autowire"
)

// shop is an Ingress with much that is not ours.
const shop = `
metadata: {name: web, annotations: {team: a}}
spec:
  ingressClassName: nginx
  tls: [{hosts: [shop.test], secretName: shop}]
  defaultBackend: {service: {name: errors, port: {number: 80}}}
  future: {of: the spec}
  rules:
  - host: shop.test
    http:
      paths:
      - {path: /, pathType: Prefix, backend: {service: {name: shop, port: {number: 80}, future: kept}}}
      - {path: /cart, pathType: Prefix, backend: {service: {name: cart, port: {number: 80}}}}
  - host: other.test
    http:
      paths:
      - {path: /, pathType: Prefix, backend: {service: {name: other, port: {name: http}}}}
      - {path: /files, pathType: Prefix, backend: {resource: {kind: Bucket, name: files}}}
`

// TestWireIngress compares one complete Ingress before, while and after it is wired.
func TestWireIngress(t *testing.T) {
	t.Parallel()
	w := newFixture(t, shop)
	w.Targets = []autowire.Target{target("shop", "shop.test")}
	found := w.converge(t)
	want := `metadata:
  annotations:
    http.kedify.io/autowire-undo: '[{"op":"test","path":"/spec/rules/0/host","value":"shop.test"},{"op":"test","path":"/spec/rules/0/http/paths/0/path","value":"/"},{"op":"test","path":"/spec/rules/0/http/paths/0/pathType","value":"Prefix"},{"op":"test","path":"/spec/rules/0/http/paths/0/backend/service/name","value":"kedify-proxy"},{"op":"replace","path":"/spec/rules/0/http/paths/0/backend/service/name","value":"shop"},{"op":"replace","path":"/spec/rules/0/http/paths/0/backend/service/port","value":{"number":80}},{"op":"remove","path":"/metadata/annotations/http.kedify.io~1autowire-undo","value":null}]'
    team: a
  name: web
spec:
  defaultBackend:
    service:
      name: errors
      port:
        number: 80
  future:
    of: the spec
  ingressClassName: nginx
  rules:
  - host: shop.test
    http:
      paths:
      - backend:
          service:
            future: kept
            name: kedify-proxy
            port:
              number: 8080
        path: /
        pathType: Prefix
      - backend:
          service:
            name: cart
            port:
              number: 80
        path: /cart
        pathType: Prefix
  - host: other.test
    http:
      paths:
      - backend:
          service:
            name: other
            port:
              name: http
        path: /
        pathType: Prefix
      - backend:
          resource:
            kind: Bucket
            name: files
        path: /files
        pathType: Prefix
  tls:
  - hosts:
    - shop.test
    secretName: shop
`
	if diff := cmp.Diff(want, asYAML(t, w.stored[0])); diff != "" {
		t.Errorf("wired (-want +got):\n%s", diff)
	}
	says := fmt.Sprintf("%s: %s", found.Changes[0].Reason, found.Changes[0].Message)
	if want := "Wired: backends for shop.test/ point to Service kedify-proxy"; says != want {
		t.Errorf("Event %q, want %q", says, want)
	}
	condition := found.Conditions["shop"]
	if condition.Status != "True" || condition.Reason != "Wired" || condition.Message != "Ingress web, shop.test/" {
		t.Errorf("condition %+v", condition)
	}
	if diff := cmp.Diff(canonicalJSON(t, shop), w.unwired(t)[0]); diff != "" {
		t.Errorf("unwired (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(canonicalJSON(t, shop), patched(t, w.stored[0], annotation(t, w.stored[0], undo))); diff != "" {
		t.Errorf("unwired by the annotation (-want +got):\n%s", diff)
	}
}

// ingress returns an Ingress with one rule. service is the backend in braces, with its port.
func ingress(host, kind, path, service string) string {
	return fmt.Sprintf(`{metadata: {name: web}, spec: {rules: [{host: %q, http: {paths: [
		{path: %q, pathType: %s, backend: {service: %s}}]}}]}}`, host, path, kind, service)
}

const (
	port80   = `{name: shop, port: {number: 80}}`
	portHTTP = `{name: shop, port: {name: http}}`
)

// TestIngressConditions has one backend in each case.
func TestIngressConditions(t *testing.T) {
	t.Parallel()
	with := func(edit func(*autowire.Target)) autowire.Target {
		edited := target("shop", "shop.test")
		edit(&edited)
		return edited
	}
	paths := func(prefixes ...string) autowire.Target {
		return with(func(t *autowire.Target) { t.PathPrefixes = prefixes })
	}
	port := func(number int32, name string) autowire.Target {
		return with(func(t *autowire.Target) { t.Port = networkingv1.ServiceBackendPort{Number: number, Name: name} })
	}
	defaultBackend := `{metadata: {name: web}, spec: {defaultBackend: {service: ` + port80 + `}}}`
	tests := map[string]struct {
		ingress string
		target  autowire.Target
		says    string // the condition's reason, and a part of its message
	}{
		"same host":                 {ingress("shop.test", "Prefix", "/", port80), target("shop", "shop.test"), "Wired: Ingress web, shop.test/"},
		"different spelling":        {ingress("shop.test", "Prefix", "/", port80), target("shop", "a.test", "Shop.Test."), "Wired: Ingress web, shop.test/"},
		"another host":              {ingress("cart.test", "Prefix", "/", port80), target("shop", "shop.test"), "NoMatchingBackend: no Ingress"},
		"another Service":           {ingress("shop.test", "Prefix", "/", `{name: cart, port: {number: 80}}`), target("shop", "shop.test"), "NoMatchingBackend"},
		"any host for one":          {ingress("", "Prefix", "/", port80), target("shop", "shop.test"), "Wired: Ingress web, / (requests that match no trigger get status 404)"},
		"host covered by any":       {ingress("shop.test", "Prefix", "/", port80), target("shop", "*"), "Wired: Ingress web, shop.test/"},
		"a wildcard for one":        {ingress("*.test", "Prefix", "/", port80), target("shop", "shop.test"), "Wired: Ingress web, *.test/ (requests"},
		"one for a wildcard":        {ingress("shop.test", "Prefix", "/", port80), target("shop", "*.test"), "Wired: Ingress web, shop.test/"},
		"another wildcard":          {ingress("shop.test", "Prefix", "/", port80), target("shop", "*.example"), "NoMatchingBackend"},
		"the end of a host":         {ingress("myshop.test", "Prefix", "/", port80), target("shop", "shop.test"), "NoMatchingBackend"},
		"a longer prefix":           {ingress("shop.test", "Prefix", "/", port80), paths("/api"), "Wired: Ingress web, shop.test/ (requests"},
		"a shorter prefix":          {ingress("shop.test", "Prefix", "/api/v1", port80), paths("/x", "/api"), "Wired: Ingress web, shop.test/api/v1"},
		"another prefix":            {ingress("shop.test", "Prefix", "/api", port80), paths("/ap"), "NoMatchingBackend"},
		"an exact path":             {ingress("shop.test", "Exact", "/api", port80), paths("/api"), "Wired"},
		"exact path of another app": {ingress("shop.test", "Exact", "/", port80), paths("/api"), "NoMatchingBackend"},
		"an expression":             {ingress("shop.test", "ImplementationSpecific", "/api(/|$)(.*)", port80), paths("/api"), "Wired"},
		"another expression":        {ingress("shop.test", "ImplementationSpecific", "/a/b(/|$)(.*)", port80), paths("/api"), "NoMatchingBackend"},
		"no path":                   {ingress("shop.test", "ImplementationSpecific", "", port80), paths("/api"), "Wired"},
		"some headers":              {ingress("shop.test", "Prefix", "/", port80), with(func(t *autowire.Target) { t.IsPartial = true }), "Wired: Ingress web, shop.test/ (requests"},
		"the default backend":       {defaultBackend, target("shop", "shop.test"), "Wired: Ingress web, the default backend (requests"},
		"another number":            {ingress("shop.test", "Prefix", "/", port80), port(81, ""), "NoMatchingBackend"},
		"its name":                  {ingress("shop.test", "Prefix", "/", port80), port(0, "http"), "Wired"},
		"another name":              {ingress("shop.test", "Prefix", "/", port80), port(0, "admin"), "NoMatchingBackend"},
		"a name for its number":     {ingress("shop.test", "Prefix", "/", portHTTP), port(80, ""), "Wired"},
		"a name for its name":       {ingress("shop.test", "Prefix", "/", portHTTP), port(0, "http"), "Wired"},
		"a name for another":        {ingress("shop.test", "Prefix", "/", portHTTP), port(81, ""), "NoMatchingBackend"},
		"unknown port name":         {ingress("shop.test", "Prefix", "/", portHTTP), port(0, "grpc"), "NoMatchingBackend"},
		"not programmed":            {ingress("shop.test", "Prefix", "/", port80), with(func(t *autowire.Target) { t.IsProgrammed = false }), `NotProgrammed: Ingress web, shop.test/: not every Ready proxy has acknowledged HTTPScaledObject "shop"`},
		"not carried out":           {ingress("shop.test", "Prefix", "/", port80), with(func(t *autowire.Target) { t.Unsupported = "no" }), "UnsupportedSetting: no; point the backends at Service kedify-proxy manually"},
		"manual":                    {ingress("shop.test", "Prefix", "/", `{name: kedify-proxy, port: {number: 8080}}`), target("shop", "shop.test"), "Wired: Ingress web, shop.test/"},
		"the same path twice":       {strings.Replace(ingress("shop.test", "Prefix", "/", port80), "paths: [", "paths: [{path: /, pathType: Prefix, backend: {service: {name: kedify-proxy, port: {number: 8080}}}},", 1), target("shop", "shop.test"), "UnsupportedSetting: Ingress web, shop.test/: its rule also has a backend that the agent did not write, Service kedify-proxy"},
		"invalid restore record":    {strings.Replace(ingress("shop.test", "Prefix", "/", port80), "name: web", "name: web, annotations: {"+undo+": '{'}", 1), target("shop", "shop.test"), "InvalidRestoreRecord: Ingress web, shop.test/: annotation http.kedify.io/autowire-undo: "},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t, test.ingress)
			w.Targets = []autowire.Target{test.target}
			condition := w.converge(t).Conditions["shop"]
			if says := condition.Reason + ": " + condition.Message; !strings.HasPrefix(says, test.says) {
				t.Errorf("condition %q, want %q", says, test.says)
			}
			isWired := condition.Reason == "Wired"
			if got := strings.Contains(w.stored[0], "kedify-proxy"); got != isWired && name != "the same path twice" {
				t.Errorf("wired: %v\n%s", got, asYAML(t, w.stored[0]))
			}
			if isWired != (condition.Status == "True") {
				t.Errorf("condition %+v", condition)
			}
			if diff := cmp.Diff(canonicalJSON(t, test.ingress), w.unwired(t)[0]); diff != "" {
				t.Errorf("unwired (-want +got):\n%s", diff)
			}
		})
	}
}

// TestProxyUnavailable removes the proxies and adds them again.
func TestProxyUnavailable(t *testing.T) {
	t.Parallel()
	original := ingress("shop.test", "Prefix", "/", port80)
	w := newFixture(t, original)
	w.Targets = []autowire.Target{target("shop", "shop.test")}
	step := func(what, wantReason string, isWired bool, requeueAfter time.Duration, isHeld bool) {
		t.Helper()
		found := w.converge(t)
		if got := found.Conditions["shop"].Reason; got != wantReason || found.RequeueAfter != requeueAfter {
			t.Errorf("%s: %s, again in %v; want %s, %v", what, got, found.RequeueAfter, wantReason, requeueAfter)
		}
		if strings.Contains(w.stored[0], "kedify-proxy") != isWired || (annotation(t, w.stored[0], hold) != "") != isHeld {
			t.Errorf("%s:\n%s", what, asYAML(t, w.stored[0]))
		}
	}
	w.HasProxy = false
	step("never there", "ProxyUnavailable", false, 0, false)
	w.HasProxy = true
	step("there", "Wired", true, 0, false)
	w.Targets[0].IsProgrammed = false
	step("a proxy lacks it", "Wired", true, 0, false)
	w.HasProxy = false
	step("lost", "ProxyUnavailable", false, 0, true)
	w.HasProxy, w.Now = true, w.Now.Add(20*time.Second)
	step("there again", "ProxyUnavailable", false, 40*time.Second, true)
	if diff := cmp.Diff(canonicalJSON(t, original), w.unwired(t)[0]); diff != "" {
		t.Errorf("unwired (-want +got):\n%s", diff)
	}
	w.Now = w.Now.Add(40 * time.Second)
	step("cooled down, not programmed", "NotProgrammed", false, 0, true)
	w.Targets[0].IsProgrammed = true
	step("programmed", "Wired", true, 0, false)
}

// TestRepeatedRestores has a tool that restores the original whenever it is wired.
func TestRepeatedRestores(t *testing.T) {
	t.Parallel()
	original := canonicalJSON(t, ingress("shop.test", "Prefix", "/", port80))
	w := newFixture(t, original)
	w.Targets = []autowire.Target{target("shop", "shop.test")}
	w.converge(t)
	restore := func() autowire.Plan {
		var annotations []string
		for _, name := range []string{undo, hold} { // what a tool does not know it leaves
			if text := annotation(t, w.stored[0], name); text != "" {
				annotations = append(annotations, fmt.Sprintf(`%q: %q`, name, text))
			}
		}
		w.stored[0] = canonicalJSON(t, strings.Replace(ingress("shop.test", "Prefix", "/", port80), "name: web", `name: web,
			annotations: {`+strings.Join(annotations, ", ")+`}, managedFields: [
			{manager: kubectl, operation: Update, time: "2026-05-01T10:00:00Z", fieldsType: FieldsV1, fieldsV1: {"f:spec": {}}},
			{manager: argocd-controller, operation: Apply, time: "2026-05-01T12:00:00Z", fieldsType: FieldsV1, fieldsV1: {"f:spec": {}}},
			{manager: nginx, subresource: status, operation: Update, time: "2026-05-01T13:00:00Z", fieldsType: FieldsV1, fieldsV1: {"f:status": {}}},
			{manager: kedify-http-agent, operation: Update, time: "2026-05-01T13:00:00Z", fieldsType: FieldsV1, fieldsV1: {"f:spec": {}}}]`, 1))
		return w.converge(t)
	}
	found := restore()
	says := found.Changes[0].Reason + ": " + found.Changes[0].Message
	want := "BackendRevertedByOther: argocd-controller has restored backends that pointed to Service kedify-proxy (1 of 5; autowiring stops after that)"
	if says != want || found.Conditions["shop"].Status != "True" {
		t.Errorf("the first time: %q, %+v", says, found.Conditions["shop"])
	}
	for _, wait := range []time.Duration{time.Minute, 3 * time.Minute, 7 * time.Minute} {
		found = restore()
		if found.Conditions["shop"].Reason != "BackendRevertedByOther" || found.RequeueAfter != wait {
			t.Errorf("%+v, again in %v; want %v", found.Conditions["shop"], found.RequeueAfter, wait)
		}
		w.Now = w.Now.Add(wait)
		if found = w.converge(t); found.Conditions["shop"].Status != "True" {
			t.Errorf("after %v: %+v", wait, found.Conditions["shop"])
		}
	}
	found = restore()
	const left = "Ingress web, shop.test/: argocd-controller has restored it 5 times, so autowiring has stopped; configure it to ignore the backends, then " +
		"remove annotation http.kedify.io/autowire-hold"
	w.Now = w.Now.Add(1000 * time.Hour)
	if w.converge(t); found.Conditions["shop"].Message != left || found.RequeueAfter != 0 || strings.Contains(w.stored[0], "kedify-proxy") {
		t.Errorf("%+v, again in %v\n%s", found.Conditions["shop"], found.RequeueAfter, asYAML(t, w.stored[0]))
	}
	w.stored[0] = patched(t, w.stored[0], `[{"op": "remove", "path": "/metadata/annotations/http.kedify.io~1autowire-hold"}]`)
	if found = w.converge(t); found.Conditions["shop"].Status != "True" {
		t.Errorf("with the annotation removed: %+v", found.Conditions["shop"])
	}
}

// TestFieldsAtRest has objects that the agent has written. At rest it removes itself from the managers of their fields,
// and nothing else.
func TestFieldsAtRest(t *testing.T) {
	t.Parallel()
	const (
		helm  = `{manager: helm, operation: Apply, fieldsType: FieldsV1, fieldsV1: {"f:metadata": {}}}`
		agent = `{manager: kedify-http-agent, operation: Update, fieldsType: FieldsV1, fieldsV1: {"f:spec": {"f:rules": {}}}}`
		nginx = `{manager: nginx, operation: Update, subresource: status, fieldsType: FieldsV1, fieldsV1: {"f:status": {}}}`
	)
	without := func(managers string) string {
		return "[{op: replace, path: /metadata/managedFields, value: [" + managers + "]}]"
	}
	for name, c := range map[string]struct {
		annotations, managers, want string // want is empty if nothing is written
	}{
		"restored":             {`"a": "b"`, helm + ", " + agent + ", " + nginx, without(helm + ", " + nginx)},
		"no other manager":     {"", agent, without("{}")},
		"two entries":          {"", agent + ", " + helm + ", " + agent, without(helm)},
		"never written":        {"", helm + ", " + nginx, ""},
		"no managers":          {"", "", ""},
		"an unreadable record": {`"http.kedify.io/autowire-undo": "x"`, helm + ", " + agent, ""},
		"the end of a cool-down": {
			`"http.kedify.io/autowire-hold": "{}"`, helm + ", " + agent,
			"[{op: remove, path: /metadata/annotations/http.kedify.io~1autowire-hold, value: null}]",
		},
	} {
		object := strings.Replace(ingress("shop.test", "Prefix", "/", port80), "name: web",
			"name: web, annotations: {"+c.annotations+"}, managedFields: ["+c.managers+"]", 1)
		w := newFixture(t, canonicalJSON(t, object))
		var got strings.Builder
		for _, change := range w.plan(t).Changes {
			got.WriteString(w.patch(t, change))
		}
		if diff := cmp.Diff(canonicalJSON(t, c.want), canonicalJSON(t, got.String())); diff != "" {
			t.Errorf("%s: patches (-want +got):\n%s", name, diff)
		}
	}
}
