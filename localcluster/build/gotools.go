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

	"golang.org/x/mod/modfile"
)

// GoTools builds programs from the dependencies that its own go.mod pins.
type GoTools struct {
	// Dir is the folder with the go.mod.
	Dir string
	// Packages are the main packages.
	Packages []string
	// Output names the program if there is a single package. Several programs are named after their packages.
	Output string
	// Tags are build tags.
	Tags []string
	// Stamps are variables of the programs that the linker sets to the version of a module.
	Stamps []Stamp `json:",omitempty"`
	// Module and Copies name files or folders of a dependency that are stored with the programs, in a folder named
	// after the component.
	Module string
	// Copies maps paths in the module to paths in the component.
	Copies map[string]string
	// Prints are files of the component that its own programs write.
	Prints []Print `json:",omitempty"` // omitted from the fingerprints of components without such files
	// Prefix is added to the names of the programs: a cluster has the programs of all its components in one folder.
	Prefix string `json:",omitempty"`
	// Temporary names programs that only Prints run. They are removed afterwards.
	Temporary []string `json:",omitempty"`
}

// Stamp is a variable that the linker sets to the version of a module that the go.mod pins. So a program always reports
// its real version.
type Stamp struct {
	// Variable is its package path and name. Module is the module's path.
	Variable, Module string
	// Bare omits the v of the version.
	Bare bool `json:",omitempty"`
}

// Print is a file with the output of a built program.
type Print struct {
	// Program is the program's name in the component's bin folder.
	Program string
	// Args are its arguments. It runs in the component's folder.
	Args []string
	// Output is the file's path in the component.
	Output string
}

// Fingerprint covers the module's own files and the build flags.
func (g GoTools) Fingerprint() ([]byte, error) {
	out, err := Contents(g.Dir)
	if err != nil {
		return nil, err
	}
	g.Dir = "" // independent of the path of the checkout
	how, err := json.Marshal(g)
	if err != nil {
		return nil, fmt.Errorf("encode the fingerprint: %w", err)
	}
	return append(out, how...), nil
}

// Make builds the programs into dest/bin, without cgo.
func (g GoTools) Make(ctx context.Context, dest string, log io.Writer) error {
	output := filepath.Join(dest, "bin") + string(filepath.Separator)
	if g.Output != "" {
		output += g.Output
	}
	flags, err := g.linkerFlags()
	if err != nil {
		return err
	}
	args := []string{
		"build", "-trimpath", "-buildvcs=false",
		// Debug information would be generated for each package and then stripped from the program. Omitting it saves
		// an eighth of the build time.
		"-gcflags=all=-dwarf=false",
		// gRPC's tracing links the template engine, and with it every method of every type. Without it a program that
		// uses gRPC is a sixth smaller. The Makefile sets the same flag so that both share the compiler's cache.
		"-tags", g.tags(),
		"-ldflags", flags,
		"-o", output,
	}
	if err := os.MkdirAll(filepath.Dir(output), 0o755); err != nil {
		return fmt.Errorf("create the program folder: %w", err)
	}
	if err := run(ctx, g.Dir, log, CompilerEnv(), "go", append(args, g.Packages...)...); err != nil {
		return err
	}
	if err := g.addPrefix(filepath.Dir(output)); err != nil {
		return err
	}
	if err := (ModuleFiles{g.Dir, g.Module, g.Copies}).Make(ctx, dest, log); err != nil {
		return err
	}
	return g.print(ctx, dest, log)
}

// compiles implements compiler.
func (g GoTools) compiles() GoTools { return g }

// fetch downloads only the modules that the programs are compiled from, not everything that the go.mod names.
func (g GoTools) fetch(ctx context.Context, log io.Writer) error {
	args := append([]string{"list", "-deps", "-f", "{{.Name}}", "-tags", g.tags()}, g.Packages...)
	return run(ctx, g.Dir, log, []string{"CGO_ENABLED=0"}, "go", args...)
}

// tags returns the build tags of all programs and those of g.
func (g GoTools) tags() string { return strings.Join(append([]string{"grpcnotrace"}, g.Tags...), ",") }

// linkerFlags omits debug information and sets the stamps.
func (g GoTools) linkerFlags() (string, error) {
	flags := []string{"-s", "-w"}
	for _, stamp := range g.Stamps {
		version, err := ModuleVersion(g.Dir, stamp.Module)
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

// ModuleVersion returns the version of a module that a folder's go.mod pins. For a replaced module it returns the
// replacement's version.
func ModuleVersion(dir, module string) (string, error) {
	name := filepath.Join(dir, "go.mod")
	text, err := os.ReadFile(name)
	if err != nil {
		return "", fmt.Errorf("find the version of module %s: %w", module, err)
	}
	file, err := modfile.Parse(name, text, nil)
	if err != nil {
		return "", fmt.Errorf("find the version of module %s: %w", module, err)
	}
	for _, r := range file.Replace {
		if r.Old.Path == module {
			return r.New.Version, nil
		}
	}
	for _, r := range file.Require {
		if r.Mod.Path == module {
			return r.Mod.Version, nil
		}
	}
	return "", fmt.Errorf("%w: %s does not require %s", ErrBuild, name, module)
}

// addPrefix adds the prefix to the names of all programs in a folder.
func (g GoTools) addPrefix(folder string) error {
	if g.Prefix == "" {
		return nil
	}
	programs, err := os.ReadDir(folder)
	if err != nil {
		return fmt.Errorf("list the programs: %w", err)
	}
	for _, program := range programs {
		name := program.Name()
		if err := os.Rename(filepath.Join(folder, name), filepath.Join(folder, g.Prefix+name)); err != nil {
			return fmt.Errorf("rename a program: %w", err)
		}
	}
	return nil
}

// print runs the built programs whose output is stored, and removes those that are only built for that.
func (g GoTools) print(ctx context.Context, dest string, log io.Writer) error {
	for _, p := range g.Prints {
		output := filepath.Join(dest, p.Output)
		if err := os.MkdirAll(filepath.Dir(output), 0o755); err != nil {
			return fmt.Errorf("create the folder of %s: %w", p.Output, err)
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
	for _, program := range g.Temporary {
		if err := os.Remove(filepath.Join(dest, "bin", program)); err != nil {
			return fmt.Errorf("remove a temporary program: %w", err)
		}
	}
	return nil
}

// run runs a tool and writes its output to the log.
func run(ctx context.Context, dir string, log io.Writer, env []string, name string, args ...string) error {
	fmt.Fprintf(log, "+ %s %s\n", name, strings.Join(args, " "))
	command := exec.CommandContext(ctx, name, args...)
	command.Dir, command.Stdout, command.Stderr = dir, log, log
	command.Env = append(goEnv(), env...)
	if err := command.Run(); err != nil {
		return fmt.Errorf("run %s: %w", name, err)
	}
	return nil
}

// goEnv returns the environment of go commands. If a component's go.mod requires a newer Go than the installed one, the
// go command downloads it (https://go.dev/doc/toolchain), whatever the user's GOTOOLCHAIN is.
func goEnv() []string { return append(os.Environ(), "GOTOOLCHAIN=auto") }
