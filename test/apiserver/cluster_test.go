package apiserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/program"
)

const (
	// crdFile is the CustomResourceDefinition that is installed.
	crdFile = "../../config/crd/http.keda.sh_httpscaledobjects.yaml"
	// routeCRDFile is that of InterceptorRoutes.
	routeCRDFile = "../../config/crd/http.keda.sh_interceptorroutes.yaml"
	// routerRoleFile, interceptorRoleFile and scalerRoleFile are the roles that are installed.
	routerRoleFile, interceptorRoleFile = "../../config/argo-rollouts/rbac.yaml", "../../config/interceptor/rbac.yaml"
	scalerRoleFile                      = "../../config/scaler/rbac.yaml"
	// tlsRoleFile is the role that users bind in namespaces with TLS.
	tlsRoleFile = "../../config/interceptor/tls.yaml"
	// podsRoleFile is the role that users bind for proxies without tokens.
	podsRoleFile = "../../config/interceptor/pods.yaml"
)

// cluster is an API server with the product installed as users install it.
type cluster struct {
	*apiserver.ControlPlane

	admin  *rest.RESTClient
	audit  apiserver.AuditLog
	folder string // the folder of the built binaries
}

// shared is the cluster of all tests; TestMain starts it.
var shared cluster

func TestMain(m *testing.M) {
	os.Exit(apiserver.RunTests(m, []string{"interceptor", "rollouts-plugin-kedify", "scaler"},
		func(ctx context.Context, s apiserver.Shared) (func(int) error, error) {
			shared = cluster{ControlPlane: s.ControlPlane, admin: s.Admin, audit: s.Audit, folder: s.Folder}
			return nil, shared.install(ctx)
		}))
}

// install applies the manifests of Argo Rollouts and of this project, as users do.
func (c *cluster) install(ctx context.Context) error {
	argo, err := program.ModuleFolder(ctx, ".", "list", "-m", "-json", "github.com/argoproj/argo-rollouts")
	if err != nil {
		return err
	}
	if err := apiserver.Apply(ctx, c.admin, "",
		`{apiVersion: v1, kind: Namespace, metadata: {name: argo-rollouts}}`); err != nil {
		return err
	}
	return apiserver.ApplyFiles(ctx, c.admin, "argo-rollouts",
		filepath.Join(argo, "manifests", "install.yaml"),
		crdFile, routeCRDFile, "../../config/interceptor/namespace.yaml", interceptorRoleFile, tlsRoleFile, podsRoleFile,
		"../../config/interceptor/deployment.yaml",
		"../../config/interceptor/services.yaml", scalerRoleFile, "../../config/scaler/deployment.yaml", "../../config/scaler/service.yaml", routerRoleFile, "../../config/argo-rollouts/config.yaml")
}

// apply applies manifests in namespace.
func (c *cluster) apply(t *testing.T, namespace string, manifests ...string) {
	t.Helper()
	if err := apiserver.Apply(t.Context(), c.admin, namespace, manifests...); err != nil {
		t.Fatal(err)
	}
}

// newNamespace creates a namespace for a test.
func (c *cluster) newNamespace(t *testing.T, name string) {
	t.Helper()
	c.apply(t, "", `{apiVersion: v1, kind: Namespace, metadata: {name: `+name+`}}`)
}

// kubeconfig writes a kubeconfig file for the user of token.
func (c *cluster) kubeconfig(t *testing.T, token string) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "kubeconfig")
	if err := c.WriteKubeconfig(file, token); err != nil {
		t.Fatal(err)
	}
	return file
}

// pathOf returns the path of an HTTPScaledObject, or of all in a namespace if name is empty.
func pathOf(namespace, name string) string {
	return strings.TrimSuffix("/apis/"+httpv1alpha1.SchemeGroupVersion.String()+"/namespaces/"+namespace+"/"+httpv1alpha1.Resource+"/"+name, "/")
}

// object reads an HTTPScaledObject.
func (c *cluster) object(t *testing.T, namespace, name string) *httpv1alpha1.HTTPScaledObject {
	t.Helper()
	body, err := c.admin.Get().AbsPath(pathOf(namespace, name)).DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	object := new(httpv1alpha1.HTTPScaledObject)
	if err := json.Unmarshal(body, object); err != nil {
		t.Fatal(err)
	}
	return object
}

// patch sends a merge patch.
func patch(ctx context.Context, client rest.Interface, path, body string) error {
	return client.Patch(types.MergePatchType).AbsPath(path).Body([]byte(body)).Do(ctx).Error()
}

// rejection returns the message of an API error, "" for nil.
func rejection(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		t.Fatalf("not a response of the API server: %v", err)
	}
	return status.Status().Message
}

// requests returns the requests of an account so far.
func (c *cluster) requests(t *testing.T, user string) []apiserver.AuditEvent {
	t.Helper()
	events, err := c.audit.RequestsOf(user)
	if err != nil {
		t.Fatal(err)
	}
	return events
}

// table reads a list as kubectl does.
func (c *cluster) table(t *testing.T, namespace string) metav1.Table {
	t.Helper()
	body, err := c.admin.Get().AbsPath(pathOf(namespace, "")).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var table metav1.Table
	if err := json.Unmarshal(body, &table); err != nil {
		t.Fatal(err)
	}
	return table
}
