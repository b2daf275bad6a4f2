package route

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/test/kit"
)

var update = flag.Bool("update", false, "write what the scenarios produce")

// step is one call of the controller in a scenario, or one edit by another writer: the text From, which occurs once in
// the route's YAML, becomes To.
type step struct {
	Do     string // what happens, in words
	Edit   *struct{ From, To string }
	Intent json.RawMessage // the fields of an Intent that differ from the usual one
}

// usual returns the base Intent of the steps: Rollout shop/app with Services app-stable and app-canary.
func usual() Intent {
	return Intent{
		Kind: HTTPRoute, Rollout: "shop/app", UID: "u-1", Namespace: "shop", Stable: "app-stable", Canary: "app-canary",
		HasRuleNames: true, HasMirrorPercent: true, HasSessions: true,
		Label: &Label{Key: "rollouts.argoproj.io/gatewayapi-canary", Value: "in-progress"},
	}
}

// TestScenarios applies the steps of each folder to its route and compares route and report after each. In all
// scenarios, Apply does not modify its input, repeating the Intent changes nothing, and CheckSpec returns nil.
func TestScenarios(t *testing.T) {
	t.Parallel()
	kit.Scenarios{Dir: "testdata", Update: *update}.Run(t, func(t *testing.T, scenario *kit.Scenario) {
		t.Helper()
		object := decode(t, scenario.Input(t, "route.yaml"))
		var steps []step
		if err := yaml.UnmarshalStrict(scenario.Input(t, "steps.yaml"), &steps); err != nil {
			t.Fatalf("steps.yaml: %v", err)
		}
		var out bytes.Buffer
		for i, one := range steps {
			fmt.Fprintf(&out, "# %d. %s\n", i+1, one.Do)
			if one.Edit != nil {
				object = edit(t, object, one.Edit.From, one.Edit.To)
				fmt.Fprintf(&out, "---\n")
				continue
			}
			result, text := play(t, object, intentOf(t, one.Intent))
			object = result
			out.WriteString(text)
		}
		scenario.Golden(t, "want.yaml", out.Bytes())
	})
}

// play applies want to object and returns the resulting route and its report as text.
func play(t *testing.T, object map[string]any, want Intent) (map[string]any, string) {
	t.Helper()
	before := cloneMap(object)
	result, report, err := Apply(object, want)
	if diff := cmp.Diff(before, object); diff != "" {
		t.Errorf("Apply changed what it was given:\n%s", diff)
	}
	if err != nil {
		if holds := CheckSpec(object, want); holds == nil || holds.Error() != err.Error() {
			t.Errorf("Apply = %v, CheckSpec = %v", err, holds)
		}
		return object, fmt.Sprintf("# error: %v\n---\n", err)
	}
	if again, second, err := Apply(result, want); err != nil || second.Changed {
		t.Errorf("the same once more: %+v, %v\n%s", second, err, cmp.Diff(result, again))
	}
	if err := CheckSpec(result, want); !sameText(err, report.SessionError) {
		t.Errorf("CheckSpec after Apply: %v, want %v", err, report.SessionError)
	}
	var text strings.Builder
	fmt.Fprintf(&text, "# changed: %t, active: %t\n", report.Changed, report.Active)
	for _, warning := range report.Warnings {
		fmt.Fprintf(&text, "# warning: %s: %s\n", warning.Reason, warning.Message)
	}
	if report.Changed {
		text.Write(encode(t, result))
	}
	return result, text.String() + "---\n"
}

// sameText reports whether two errors are nil or have the same text.
func sameText(a, b error) bool { return fmt.Sprint(a) == fmt.Sprint(b) }

// intentOf parses the request of a step.
func intentOf(t *testing.T, text json.RawMessage) Intent {
	t.Helper()
	want := usual()
	if len(text) == 0 {
		t.Fatal("the step has neither intent nor edit")
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&want); err != nil {
		t.Fatalf("intent: %v", err)
	}
	return want
}

// edit replaces one text in the route's YAML.
func edit(t *testing.T, object map[string]any, from, to string) map[string]any {
	t.Helper()
	text := string(encode(t, object))
	if strings.Count(text, from) != 1 {
		t.Fatalf("the text to edit, %q, is in the route %d times:\n%s", from, strings.Count(text, from), text)
	}
	return decode(t, []byte(strings.Replace(text, from, to, 1)))
}

// decode parses a route like apimachinery's unstructured objects: whole numbers are int64.
func decode(tb testing.TB, text []byte) map[string]any {
	tb.Helper()
	asJSON, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		tb.Fatalf("route: %v", err)
	}
	return decodeJSON(tb, asJSON)
}

func decodeJSON(tb testing.TB, text []byte) map[string]any {
	tb.Helper()
	object := map[string]any{}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&object); err != nil {
		tb.Fatalf("route: %v", err)
	}
	return numbers(object).(map[string]any)
}

// numbers converts the decoder's numbers to int64 and float64.
func numbers(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for key := range value {
			value[key] = numbers(value[key])
		}
	case []any:
		for i := range value {
			value[i] = numbers(value[i])
		}
	case json.Number:
		if whole, err := value.Int64(); err == nil {
			return whole
		}
		broken, _ := value.Float64()
		return broken
	}
	return value
}

// encode formats a route as YAML, with sorted keys.
func encode(tb testing.TB, object map[string]any) []byte {
	tb.Helper()
	text, err := yaml.Marshal(object)
	if err != nil {
		tb.Fatal(err)
	}
	return text
}
