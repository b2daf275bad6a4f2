package counts_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/rest"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
)

const (
	// crdsVariable is the environment variable with the folder of the Gateway API's CRDs.
	crdsVariable = "GATEWAY_API_CRDS"
	// namespace is the namespace of the Rollouts and their objects.
	namespace = "shop"
	// rollouts is the number of Rollouts for which each call is made in parallel.
	rollouts = 10
)

// roleWithoutWatch grants the ServiceAccount unprivileged the permissions of the roles of the routers, except list and
// watch.
const roleWithoutWatch = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: unwatched}
rules:
- {apiGroups: [http.keda.sh], resources: [httpscaledobjects], verbs: [get, patch]}
- {apiGroups: [gateway.networking.k8s.io], resources: [httproutes], verbs: [get, update]}
- {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: unwatched}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: unwatched}
subjects: [{kind: ServiceAccount, name: unprivileged, namespace: default}]
`

// cluster is an API server with the CRDs and roles of the routers.
type cluster struct {
	*apiserver.ControlPlane

	admin  *rest.RESTClient
	audit  apiserver.AuditLog
	folder string // the folder of the built plugins
}

// shared is the cluster of all tests; TestMain starts it.
var shared cluster

func TestMain(m *testing.M) {
	os.Exit(apiserver.RunTests(m, []string{"rollouts-plugin-kedify", "gatewayapi-plugin"},
		func(ctx context.Context, s apiserver.Shared) (func(int) error, error) {
			shared = cluster{ControlPlane: s.ControlPlane, admin: s.Admin, audit: s.Audit, folder: s.Folder}
			return nil, shared.install(ctx)
		}))
}

// install applies CRDs and roles, and the Endpoints of all Services, which are promoted Pods.
func (c *cluster) install(ctx context.Context) error {
	if os.Getenv(crdsVariable) == "" {
		return fmt.Errorf("%s is not set: run `make test-parts`, or set it to the path of that part",
			crdsVariable)
	}
	manifests := []string{apiserver.RolloutsRole, roleWithoutWatch}
	for _, name := range []string{namespace, httpv1alpha1.DefaultInterceptorNamespace} {
		manifests = append(manifests, `{apiVersion: v1, kind: Namespace, metadata: {name: `+name+`}}`)
	}
	for n := range rollouts {
		for _, service := range []string{"stable", "canary"} {
			manifests = append(manifests, fmt.Sprintf(`{apiVersion: v1, kind: Endpoints, metadata: {name: web-%d-%s},
  subsets: [{addresses: [{ip: 10.1.0.%d}], ports: [{port: 8080}]}]}`, n, service, n+1))
		}
	}
	return errors.Join(
		apiserver.Apply(ctx, c.admin, namespace, manifests...),
		apiserver.ApplyFiles(ctx, c.admin, namespace,
			filepath.Join(os.Getenv(crdsVariable), "gateway.networking.k8s.io_httproutes.yaml"),
			"../../config/crd/http.keda.sh_httpscaledobjects.yaml",
			"../../config/argo-rollouts/rbac.yaml", "../../config/argo-rollouts/gatewayapi/rbac.yaml"))
}

// apply applies manifests.
func (c *cluster) apply(t *testing.T, manifests ...string) {
	t.Helper()
	if err := apiserver.Apply(t.Context(), c.admin, namespace, manifests...); err != nil {
		t.Fatal(err)
	}
}
