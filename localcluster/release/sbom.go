// Package release writes the documents of a release: the bill of materials of a binary, and the notes with the texts
// that an installation copies.
package release

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"io"
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
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return fmt.Errorf("read the build information of %s: %w", binary, err)
	}
	content, err := os.ReadFile(binary)
	if err != nil {
		return fmt.Errorf("read the binary: %w", err)
	}
	sum := sha256.Sum256(content)
	encoder := cdx.NewBOMEncoder(out, cdx.BOMFileFormatJSON)
	encoder.SetPretty(true)
	if err := encoder.EncodeVersion(bill(info, version, hex.EncodeToString(sum[:])), cdx.SpecVersion1_6); err != nil {
		return fmt.Errorf("write the bill of materials of %s: %w", binary, err)
	}
	return nil
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
