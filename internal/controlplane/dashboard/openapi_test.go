package dashboard_test

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/dashboard"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/dashboard/view"
)

// podReference returns the reference of an endpoint to a Pod.
func podReference(name string) *corev1.ObjectReference {
	return &corev1.ObjectReference{Kind: "Pod", Name: name}
}

// schema is a schema of the description.
type schema struct {
	Properties map[string]struct {
		Type string `json:"type"`
		Ref  string `json:"$ref"`
	} `json:"properties"`
	Required []string `json:"required"`
}

// TestDescription compares the schemas of the description with the Go types: the fields, and which are always present.
func TestDescription(t *testing.T) {
	t.Parallel()
	response := send(t, newBed(t, "").local.URL+"/api/v1/openapi.json", nil, "")
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	var description struct {
		OpenAPI    string                                `json:"openapi"`
		Paths      map[string]map[string]json.RawMessage `json:"paths"`
		Components struct {
			Schemas map[string]schema `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(text, &description); err != nil || !strings.HasPrefix(description.OpenAPI, "3.1") {
		t.Fatalf("version %q, %v", description.OpenAPI, err)
	}
	types := []any{
		view.Object{},
		view.Proxies{},
		view.Weight{},
		view.Demand{},
		view.Detail{},
		view.Condition{},
		view.Backend{},
		view.Observed{},
		view.ManagedRoute{},
		view.Point{},
		view.Rollout{},
		view.Replicas{},
		view.Event{},
		dashboard.Interceptors{},
	}
	for _, value := range types {
		kind := reflect.TypeOf(value)
		described := description.Components.Schemas[kind.Name()]
		all, required := fieldsOf(kind)
		if diff := cmp.Diff(all, slices.Sorted(maps.Keys(described.Properties))); diff != "" {
			t.Errorf("fields of %s (-Go +description):\n%s", kind.Name(), diff)
		}
		slices.Sort(described.Required)
		if diff := cmp.Diff(required, described.Required); diff != "" {
			t.Errorf("required fields of %s (-Go +description):\n%s", kind.Name(), diff)
		}
	}
	if got := len(description.Components.Schemas); got != len(types)+2 { // and Objects, Changes
		t.Errorf("%d schemas, %d types", got, len(types))
	}
	for path, methods := range description.Paths {
		for method := range methods {
			if method != "get" {
				t.Errorf("%s %s: the API is read-only", method, path)
			}
		}
		url := strings.NewReplacer("{namespace}", "shop", "{name}", "none").Replace(path)
		response := send(t, newBed(t, "").local.URL+url, nil, "")
		if response.StatusCode == http.StatusNotFound && !strings.Contains(path, "{name}") {
			t.Errorf("%s is not served", path)
		}
	}
}

// fieldsOf returns the names of all fields in JSON, and of those that are always present, sorted.
func fieldsOf(kind reflect.Type) (all, required []string) {
	for field := range kind.Fields() {
		if field.Anonymous {
			inner, innerRequired := fieldsOf(field.Type)
			all, required = append(all, inner...), append(required, innerRequired...)
			continue
		}
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		all = append(all, name)
		if options == "" {
			required = append(required, name)
		}
	}
	slices.Sort(all)
	slices.Sort(required)
	return all, required
}
