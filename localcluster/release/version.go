package release

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
)

// ErrVersion is returned if the tree contains another version than the released one.
var ErrVersion = errors.New("the tree is not that of the version")

// versionFields are expressions for the fields that contain the version of a release, by their files. The manifests of
// a release are built with its version, but a chart or a remote kustomization is used as it is in the tree of the tag.
func versionFields() map[string][]string {
	return map[string][]string{
		"charts/kedify-http/Chart.yaml": {`version`, `appVersion`},
		"config/kustomization.yaml":     {` *newTag`, ` *app\.kubernetes\.io/version`, `#.*\?ref`},
	}
}

// CheckVersion returns an error for each field in a tree with another version than that of a release, for each file
// without such a field, and for a changelog without a section that the notes of the release can contain.
func CheckVersion(tree fs.FS, version string) error {
	all := checkChangelog(tree, version)
	for file, fields := range versionFields() {
		content, err := fs.ReadFile(tree, file)
		if err != nil {
			all = errors.Join(all, fmt.Errorf("read the version of the tree: %w", err))
			continue
		}
		for _, field := range fields {
			all = errors.Join(all, checkField(file, field, string(content), version))
		}
	}
	return all
}

// checkChangelog checks that the changelog has a section for a version.
func checkChangelog(tree fs.FS, version string) error {
	changelog, err := fs.ReadFile(tree, "CHANGELOG.md")
	if err != nil {
		return fmt.Errorf("read the changes: %w", err)
	}
	_, err = section(string(changelog), version)
	return err
}

// checkField checks one field, which may be in the file several times.
func checkField(file, field, content, version string) error {
	lines := regexp.MustCompile(`(?m)^(`+field+`)(?:: *|=v)(.*)$`).FindAllStringSubmatch(content, -1)
	if len(lines) == 0 {
		return fmt.Errorf("%w: %s: no line matches %s: add it with %s", ErrVersion, file, field, version)
	}
	var all error
	for _, line := range lines {
		if found := strings.Trim(line[2], `"' `); found != version {
			all = errors.Join(all, fmt.Errorf("%w: %s: %s is %q: set it to %s", ErrVersion, file,
				strings.TrimSpace(line[1]), found, version))
		}
	}
	return all
}
