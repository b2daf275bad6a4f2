package versions

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

const page = "# Page\n\n| Module | Pinned in | Version | Line | Newest | Notes |\n|---|---|---|---|---|---|\n" +
	"| `example.com/a` | `.`, `sub` | v1.0.0 | latest | v1.1.0 | needs b |\n" +
	"| `example.com/b/v2` | `sub` | v2.0.0 | v2.0 | v2.0.0 | – |\n"

func TestParse(t *testing.T) {
	want := []Pin{
		{"example.com/a", []string{".", "sub"}, "v1.0.0", Latest, "v1.1.0"},
		{"example.com/b/v2", []string{"sub"}, "v2.0.0", "v2.0", "v2.0.0"},
	}
	got, err := Parse(page)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("pins (-want +got):\n%s\n%v", diff, err)
	}
	for _, text := range []string{
		"", strings.ReplaceAll(page, "v1.1.0", "1.1.0"), strings.ReplaceAll(page, "v2.0 |", "newest |"),
	} {
		if pins, err := Parse(text); !errors.Is(err, ErrTable) {
			t.Errorf("pins %v, error %v of\n%s", pins, err, text)
		}
	}
}

func TestCheck(t *testing.T) {
	newest, older := Pin{Version: "v1.0.0", Newest: "v1.0.0"}, Pin{Version: "v1.0.0", Newest: "v1.1.0"}
	other := Pin{Version: "v1.1.0", Newest: "v1.1.0"}
	for name, test := range map[string]struct {
		pin           Pin
		require, want string
	}{
		"newest":                  {newest, "example.com/a v1.0.0", ""},
		"explained":               {older, "example.com/a v1.0.0 // needs b", ""},
		"explained above":         {older, "// Needs b.\n\texample.com/a v1.0.0 // indirect", ""},
		"indirect, explained":     {older, "example.com/a v1.0.0 // indirect; needs b", ""},
		"not explained":           {older, "example.com/a v1.0.0", "add a comment"},
		"indirect, not explained": {older, "example.com/a v1.0.0 // indirect", "add a comment"},
		"another version":         {other, "example.com/a v1.0.0", "has example.com/a@v1.0.0, the table v1.1.0"},
		"another module":          {newest, "example.com/b v1.0.0", "does not require"},
	} {
		test.pin.Module, test.pin.Folders = "example.com/a", []string{"sub"}
		text := "module example.com/x\n\nrequire (\n\t" + test.require + "\n)\n"
		err := test.pin.Check(fstest.MapFS{"sub/go.mod": {Data: []byte(text)}})
		if test.want == "" && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if test.want != "" && (!errors.Is(err, ErrPin) || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: error %v, want %q", name, err, test.want)
		}
	}
	if err := (Pin{Folders: []string{"missing"}}).Check(fstest.MapFS{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing go.mod: error %v", err)
	}
}

func TestReport(t *testing.T) {
	pins, err := Parse(page)
	if err != nil {
		t.Fatal(err)
	}
	errOffline := errors.New("offline")
	for name, test := range map[string]struct {
		// a and b are the newest versions of the modules; there is no answer for an empty one.
		a, b      string
		err       error
		contained string
	}{
		"as listed":  {"v1.1.0", "v2.0.0", nil, "| v1.0.0 | v1.1.0 | v1.1.0 |"},
		"older":      {"v1.0.9", "v2.0.0", nil, "| v1.1.0 | v1.0.9 |"},
		"newer":      {"v1.10.0", "v2.0.0", ErrNewer, "| v1.1.0 | **v1.10.0** |"},
		"newer line": {"v1.1.0", "v2.0.1", ErrNewer, "| v2.0.0 | **v2.0.1** |"},
		"no answer":  {"v1.1.0", "", errOffline, "| v2.0.0 | unknown |"},
	} {
		newest := map[string]string{"example.com/a@latest": test.a, "example.com/b/v2@v2.0": test.b}
		lookup := func(_ context.Context, module, line string) (string, error) {
			if version := newest[module+"@"+line]; version != "" {
				return version, nil
			}
			return "", fmt.Errorf("%s: %w", module, errOffline)
		}
		var out strings.Builder
		err := Report(t.Context(), pins, lookup, &out)
		if !errors.Is(err, test.err) || (err == nil) != (test.err == nil) {
			t.Errorf("%s: error %v, want %v", name, err, test.err)
		}
		if !strings.Contains(out.String(), test.contained) {
			t.Errorf("%s: want %s in\n%s", name, test.contained, out.String())
		}
	}
}

// TestPageHasThePins: the table lists the versions in the go.mod files, and each older one has a reason there.
func TestPageHasThePins(t *testing.T) {
	repository := os.DirFS("../..")
	text, err := os.ReadFile("../../docs/dev/versions.md")
	if err != nil {
		t.Fatal(err)
	}
	pins, err := Parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, pin := range pins {
		if err := pin.Check(repository); err != nil {
			t.Error(err)
		}
		listed[pin.Module] = true
	}
	for _, module := range []string{
		"github.com/argoproj/argo-rollouts", "github.com/kedacore/keda/v2", "sigs.k8s.io/gateway-api", "k8s.io/client-go",
		"k8s.io/kubernetes", "sigs.k8s.io/controller-runtime", "github.com/envoyproxy/go-control-plane/envoy",
		"github.com/envoyproxy/gateway",
	} {
		if !listed[module] {
			t.Errorf("the table lacks %s", module)
		}
	}
}
