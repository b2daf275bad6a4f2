package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/config"
)

// isImageName reports whether a name in a file is config.Registry, or an image of this project in it.
func isImageName(name string) bool {
	image, isOurs := strings.CutPrefix(name, config.Registry)
	if image = strings.TrimPrefix(image, "/"); !isOurs || image == "" {
		return isOurs
	}
	image, _, _ = strings.Cut(image, ":")
	return slices.Contains(config.Images(), image)
}

// TestImageNames: no file names a registry or an image of this project that differs from those of package config.
func TestImageNames(t *testing.T) {
	host, _, _ := strings.Cut(config.Registry, "/")
	names := regexp.MustCompile(`\b` + regexp.QuoteMeta(host) + `/[a-z0-9_./-]*[a-z0-9/](?::[\w.-]+)?`)
	// Images of other projects, in test data, and the chart.
	others := []string{
		"ghcr.io/kedacore/keda:2.19.0", "ghcr.io/kedacore/http-add-on", config.Registry + "/charts", config.Registry + "/charts/kedify-http",
		config.Registry + "/charts/kedify-http:0.1.0",
	}
	skipped := []string{".git", "bin", "dist", "release"}
	files := 0
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && filepath.Dir(path) == filepath.Clean(root) && slices.Contains(skipped, entry.Name()):
			return fs.SkipDir
		case !entry.Type().IsRegular() || filepath.Ext(path) == ".sum" || entry.Name() == "CHANGELOG.md",
			entry.Name() == "images_test.go":
			return nil
		}
		content, err := os.ReadFile(filepath.Clean(path))
		if err != nil {
			return err
		}
		for _, name := range names.FindAllString(string(content), -1) {
			if files++; !isImageName(name) && !slices.Contains(others, name) {
				t.Errorf("%s: %s: want %s and an image of config.Images: %q", path, name, config.Registry, config.Images())
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 20 {
		t.Errorf("only %d names of images: the expression is wrong", files)
	}
}

// TestImageNamesWithoutImport: the files that cannot import package config have its values.
func TestImageNamesWithoutImport(t *testing.T) {
	host, organization, _ := strings.Cut(config.Registry, "/")
	for path, want := range map[string]string{
		"make/release.mk":                 `(?m)^IMAGE_REPO \?= ` + config.Registry + `$`,
		"charts/kedify-http/values.yaml":  `(?m)^  registry: ` + config.Registry + `$`,
		".github/workflows/release.yml":   `(?m)^          registry: ` + host + `$`,
		"localcluster/product/product.go": `Registry +=\s"` + host + `"\n\tOrganization = "` + organization + `"`,
		"docs/how-to/own-registry.md":     `sed .*#` + config.Registry + `/#`,
	} {
		if !regexp.MustCompile(want).MatchString(text(t, path)) {
			t.Errorf("%s does not match %s", path, want)
		}
	}
	for _, image := range config.Images() {
		for path, want := range map[string]string{
			".github/workflows/release.yml":   `(?m)^          - ` + image + `$`,
			"localcluster/product/product.go": `Image += (PluginImage \+ )?"/?` + strings.TrimPrefix(image, config.PluginImage+"/") + `"`,
		} {
			if !regexp.MustCompile(want).MatchString(text(t, path)) {
				t.Errorf("%s does not have image %s", path, image)
			}
		}
	}
}

// TestWithImages: a manifest gets the registry and the tag of a release, literally.
func TestWithImages(t *testing.T) {
	for manifest, want := range map[string]string{
		"image: ghcr.io/kedify/argo-rollouts-plugin:dev":             "image: r.example/$1/argo-rollouts-plugin:1.0.0",
		"image: ghcr.io/kedify/argo-rollouts-plugin/agent:dev # tag": "image: r.example/$1/argo-rollouts-plugin/agent:1.0.0 # tag",
		"image: ghcr.io/kedify/argo-rollouts-plugin/agent:development": "image: ghcr.io/kedify/argo-rollouts-plugin/agent:" +
			"development",
		"image: ghcr.io/kedify/agent:dev": "image: ghcr.io/kedify/agent:dev",
		"image: envoyproxy/envoy:dev":     "image: envoyproxy/envoy:dev",
	} {
		if got := string(config.WithImages([]byte(manifest), "r.example/$1", "1.0.0")); got != want {
			t.Errorf("%s becomes %s, want %s", manifest, got, want)
		}
	}
}
