package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// recordLife is how long a stage stays cached.
const recordLife = 30 * 24 * time.Hour

// cache has the records of stages that passed.
type cache struct {
	// root is the root of the repository, folder the folder of the records.
	root, folder string
	// isFresh means that existing records are ignored. New ones are written.
	isFresh bool
}

// record is the cache entry of a stage that passed with its inputs. The zero record belongs to a stage that is not
// cached.
type record struct {
	file    string
	isFresh bool
}

// record returns the record of a stage with its inputs as they are now.
func (c cache) record(ctx context.Context, s Stage) (record, error) {
	if len(s.Inputs) == 0 {
		return record{}, nil
	}
	digest, err := c.digest(ctx, s)
	if err != nil {
		return record{}, err
	}
	return record{filepath.Join(c.folder, s.Name+"-"+digest), c.isFresh}, nil
}

// passed returns when the stage passed with these inputs.
func (r record) passed() (when string, found bool) {
	if r.file == "" || r.isFresh {
		return "", false
	}
	text, err := os.ReadFile(r.file)
	return string(text), err == nil
}

// write notes that the stage passed.
func (r record) write(text string) error {
	if r.file == "" {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(r.file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(r.file, []byte(text), 0o644)
}

// prune removes records that are older than recordLife.
func (c cache) prune(now time.Time) error {
	entries, err := os.ReadDir(c.folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, entry := range entries {
		info, infoErr := entry.Info()
		if infoErr == nil && now.Sub(info.ModTime()) > recordLife {
			infoErr = os.Remove(filepath.Join(c.folder, entry.Name()))
		}
		err = errors.Join(err, infoErr)
	}
	return err
}

// digest returns a hash of everything that the result of a stage depends on: the call of make, the compiler, the
// machine's platform, and the names and contents of the files below its inputs in the working tree, except files that
// git ignores.
func (c cache) digest(ctx context.Context, s Stage) (string, error) {
	list := exec.CommandContext(ctx, "git", append([]string{
		"ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate", "--",
	}, s.Inputs...)...)
	list.Dir = c.root
	names, err := list.Output()
	if err != nil {
		return "", fmt.Errorf("git ls-files: %w", err)
	}
	if len(names) == 0 {
		return "", fmt.Errorf("no file below %s", strings.Join(s.Inputs, ", "))
	}
	sum := sha256.New()
	fmt.Fprintln(sum, runtime.Version(), runtime.GOOS, runtime.GOARCH, s.Make)
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names), "\x00"), "\x00") {
		if err := c.add(sum, name); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(sum.Sum(nil))[:24], nil
}

// add adds one file to a digest. A tracked file that is missing in the working tree is omitted.
func (c cache) add(sum io.Writer, name string) error {
	info, err := os.Lstat(filepath.Join(c.root, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var content []byte
	if info.Mode()&fs.ModeSymlink != 0 {
		target, linkErr := os.Readlink(filepath.Join(c.root, name))
		content, err = []byte(target), linkErr
	} else {
		content, err = os.ReadFile(filepath.Join(c.root, name))
	}
	fmt.Fprintf(sum, "%s %v %x\n", name, info.Mode(), sha256.Sum256(content))
	return err
}
