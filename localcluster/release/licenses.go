package release

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/google/licensecheck"
	"golang.org/x/mod/module"
)

// ErrLicense is returned for a module whose license is unknown, or is not one of accepted.
var ErrLicense = errors.New("the license of a module is unknown or not accepted")

// standardLibrary is the path of Go's standard library in bills of materials and lists of modules.
const standardLibrary = "std"

// ownLicense is the SPDX identifier of this project's license.
const ownLicense = "Apache-2.0"

// accepted are the SPDX identifiers of the licenses that modules of a release may have. All of them permit the
// distribution of binaries with their texts.
func accepted() []string {
	return []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MPL-2.0"}
}

// Terms are the licenses of a module.
type Terms struct {
	// IDs are the SPDX identifiers of the licenses in the module's root, sorted.
	IDs []string
	// Texts are the licenses and notices of the module, also those of code that it has copied, in the order of their
	// paths.
	Texts []Text
}

// Text is a license or a notice.
type Text struct {
	// Path is the file's path in the module.
	Path string
	// Content is the content of the file.
	Content string
}

// Licenses are the licenses of the modules on a machine.
type Licenses struct {
	// Modules is Go's module cache.
	Modules fs.FS
	// Root is the folder of Go, with the license of the standard library.
	Root fs.FS
}

// LocalLicenses returns the licenses of the modules that builds in a folder on this machine have used.
func LocalLicenses(ctx context.Context, folder string) (Licenses, error) {
	printed, err := runGo(ctx, folder, nil, "env", "GOMODCACHE", "GOROOT")
	if err != nil {
		return Licenses{}, err
	}
	cache, root, _ := strings.Cut(strings.TrimSpace(printed), "\n")
	return Licenses{Modules: os.DirFS(cache), Root: os.DirFS(root)}, nil
}

// Of returns the licenses of a module. It returns ErrLicense if none is found, or one is not accepted.
func (l Licenses) Of(m Module) (Terms, error) {
	texts, err := l.texts(m)
	if err != nil {
		return Terms{}, fmt.Errorf("read the licenses of %s: %w", m, err)
	}
	out := Terms{Texts: texts}
	for _, text := range texts {
		if isLicense(text) {
			out.IDs = append(out.IDs, identify(text.Content)...)
		}
	}
	slices.Sort(out.IDs)
	out.IDs = slices.Compact(out.IDs)
	if len(out.IDs) == 0 {
		return Terms{}, fmt.Errorf("%w: %s: no license in its root was recognized", ErrLicense, m)
	}
	for _, id := range out.IDs {
		if !slices.Contains(accepted(), id) {
			return Terms{}, fmt.Errorf("%w: %s: %s is none of %v", ErrLicense, m, id, accepted())
		}
	}
	return out, nil
}

// texts reads the licenses and notices of a module.
func (l Licenses) texts(m Module) ([]Text, error) {
	if m.Path == standardLibrary {
		// Its other folders are those of the tools.
		return readTexts(l.Root, true)
	}
	escapedPath, err := module.EscapePath(m.Path)
	if err != nil {
		return nil, err
	}
	escapedVersion, err := module.EscapeVersion(m.Version)
	if err != nil {
		return nil, err
	}
	tree, err := fs.Sub(l.Modules, escapedPath+"@"+escapedVersion)
	if err != nil {
		return nil, err
	}
	return readTexts(tree, false)
}

// readTexts reads the licenses and notices in a tree, in its root only or also below it. They have names such as
// LICENSE, LICENSE.txt, LICENSE-MIT, COPYING, NOTICE and PATENTS, and not that of code, such as license.go.
func readTexts(tree fs.FS, rootOnly bool) (texts []Text, err error) {
	document := regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)([-.][a-z0-9.-]+)?$`)
	err = fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != "." && (rootOnly || entry.Name() == "testdata"):
			return fs.SkipDir
		case entry.IsDir() || path.Ext(name) == ".go" || !document.MatchString(path.Base(name)):
			return nil
		}
		content, err := fs.ReadFile(tree, name)
		texts = append(texts, Text{Path: name, Content: string(content)})
		return err
	})
	return texts, err
}

// isLicense reports whether a text is a license of the code in the root of a module. Notices, licenses of copied code
// and licenses of documents, as in LICENSE.docs, are not.
func isLicense(text Text) bool {
	name := strings.ToLower(text.Path)
	return path.Dir(name) == "." && path.Ext(name) != ".docs" &&
		(strings.HasPrefix(name, "licen") || strings.HasPrefix(name, "copying"))
}

// identify returns the SPDX identifiers of the licenses in a text.
func identify(text string) (ids []string) {
	for _, match := range licensecheck.Scan([]byte(text)).Match {
		if !match.IsURL {
			ids = append(ids, match.ID)
		}
	}
	return ids
}
