package docs

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/autowire"
	"github.com/kedify/argo-rollouts-plugin/internal/trigger"
)

const (
	// ingressInGit has two backends that are wired and one that is not.
	ingressInGit = `
metadata: {name: shop}
spec:
  defaultBackend: {service: {name: shop, port: {number: 80}}}
  rules:
  - host: shop.test
    http:
      paths:
      - {path: /, pathType: Prefix, backend: {service: {name: shop, port: {number: 80}}}}
      - {path: /cart, pathType: Prefix, backend: {service: {name: cart, port: {name: http}}}}
`
	// routeInGit has a backend that is wired and one that is not.
	routeInGit = `
metadata: {name: shop}
spec:
  hostnames: [shop.test]
  rules:
  - matches: [{path: {type: PathPrefix, value: /}}]
    backendRefs:
    - {name: shop, port: 80, weight: 90}
    - {name: other, port: 80, weight: 10}
`
	// virtualServiceInGit has backends with and without a port that are wired, and one that is not.
	virtualServiceInGit = `
metadata: {name: shop, namespace: team}
spec:
  hosts: [shop.test]
  http:
  - match: [{uri: {exact: /old}}]
    redirect: {uri: /}
  - route:
    - {destination: {host: shop, port: {number: 80}}, weight: 80}
    - {destination: {host: shop.team.svc.cluster.local}, weight: 10}
    - {destination: {host: other, port: {number: 80}}, weight: 10}
`
	// openShiftRouteInGit has a backend that is wired and one that is not, and a port.
	openShiftRouteInGit = `
metadata: {name: shop, namespace: team, annotations: {haproxy.router.openshift.io/disable_cookies: "true"}}
spec:
  host: shop.test
  to: {kind: Service, name: shop, weight: 90}
  alternateBackends: [{kind: Service, name: other, weight: 10}]
  port: {targetPort: 80}
`
)

// TestArgoCDIgnoresWiredBackends applies the page's expressions as Argo CD does, to an object in Git and to the
// wired one.
func TestArgoCDIgnoresWiredBackends(t *testing.T) {
	var ingress networkingv1.Ingress
	var route apis.HTTPRoute
	var service apis.VirtualService
	decode(t, ingressInGit, &ingress)
	decode(t, routeInGit, &route)
	decode(t, virtualServiceInGit, &service)
	var openShift apis.Route
	decode(t, openShiftRouteInGit, &openShift)
	tests := map[string]struct {
		inGit, block string
		object       autowire.Object
		isShared     bool
		change       func(spec map[string]any)
	}{
		"Ingress": {
			ingressInGit, "argocd", autowire.FromIngress(&ingress), false,
			func(spec map[string]any) { spec["rules"].([]any)[0].(map[string]any)["host"] = "changed" },
		},
		"HTTPRoute": {
			routeInGit, "argocd-httproute", autowire.FromHTTPRoute(&route, nil), false,
			func(spec map[string]any) { spec["hostnames"] = []any{"changed"} },
		},
		"HTTPRoute, shared fleet": {
			routeInGit, "argocd-httproute", autowire.FromHTTPRoute(&route, nil), true,
			func(spec map[string]any) { spec["hostnames"] = []any{"changed"} },
		},
		"VirtualService": {
			virtualServiceInGit, "argocd-virtualservice", autowire.FromVirtualService(&service), false,
			func(spec map[string]any) { spec["hosts"] = []any{"changed"} },
		},
		"Route": {
			openShiftRouteInGit, "argocd-route", autowire.FromRoute(&openShift), false,
			func(spec map[string]any) { spec["host"] = "changed" },
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			git, live := map[string]any{}, map[string]any{}
			decode(t, test.inGit, &git)
			decode(t, string(wired(t, git, test.object, test.isShared)), &live)
			expressions := recipe(t, "docs/how-to/autowire.md", test.block)
			want := normalized(t, git, expressions)
			if cmp.Equal(normalized(t, git, nil), normalized(t, live, nil)) {
				t.Error("there is no difference to ignore")
			}
			if diff := cmp.Diff(want, normalized(t, live, expressions)); diff != "" {
				t.Errorf("Argo CD sees a difference (-git +live):\n%s", diff)
			}
			test.change(live["spec"].(map[string]any))
			if cmp.Equal(want, normalized(t, live, expressions)) {
				t.Error("Argo CD does not see that somebody changed a host")
			}
		})
	}
}

// decode reads YAML.
func decode(t *testing.T, text string, into any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), into); err != nil {
		t.Fatal(err)
	}
}

// wired returns an object as JSON after the agent has wired it, to the shared fleet or to that of its namespace.
func wired(t *testing.T, inGit map[string]any, object autowire.Object, isShared bool) []byte {
	t.Helper()
	namespace := autowire.Namespace{
		Name: "team", Objects: []autowire.Object{object}, HasProxy: true, Now: time.Unix(0, 0),
		Targets: []autowire.Target{{
			Name: "shop", Hosts: []string{"shop.test"}, Service: "shop", Port: networkingv1.ServiceBackendPort{Number: 80},
			IsProgrammed: true, IsShared: isShared,
			Kinds: []trigger.AutowireKind{
				trigger.AutowireIngress, trigger.AutowireHTTPRoute, trigger.AutowireVirtualService, trigger.AutowireRoute,
			},
		}},
	}
	namespace.Services = map[string]*corev1.Service{
		"shop": {Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}},
	}
	namespace.Shared = autowire.Shared{
		Namespace: "keda", HasProxy: true, GrantsSynced: true,
		Grants: []apis.ReferenceGrant{{Spec: apis.ReferenceGrantSpec{
			From: []apis.ReferenceGrantFrom{{Group: apis.HTTPRouteKind().Group, Kind: apis.HTTPRouteKind().Kind, Namespace: "team"}},
			To:   []apis.ReferenceGrantTo{{Kind: "Service"}},
		}}},
	}
	namespace.Shared.Grants[0].CreationTimestamp.Time = time.Unix(0, 0).Add(-time.Hour)
	todo, err := namespace.Plan()
	if err != nil || len(todo.Changes) != 1 {
		t.Fatalf("%+v, %v", todo, err)
	}
	before, err := json.Marshal(inGit)
	patch, also := json.Marshal(todo.Changes[0].Patch)
	if err := errors.Join(err, also); err != nil {
		t.Fatal(err)
	}
	operations, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		t.Fatal(err)
	}
	after, err := operations.Apply(before)
	if err != nil {
		t.Fatal(err)
	}
	return after
}
