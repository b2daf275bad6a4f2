package autowire_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/autowire"
)

// maker generates random Ingresses, HTTPRoutes, VirtualServices, Routes and targets, similar enough to match.
type maker struct {
	*rand.Rand

	// hasHandWritten makes some backends reference the proxies before the agent does.
	hasHandWritten bool
}

// one returns one of several texts.
func (m maker) one(of ...string) string { return of[m.IntN(len(of))] }

// service returns a backend's Service name and port.
func (m maker) service() map[string]any {
	port := map[string]any{"number": []int{80, 81}[m.IntN(2)]}
	if m.IntN(3) == 0 {
		port = map[string]any{"name": m.one("http", "admin", "none")}
	}
	service := map[string]any{"name": m.one("shop", "shop", "cart"), "port": port}
	switch chance := m.IntN(8); {
	case chance == 0 && m.hasHandWritten:
		service = map[string]any{"name": "kedify-proxy", "port": map[string]any{"number": 8080}}
	case chance == 1:
		service["future"] = "field"
	}
	return map[string]any{"service": service}
}

// rule returns a rule with some paths.
func (m maker) rule() map[string]any {
	rule := map[string]any{}
	if host := m.one("", "a.test", "b.test", "*.test"); host != "" {
		rule["host"] = host
	}
	var paths []any
	for range m.IntN(4) {
		path := map[string]any{"pathType": m.one("Prefix", "Exact", "ImplementationSpecific"), "backend": m.service()}
		if at := m.one("", "/", "/api", "/api/v1(/|$)"); at != "" {
			path["path"] = at
		}
		if m.IntN(8) == 0 {
			path["backend"] = map[string]any{"resource": map[string]any{"kind": "Bucket", "name": "files"}}
		}
		paths = append(paths, path)
	}
	if paths != nil {
		rule["http"] = map[string]any{"paths": paths}
	}
	return rule
}

// ingress returns an Ingress.
func (m maker) ingress(name string) map[string]any {
	meta, spec := map[string]any{"name": name}, map[string]any{}
	if m.IntN(2) == 0 {
		meta["annotations"] = map[string]any{"a/b~c": "d", "haproxy.org/server-ssl": m.one("false", "true")}
	}
	if m.IntN(3) == 0 {
		spec["defaultBackend"] = m.service()
	}
	if m.IntN(3) == 0 {
		spec["tls"] = []any{map[string]any{"hosts": []any{"a.test"}, "secretName": "a"}}
	}
	var rules []any
	for range m.IntN(4) {
		rules = append(rules, m.rule())
	}
	if rules != nil {
		spec["rules"] = rules
	}
	return map[string]any{"metadata": meta, "spec": spec}
}

// targets returns some targets, two of which may be for the same backend.
func (m maker) targets() []autowire.Target {
	var out []autowire.Target
	for i := range m.IntN(4) {
		made := target(fmt.Sprint("target", i), m.one("a.test", "b.test", "*.test", "*"))
		made.Service = m.one("shop", "shop", "cart")
		if m.IntN(2) == 0 {
			made.PathPrefixes = []string{m.one("/", "/api", "/x")}
		}
		if m.IntN(3) == 0 {
			made.Port = networkingv1.ServiceBackendPort{Name: "http"}
		}
		made.IsProgrammed, made.IsShared = m.IntN(4) > 0, m.IntN(3) == 0
		made.Certificate = autowire.Certificate(m.IntN(4))
		if m.IntN(4) == 0 {
			made.Kinds = made.Kinds[m.IntN(len(made.Kinds)):][:1]
		}
		out = append(out, made)
	}
	return out
}

// edit returns a user's edit of an object, by position, so that it also applies to the original. Manually written
// proxy backends are set before the edits and not mixed with them: a manual one that replaces a previous backend
// of the agent is ambiguous.
func (m maker) edit(seed uint64) func(map[string]any) {
	return func(ingress map[string]any) {
		m := maker{rand.New(rand.NewPCG(seed, 1)), false}
		switch ingress["kind"] {
		case "HTTPRoute":
			m.editRoute(ingress)
			return
		case "VirtualService":
			m.editVirtualService(ingress)
			return
		case "Route":
			m.editOpenShiftRoute(ingress)
			return
		}
		spec := ingress["spec"].(map[string]any)
		rules, _ := spec["rules"].([]any)
		switch m.IntN(5) {
		case 0: // everything moves
			spec["rules"] = slices.Concat([]any{m.rule()}, rules)
		case 1: // one goes
			if len(rules) > 0 {
				at := m.IntN(len(rules))
				spec["rules"] = slices.Concat(rules[:at], rules[at+1:])
			}
		case 2:
			spec["defaultBackend"] = map[string]any{"service": map[string]any{"name": "new", "port": map[string]any{"number": 1}}}
		case 3:
			ingress["metadata"].(map[string]any)["labels"] = map[string]any{"team": "b"}
		case 4: // the same requests or others
			if len(rules) > 0 {
				http, _ := rules[m.IntN(len(rules))].(map[string]any)["http"].(map[string]any)
				if paths, _ := http["paths"].([]any); len(paths) > 0 {
					paths[m.IntN(len(paths))].(map[string]any)["backend"] = m.service()
				}
			}
		}
	}
}

// edited applies an edit.
func edited(t *testing.T, text string, edit func(map[string]any)) string {
	t.Helper()
	var value map[string]any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatal(err)
	}
	edit(value)
	out, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// isLive fails unless every object, with what was wired undone, is what its user made it, and nothing of ours is
// wired without a proxy.
func (w *fixture) isLive(t *testing.T, wanted []string, during string) {
	t.Helper()
	if diff := cmp.Diff(wanted, w.unwired(t)); diff != "" {
		t.Fatalf("%s: unwired (-want +got):\n%s", during, diff)
	}
	for _, text := range w.stored {
		if annotation(t, text, undo) == "" {
			continue
		}
		if by := patched(t, text, annotation(t, text, undo)); annotation(t, by, hold) == "" && !slices.Contains(wanted, by) {
			t.Fatalf("%s: unwired by the annotation:\n%s", during, asYAML(t, by))
		}
	}
}

// FuzzPlan applies random events to a namespace, and stops the agent after each of its writes. Every backend
// always references the user's Service or, while proxies are available, the proxies, and every change can be
// restored.
func FuzzPlan(f *testing.F) {
	for seed := range uint64(100) {
		f.Add(seed)
	}
	for _, seed := range []uint64{462, 3164, 5088} { // one path of an Ingress twice, once manually
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		m := maker{rand.New(rand.NewPCG(seed, 0)), seed%2 == 0}
		w := newFixture(t)
		for i := range 1 + m.IntN(3) {
			object := m.ingress(fmt.Sprint("object", i))
			switch m.IntN(4) {
			case 0:
				object = m.httpRoute(fmt.Sprint("object", i))
			case 2:
				object = m.openShiftRoute(fmt.Sprint("object", i))
			case 1:
				object = m.virtualService(fmt.Sprint("object", i))
			}
			text, err := json.Marshal(object)
			if err != nil {
				t.Fatal(err)
			}
			w.stored = append(w.stored, string(text))
		}
		wanted := slices.Clone(w.stored)
		for range 12 {
			happens := m.one("targets", "proxy", "fleet", "grants", "time", "time", "restore", "rollout", "rules", "ports")
			if !m.hasHandWritten && m.IntN(4) == 0 {
				happens = "edit"
			}
			switch happens {
			case "targets":
				w.Targets = m.targets()
			case "proxy":
				w.HasProxy, w.HasTLSProxy = !w.HasProxy, m.IntN(3) > 0
			case "fleet":
				w.Shared.HasProxy, w.Shared.GrantsSynced = !w.Shared.HasProxy, w.Shared.GrantsSynced || m.IntN(2) == 0
			case "grants": // other grants are created and deleted, the agent's is deleted, or the grants are unknown
				w.Shared.Grants = nil
				if w.Shared.GrantsSynced = m.IntN(4) > 0; m.IntN(3) == 0 {
					w.Shared.Grants = []apis.ReferenceGrant{anyonesGrant(w.Now)}
				}
			case "time":
				w.Now = w.Now.Add(time.Duration(m.IntN(100)) * time.Second)
			case "rollout":
				w.rollouts = []apis.Rollout{rollout(t, "team", m.one(`{httpRoute: object0}`, `{httpRoutes: [{name: object1}]}`, `{}`))}
				w.rollouts[0].Spec.Strategy.Canary.TrafficRouting.Istio = &apis.IstioRouting{
					VirtualServices: []apis.RoutedVirtualService{{Name: m.one("object0", "object1.team", "object0.other")}},
				}
				w.rollouts[0].Spec.Strategy.Canary.TrafficRouting.Plugins["argoproj-labs/openshift"] = json.RawMessage(m.one(`{"routes": ["object0"]}`, `{"routes": ["object1"]}`, `{}`))
			case "rules":
				w.DestinationRules = m.destinationRules()
			case "ports": // another port of Service cart, of which destinations without a port use the only one
				ports := []corev1.ServicePort{{Name: m.one("http", "web"), Port: 80}, {Name: "admin", Port: 81}}
				w.Services["cart"] = service("", ports[:1+m.IntN(2)]...)
			case "edit":
				i, edit := m.IntN(len(w.stored)), m.edit(m.Uint64())
				w.stored[i], wanted[i] = edited(t, w.stored[i], edit), edited(t, wanted[i], edit)
			case "restore":
				i := m.IntN(len(w.stored))
				w.stored[i] = restored(t, w.stored[i], wanted[i])
			}
			changes := w.plan(t).Changes
			for k, change := range changes {
				w.write(t, change)
				w.isLive(t, wanted, fmt.Sprintf("%s, after write %d of %d", happens, k+1, len(changes)))
			}
			w.converge(t)
			w.isLive(t, wanted, happens)
			for i, text := range w.stored {
				own, elsewhere := fleets(annotation(t, text, undo))
				if own > 0 && (!w.HasProxy || !w.HasTLSProxy && !m.hasHandWritten && strings.Contains(text, "8443")) {
					t.Fatalf("wired without a proxy:\n%s", asYAML(t, text))
				}
				if elsewhere > 0 && (!w.Shared.HasProxy || w.Shared.GrantsSynced && len(w.Shared.Grants) == 0) {
					t.Fatalf("wired to a shared fleet without a ReferenceGrant or a proxy:\n%s", asYAML(t, text))
				}
				if !m.hasHandWritten && strings.Contains(text, `"haproxy.org/server-ssl":"true"`) && strings.Contains(text, "8080") {
					t.Fatalf("TLS is sent to the plain HTTP port:\n%s", asYAML(t, text))
				}
				if annotation(t, text, undo) == "" && proxied(text) != proxied(wanted[i]) {
					t.Fatalf("wired without a restore record:\n%s", asYAML(t, text))
				}
			}
		}
	})
}

// fleets counts the backends in a restore record: those of the namespace's own proxies, and those of the shared
// fleet.
func fleets(undo string) (own, elsewhere int) {
	elsewhere = strings.Count(undo, `/namespace","value":"keda"}`)
	own = strings.Count(undo, `/name","value":"kedify-proxy"}`) + strings.Count(undo, `/host","value":"kedify-proxy`)
	return own - elsewhere, elsewhere
}

// anyonesGrant allows HTTPRoutes of namespace team to reference all Services of the shared fleet.
func anyonesGrant(made time.Time) apis.ReferenceGrant {
	return apis.ReferenceGrant{
		ObjectMeta: metav1.ObjectMeta{Name: "anyone", CreationTimestamp: metav1.NewTime(made)},
		Spec: apis.ReferenceGrantSpec{
			From: []apis.ReferenceGrantFrom{{Group: "gateway.networking.k8s.io", Kind: "HTTPRoute", Namespace: "team"}},
			To:   []apis.ReferenceGrantTo{{Kind: "Service"}},
		},
	}
}

// proxied counts the backends that reference the proxies.
func proxied(text string) int { return strings.Count(text, `":"kedify-proxy`) }

// restored returns an object after a tool applied its original, which keeps unknown annotations.
func restored(t *testing.T, text, original string) string {
	t.Helper()
	return edited(t, original, func(ingress map[string]any) {
		for _, name := range []string{undo, hold} {
			if value := annotation(t, text, name); value != "" {
				meta := ingress["metadata"].(map[string]any)
				annotations, _ := meta["annotations"].(map[string]any)
				if annotations == nil {
					annotations = map[string]any{}
					meta["annotations"] = annotations
				}
				annotations[name] = value
			}
		}
	})
}
