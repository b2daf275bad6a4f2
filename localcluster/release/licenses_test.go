package release

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// texts returns real licenses, from this machine's Go and from this repository.
func texts(t *testing.T) (bsd, apache string) {
	t.Helper()
	local, err := LocalLicenses(t.Context(), ".")
	if err != nil {
		t.Fatal(err)
	}
	terms, err := local.Of(Module{standardLibrary, "1.26.8"})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile("../../LICENSE")
	if err != nil {
		t.Fatal(err)
	}
	return terms.Texts[0].Content, string(raw)
}

// moduleLicenses are the licenses of the modules of tests.
func moduleLicenses(t *testing.T) Licenses {
	t.Helper()
	bsd, apache := texts(t)
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	return Licenses{
		Root: fstest.MapFS{"LICENSE": file(bsd), "src/LICENSE": file(apache)},
		Modules: fstest.MapFS{
			"example.com/a@v1.0.0/LICENSE":              file(apache),
			"example.com/a@v1.0.0/NOTICE":               file("A notice of a."),
			"example.com/a@v1.0.0/license.go":           file("package a"),
			"example.com/a@v1.0.0/LICENSE.docs":         file(bsd),
			"example.com/b@v1.0.0/LICENSE-2.0.txt":      file(apache + "\n"),
			"example.com/b@v1.0.0/copied/COPYING":       file(bsd),
			"example.com/b@v1.0.0/testdata/LICENSE":     file("not linked"),
			"example.com/!big@v1.0.0/License.md":        file(apache + "\n\n" + bsd),
			"example.com/new@v2.0.0/LICENSE.BSD":        file(bsd),
			"example.com/z@v1.0.0/LICENSE":              file(bsd),
			"example.com/none@v1.0.0/README.md":         file(apache),
			"example.com/unknown@v1.0.0/LICENSE":        file("You may look at it."),
			"example.com/rejected@v1.0.0/LICENSE":       file("SPDX-License-Identifier: GPL-3.0-only\n"),
			"example.com/below@v1.0.0/folder/LICENSE":   file(apache),
			"example.com/notice@v1.0.0/NOTICE":          file(apache),
			"example.com/readable@v1.0.0/COPYING.md":    file(bsd),
			"example.com/readable@v1.0.0/licenses.html": file("<p>"),
		},
	}
}

func TestLicensesOfModules(t *testing.T) {
	licenses := moduleLicenses(t)
	in := func(name string) Module { return Module{"example.com/" + name, "v1.0.0"} }
	for name, test := range map[string]struct {
		module     Module
		ids, files []string
		err        error
	}{
		"with a notice":   {in("a"), []string{"Apache-2.0"}, []string{"LICENSE", "LICENSE.docs", "NOTICE"}, nil},
		"with copied":     {in("b"), []string{"Apache-2.0"}, []string{"LICENSE-2.0.txt", "copied/COPYING"}, nil},
		"two in one file": {in("Big"), []string{"Apache-2.0", "BSD-3-Clause"}, []string{"License.md"}, nil},
		"another name":    {in("readable"), []string{"BSD-3-Clause"}, []string{"COPYING.md"}, nil},
		"standard library": {
			Module{standardLibrary, "1.26.8"}, []string{"BSD-3-Clause"}, []string{"LICENSE"}, nil,
		},
		"none":              {in("none"), nil, nil, ErrLicense},
		"unknown":           {in("unknown"), nil, nil, ErrLicense},
		"not accepted":      {in("rejected"), nil, nil, ErrLicense},
		"only below":        {in("below"), nil, nil, ErrLicense},
		"only a notice":     {in("notice"), nil, nil, ErrLicense},
		"not in the cache":  {in("missing"), nil, nil, os.ErrNotExist},
		"not a module path": {Module{"../a", "v1.0.0"}, nil, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			terms, err := licenses.Of(test.module)
			if test.ids == nil {
				if err == nil || test.err != nil && !errors.Is(err, test.err) ||
					!strings.Contains(err.Error(), test.module.String()) {
					t.Errorf("licenses %v, error %v, want %v of the module", terms.IDs, err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var files []string
			for _, text := range terms.Texts {
				files = append(files, text.Path)
			}
			if diff := cmp.Diff(test.ids, terms.IDs) + cmp.Diff(test.files, files); diff != "" {
				t.Errorf("licenses and files (-want +got):\n%s", diff)
			}
		})
	}
}

// TestThirdPartyHasEachTextOnce: each module is listed with its licenses, and equal texts are written once, with the
// files that contain them.
func TestThirdPartyHasEachTextOnce(t *testing.T) {
	var out bytes.Buffer
	const version = "v1.0.0"
	modules := []Module{
		{"example.com/z", version}, {"example.com/b", version}, {"example.com/a", version}, {"example.com/a", version},
	}
	if err := WriteThirdParty(modules, moduleLicenses(t), &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"\n\nexample.com/a v1.0.0: Apache-2.0\nexample.com/b v1.0.0: Apache-2.0\n" +
			"example.com/z v1.0.0: BSD-3-Clause\n\n===",
		"=\nexample.com/a v1.0.0: LICENSE\nexample.com/b v1.0.0: LICENSE-2.0.txt\n\nApache License",
		"=\nexample.com/a v1.0.0: NOTICE\n\nA notice of a.\n",
		"=\nexample.com/a v1.0.0: LICENSE.docs\nexample.com/b v1.0.0: copied/COPYING\n" +
			"example.com/z v1.0.0: LICENSE\n\nCopyright",
	} {
		if got := strings.Count(out.String(), want); got != 1 {
			t.Errorf("%d times: %q, in\n%s", got, want, out.String())
		}
	}
	if got := strings.Count(out.String(), "TERMS AND CONDITIONS FOR USE"); got != 1 {
		t.Errorf("the text of the license is in it %d times", got)
	}
	modules = []Module{{"example.com/none", version}}
	if err := WriteThirdParty(modules, moduleLicenses(t), &out); !errors.Is(err, ErrLicense) {
		t.Errorf("a module without a license: error %v", err)
	}
}

// TestLinkedModulesHaveAcceptedLicenses: each module of the product's programs, on all platforms, has a recognized and
// accepted license. One of them is linked on Windows only.
func TestLinkedModulesHaveAcceptedLicenses(t *testing.T) {
	const root = "../.."
	packages := []string{"./examples/rollouts-demo"}
	programs, err := filepath.Glob(root + "/cmd/*")
	if err != nil || len(programs) < 6 {
		t.Fatalf("programs %v: %v", programs, err)
	}
	for _, program := range programs {
		packages = append(packages, "./cmd/"+filepath.Base(program))
	}
	modules, err := LinkedModules(t.Context(), root, packages...)
	if err != nil {
		t.Fatal(err)
	}
	licenses, err := LocalLicenses(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := WriteThirdParty(modules, licenses, &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`std 1\.\d+\.\d+: BSD-3-Clause`, `github\.com/inconshreveable/mousetrap \S+: Apache-2.0`,
		`github\.com/hashicorp/go-plugin \S+: MPL-2\.0`, `github\.com/argoproj/argo-rollouts \S+: Apache-2\.0`,
	} {
		if !regexp.MustCompile(`(?m)^` + want + `$`).Match(out.Bytes()) {
			t.Errorf("no module %s in\n%.4000s", want, out.String())
		}
	}
	t.Logf("%d modules, %d bytes", len(modules), out.Len())
}
