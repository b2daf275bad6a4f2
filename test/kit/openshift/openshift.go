// Package openshift provides OpenShift's own CRD of Routes to tests with a real API server. OpenShift itself serves Routes
// by an API server of its own, and MicroShift by this CRD.
package openshift

import (
	"context"
	"os"
	"path/filepath"

	"github.com/kedify/argo-rollouts-plugin/test/kit/program"
)

// source is the module with the CRD, at the version in testdata/api/go.mod. Its repository has the same path, and the
// Apache License 2.0.
const source = "github.com/openshift/api"

// CRD returns the CRD of Routes, file route/v1/zz_generated.crd-manifests/routes.crd.yaml of the source. repo is the
// folder of this repository.
func CRD(ctx context.Context, repo string) (string, error) {
	folder, err := program.ModuleFolder(ctx, filepath.Join(repo, "test", "kit", "openshift", "testdata", "api"),
		"mod", "download", "-json", source)
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(filepath.Join(folder, "route", "v1", "zz_generated.crd-manifests", "routes.crd.yaml")) //nolint:gosec // of a module
	return string(text), err
}
