package figures

import (
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
	const encoded = "{\n  \"limits\": [\n    {\n      \"name\": \"p99, ms\",\n      \"value\": 3,\n      \"limit\": 2\n    }\n  ]\n}\n"
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
