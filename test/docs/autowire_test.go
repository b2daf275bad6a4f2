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

	"github.com/kedify/argo-rollouts-plugin/internal/agent/autowire"
)

// ingressInGit has two backends that are wired and one that is not.
const ingressInGit = `
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

// TestArgoCDIgnoresWiredBackends applies the page's expressions as Argo CD does, to an Ingress in Git and to the same one wired.
func TestArgoCDIgnoresWiredBackends(t *testing.T) {
	git, ingress := map[string]any{}, networkingv1.Ingress{}
	if err := errors.Join(yaml.Unmarshal([]byte(ingressInGit), &git), yaml.Unmarshal([]byte(ingressInGit), &ingress)); err != nil {
		t.Fatal(err)
	}
	namespace := autowire.Namespace{
		Ingresses: []networkingv1.Ingress{ingress}, HasProxy: true, Now: time.Unix(0, 0), Ports: map[string][]corev1.ServicePort{},
		Targets: []autowire.Target{{
			Name: "shop", Hosts: []string{"shop.test"}, Service: "shop", Port: networkingv1.ServiceBackendPort{Number: 80}, IsProgrammed: true,
		}},
	}
	todo, err := namespace.Plan()
	if err != nil || len(todo.Changes) != 1 {
		t.Fatalf("%+v, %v", todo, err)
	}
	live := map[string]any{}
	before, err := json.Marshal(git)
	patch, also := json.Marshal(todo.Changes[0].Patch)
	if err := errors.Join(err, also); err != nil {
		t.Fatal(err)
	}
	operations, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		t.Fatal(err)
	}
	after, err := operations.Apply(before)
	if err := errors.Join(err, json.Unmarshal(after, &live)); err != nil {
		t.Fatal(err)
	}
	expressions := recipe(t, "docs/autowire.md", "argocd")
	want := normalized(t, git, expressions)
	if cmp.Equal(normalized(t, git, nil), normalized(t, live, nil)) {
		t.Error("there is no difference to ignore")
	}
	if diff := cmp.Diff(want, normalized(t, live, expressions)); diff != "" {
		t.Errorf("Argo CD sees a difference (-git +live):\n%s", diff)
	}
	live["spec"].(map[string]any)["rules"].([]any)[0].(map[string]any)["host"] = "changed"
	if cmp.Equal(want, normalized(t, live, expressions)) {
		t.Error("Argo CD does not see that somebody changed a host")
	}
}
