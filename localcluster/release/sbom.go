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
// the compiler recorded in the binary, and Go's standard library. Equal binaries have equal bills, so it contains no
// time and no serial number.
func WriteBill(binary, version string, out io.Writer) error {
	info, sum, err := inspect(binary)
	if err != nil {
		return err
	}
	return encode(bill(info, version, sum), binary, out)
}

// WriteImageBill writes the software bill of materials of an image that contains exactly the given Go binaries, which
// may be for several processors.
func WriteImageBill(image, version string, binaries []string, out io.Writer) error {
	var bills []*cdx.BOM
	for _, binary := range binaries {
		info, sum, err := inspect(binary)
		if err != nil {
			return err
		}
		bills = append(bills, bill(info, version, sum))
	}
	return encode(imageBill(image, version, bills), image, out)
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

// imageBill combines the bills of an image's programs. A program for another processor is another component, and a
// module of several programs is one.
func imageBill(image, version string, bills []*cdx.BOM) *cdx.BOM {
	root := cdx.Component{
		BOMRef: image + ":" + version, Type: cdx.ComponentTypeContainer, Name: image, Version: version,
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
func bill(info *debug.BuildInfo, version, sum string) *cdx.BOM {
	program := cdx.Component{
		BOMRef:     "pkg:golang/" + info.Path + "@v" + version,
		Type:       cdx.ComponentTypeApplication,
		Name:       info.Path,
		Version:    "v" + version,
		PackageURL: "pkg:golang/" + info.Path + "@v" + version,
		Hashes:     &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: sum}},
		Properties: settings(info),
	}
	components := []cdx.Component{library("std", strings.TrimPrefix(info.GoVersion, "go"), "")}
	for _, module := range info.Deps {
		if module.Replace != nil {
			module = module.Replace
		}
		components = append(components, library(module.Path, module.Version, module.Sum))
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
	return out
}

// library describes one module by its package URL (https://github.com/package-url/purl-spec, type golang).
func library(path, version, sum string) cdx.Component {
	out := cdx.Component{
		BOMRef: "pkg:golang/" + path + "@" + version, Type: cdx.ComponentTypeLibrary,
		Name: path, Version: version, PackageURL: "pkg:golang/" + path + "@" + version,
	}
	if sum != "" {
		// It is the hash of a list of hashes (golang.org/x/mod/sumdb/dirhash), a kind that CycloneDX does not define.
		out.Properties = &[]cdx.Property{{Name: "go.sum", Value: sum}}
	}
	return out
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
