// Package release writes the documents of a release: the bills of materials of binaries and images, and the notes with
// the texts that an installation copies.
package release

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// WriteBill writes the software bill of materials of a Go binary, in CycloneDX 1.6 as JSON: exactly the modules that
// the compiler recorded in the binary, and Go's standard library, with their licenses. Equal binaries have equal bills,
// so it contains no time and no serial number.
func WriteBill(binary, version string, licenses Licenses, out io.Writer) error {
	bill, err := binaryBill(binary, version, licenses)
	if err != nil {
		return err
	}
	return encode(bill, binary, out)
}

// WriteImageBill writes the software bill of materials of an image that contains exactly the given Go binaries, which
// may be for several architectures. It returns the modules in them.
func WriteImageBill(image, version string, binaries []string, licenses Licenses, out io.Writer) ([]Module, error) {
	var bills []*cdx.BOM
	for _, binary := range binaries {
		bill, err := binaryBill(binary, version, licenses)
		if err != nil {
			return nil, err
		}
		bills = append(bills, bill)
	}
	all := imageBill(image, version, bills)
	return modulesOf(all), encode(all, image, out)
}

// binaryBill returns the bill of materials of a binary.
func binaryBill(binary, version string, licenses Licenses) (*cdx.BOM, error) {
	info, sum, err := inspect(binary)
	if err != nil {
		return nil, err
	}
	out, err := bill(info, version, sum, licenses)
	if err != nil {
		return nil, fmt.Errorf("bill of materials of %s: %w", binary, err)
	}
	return out, nil
}

// inspect reads the build information and the SHA-256 checksum of a binary.
func inspect(binary string) (info *debug.BuildInfo, sum string, err error) {
	if info, err = buildinfo.ReadFile(binary); err != nil {
		return nil, "", fmt.Errorf("read the build information of %s: %w", binary, err)
	}
	content, err := os.ReadFile(binary)
	if err != nil {
		return nil, "", fmt.Errorf("read the binary: %w", err)
	}
	digest := sha256.Sum256(content)
	return info, hex.EncodeToString(digest[:]), nil
}

// encode writes a bill as JSON.
func encode(bill *cdx.BOM, name string, out io.Writer) error {
	encoder := cdx.NewBOMEncoder(out, cdx.BOMFileFormatJSON)
	encoder.SetPretty(true)
	if err := encoder.EncodeVersion(bill, cdx.SpecVersion1_6); err != nil {
		return fmt.Errorf("write the bill of materials of %s: %w", name, err)
	}
	return nil
}

// imageBill combines the bills of an image's programs. The binaries of a program for two architectures are two
// components. A module that several binaries contain is one component.
func imageBill(image, version string, bills []*cdx.BOM) *cdx.BOM {
	root := cdx.Component{
		BOMRef: image + ":" + version, Type: cdx.ComponentTypeContainer, Name: image, Version: version,
		Licenses: choices(ownLicense),
	}
	modules := map[string]cdx.Component{}
	var programs []cdx.Component
	var contains []string
	var dependencies []cdx.Dependency
	for _, bill := range bills {
		program := *bill.Metadata.Component
		program.BOMRef += "#" + (*program.Hashes)[0].Value
		programs, contains = append(programs, program), append(contains, program.BOMRef)
		dependency := (*bill.Dependencies)[0]
		dependency.Ref = program.BOMRef
		dependencies = append(dependencies, dependency)
		for _, module := range *bill.Components {
			modules[module.BOMRef] = module
		}
	}
	components := slices.SortedFunc(maps.Values(modules), func(a, b cdx.Component) int {
		return strings.Compare(a.BOMRef, b.BOMRef)
	})
	components = append(programs, components...)
	dependencies = append([]cdx.Dependency{{Ref: root.BOMRef, Dependencies: &contains}}, dependencies...)
	out := cdx.NewBOM()
	out.Metadata, out.Components, out.Dependencies = &cdx.Metadata{Component: &root}, &components, &dependencies
	return out
}

// bill lists the modules of a binary. The compiler does not record dependencies between modules, so all are
// dependencies of the program.
func bill(info *debug.BuildInfo, version, sum string, licenses Licenses) (*cdx.BOM, error) {
	program := cdx.Component{
		BOMRef:     "pkg:golang/" + info.Path + "@v" + version,
		Type:       cdx.ComponentTypeApplication,
		Name:       info.Path,
		Version:    "v" + version,
		PackageURL: "pkg:golang/" + info.Path + "@v" + version,
		Hashes:     &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: sum}},
		Licenses:   choices(ownLicense),
		Properties: settings(info),
	}
	modules := append([]*debug.Module{
		{Path: standardLibrary, Version: strings.TrimPrefix(info.GoVersion, "go")},
	}, info.Deps...)
	var components []cdx.Component
	for _, module := range modules {
		if module.Replace != nil {
			module = module.Replace
		}
		component, err := library(module, licenses)
		if err != nil {
			return nil, err
		}
		components = append(components, component)
	}
	slices.SortFunc(components, func(a, b cdx.Component) int { return strings.Compare(a.BOMRef, b.BOMRef) })
	needed := make([]string, len(components))
	for i, component := range components {
		needed[i] = component.BOMRef
	}
	out := cdx.NewBOM()
	out.Metadata = &cdx.Metadata{Component: &program}
	out.Components = &components
	out.Dependencies = &[]cdx.Dependency{{Ref: program.BOMRef, Dependencies: &needed}}
	return out, nil
}

// library describes one module by its package URL (https://github.com/package-url/purl-spec, type golang).
func library(module *debug.Module, licenses Licenses) (cdx.Component, error) {
	terms, err := licenses.Of(Module{module.Path, module.Version})
	if err != nil {
		return cdx.Component{}, err
	}
	reference := "pkg:golang/" + module.Path + "@" + module.Version
	out := cdx.Component{
		BOMRef: reference, Type: cdx.ComponentTypeLibrary, Name: module.Path, Version: module.Version,
		Licenses: choices(terms.IDs...), PackageURL: reference,
	}
	if module.Sum != "" {
		// It is the hash of a list of hashes (golang.org/x/mod/sumdb/dirhash), a kind that CycloneDX does not define.
		out.Properties = &[]cdx.Property{{Name: "go.sum", Value: module.Sum}}
	}
	return out, nil
}

// choices are licenses by their SPDX identifiers.
func choices(ids ...string) *cdx.Licenses {
	out := make(cdx.Licenses, len(ids))
	for i, id := range ids {
		out[i].License = &cdx.License{ID: id}
	}
	return &out
}

// settings are the build settings that change the binary.
func settings(info *debug.BuildInfo) *[]cdx.Property {
	out := []cdx.Property{{Name: "GOVERSION", Value: info.GoVersion}}
	for _, setting := range info.Settings {
		switch setting.Key {
		case "GOOS", "GOARCH", "GOAMD64", "GOARM64", "CGO_ENABLED", "-trimpath":
			out = append(out, cdx.Property{Name: setting.Key, Value: setting.Value})
		}
	}
	return &out
}
