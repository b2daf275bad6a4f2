package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCompatibility(t *testing.T) {
	const page = "| Project | Version | In `make ci` | In addition |\n|---|---|---|---|\n" +
		"| KEDA | 2.18.3 | – | `keda-2.18` |\n" +
		"| KEDA | 2.19.0 | `scaling`, `autowire`; its CRD in `demo` | `keda` |\n" +
		"| KEDA | 2.20.2 | – | `keda-2.20` |\n" +
		"| KEDA | 2.21.0 | – | `keda-2.21` |\n" +
		"| Gateway API | v1 routes | `gateway` |\n" +
		"\n| Project | Works with | Run by tests | Notes |\n|---|---|---|---|\n| Helm | 4.3.1 | 4.3.1 | – |\n"
	var results []Result
	for name, status := range map[string]Status{
		"scaling": Cached, "autowire": Flaky, "demo": Passed, "keda": Failed, "keda-2.20": Passed, "keda-2.21": Skipped,
	} {
		results = append(results, Result{Stage: Stage{Name: name}, Status: status})
	}
	want := `VERSION      RESULT   STAGES
KEDA 2.18.3  not run  not run: keda-2.18
KEDA 2.19.0  failed   failed: keda; passed: scaling, autowire, demo
KEDA 2.20.2  passed   passed: keda-2.20
KEDA 2.21.0  not run  not run: keda-2.21
`
	if diff := cmp.Diff(want, compatibility(versions(page), results)); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}

// TestCompatibilityChoosesStages: without --only, exactly the stages that the page names run, with those that they need.
func TestCompatibilityChoosesStages(t *testing.T) {
	o, err := parse([]string{
		"--cache=x", "--compatibility=testdata/compatibility.md", "full",
	}, new(strings.Builder))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range o.stages {
		names = append(names, s.Name)
	}
	if diff := cmp.Diff([]string{"programs", "parts", "keda-parts", "keda-2.18", "scenarios-1.9"}, names); diff != "" {
		t.Errorf("stages (-want +got):\n%s", diff)
	}
	if _, err := parse([]string{"--cache=x", "--compatibility=testdata/none.md", "full"}, new(strings.Builder)); err == nil {
		t.Error("a page that does not exist is no error")
	}
	if _, err := parse([]string{"--cache=x", "--compatibility=doc.go", "full"}, new(strings.Builder)); err == nil {
		t.Error("a page without versions is no error")
	}
}
