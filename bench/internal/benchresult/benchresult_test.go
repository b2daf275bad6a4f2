package benchresult

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestResultsOverALimitArePublished(t *testing.T) {
	t.Parallel()
	limits := []Limit{{Name: "p50", Value: 1, Limit: 2}, {Name: "p99, ms", Value: 3, Limit: 2}}
	results := struct {
		Limits []Limit `json:"limits"`
	}{limits[1:]}
	const encoded = "{\n  \"limits\": [\n    {\n      \"name\": \"p99, ms\",\n      \"value\": 3,\n      \"limit\": 2\n" +
		"    }\n  ]\n}\n"
	file := filepath.Join(t.TempDir(), "results.json")
	for name, test := range map[string]struct{ file, stdout string }{
		"to a file": {file, ""},
		"to stdout": {"", "\n" + encoded},
	} {
		var stdout strings.Builder
		err := Publish(results, limits, test.file, &stdout)
		if err == nil || err.Error() != "p99, ms is 3.00, at most 2.00 is allowed" {
			t.Errorf("%s: the verdict is %v", name, err)
		}
		if stdout.String() != test.stdout {
			t.Errorf("%s: stdout has %q, want %q", name, stdout.String(), test.stdout)
		}
	}
	if written, err := os.ReadFile(file); err != nil || string(written) != encoded {
		t.Errorf("the file has %q, want %q: %v", written, encoded, err)
	}
	if err := Publish(results, limits[:1], file, new(strings.Builder)); err != nil {
		t.Errorf("within the limits: %v", err)
	}
}

func TestVerdictOfMissedLimits(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		limit Limit
		kept  bool
		row   string
	}{
		{Limit{Name: "p50", Value: 1.15, Limit: 1.15}, true, "\tp50\t1.15\tat most 1.15\tok\t\n"},
		{Limit{Name: "p50", Value: 1.16, Limit: 1.15}, false, "\tp50\t1.16\tat most 1.15\tMISSED\t\n"},
		{Limit{Name: "rate", Value: 0.85, Limit: 0.85, AtLeast: true}, true, "\trate\t0.85\tat least 0.85\tok\t\n"},
		{Limit{Name: "rate", Value: 0.84, Limit: 0.85, AtLeast: true}, false, "\trate\t0.84\tat least 0.85\tMISSED\t\n"},
		{Limit{Name: "nothing", Value: math.NaN(), Limit: 1}, false, "\tnothing\tNaN\tat most 1.00\tMISSED\t\n"},
		{Limit{Name: "nothing", Value: math.NaN(), AtLeast: true}, false, "\tnothing\tNaN\tat least 0.00\tMISSED\t\n"},
	} {
		if err := Verdict([]Limit{test.limit}); (err == nil) != test.kept {
			t.Errorf("%+v: the verdict is %v", test.limit, err)
		}
		var printed strings.Builder
		Print(&printed, []Limit{test.limit}, "")
		if want := "\tlimit\tvalue\tallowed\t\t\n" + test.row; printed.String() != want {
			t.Errorf("%+v is printed as %q, want %q", test.limit, printed.String(), want)
		}
	}
}
