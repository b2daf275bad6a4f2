package build

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

// ModuleFiles stores files of a Go module that its own go.mod pins, such as the module's manifests. It compiles
// nothing.
type ModuleFiles struct {
	// Dir is the folder with the go.mod.
	Dir string
	// Module is the module's path.
	Module string
	// Copies maps files or folders of the module to paths in the component.
	Copies map[string]string
}

// Fingerprint covers the pinned version and the copied paths.
func (m ModuleFiles) Fingerprint() ([]byte, error) {
	out, err := Contents(m.Dir)
	if err != nil {
		return nil, err
	}
	m.Dir = "" // independent of the path of the checkout
	how, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode the fingerprint: %w", err)
	}
	return append(out, how...), nil
}

// Make downloads the module, verifies it by go.sum, and copies the files into dest.
func (m ModuleFiles) Make(ctx context.Context, dest string, log io.Writer) error {
	if len(m.Copies) == 0 {
		return nil
	}
	command := exec.CommandContext(ctx, "go", "mod", "download", "-json", m.Module)
	command.Dir, command.Env, command.Stderr = m.Dir, goEnv(), log
	out, err := command.Output()
	if err != nil {
		return fmt.Errorf("download module %s: %w\n%s", m.Module, err, out)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil || module.Dir == "" {
		return fmt.Errorf("find module %s: %w\n%s", m.Module, err, out)
	}
	for from, to := range m.Copies {
		if err := copyTree(filepath.Join(module.Dir, from), filepath.Join(dest, to)); err != nil {
			return fmt.Errorf("copy from module %s: %w", m.Module, err)
		}
	}
	return nil
}

// Contents returns the contents of all files below a folder, ordered by path.
func Contents(dir string) ([]byte, error) {
	var out []byte
	tree := os.DirFS(dir)
	err := fs.WalkDir(tree, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		raw, err := fs.ReadFile(tree, path)
		out = append(out, raw...)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", dir, err)
	}
	return out, nil
}

// copyTree copies a file or a folder. The module cache is read-only; the copies are writable.
func copyTree(from, to string) error {
	stat, err := os.Stat(from)
	if err != nil {
		return err
	}
	if stat.IsDir() {
		return os.CopyFS(to, os.DirFS(from))
	}
	raw, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, raw, 0o644)
}
