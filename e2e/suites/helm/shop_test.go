package helm

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/e2e/testbed"
)

// shopNamespace is the namespace in testdata/shop.yaml.
const shopNamespace = "shop"

// shop is an application with several Ingresses, which exist before the chart.
type shop struct {
	testbed.Kubectl

	// before are the Ingresses before the chart, by name.
	before map[string]ingress
}

// ingress is what the agent must restore, byte by byte.
type ingress struct{ Spec, Annotations string }

// deployShop deploys the application.
func (e *environment) deployShop(t *testing.T) shop {
	t.Helper()
	s := shop{Kubectl: e.kubectl(shopNamespace)}
	s.Do(t, "apply", "-f", "testdata/shop.yaml")
	s.Do(t, "rollout", "status", "deployment/web")
	s.before = s.ingresses(t)
	if len(s.before) != 3 {
		t.Fatalf("the shop has the Ingresses %v, want 3", s.before)
	}
	return s
}

// ingresses returns the Ingresses of the application by name.
func (s shop) ingresses(t *testing.T) map[string]ingress {
	t.Helper()
	var list struct {
		Items []struct {
			Metadata struct {
				Name        string          `json:"name"`
				Annotations json.RawMessage `json:"annotations"`
			} `json:"metadata"`
			Spec json.RawMessage `json:"spec"`
		} `json:"items"`
	}
	if err := json.Unmarshal([]byte(s.Do(t, "get", "ingress", "-o", "json")), &list); err != nil {
		t.Fatal(err)
	}
	all := map[string]ingress{}
	for _, item := range list.Items {
		all[item.Metadata.Name] = ingress{Spec: string(item.Spec), Annotations: string(item.Metadata.Annotations)}
	}
	return all
}

// wire makes the agent wire the Ingresses, and waits until it has changed those of the HTTPScaledObject.
func (s shop) wire(t *testing.T) {
	t.Helper()
	s.Do(t, "apply", "-f", "testdata/httpscaledobject.yaml")
	for name, path := range map[string]string{
		"paths": "{.spec.rules[0].http.paths[1].backend.service.name}", "default-backend": "{.spec.rules[0].http.paths[0].backend.service.name}",
	} {
		s.Do(t, "wait", "ingress/"+name, "--for=jsonpath="+path+"=kedify-proxy")
	}
	wired := s.ingresses(t)
	for name := range s.before {
		isChanged := wired[name].Spec != s.before[name].Spec && wired[name].Annotations != s.before[name].Annotations
		if isChanged != (name != "unrelated") {
			t.Errorf("Ingress %s is wired: %t (-before +wired):\n%s", name, isChanged, cmp.Diff(s.before[name], wired[name]))
		}
	}
}

// checkRestored checks that the Ingresses are as they were before the chart.
func (s shop) checkRestored(t *testing.T) {
	t.Helper()
	if diff := cmp.Diff(s.before, s.ingresses(t)); diff != "" {
		t.Errorf("Ingresses (-before +after):\n%s", diff)
	}
}
