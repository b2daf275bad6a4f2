// Package build makes the programs of the embedded cluster once and keeps them
// in a cache outside the tree: from pinned Go modules, Debian packages and
// Python wheels, with nothing installed on the host.
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
	"time"

	"github.com/kedify/argo-rollouts-plugin/localcluster/logtail"
)

// Part is one thing that is built as a whole and cached under a key of all
// that its content depends on.
type Part struct {
	// Name names the part and its folder in the cache.
	Name string
	// Estimate is about how long it takes on two cores with nothing cached.
	Estimate time.Duration
	// Recipe makes it.
	Recipe Recipe
}

// Recipe makes a part.
type Recipe interface {
	// Fingerprint returns what the part's content depends on: equal
	// fingerprints give parts that can stand for each other.
	Fingerprint() ([]byte, error)
	// Make puts the part below the folder dest, which exists and is empty.
	// What the tools print goes to log.
	Make(ctx context.Context, dest string, log io.Writer) error
}

// Cache is the folder that built parts are kept in.
type Cache struct {
	// Dir is the cache's folder; it is made when it is needed.
	Dir string
}

// Progress is told about each part that has to be made.
type Progress func(Step)

// Step is one moment in the making of the parts.
type Step struct {
	// Part is the part's name.
	Part string
	// Number and Total say which of how many missing parts it is.
	Number, Total int
	// Remaining estimates how long all that is left takes, this part included.
	Remaining time.Duration
	// Took is how long the part took; 0 when it begins.
	Took time.Duration
}

// ErrBuild is wrapped by the error of a part that could not be made.
var ErrBuild = errors.New("build failed")

// Ensure makes the parts that the cache lacks and returns the folder of each.
func (c Cache) Ensure(ctx context.Context, parts []Part, progress Progress) (map[string]string, error) {
	folders := make(map[string]string, len(parts))
	var missing []Part
	var remaining time.Duration
	for _, part := range parts {
		folder, err := c.folder(part)
		if err != nil {
			return nil, err
		}
		folders[part.Name] = folder
		if _, err := os.Stat(folder); err != nil {
			missing = append(missing, part)
			remaining += part.Estimate
		}
	}
	for i, part := range missing {
		step := Step{Part: part.Name, Number: i + 1, Total: len(missing), Remaining: remaining}
		progress(step)
		began := time.Now()
		if err := c.make(ctx, part, folders[part.Name]); err != nil {
			return nil, err
		}
		remaining -= part.Estimate
		step.Took, step.Remaining = time.Since(began), remaining
		progress(step)
	}
	return folders, nil
}

// Missing returns the parts that the cache lacks.
func (c Cache) Missing(parts []Part) ([]Part, error) {
	var out []Part
	for _, part := range parts {
		folder, err := c.folder(part)
		if err != nil {
			return nil, err
		}
		if _, err := os.Stat(folder); err != nil {
			out = append(out, part)
		}
	}
	return out, nil
}

// folder names the part's place in the cache by its content's key.
func (c Cache) folder(part Part) (string, error) {
	fingerprint, err := part.Recipe.Fingerprint()
	if err != nil {
		return "", fmt.Errorf("key of part %s: %w", part.Name, err)
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%s\n%s\n%s/%s\n", part.Name, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	sum.Write(fingerprint)
	return filepath.Join(c.Dir, "parts", part.Name+"-"+hex.EncodeToString(sum.Sum(nil))[:12]), nil
}

// make builds into a folder of its own and moves it to its place when it is
// complete, so that an interrupted build is never taken for a finished one.
func (c Cache) make(ctx context.Context, part Part, folder string) error {
	if err := os.MkdirAll(filepath.Dir(folder), 0o755); err != nil {
		return fmt.Errorf("make the cache folder: %w", err)
	}
	work, err := os.MkdirTemp(filepath.Dir(folder), ".making-"+part.Name+"-")
	if err != nil {
		return fmt.Errorf("make a folder for part %s: %w", part.Name, err)
	}
	defer os.RemoveAll(work)
	logPath := filepath.Join(c.Dir, "parts", part.Name+".log")
	log, err := os.Create(logPath)
	if err != nil {
		return fmt.Errorf("open the log of part %s: %w", part.Name, err)
	}
	defer log.Close()
	if err := part.Recipe.Make(ctx, work, log); err != nil {
		return fmt.Errorf("%w: %s: %w\n%s", ErrBuild, part.Name, err, logtail.Of(logPath))
	}
	if err := os.Chmod(work, 0o755); err != nil {
		return fmt.Errorf("finish part %s: %w", part.Name, err)
	}
	if err := os.Rename(work, folder); err != nil {
		if _, statErr := os.Stat(folder); statErr == nil {
			return nil // another build of the same part was faster
		}
		return fmt.Errorf("finish part %s: %w", part.Name, err)
	}
	return nil
}
