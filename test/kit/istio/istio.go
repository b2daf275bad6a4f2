// Package istio provides Istio's own CRDs to tests with a real API server.
package istio

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/test/kit/program"
)

// errMissing means that Istio's module lacks a CRD.
var errMissing = errors.New("CRDs of Istio: VirtualService or DestinationRule is missing")

// CRDs returns the CRDs of VirtualServices and DestinationRules, of the version of the embedded cluster. repo is the
// folder of the repository.
func CRDs(ctx context.Context, repo string) (manifests []string, err error) {
	folder, err := program.ModuleFolder(ctx, filepath.Join(repo, "localcluster", "components", "istio"),
		"mod", "download", "-json", "istio.io/api")
	if err != nil {
		return nil, err
	}
	all, err := os.ReadFile(filepath.Join(folder, "kubernetes", "customresourcedefinitions.gen.yaml")) //nolint:gosec // of a module
	if err != nil {
		return nil, err
	}
	for document := range strings.SplitSeq(string(all), "\n---\n") {
		var crd struct{ Metadata struct{ Name string } }
		if err := yaml.Unmarshal([]byte(document), &crd); err != nil {
			return nil, fmt.Errorf("CRDs of Istio: %w", err)
		}
		switch crd.Metadata.Name {
		case "virtualservices.networking.istio.io", "destinationrules.networking.istio.io":
			manifests = append(manifests, document)
		}
	}
	if len(manifests) != 2 {
		return nil, errMissing
	}
	return manifests, nil
}
