package release

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/kedify/argo-rollouts-plugin/localcluster/product"
)

const changelog = `# Changelog

## Unreleased

- Something new.

## 0.2.0

### Added

- A [second](docs/second.md#part) thing, see [there](https://example.com/x).

## [0.1.0] - 2026-01-02

- A first thing.
`

// sums are the checksums of a complete release. Each sum consists of one letter.
func sums(t *testing.T) string {
	t.Helper()
	var out strings.Builder
	letter := byte('0')
	for _, platform := range platforms() {
		for _, router := range routers() {
			out.WriteString(strings.Repeat(string(letter), 64) + "  " + router[1] + "-" + platform + "\n")
			letter++
		}
	}
	return out.String()
}

func TestNotesHaveAConfigMapForEachPlatform(t *testing.T) {
	notes, err := Notes("0.2.0", "https://example.com/v0.2.0", changelog, sums(t))
	if err != nil {
		t.Fatal(err)
	}
	want := "### linux/arm64\n\n```yaml\n" + `apiVersion: v1
kind: ConfigMap
metadata:
  name: argo-rollouts-config
  namespace: argo-rollouts
data:
  trafficRouterPlugins: |
    - name: "kedify/http"
      location: "https://example.com/v0.2.0/rollouts-plugin-kedify-linux-arm64"
      sha256: "2222222222222222222222222222222222222222222222222222222222222222"
    - name: "argoproj-labs/gatewayAPI"
      location: "https://example.com/v0.2.0/gatewayapi-plugin-linux-arm64"
      sha256: "3333333333333333333333333333333333333333333333333333333333333333"
` + "```\n"
	if !strings.Contains(notes, want) {
		t.Errorf("the notes lack\n%s\nthey are\n%s", want, notes)
	}
	if got := strings.Count(notes, "kind: ConfigMap"); got != len(platforms()) {
		t.Errorf("%d ConfigMaps for %d platforms", got, len(platforms()))
	}
}

func TestNotesContainTheChangelogSection(t *testing.T) {
	tests := []struct {
		version, want string
		err           error
	}{
		{
			"0.2.0", "### Added\n\n- A [second](https://github.com/kedify/argo-rollouts-plugin/blob/v0.2.0/docs/second.md#part) thing, " +
				"see [there](https://example.com/x).\n", nil,
		},
		{"0.1.0", "- A first thing.\n", nil},
		{"0.2.1-SNAPSHOT-abc", "- Something new.\n", nil},
		{"0.3.0", "", ErrChangelog},
	}
	for _, tt := range tests {
		notes, err := Notes(tt.version, "https://example.com", changelog, sums(t))
		if !errors.Is(err, tt.err) {
			t.Errorf("%s: error %v, want %v", tt.version, err, tt.err)
		}
		if changes, _, _ := strings.Cut(notes, "\n## Install"); err == nil && changes != tt.want {
			t.Errorf("%s: %q, want %q", tt.version, changes, tt.want)
		}
	}
}

func TestNotesRejectOtherChecksums(t *testing.T) {
	tests := map[string]string{
		"a binary is missing": strings.Join(strings.Split(sums(t), "\n")[1:], "\n"),
		"a short sum":         "abc  gatewayapi-plugin-linux-amd64\n",
		"nothing":             "",
	}
	for name, checksums := range tests {
		if _, err := Notes("0.2.0", "https://example.com", changelog, checksums); !errors.Is(err, ErrChecksum) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestManifestsNameTheImagesOfTheRelease(t *testing.T) {
	folder := fstest.MapFS{
		"scaler/deployment.yaml": {Data: []byte("image: ghcr.io/kedify/argo-rollouts-plugin/scaler:dev # by tag\n")},
		"scaler/rbac.yaml":       {Data: []byte("kind: Role\n")},
		"proxy.yaml":             {Data: []byte("image: envoyproxy/envoy:v1.40.0\n")},
		"README.md":              {Data: []byte("not a manifest")},
	}
	var first, second bytes.Buffer
	for _, out := range []*bytes.Buffer{&first, &second} {
		if err := WriteManifests(folder, "registry.example.com/team", "0.2.0", out); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("two archives of equal manifests differ")
	}
	want := map[string]string{
		"config/scaler/deployment.yaml": "image: registry.example.com/team/argo-rollouts-plugin/scaler:0.2.0 # by tag\n",
		"config/scaler/rbac.yaml":       "kind: Role\n",
		"config/proxy.yaml":             "image: envoyproxy/envoy:v1.40.0\n",
	}
	if diff := cmp.Diff(want, unpack(t, &first)); diff != "" {
		t.Errorf("manifests (-want +got):\n%s", diff)
	}
	delete(folder, "scaler/deployment.yaml")
	if err := WriteManifests(folder, "registry.example.com", "0.2.0", &second); !errors.Is(err, ErrManifests) {
		t.Errorf("manifests without an image of ours: error %v", err)
	}
}

// The tree's own manifests: every image of this project in them is released.
func TestTheTreesManifestsCanBeReleased(t *testing.T) {
	var out bytes.Buffer
	if err := WriteManifests(os.DirFS("../../config"), "registry.example.com", "0.2.0", &out); err != nil {
		t.Fatal(err)
	}
	image := regexp.MustCompile(`image: registry\.example\.com/([a-z/-]+):0\.2\.0`)
	for name, text := range unpack(t, &out) {
		if strings.Contains(text, "ghcr.io/kedify") {
			t.Errorf("%s still names an image of the embedded cluster", name)
		}
		for _, found := range image.FindAllStringSubmatch(text, -1) {
			if !slices.Contains(product.Published(), found[1]) {
				t.Errorf("%s names the image %s, which is not released", name, found[1])
			}
		}
	}
}

// TestInstallHasTheTreesObjects: install.yaml has each object of the manifests in it once, with the images and labels
// of the release. The kustomization is built from a copy of its folder, as a remote one is.
func TestInstallHasTheTreesObjects(t *testing.T) {
	folder := t.TempDir()
	if err := os.CopyFS(folder, os.DirFS("../../config")); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := WriteInstall(os.DirFS(folder), "registry.example.com", "0.2.0", &out); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	if strings.Contains(text, ":dev") || strings.Contains(text, "0.1.0") {
		t.Error("install.yaml has an image or a label of another version")
	}
	for _, image := range []string{product.InterceptorImage, product.ScalerImage, product.AgentImage} {
		if !strings.Contains(text, "image: registry.example.com/"+image+":0.2.0\n") {
			t.Errorf("install.yaml has no image %s", image)
		}
	}
	var want []string
	for _, pattern := range []string{
		"crd/*.yaml", "interceptor/*.yaml", "argo-rollouts/rbac.yaml", "scaler/*.yaml", "agent/*.yaml",
	} {
		files, err := filepath.Glob(filepath.Join(folder, pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %v", pattern, files, err)
		}
		for _, file := range files {
			if filepath.Base(file) != "kustomization.yaml" {
				want = append(want, names(t, file)...)
			}
		}
	}
	installed := filepath.Join(folder, "install.yaml")
	if err := os.WriteFile(installed, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	got := names(t, installed)
	if last := got[len(got)-1]; !strings.HasPrefix(last, "MutatingWebhookConfiguration") {
		t.Errorf("the last object is %s, want the webhook", last)
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("objects (-config +install.yaml):\n%s", diff)
	}
}

// TestTreesKustomization: the kustomization builds remotely, that is from a copy of its folder and without the program
// that makes a release, with the images and the version of the chart. Its labels change no selector.
func TestTreesKustomization(t *testing.T) {
	folder := t.TempDir()
	if err := os.CopyFS(folder, os.DirFS("../../config")); err != nil {
		t.Fatal(err)
	}
	options := krusty.MakeDefaultOptions()
	options.Reorder = krusty.ReorderOptionUnspecified
	built, err := krusty.MakeKustomizer(options).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		t.Fatal(err)
	}
	chart, err := os.ReadFile("../../charts/kedify-http/Chart.yaml")
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`(?m)^appVersion: (.+)$`).FindSubmatch(chart)
	if version == nil {
		t.Fatal("the chart has no appVersion")
	}
	const prefix = "app.kubernetes.io/"
	labels := map[string]string{
		prefix + "part-of": "kedify-http", prefix + "instance": "kedify-http", prefix + "managed-by": "kustomize",
		prefix + "version": string(version[1]),
	}
	images := 0
	for _, object := range built.Resources() {
		text := object.MustString()
		for _, image := range regexp.MustCompile(`image: (.+)`).FindAllStringSubmatch(text, -1) {
			images++
			if !strings.HasSuffix(image[1], ":"+labels[prefix+"version"]) {
				t.Errorf("%s: image %s, want tag %s", object.CurId(), image[1], labels[prefix+"version"])
			}
		}
		if object.GetKind() == "Namespace" {
			if len(object.GetLabels()) > 0 {
				t.Errorf("%s: labels %v, want none", object.CurId(), object.GetLabels())
			}
			continue
		}
		for label, want := range labels {
			if got := object.GetLabels()[label]; got != want {
				t.Errorf("%s: label %s is %q, want %q", object.CurId(), label, got, want)
			}
		}
		content, err := object.Map()
		if err != nil {
			t.Fatal(err)
		}
		spec, _ := content["spec"].(map[string]any)
		if selector := fmt.Sprint(spec["selector"]); strings.Contains(selector, "part-of") {
			t.Errorf("%s: the selector is %s", object.CurId(), selector)
		}
	}
	if images != 3 {
		t.Errorf("%d images, want 3", images)
	}
}

// names returns the kinds, namespaces and names of the objects in a file.
func names(t *testing.T, file string) (all []string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for document := range strings.SplitSeq("\n"+string(text), "\n---") {
		if strings.TrimSpace(document) == "" {
			continue
		}
		object, err := kyaml.Parse(document)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if object.IsNilOrEmpty() {
			continue
		}
		all = append(all, object.GetKind()+" "+object.GetNamespace()+"/"+object.GetName())
	}
	return all
}

// unpack reads an archive: contents by name.
func unpack(t *testing.T, archive *bytes.Buffer) map[string]string {
	t.Helper()
	compressed, err := gzip.NewReader(archive)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for files := tar.NewReader(compressed); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(files)
		if err != nil {
			t.Fatal(err)
		}
		out[header.Name] = string(content)
	}
}
