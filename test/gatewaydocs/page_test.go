package gatewaydocs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
)

// page is the YAML of a page about the Gateway API.
type page struct {
	name      string
	manifests []string // one object each
	rollouts  []v1alpha1.Rollout
	expected  []expectation
}

// expectation is a route at a step of the Rollout: a block with the first line "# <kind> <name> at step <index>" and
// the rules.
type expectation struct {
	route apiserver.Manifest
	step  string
	rules []any
	seen  bool
}

// pages reads all pages with manifests.
func pages(t *testing.T) []*page {
	t.Helper()
	files, err := filepath.Glob("../../docs/*/gateway-api*.md")
	if err != nil || len(files) == 0 {
		t.Fatal("no page matches docs/*/gateway-api*.md", err)
	}
	var all []*page
	for _, file := range files {
		text, err := os.ReadFile(filepath.Clean(file))
		if err != nil {
			t.Fatal(err)
		}
		read := &page{name: strings.TrimPrefix(strings.TrimSuffix(filepath.Base(file), ".md"), "gateway-api-")}
		for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
			read.add(t, block[1])
		}
		if len(read.manifests) > 0 {
			all = append(all, read)
		}
	}
	return all
}

// expectationLine matches the first line of an expectation.
var expectationLine = regexp.MustCompile(`^# (\w+Route) (\S+) at step (\d+)\n`)

// add adds one block of YAML.
func (p *page) add(t *testing.T, block string) {
	t.Helper()
	if match := expectationLine.FindStringSubmatch(block); match != nil {
		added := expectation{step: match[3]}
		added.route.APIVersion = "gateway.networking.k8s.io/v1"
		added.route.Kind, added.route.Metadata.Name = match[1], match[2]
		if err := yaml.UnmarshalStrict([]byte(block), &added.rules); err != nil {
			t.Fatalf("%s: %s: %v", p.name, match[0], err)
		}
		p.expected = append(p.expected, added)
		return
	}
	for document := range strings.SplitSeq(block, "\n---\n") {
		var object apiserver.Manifest
		if err := yaml.Unmarshal([]byte(document), &object); err != nil || object.Kind == "" {
			t.Fatalf("%s: neither a manifest nor what a route reads at a step (%v):\n%s", p.name, err, document)
		}
		p.manifests = append(p.manifests, document)
		if object.Kind != "Rollout" {
			continue
		}
		var rollout v1alpha1.Rollout
		if err := yaml.UnmarshalStrict([]byte(document), &rollout); err != nil {
			t.Fatalf("%s: Rollout %s: %v", p.name, object.Metadata.Name, err)
		}
		if rollout.Namespace == "" {
			rollout.Namespace = p.namespace()
		}
		p.rollouts = append(p.rollouts, rollout)
	}
}

// namespace returns the default namespace of the page's objects.
func (p *page) namespace() string { return "docs-" + p.name }
