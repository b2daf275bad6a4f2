package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/kedify/argo-rollouts-plugin/localcluster/build"
	"github.com/kedify/argo-rollouts-plugin/localcluster/cgroup"
	"github.com/kedify/argo-rollouts-plugin/localcluster/cluster"
	"github.com/kedify/argo-rollouts-plugin/localcluster/install"
	"github.com/kedify/argo-rollouts-plugin/localcluster/node"
	"github.com/kedify/argo-rollouts-plugin/localcluster/product"
	"github.com/kedify/argo-rollouts-plugin/localcluster/stack"
)

// assemble builds this project's programs and describes the cluster.
func assemble(
	ctx context.Context, l *location, o *upOptions, r request, components map[string]string,
) (node.Config, error) {
	if err := l.makeDir(); err != nil {
		return node.Config{}, err
	}
	settings := l.settings(o.addresses, r.extraArgs)
	config := node.Config{
		Settings: settings,
		Owner:    os.Getuid(),
		Forwards: append(stack.Forwards(fmt.Sprintf("%s:%d", settings.Addresses.Node, cluster.APIPort)), r.forwards...),
		Bare:     o.bare,
	}
	config.Contents.Components = components
	sources := install.Sources{
		Repo: l.repo, RolloutsManifest: filepath.Join(components["argo-rollouts"], "share", "install.yaml"),
	}
	bundles := []install.Bundle{install.DNS(sources)}
	var programs map[product.Program]string
	var err error
	if o.bare {
		config.Images = stack.BareImages(components)
	} else {
		if programs, err = buildPrograms(ctx, l, stack.Programs(r.addons), r); err != nil {
			return node.Config{}, err
		}
		config.Images = stack.Images(components, programs)
		bundles = append(bundles, install.Canaries(sources))
	}
	for _, addon := range r.addons {
		config.Addons = append(config.Addons, string(addon))
	}
	config.Images = append(config.Images, stack.AddonImages(r.addons, components, programs)...)
	config.Steps = install.Steps(append(bundles, stack.AddonBundles(r.addons, components, sources, o.bare)...)...)
	config.Contents.Given = slices.Sorted(maps.Keys(r.binaries))
	config.Contents.Programs, config.Contents.Manifests, err = contents(l, programs)
	return config, err
}

// settings describe a cluster of this checkout.
func (l *location) settings(addresses cluster.Addresses, extraArgs map[string][]string) cluster.Settings {
	return cluster.Settings{
		Name: l.name(), Dir: l.dir(), Bin: filepath.Join(l.dir(), "programs"),
		Reads:          []string{filepath.Join(l.cache, "parts"), l.repo},
		UnifiedCgroups: cgroup.Unified(),
		Addresses:      addresses, ExtraArgs: extraArgs,
	}
}

// contents returns the hashes of the components, the programs and the manifests.
func contents(l *location, programs map[product.Program]string) (built map[string]string, manifests string, err error) {
	built = map[string]string{}
	for program, path := range programs {
		raw, err := os.ReadFile(path)
		if err != nil {
			return nil, "", fmt.Errorf("read program %s: %w", program, err)
		}
		built[string(program)] = sum(raw)
	}
	var all []byte
	for _, folder := range []string{filepath.Join(l.repo, "config"), filepath.Join(l.modules(), "install")} {
		raw, err := build.Contents(folder)
		if err != nil {
			return nil, "", err
		}
		all = append(all, raw...)
	}
	return built, sum(all), nil
}

func sum(content []byte) string {
	hash := sha256.Sum256(content)
	return hex.EncodeToString(hash[:])
}

// buildPrograms builds this project's own programs from the working tree, except those that are passed as binaries.
func buildPrograms(
	ctx context.Context, l *location, programs []product.Program, r request,
) (map[product.Program]string, error) {
	out := map[product.Program]string{}
	var missing []product.Program
	for _, program := range programs {
		target := ownProgram(l, program)
		out[program] = target
		path, given := r.binaries[string(program)]
		if !given {
			missing = append(missing, program)
			continue
		}
		if err := copyProgram(path, target); err != nil {
			return nil, err
		}
	}
	for program := range r.binaries {
		if _, known := out[product.Program(program)]; !known {
			return nil, fmt.Errorf("--binary %s: unknown program: the programs are %v", program, slices.Sorted(maps.Keys(out)))
		}
	}
	return out, compile(ctx,
		compilation{repo: l.repo, dir: filepath.Join(l.dir(), "own"), architecture: runtime.GOARCH, programs: missing})
}

// ownProgram returns the output path of a program of this project.
func ownProgram(l *location, program product.Program) string {
	return filepath.Join(l.dir(), "own", string(program))
}

// compilation describes a build of programs of the repository.
type compilation struct {
	// repo is the repository. dir is the output folder.
	repo, dir string
	// architecture is the target processor, named as GOARCH.
	architecture string
	// version is the programs' version; if it is empty, Go's build information is used.
	version  string
	programs []product.Program
}

// compile builds programs, each under its own name. As with the components, it omits debug information, which would
// only be stripped again.
func compile(ctx context.Context, c compilation) error {
	if len(c.programs) == 0 {
		return nil
	}
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return fmt.Errorf("create the program folder: %w", err)
	}
	var packages []string
	for _, program := range c.programs {
		packages = append(packages, product.Packages()[program])
	}
	slices.Sort(packages)
	printProgress("building %s", strings.Join(packages, ", "))
	flags := "-s -w"
	if c.version != "" {
		flags += " -X main.version=" + c.version
	}
	args := []string{
		"build", "-trimpath", "-buildvcs=false", "-tags=grpcnotrace", "-gcflags=all=-dwarf=false", "-ldflags", flags, "-o",
		c.dir + string(filepath.Separator),
	}
	command := exec.CommandContext(ctx, "go", append(args, packages...)...)
	command.Dir = c.repo
	command.Env = append(append(os.Environ(), build.CompilerEnv()...), "GOOS=linux", "GOARCH="+c.architecture)
	if printed, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", strings.Join(packages, ", "), err, printed)
	}
	return nil
}

func copyProgram(from, to string) error {
	if from == to {
		return nil
	}
	raw, err := os.ReadFile(from)
	if err != nil {
		return fmt.Errorf("read the binary: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return fmt.Errorf("create the program folder: %w", err)
	}
	if err := os.WriteFile(to, raw, 0o755); err != nil {
		return fmt.Errorf("copy the binary: %w", err)
	}
	return nil
}
