// Package build builds the programs of the embedded cluster once and caches them outside the tree. The sources are
// pinned Go modules, Debian packages and Python wheels. Nothing is installed on the host.
package build

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kedify/argo-rollouts-plugin/localcluster/logtail"
)

// Component is a component that is built as a whole and cached under a key of all its inputs.
type Component struct {
	// Name is the component's name and its folder in the cache.
	Name string
	// Estimate is the approximate build time on two cores with an empty cache.
	Estimate time.Duration
	// Recipe builds it.
	Recipe Recipe
}

// Recipe builds a component.
type Recipe interface {
	// Fingerprint returns the inputs of the component's content: components with equal fingerprints are
	// interchangeable.
	Fingerprint() ([]byte, error)
	// Make writes the component below the folder dest, which exists and is empty. The output of tools goes to log.
	Make(ctx context.Context, dest string, log io.Writer) error
}

// Cache is the folder of built components.
type Cache struct {
	// Dir is the cache's folder. It is created on first use.
	Dir string
}

// Progress is called for each component that has to be built, one Step at a time.
type Progress func(Step)

// Step is the start or the end of the build of one component.
type Step struct {
	// Component is the component's name.
	Component string
	// Number and Total count the missing components.
	Number, Total int
	// Remaining estimates the time until all missing components are built: see Left.
	Remaining time.Duration
	// Took is the build time; 0 at the start.
	Took time.Duration
}

// ErrBuild is wrapped by the error of a component whose build failed.
var ErrBuild = errors.New("build failed")

// Ensure builds the components that the cache lacks and returns the folder of each. Components are compiled one after
// the other, in their order. Downloads run in parallel: first the components that are only downloaded, so that a
// missing tool or repository shows within the first minute, then the modules that are compiled later.
func (c Cache) Ensure(ctx context.Context, components []Component, progress Progress) (map[string]string, error) {
	folders := make(map[string]string, len(components))
	for _, component := range components {
		folder, err := c.folder(component)
		if err != nil {
			return nil, err
		}
		folders[component.Name] = folder
	}
	missing, err := c.Missing(components)
	if err != nil {
		return nil, err
	}
	compiled, downloaded := lanes(missing)
	m := &buildRun{cache: c, folders: folders, progress: progress, total: len(missing)}
	m.costs = [][]Cost{costs(compiled), costs(downloaded)}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return m.buildLane(ctx, compiled, m.costs[0]) })
	group.Go(func() error {
		if err := m.buildLane(ctx, downloaded, m.costs[1]); err != nil {
			return err
		}
		m.fetch(ctx, compiled)
		return nil
	})
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return folders, nil
}

// buildRun is the state of one call of Ensure.
type buildRun struct {
	cache    Cache
	folders  map[string]string
	progress Progress
	total    int

	mu    sync.Mutex
	begun int
	costs [][]Cost // per lane
}

// buildLane builds the components of a lane and updates their costs.
func (m *buildRun) buildLane(ctx context.Context, components []Component, costs []Cost) error {
	for i, component := range components {
		step := Step{Component: component.Name, Total: m.total}
		m.report(&step, func() { m.begun++; step.Number = m.begun })
		began := time.Now()
		if err := m.cache.make(ctx, component, m.folders[component.Name]); err != nil {
			return err
		}
		step.Took = time.Since(began)
		m.report(&step, func() { costs[i].Took = step.Took })
	}
	return nil
}

// report updates the costs and reports a step. The lane that takes longest determines the remaining time.
func (m *buildRun) report(step *Step, change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
	step.Remaining = 0
	for _, lane := range m.costs {
		step.Remaining = max(step.Remaining, Left(lane))
	}
	m.progress(*step)
}

// fetch downloads the modules that the missing components compile. A failed download is repeated by the component's own
// build, which reports the error.
func (m *buildRun) fetch(ctx context.Context, components []Component) {
	var all []GoTools // one per go.mod
	for _, component := range components {
		recipe, ok := component.Recipe.(compiler)
		if _, err := os.Stat(m.folders[component.Name]); err == nil || !ok {
			continue
		}
		tools := recipe.compiles()
		same := slices.IndexFunc(all, func(g GoTools) bool { return g.Dir == tools.Dir })
		if same < 0 {
			all = append(all, GoTools{Dir: tools.Dir})
			same = len(all) - 1
		}
		all[same].Packages = append(all[same].Packages, tools.Packages...)
		all[same].Tags = append(all[same].Tags, tools.Tags...)
	}
	for _, tools := range all {
		if tools.fetch(ctx, io.Discard) != nil && ctx.Err() != nil {
			return
		}
	}
}

// Missing returns the components that the cache lacks.
func (c Cache) Missing(components []Component) ([]Component, error) {
	var out []Component
	for _, component := range components {
		folder, err := c.folder(component)
		if err != nil {
			return nil, err
		}
		if _, err := os.Stat(folder); err != nil {
			out = append(out, component)
		}
	}
	return out, nil
}

// folder returns the component's folder in the cache, named by its content's key.
func (c Cache) folder(component Component) (string, error) {
	fingerprint, err := component.Recipe.Fingerprint()
	if err != nil {
		return "", fmt.Errorf("key of component %s: %w", component.Name, err)
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%s\n%s\n%s/%s\n", component.Name, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	sum.Write(fingerprint)
	return filepath.Join(c.Dir, "parts", component.Name+"-"+hex.EncodeToString(sum.Sum(nil))[:12]), nil
}

// make builds into a temporary folder and renames it when it is complete. So an interrupted build never looks finished.
func (c Cache) make(ctx context.Context, component Component, folder string) error {
	if err := os.MkdirAll(filepath.Dir(folder), 0o755); err != nil {
		return fmt.Errorf("create the cache folder: %w", err)
	}
	work, err := os.MkdirTemp(filepath.Dir(folder), ".making-"+component.Name+"-")
	if err != nil {
		return fmt.Errorf("create a folder for component %s: %w", component.Name, err)
	}
	defer os.RemoveAll(work)
	logPath := filepath.Join(c.Dir, "parts", component.Name+".log")
	log, err := os.Create(logPath)
	if err != nil {
		return fmt.Errorf("open the log of component %s: %w", component.Name, err)
	}
	defer log.Close()
	if err := component.Recipe.Make(ctx, work, log); err != nil {
		return fmt.Errorf("%w: %s: %w\n%s", ErrBuild, component.Name, err, logtail.Tail(logPath))
	}
	if err := os.Chmod(work, 0o755); err != nil {
		return fmt.Errorf("store component %s: %w", component.Name, err)
	}
	if err := os.Rename(work, folder); err != nil {
		if _, statErr := os.Stat(folder); statErr == nil {
			return nil // another build of the same component was faster
		}
		return fmt.Errorf("store component %s: %w", component.Name, err)
	}
	return nil
}
