package cli_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
)

// pages returns the paths of the pages in docs/, except those that test/gatewaydocs tests.
func pages(t *testing.T) []string {
	t.Helper()
	var paths []string
	err := filepath.WalkDir("../../docs", func(path string, _ fs.DirEntry, err error) error {
		if filepath.Ext(path) == ".md" && !strings.HasPrefix(filepath.Base(path), "gateway-api") {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

// TestDocumentedManifestsAreValid: an API server with all CRDs accepts every manifest in docs/ without unknown fields,
// in a dry run. test/gatewaydocs tests those about the Gateway API.
func TestDocumentedManifestsAreValid(t *testing.T) {
	manifests := 0
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		blocks := regexp.MustCompile("(?s)```yaml[^\n]*\n(.*?)```")
		for _, block := range blocks.FindAllStringSubmatch(string(text), -1) {
			for document := range strings.SplitSeq(block[1], "\n---\n") {
				var object apiserver.Manifest
				if yaml.Unmarshal([]byte(document), &object) != nil || object.Kind == "" || object.Metadata.Name == "" {
					continue // an excerpt
				}
				if strings.HasPrefix(object.APIVersion, "kustomize.toolkit.fluxcd.io/") {
					continue // test/agent validates Flux Kustomizations
				}
				group, _, _ := strings.Cut(object.APIVersion, "/")
				if slices.Contains([]string{"projectcontour.io", "gateway.envoyproxy.io", "traefik.io"}, group) {
					continue // e2e/suites/autowire applies it
				}
				if group == "cert-manager.io" {
					continue // its CRDs are not installed
				}
				manifests++
				if err := dryRunApply(t, object, document); err != nil {
					t.Errorf("%s: %s %s: %v", filepath.Base(page), object.Kind, object.Metadata.Name, err)
				}
			}
		}
	}
	if manifests < 5 {
		t.Errorf("the pages have only %d manifests", manifests)
	}
}

// dryRunApply applies a manifest in a dry run, by default in namespace web.
func dryRunApply(t *testing.T, object apiserver.Manifest, document string) error {
	t.Helper()
	body, err := yaml.YAMLToJSON([]byte(document))
	if err != nil {
		return err
	}
	return shared.admin.Patch(types.ApplyPatchType).AbsPath(object.Path("web")).
		Param("fieldManager", "test").Param("force", "true").
		Param("fieldValidation", "Strict").Param("dryRun", "All").Body(body).Do(t.Context()).Error()
}

// TestDocumentedCommandsExist: commands on other pages are also on docs/reference/cli.md, whose commands are tested,
// and every mentioned subcommand exists.
func TestDocumentedCommandsExist(t *testing.T) {
	own := ownPages(t)
	named := map[string]string{}
	for _, page := range append(pages(t), "../../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range regexp.MustCompile("(?m)^kubectl http-canary .*$").FindAllString(string(text), -1) {
			// e2e/suites/install runs the commands of its pages, and TestFindAndFixPage those of the tutorial.
			if !slices.Contains([]string{"install.md", "uninstall.md", "find-and-fix.md"}, filepath.Base(page)) &&
				!strings.Contains(own, match+"\n") {
				t.Errorf("%s: %q is not run by the tests of docs/reference/cli.md and cli-install.md", page, match)
			}
		}
		for _, match := range regexp.MustCompile("`kubectl http-canary ([a-z]+)").FindAllStringSubmatch(string(text), -1) {
			named[match[1]] = page
		}
	}
	for subcommand, page := range named {
		if got := run(t, apiserver.AdminToken, subcommand, "--help"); got.code != 0 ||
			!strings.Contains(got.out, "kubectl http-canary "+subcommand) {
			t.Errorf("%s names the subcommand %s: %d %s%s", page, subcommand, got.code, got.out, got.err)
		}
	}
	if len(named) < 3 {
		t.Errorf("the pages name only %v", named)
	}
}
