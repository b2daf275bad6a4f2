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
	"strings"
)

// GoTools builds programs from the dependencies that a go.mod of its own pins.
type GoTools struct {
	// Dir is the folder with the go.mod.
	Dir string
	// Packages are the main packages.
	Packages []string
	// Output names the program of a single package; several are named after
	// their packages.
	Output string
	// Tags are build tags.
	Tags []string
	// LinkerFlags are passed on to the linker.
	LinkerFlags []string
	// Module and Copies name files or folders of a dependency that are kept
	// with the programs, below a folder named after the part they are for.
	Module string
	// Copies maps paths in the module to paths in the part.
	Copies map[string]string
}

// Fingerprint covers the module's own files and the way it is built.
func (g GoTools) Fingerprint() ([]byte, error) {
	var out []byte
	tree := os.DirFS(g.Dir)
	err := fs.WalkDir(tree, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		raw, err := fs.ReadFile(tree, path)
		out = append(out, raw...)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", g.Dir, err)
	}
	g.Dir = "" // where the tree lies makes no difference
	how, err := json.Marshal(g)
	if err != nil {
		return nil, fmt.Errorf("describe the build: %w", err)
	}
	return append(out, how...), nil
}

// Make builds the programs into dest/bin, without cgo.
func (g GoTools) Make(ctx context.Context, dest string, log io.Writer) error {
	output := filepath.Join(dest, "bin") + string(filepath.Separator)
	if g.Output != "" {
		output += g.Output
	}
	args := []string{
		"build", "-trimpath", "-buildvcs=false",
		// Debug information would be made for every package and then stripped from
		// the program: leaving it out saves an eighth of the time.
		"-gcflags=all=-dwarf=false",
		"-tags", strings.Join(g.Tags, ","),
		"-ldflags", strings.Join(append([]string{"-s", "-w"}, g.LinkerFlags...), " "),
		"-o", output,
	}
	if err := os.MkdirAll(filepath.Dir(output), 0o755); err != nil {
		return fmt.Errorf("make the program folder: %w", err)
	}
	// A compiler lives for seconds: it need not collect garbage as often as usual.
	if err := run(ctx, g.Dir, log, []string{"CGO_ENABLED=0", "GOGC=200"}, "go", append(args, g.Packages...)...); err != nil {
		return err
	}
	return g.copyFiles(ctx, dest)
}

func (g GoTools) copyFiles(ctx context.Context, dest string) error {
	if len(g.Copies) == 0 {
		return nil
	}
	command := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", g.Module)
	command.Dir = g.Dir
	out, err := command.Output()
	if err != nil {
		return fmt.Errorf("find module %s: %w", g.Module, err)
	}
	for from, to := range g.Copies {
		source, target := filepath.Join(strings.TrimSpace(string(out)), from), filepath.Join(dest, to)
		raw, err := os.ReadFile(source)
		if err != nil {
			return fmt.Errorf("copy from module %s: %w", g.Module, err)
		}
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return fmt.Errorf("copy from module %s: %w", g.Module, err)
		}
		if err := os.WriteFile(target, raw, 0o644); err != nil {
			return fmt.Errorf("copy from module %s: %w", g.Module, err)
		}
	}
	return nil
}

// run runs one tool with its output in the log.
func run(ctx context.Context, dir string, log io.Writer, env []string, name string, args ...string) error {
	fmt.Fprintf(log, "+ %s %s\n", name, strings.Join(args, " "))
	command := exec.CommandContext(ctx, name, args...)
	command.Dir, command.Stdout, command.Stderr = dir, log, log
	command.Env = append(os.Environ(), env...)
	if err := command.Run(); err != nil {
		return fmt.Errorf("run %s: %w", name, err)
	}
	return nil
}
