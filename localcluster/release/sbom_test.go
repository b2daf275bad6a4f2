package release

import (
	"bytes"
	"encoding/json"
	"errors"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-cmp/cmp"
)

func TestABillHasEachModuleOnce(t *testing.T) {
	info := &debug.BuildInfo{
		GoVersion: "go1.26.8", Path: "example.com/app/cmd/app",
		Deps: []*debug.Module{
			{Path: "example.com/z", Version: "v1.0.0", Sum: "h1:z="},
			{Path: "example.com/Big", Version: "v1.0.0"},
			{Path: "example.com/old", Version: "v1.0.0", Replace: &debug.Module{Path: "example.com/new", Version: "v2.0.0", Sum: "h1:new="}},
		},
		Settings: []debug.BuildSetting{{Key: "GOARCH", Value: "arm64"}, {Key: "-ldflags", Value: "-s"}},
	}
	got, err := bill(info, "0.2.0", "abc", moduleLicenses(t))
	if err != nil {
		t.Fatal(err)
	}
	var refs []string
	for _, component := range *got.Components {
		refs = append(refs, component.PackageURL+" "+identifiers(component))
	}
	want := []string{
		"pkg:golang/example.com/Big@v1.0.0 Apache-2.0 BSD-3-Clause", "pkg:golang/example.com/new@v2.0.0 BSD-3-Clause",
		"pkg:golang/example.com/z@v1.0.0 BSD-3-Clause", "pkg:golang/std@1.26.8 BSD-3-Clause",
	}
	if diff := cmp.Diff(want, refs); diff != "" {
		t.Errorf("modules (-want +got):\n%s", diff)
	}
	if got := identifiers(*got.Metadata.Component); got != "Apache-2.0" {
		t.Errorf("the license of the program is %q", got)
	}
	info.Deps = append(info.Deps, &debug.Module{Path: "example.com/unknown", Version: "v1.0.0"})
	if _, err := bill(info, "0.2.0", "abc", moduleLicenses(t)); !errors.Is(err, ErrLicense) {
		t.Errorf("a module with an unknown license: error %v", err)
	}
	if diff := cmp.Diff([]cdx.Property{{Name: "GOVERSION", Value: "go1.26.8"}, {Name: "GOARCH", Value: "arm64"}}, *got.Metadata.Component.Properties); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
}

// identifiers are the licenses of a component.
func identifiers(component cdx.Component) string {
	var ids []string
	for _, choice := range *component.Licenses {
		ids = append(ids, choice.License.ID)
	}
	return strings.Join(ids, " ")
}

// An image with one program for two architectures and another program: each binary is a component, and so is each
// module, once.
func TestImageBillHasItsProgramsAndEachModuleOnce(t *testing.T) {
	licenses := moduleLicenses(t)
	program := func(sum, path, architecture string, modules ...*debug.Module) *cdx.BOM {
		out, err := bill(&debug.BuildInfo{
			GoVersion: "go1.26.8", Path: path, Deps: modules,
			Settings: []debug.BuildSetting{{Key: "GOARCH", Value: architecture}},
		}, "0.2.0", sum, licenses)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	a, b := &debug.Module{Path: "example.com/a", Version: "v1.0.0"}, &debug.Module{Path: "example.com/b", Version: "v1.0.0"}
	got := imageBill("registry.example.com/app", "0.2.0", []*cdx.BOM{
		program("01", "example.com/app/cmd/app", "amd64", a),
		program("02", "example.com/app/cmd/app", "arm64", a, b),
		program("03", "example.com/app/cmd/other", "amd64", b),
	})
	var refs []string
	for _, component := range *got.Components {
		refs = append(refs, component.BOMRef)
	}
	const app, other = "pkg:golang/example.com/app/cmd/app@v0.2.0", "pkg:golang/example.com/app/cmd/other@v0.2.0"
	const moduleA, moduleB, std = "pkg:golang/example.com/a@v1.0.0", "pkg:golang/example.com/b@v1.0.0", "pkg:golang/std@1.26.8"
	if diff := cmp.Diff([]string{app + "#01", app + "#02", other + "#03", moduleA, moduleB, std}, refs); diff != "" {
		t.Errorf("components (-want +got):\n%s", diff)
	}
	modules := []Module{{"example.com/a", "v1.0.0"}, {"example.com/b", "v1.0.0"}, {standardLibrary, "1.26.8"}}
	if diff := cmp.Diff(modules, modulesOf(got)); diff != "" {
		t.Errorf("modules (-want +got):\n%s", diff)
	}
	dependencies := map[string][]string{}
	for _, dependency := range *got.Dependencies {
		dependencies[dependency.Ref] = *dependency.Dependencies
	}
	if diff := cmp.Diff(map[string][]string{
		"registry.example.com/app:0.2.0": {app + "#01", app + "#02", other + "#03"},
		app + "#01":                      {moduleA, std}, app + "#02": {moduleA, moduleB, std}, other + "#03": {moduleB, std},
	}, dependencies); diff != "" {
		t.Errorf("dependencies (-want +got):\n%s", diff)
	}
}

func TestBillOfRealBinary(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "release")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", binary, "../cmd/release").CombinedOutput(); err != nil {
		t.Fatalf("build a program: %v\n%s", err, out)
	}
	licenses, err := LocalLicenses(t.Context(), ".")
	if err != nil {
		t.Fatal(err)
	}
	var first, second bytes.Buffer
	for _, out := range []*bytes.Buffer{&first, &second} {
		if err := WriteBill(binary, "0.2.0", licenses, out); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("two bills of one binary differ")
	}
	var read cdx.BOM
	if err := json.Unmarshal(first.Bytes(), &read); err != nil {
		t.Fatal(err)
	}
	found := false
	for _, component := range *read.Components {
		found = found || component.Name == "github.com/CycloneDX/cyclonedx-go" && identifiers(component) == "Apache-2.0"
	}
	if !found || read.SpecVersion != cdx.SpecVersion1_6 {
		t.Errorf("the bill of this test lacks a module of the program, or is of version %s:\n%s", read.SpecVersion, first.String())
	}
	if err := WriteBill("release_test.go", "0.2.0", licenses, &first); err == nil {
		t.Error("a file that is no binary has a bill")
	}
}
