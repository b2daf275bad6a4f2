package build

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// recipe counts how often it is built.
type recipe struct {
	key   string
	made  *int
	fails bool
}

func (r recipe) Fingerprint() ([]byte, error) { return []byte(r.key), nil }

func (r recipe) Make(_ context.Context, dest string, log io.Writer) error {
	*r.made++
	if err := os.WriteFile(filepath.Join(dest, "program"), []byte(r.key), 0o600); err != nil {
		return err
	}
	if r.fails {
		fmt.Fprintln(log, "undefined: everything")
		return errors.New("exit status 1")
	}
	return nil
}

func TestEnsure(t *testing.T) {
	var made int
	cache := Cache{Dir: t.TempDir()}
	ensure := func(t *testing.T, r recipe) (string, []Step, error) {
		t.Helper()
		var steps []Step
		component := Component{Name: "part", Estimate: time.Minute, Recipe: r}
		folders, err := cache.Ensure(t.Context(), []Component{component}, func(s Step) { steps = append(steps, s) })
		return folders["part"], steps, err
	}

	t.Run("a missing component is built, with progress before and after", func(t *testing.T) {
		folder, steps, err := ensure(t, recipe{key: "one", made: &made})
		if err != nil || made != 1 {
			t.Fatalf("made %d times, error %v", made, err)
		}
		if raw, err := os.ReadFile(filepath.Join(folder, "program")); err != nil || string(raw) != "one" {
			t.Errorf("the component contains %q, %v", raw, err)
		}
		if len(steps) != 2 || steps[0].Remaining != time.Minute || steps[1].Remaining != 0 || steps[1].Took == 0 {
			t.Errorf("progress: %+v", steps)
		}
	})
	t.Run("an existing component is not built again", func(t *testing.T) {
		_, steps, err := ensure(t, recipe{key: "one", made: &made})
		if err != nil || made != 1 || len(steps) != 0 {
			t.Errorf("made %d times, progress %v, error %v", made, steps, err)
		}
	})
	t.Run("a component with another fingerprint is built again", func(t *testing.T) {
		folder, _, err := ensure(t, recipe{key: "two", made: &made})
		if err != nil || made != 2 || !strings.HasPrefix(filepath.Base(folder), "part-") {
			t.Errorf("made %d times in %s, error %v", made, folder, err)
		}
	})
	t.Run("a failed component is named with its log, and is built again", func(t *testing.T) {
		_, _, err := ensure(t, recipe{key: "three", made: &made, fails: true})
		if !errors.Is(err, ErrBuild) || !strings.Contains(err.Error(), "part") ||
			!strings.Contains(err.Error(), "undefined: everything") {
			t.Errorf("error %v", err)
		}
		if _, _, err = ensure(t, recipe{key: "three", made: &made}); err != nil || made != 4 {
			t.Errorf("after the failure: made %d times, error %v", made, err)
		}
	})
}

// compiled is a recipe that uses all processors.
type compiled struct{ recipe }

func (compiled) compiles() GoTools { return GoTools{} }

// waiting is a download that blocks until it is released.
type waiting struct {
	recipe

	release <-chan struct{}
}

func (w waiting) Make(ctx context.Context, dest string, log io.Writer) error {
	select {
	case <-w.release:
		return w.recipe.Make(ctx, dest, log)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// endless is a compilation that only its context stops.
type endless struct{ waiting }

func (endless) compiles() GoTools { return GoTools{} }

// A download runs while components are compiled: this one ends after the last of them is built.
func TestDownloadsRunInParallel(t *testing.T) {
	var downloads, compilations int
	release := make(chan struct{})
	components := []Component{
		{"one", time.Minute, compiled{recipe{key: "one", made: &compilations}}},
		{"download", time.Second, waiting{recipe{key: "download", made: &downloads}, release}},
		{"two", 2 * time.Minute, compiled{recipe{key: "two", made: &compilations}}},
	}
	var ends []string
	folders, err := Cache{Dir: t.TempDir()}.Ensure(t.Context(), components, func(s Step) {
		if s.Took == 0 {
			return
		}
		ends = append(ends, s.Component)
		if s.Component == "two" {
			close(release)
		}
	})
	if want := []string{"one", "two", "download"}; err != nil || len(folders) != 3 || !slices.Equal(ends, want) {
		t.Errorf("made %q, want %q; %d folders, error %v", ends, want, len(folders), err)
	}
}

// A failed download stops the compilation.
func TestFailedDownload(t *testing.T) {
	var made int
	components := []Component{
		{"long", time.Minute, endless{waiting{recipe{key: "long", made: &made}, nil}}},
		{"download", time.Second, recipe{key: "download", made: &made, fails: true}},
	}
	if _, err := (Cache{Dir: t.TempDir()}).Ensure(t.Context(), components, func(Step) {}); !errors.Is(err, ErrBuild) ||
		!strings.Contains(err.Error(), "download") {
		t.Errorf("error %v", err)
	}
}

func TestPartsHaveDistinctNames(t *testing.T) {
	seen := map[string]bool{}
	for _, component := range append(Components("..", "debian-12", KubernetesVersion), OnDemand("..", "debian-12")...) {
		if seen[component.Name] || component.Estimate == 0 {
			t.Errorf("part %s: listed twice, or without an estimate", component.Name)
		}
		seen[component.Name] = true
	}
}
