package gatewaydocs_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/pluginprocess"
)

// The environment variables with the components; make test-parts sets them.
const (
	definitionsVariable = "GATEWAY_API_CRDS"
	installVariable     = "ROLLOUTS_INSTALL_YAML"
)

// The API server and the plugin of all tests; TestMain starts them.
var (
	admin  *rest.RESTClient
	plugin *pluginprocess.Process
	binary string // the plugin's file
)

func TestMain(m *testing.M) {
	os.Exit(apiserver.RunTests(m, []string{"gatewayapi-plugin"}, setUp))
}

// setUp applies CRDs and the plugin's role, and starts the plugin.
func setUp(ctx context.Context, shared apiserver.Shared) (tearDown func(int) error, err error) {
	definitions, err := definitions()
	if err != nil {
		return nil, err
	}
	admin = shared.Admin
	if err := apiserver.Apply(ctx, admin, "default", append(definitions,
		"{apiVersion: v1, kind: Namespace, metadata: {name: argo-rollouts}}")...); err != nil {
		return nil, err
	}
	kubeconfig := filepath.Join(shared.Folder, "kubeconfig")
	if err := shared.WriteKubeconfig(kubeconfig, apiserver.RolloutsToken); err != nil {
		return nil, err
	}
	binary = filepath.Join(shared.Folder, "gatewayapi-plugin")
	if plugin, err = pluginprocess.Start(binary, kubeconfig, os.Stderr, "-log-level=warn"); err != nil {
		return nil, err
	}
	return func(int) error {
		plugin.Kill()
		return nil
	}, nil
}

// definitions returns the CRDs of routes and Rollouts, and the plugin's role.
func definitions() ([]string, error) {
	for _, name := range []string{definitionsVariable, installVariable} {
		if os.Getenv(name) == "" {
			return nil, fmt.Errorf("%s is not set: run `make test-parts`, or set it to the path of that part", name)
		}
	}
	files, err := filepath.Glob(filepath.Join(os.Getenv(definitionsVariable), "*routes.yaml"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("%s names %s, where no CustomResourceDefinitions of routes are: %w", definitionsVariable,
			os.Getenv(definitionsVariable), err)
	}
	var texts []string
	for _, file := range append(files, "../../config/argo-rollouts/gatewayapi/rbac.yaml", os.Getenv(installVariable)) {
		text, err := os.ReadFile(filepath.Clean(file))
		if err != nil {
			return nil, err
		}
		documents := strings.Split(string(text), "\n---\n")
		if file == os.Getenv(installVariable) {
			documents = slices.DeleteFunc(documents, func(document string) bool {
				return !strings.Contains(document,
					"\nkind: CustomResourceDefinition\n")
			})
		}
		texts = append(texts, documents...)
	}
	return texts, nil
}

// manifestOf returns the identity of a manifest.
func manifestOf(t *testing.T, text string) apiserver.Manifest {
	t.Helper()
	var object apiserver.Manifest
	if err := yaml.Unmarshal([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	return object
}
