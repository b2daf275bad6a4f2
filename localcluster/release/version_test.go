package release

import (
	"errors"
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

// TestCheckVersion: each field with another version, and each file without one, is an error that names both.
func TestCheckVersion(t *testing.T) {
	const chart, kustomization, changes = "charts/kedify-http/Chart.yaml", "config/kustomization.yaml", "CHANGELOG.md"
	tests := map[string]struct {
		file, from, to string
		want           []string
	}{
		"the version": {},
		"quoted":      {chart, "appVersion: 0.2.0", `appVersion: "0.2.0"`, nil},
		"an older chart": {
			chart, "\nversion: 0.2.0", "\nversion: 0.1.0", []string{chart + `: version is "0.1.0": set it to 0.2.0`},
		},
		"older images": {chart, "appVersion: 0.2.0", "appVersion: 0.1.0", []string{chart + `: appVersion is "0.1.0"`}},
		"no version of images": {
			chart, "appVersion: 0.2.0\n", "", []string{chart + ": no line matches appVersion"},
		},
		"a v": {chart, "appVersion: 0.2.0", "appVersion: v0.2.0", []string{`appVersion is "v0.2.0"`}},
		"an older tag": {
			kustomization, "newTag: 0.2.0\nlabels", "newTag: 0.1.0\nlabels", []string{kustomization + `: newTag is "0.1.0"`},
		},
		"an older label":   {kustomization, "version: 0.2.0", "version: 0.2.0-rc.1", []string{`version is "0.2.0-rc.1"`}},
		"an older command": {kustomization, "?ref=v0.2.0", "?ref=v0.1.0", []string{`"0.1.0": set it to 0.2.0`}},
		"no tag":           {kustomization, "newTag", "digest", []string{kustomization + ": no line matches  *newTag"}},
		"a missing file":   {kustomization, "", "", []string{"config/kustomization.yaml: file does not exist"}},
		"no changes":       {changes, "## 0.2.0", "## 0.1.0", []string{"CHANGELOG.md has no section for the version 0.2.0"}},
		"no changelog":     {changes, "", "", []string{"CHANGELOG.md: file does not exist"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{
				changes: "# Changelog\n\n## Unreleased\n\n## 0.2.0\n\n- A change.\n",
				chart:   "apiVersion: v2\nname: kedify-http\nversion: 0.2.0\n# the images\nappVersion: 0.2.0\n",
				kustomization: "# kubectl apply -k github.com/kedify/argo-rollouts-plugin//config?ref=v0.2.0\n" +
					"images:\n  - name: interceptor\n    newTag: 0.2.0\n  - name: agent\n    newTag: 0.2.0\n" +
					"labels:\n  - pairs:\n      app.kubernetes.io/version: 0.2.0\n",
			}
			tree := fstest.MapFS{}
			for file, text := range files {
				if file == test.file && test.from == "" {
					continue
				}
				if file == test.file {
					text = strings.ReplaceAll(text, test.from, test.to)
				}
				tree[file] = &fstest.MapFile{Data: []byte(text)}
			}
			err := CheckVersion(tree, "0.2.0")
			if len(test.want) == 0 && err != nil {
				t.Errorf("error %v", err)
			}
			for _, want := range test.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("error %v, want %q", err, want)
				}
			}
		})
	}
}

// TestTheTreeHasOneVersion: the fields in the tree exist and are equal, and the changelog has a section for their
// version.
func TestTheTreeHasOneVersion(t *testing.T) {
	tree := os.DirFS("../..")
	err := CheckVersion(tree, "none")
	if !errors.Is(err, ErrVersion) || strings.Contains(err.Error(), "no line") {
		t.Fatalf("error %v", err)
	}
	_, rest, _ := strings.Cut(err.Error(), ` is "`)
	version, _, _ := strings.Cut(rest, `"`)
	if err := CheckVersion(tree, version); err != nil {
		t.Errorf("version %s: %v", version, err)
	}
}
