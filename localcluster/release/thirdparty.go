package release

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// Module is a Go module in a program. Go's standard library has the path std.
type Module struct {
	Path, Version string
}

// String returns the path and the version.
func (m Module) String() string { return m.Path + " " + m.Version }

// sortModules sorts modules by path and version, and removes duplicates.
func sortModules(modules []Module) []Module {
	slices.SortFunc(modules, func(a, b Module) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(modules)
}

// LinkedModules returns the modules that packages of the repository in a folder are built from, on any of the platforms
// of the kubectl plugin, which are those of all programs.
func LinkedModules(ctx context.Context, folder string, packages ...string) ([]Module, error) {
	version, err := runGo(ctx, folder, nil, "env", "GOVERSION")
	if err != nil {
		return nil, err
	}
	modules := []Module{{standardLibrary, strings.TrimPrefix(strings.TrimSpace(version), "go")}}
	for _, platform := range append(platforms(), "windows-amd64", "windows-arm64") {
		system, architecture, _ := strings.Cut(platform, "-")
		const format = `{{with .Module}}{{if not .Main}}{{with .Replace}}{{.Path}} {{.Version}}{{else}}` +
			`{{.Path}} {{.Version}}{{end}}{{"\n"}}{{end}}{{end}}`
		args := append([]string{"list", "-deps", "-tags=grpcnotrace", "-f", format}, packages...)
		env := []string{"CGO_ENABLED=0", "GOOS=" + system, "GOARCH=" + architecture}
		printed, err := runGo(ctx, folder, env, args...)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(printed) {
			if path, version, found := strings.Cut(strings.TrimSpace(line), " "); found {
				modules = append(modules, Module{path, version})
			}
		}
	}
	return sortModules(modules), nil
}

// runGo runs the go command in a folder, with additional environment variables, and returns its output.
func runGo(ctx context.Context, folder string, env []string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, "go", args...)
	command.Dir, command.Env, command.Stderr = folder, append(os.Environ(), env...), os.Stderr
	printed, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
	}
	return string(printed), nil
}

// modulesOf returns the modules that are components of a bill of materials.
func modulesOf(bill *cdx.BOM) (modules []Module) {
	for _, component := range *bill.Components {
		if component.Type == cdx.ComponentTypeLibrary {
			modules = append(modules, Module{component.Name, component.Version})
		}
	}
	return modules
}

// WriteThirdParty writes the licenses and notices of modules: a list of the modules, and then each text once.
func WriteThirdParty(modules []Module, licenses Licenses, out io.Writer) error {
	var text strings.Builder
	text.WriteString("Modules of other projects that the programs contain, with the SPDX identifiers of their\n" +
		"licenses. The source code of each is https://proxy.golang.org/MODULE/@v/VERSION.zip. The texts follow.\n\n")
	var order []string // the texts
	users := map[string][]string{}
	for _, module := range sortModules(slices.Clone(modules)) {
		terms, err := licenses.Of(module)
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "%s: %s\n", module, strings.Join(terms.IDs, ", "))
		for _, file := range terms.Texts {
			content := strings.TrimSpace(file.Content)
			if users[content] == nil {
				order = append(order, content)
			}
			users[content] = append(users[content], module.String()+": "+file.Path)
		}
	}
	line := strings.Repeat("=", 80)
	for _, content := range order {
		fmt.Fprintf(&text, "\n%s\n%s\n\n%s\n", line, strings.Join(users[content], "\n"), content)
	}
	if _, err := io.WriteString(out, text.String()); err != nil {
		return fmt.Errorf("write the licenses: %w", err)
	}
	return nil
}
