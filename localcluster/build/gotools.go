package build

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
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
	// Stamps are variables of the programs that get the version of a module.
	Stamps []Stamp `json:",omitempty"`
	// Module and Copies name files or folders of a dependency that are kept
	// with the programs, below a folder named after the part they are for.
	Module string
	// Copies maps paths in the module to paths in the part.
	Copies map[string]string
	// Prints are files of the part that its own programs write.
	Prints []Print `json:",omitempty"` // absent from the keys of parts that print nothing
}

// Stamp is a variable that the linker sets to the version of a module that the
// go.mod pins, so that a program never says another version than its own.
type Stamp struct {
	// Variable is its package path and name, Module the module's path.
	Variable, Module string
	// Bare leaves the v of the version out.
	Bare bool `json:",omitempty"`
}

// Print is a file with what a built program prints.
type Print struct {
	// Program is the program's name in the part's bin folder.
	Program string
	// Args are its arguments. It runs in the part's folder.
	Args []string
	// Output is the file's path in the part.
	Output string
}

// Fingerprint covers the module's own files and the way it is built.
func (g GoTools) Fingerprint() ([]byte, error) {
	out, err := Contents(g.Dir)
	if err != nil {
		return nil, err
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
	flags, err := g.linkerFlags(ctx)
	if err != nil {
		return err
	}
	args := []string{
		"build", "-trimpath", "-buildvcs=false",
		// Debug information would be made for every package and then stripped from
		// the program: leaving it out saves an eighth of the time.
		"-gcflags=all=-dwarf=false",
		// What traces gRPC calls brings the template engine, and with it every method of every type: without it a
		// program that speaks gRPC is a sixth smaller. The Makefile says so too, so that the compiler's cache is shared.
		"-tags", g.tags(),
		"-ldflags", flags,
		"-o", output,
	}
	if err := os.MkdirAll(filepath.Dir(output), 0o755); err != nil {
		return fmt.Errorf("make the program folder: %w", err)
	}
	if err := run(ctx, g.Dir, log, CompilerEnv(), "go", append(args, g.Packages...)...); err != nil {
		return err
	}
	if err := (ModuleFiles{g.Dir, g.Module, g.Copies}).Make(ctx, dest, log); err != nil {
		return err
	}
	return g.print(ctx, dest, log)
}

// compiles implements compiler.
func (g GoTools) compiles() GoTools { return g }

// fetch downloads the modules that the programs are compiled from, and no others that the go.mod names.
func (g GoTools) fetch(ctx context.Context, log io.Writer) error {
	args := append([]string{"list", "-deps", "-f", "{{.Name}}", "-tags", g.tags()}, g.Packages...)
	return run(ctx, g.Dir, log, []string{"CGO_ENABLED=0"}, "go", args...)
}

// tags are the build tags of all programs, and those of g.
func (g GoTools) tags() string { return strings.Join(append([]string{"grpcnotrace"}, g.Tags...), ",") }

// linkerFlags leave debug information out and set the stamps.
func (g GoTools) linkerFlags(ctx context.Context) (string, error) {
	flags := []string{"-s", "-w"}
	for _, stamp := range g.Stamps {
		version, err := ModuleVersion(ctx, g.Dir, stamp.Module)
		if err != nil {
			return "", err
		}
		if stamp.Bare {
			version = strings.TrimPrefix(version, "v")
		}
		flags = append(flags, "-X", stamp.Variable+"="+version)
	}
	return strings.Join(flags, " "), nil
}

// ModuleVersion returns the version of a module that the go.mod of a folder pins
// and, where it is replaced, that of its replacement.
func ModuleVersion(ctx context.Context, dir, module string) (string, error) {
	command := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{with .Replace}}{{.Version}}{{else}}{{.Version}}{{end}}", module)
	command.Dir = dir
	out, err := command.Output()
	version := strings.TrimSpace(string(out))
	if err != nil || version == "" {
		return "", fmt.Errorf("find the version of module %s in %s: %w", module, dir, err)
	}
	return version, nil
}

// print runs the built programs that have something to print.
func (g GoTools) print(ctx context.Context, dest string, log io.Writer) error {
	for _, p := range g.Prints {
		output := filepath.Join(dest, p.Output)
		if err := os.MkdirAll(filepath.Dir(output), 0o755); err != nil {
			return fmt.Errorf("make the folder of %s: %w", p.Output, err)
		}
		fmt.Fprintf(log, "+ %s %s > %s\n", p.Program, strings.Join(p.Args, " "), p.Output)
		command := exec.CommandContext(ctx, filepath.Join(dest, "bin", p.Program), p.Args...)
		command.Dir, command.Stderr = dest, log
		out, err := command.Output()
		if err != nil {
			return fmt.Errorf("run %s: %w", p.Program, err)
		}
		if err := os.WriteFile(output, out, 0o644); err != nil {
			return fmt.Errorf("write %s: %w", p.Output, err)
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
