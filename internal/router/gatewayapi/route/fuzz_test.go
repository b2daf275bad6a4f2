package route

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// FuzzApply calls Apply with any JSON as route and any Intent: it returns a route or an error of this package and does
// not modify its input. After an Apply, CheckSpec returns nil and another Apply changes nothing.
func FuzzApply(f *testing.F) {
	scenarios, err := filepath.Glob("testdata/*/route.yaml")
	if err != nil || len(scenarios) == 0 {
		f.Fatal("no scenarios to begin with", err)
	}
	for _, path := range scenarios {
		route, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		object, err := yaml.YAMLToJSON(route)
		if err != nil {
			f.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(filepath.Dir(path), "steps.yaml"))
		if err != nil {
			f.Fatal(err)
		}
		var steps []step
		if err := yaml.Unmarshal(text, &steps); err != nil {
			f.Fatal(err)
		}
		for _, one := range steps {
			f.Add(object, []byte(one.Intent))
		}
	}
	f.Fuzz(func(t *testing.T, route, intent []byte) {
		var object map[string]any
		if json.Unmarshal(route, &object) != nil || object == nil {
			return // Not an object.
		}
		object = decodeJSON(t, route)
		want := usual()
		if json.Unmarshal(intent, &want) != nil {
			return // Not an Intent.
		}
		checkApply(t, object, want)
	})
}

// checkApply checks the properties of every route and every Intent.
func checkApply(t *testing.T, object map[string]any, want Intent) {
	t.Helper()
	before := cloneMap(object)
	changed, report, err := Apply(object, want)
	if diff := cmp.Diff(before, object); diff != "" {
		t.Errorf("Apply changed what it was given:\n%s", diff)
	}
	if err != nil {
		known := false
		for _, kind := range []error{
			ErrMalformed, ErrNoRule, ErrAmbiguous, ErrOwned, ErrClash, ErrLimit, ErrUnsupported,
			ErrInvalid,
		} {
			known = known || errors.Is(err, kind)
		}
		if !known {
			t.Errorf("an error of no kind: %v", err)
		}
		return
	}
	if again, second, err := Apply(changed, want); err != nil || second.Changed || second.Active != report.Active {
		t.Errorf("the same once more: %+v after %+v, %v\n%s", second, report, err, cmp.Diff(changed, again))
	}
	if err := CheckSpec(changed, want); !sameText(err, report.SessionError) {
		t.Errorf("CheckSpec after Apply: %v, want %v", err, report.SessionError)
	}
	Accepted(object)
	SessionProblem(object)
	CanaryWeight(object, want)
	ownersOf(object)
}

// FuzzRemoveOwners removes all changes of two Rollouts from a route: the result is the original.
func FuzzRemoveOwners(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		g := newGenerator(seed)
		kind, named := pick(g, HTTPRoute, GRPCRoute), g.IntN(2) == 0
		original := g.object(kind, named)
		object := original
		for range 1 + g.IntN(8) {
			object = must(t, object, g.intent(kind, named, g.IntN(2)))
		}
		for pair := range pairs() {
			end := rest(g.intent(kind, named, pair))
			end.Label = usual().Label
			object = must(t, object, end)
		}
		same(t, "after the end of both", original, object)
	})
}
