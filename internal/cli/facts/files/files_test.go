package files_test

import (
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts/files"
)

// TestRead has a stream with a List, comments, objects of other kinds, and objects without a namespace.
func TestRead(t *testing.T) {
	t.Parallel()
	const text = `# a comment
---
apiVersion: v1
kind: List
items:
  - {apiVersion: v1, kind: Service, metadata: {name: shop-stable}}
  - {apiVersion: v1, kind: Service, metadata: {name: web, namespace: web}}
---
{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "other"}}
---
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {name: shop}
---
# only a comment
`
	cluster, err := files.Read([]files.File{{Name: "all.yaml", Content: []byte(text)}}, "shop")
	if err != nil {
		t.Fatal(err)
	}
	if len(cluster.Rollouts) != 1 || cluster.Rollouts[0].Namespace != "shop" || cluster.Service("shop", "shop-stable") == nil ||
		cluster.Service("web", "web") == nil || len(cluster.Services) != 2 {
		t.Errorf("read %+v, %v", cluster.Rollouts, cluster.Services)
	}
	for resource, isRead := range map[facts.Resource]bool{
		facts.Services: true, facts.Deployments: false, facts.Routes: false, facts.EndpointSlices: false,
	} {
		if cluster.HasRead(resource) != isRead {
			t.Errorf("%s is read: %t", resource, !isRead)
		}
	}
}

// TestErrorsNameTheDocument: an error has the file and the number of the document.
func TestErrorsNameTheDocument(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a: b\n---\n{{ template }}: {": "all.yaml: document 2: not YAML",
		"- a list":                     "all.yaml: document 1: no object of Kubernetes",
		"apiVersion: argoproj.io/v1alpha1\nkind: Rollout\nmetadata: {name: shop}\nspec: {replicas: two}": "all.yaml: document 1: Rollout x/shop: ",
	} {
		_, err := files.Read([]files.File{{Name: "all.yaml", Content: []byte(text)}}, "x")
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
