package gatewayroutes_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/router"
	"github.com/kedify/argo-rollouts-plugin/internal/router/gatewayapi"
	"github.com/kedify/argo-rollouts-plugin/internal/router/httpso"
	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/routertest"
)

const (
	routePath  = "/apis/gateway.networking.k8s.io/v1/namespaces/shop/httproutes/web"
	objectPath = "/apis/http.keda.sh/v1alpha1/namespaces/shop/httpscaledobjects/web"
	rules      = "f:spec f:rules"
)

// author is the author of an object, whose tool uses server-side apply, as Helm 4, Flux and kubectl do.
type author struct {
	t     *testing.T
	admin *rest.RESTClient
	path  string
}

// apply applies a manifest in YAML, as kubectl apply --server-side does. force adds --force-conflicts, which Flux and
// Argo CD always use.
func (a author) apply(manifest string, force bool) error {
	a.t.Helper()
	body, err := yaml.YAMLToJSON([]byte(manifest))
	if err != nil {
		a.t.Fatal(err)
	}
	return a.admin.Patch(types.ApplyPatchType).AbsPath(a.path).Param("fieldManager", user).
		Param("force", strconv.FormatBool(force)).Param("fieldValidation", "Strict").Body(body).Do(a.t.Context()).Error()
}

// mustApply is apply for manifests without a conflict.
func (a author) mustApply(when, manifest string) {
	a.t.Helper()
	if err := a.apply(manifest, false); err != nil {
		a.t.Fatalf("%s: %v", when, err)
	}
}

// conflicts applies a manifest with a conflict. The error must name the router's field manager and the field.
func (a author) conflicts(when, manifest, manager, field string) {
	a.t.Helper()
	err := a.apply(manifest, false)
	if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), `conflict with "`+manager+`"`) ||
		!strings.Contains(err.Error(), field) {
		a.t.Errorf("%s: %v; want a conflict with %s on %s", when, err, manager, field)
	}
}

// live reads the object.
func (a author) live() map[string]any {
	a.t.Helper()
	return answered(a.t)(a.admin.Get().AbsPath(a.path).DoRaw(a.t.Context()))
}

// checkOwners compares the field managers that own a field, a path in FieldsV1, with want.
func (a author) checkOwners(when, field string, want ...string) {
	a.t.Helper()
	var owners []string
	object := a.live()
	entries, _ := object["metadata"].(map[string]any)["managedFields"].([]any)
	for _, entry := range entries {
		at, _ := entry.(map[string]any)["fieldsV1"].(map[string]any)
		for part := range strings.FieldsSeq(field) {
			at, _ = at[part].(map[string]any)
		}
		if at != nil {
			owners = append(owners, entry.(map[string]any)["manager"].(string))
		}
	}
	if !slices.Equal(owners, want) {
		a.t.Errorf("%s: %s is owned by %q, want %q", when, field, owners, want)
	}
	for _, manager := range []string{httpso.FieldManager, gatewayapi.FieldManager, gatewayapi.EarlierFieldManager} {
		if len(want) == 0 && slices.Contains(writers(object), manager) {
			a.t.Errorf("%s: the router still owns fields: %v", when, entries)
		}
	}
}

// reconcile calls a router as the controller does in each reconcile.
func reconcile(t *testing.T, r router.Router, config string, weight int32) {
	t.Helper()
	if err := r.SetWeight(t.Context(), routertest.Rollout(r.Type(), config), weight, nil); err != nil {
		t.Fatalf("weight %d: %v", weight, err)
	}
}

// httpRoute returns the author's HTTPRoute. weights are those of both Services; without weights the API server sets 1.
func httpRoute(path string, weights ...int) string {
	var backends []string
	for i, service := range []string{"web-stable", "web-canary"} {
		backend := "name: " + service + ", port: 80"
		if len(weights) > 0 {
			backend += fmt.Sprintf(", weight: %d", weights[i])
		}
		backends = append(backends, "{"+backend+"}")
	}
	return fmt.Sprintf("{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {name: web, namespace: shop}, "+
		"spec: {parentRefs: [{name: gateway}], rules: [{matches: [{path: {type: PathPrefix, value: %s}}], "+
		"backendRefs: [%s]}]}}", path, strings.Join(backends, ", "))
}

// checkRoute compares the path and the weights of the route with want.
func (a author) checkRoute(when, want string) {
	a.t.Helper()
	var route struct {
		Spec struct {
			Rules []struct {
				Matches     []struct{ Path struct{ Value string } }
				BackendRefs []struct{ Weight int }
			}
		}
	}
	if err := json.Unmarshal(encoded(a.t, a.live()), &route); err != nil {
		a.t.Fatal(err)
	}
	rule := route.Spec.Rules[0]
	got := fmt.Sprintf("%s %d:%d", rule.Matches[0].Path.Value, rule.BackendRefs[0].Weight, rule.BackendRefs[1].Weight)
	if got != want {
		a.t.Errorf("%s: the route is %s, want %s", when, got, want)
	}
}

// TestAuthorChangesRoute has the author of an HTTPRoute apply it before, during and after a canary.
func TestAuthorChangesRoute(t *testing.T) {
	plane, admin := startNewest(t)
	gateway := gatewayapi.New(gatewayapi.NewClient(adminConfig(plane)), gatewayapi.Namespaces{}, slog.New(slog.DiscardHandler))
	const config = `{"httpRoute":"web"}`
	a := author{t, admin, routePath}

	a.mustApply("a new route", httpRoute("/", 100, 0))
	reconcile(t, gateway, config, 0)
	a.checkOwners("before the canary", rules, user)
	a.mustApply("before the canary", httpRoute("/v1", 100, 0))

	reconcile(t, gateway, config, 20)
	a.checkRoute("in the canary", "/v1 80:20")
	a.checkOwners("in the canary", rules, gatewayapi.FieldManager)
	a.conflicts("in the canary", httpRoute("/v2", 100, 0), gatewayapi.FieldManager, ".spec.rules")
	if err := a.apply(httpRoute("/v2", 100, 0), true); err != nil {
		t.Fatal(err)
	}
	a.checkRoute("forced in the canary", "/v2 100:0")
	reconcile(t, gateway, config, 20)
	a.checkRoute("at the next reconcile", "/v2 80:20")

	reconcile(t, gateway, config, 0)
	a.checkRoute("after the canary", "/v2 100:0")
	a.checkOwners("after the canary", rules)
	a.mustApply("after the canary", httpRoute("/v3", 100, 0))
	a.checkOwners("after the canary and an apply", rules, user)
	version := a.live()["metadata"].(map[string]any)["resourceVersion"]
	reconcile(t, gateway, config, 0)
	if now := a.live()["metadata"].(map[string]any)["resourceVersion"]; now != version {
		t.Error("a route at rest was written")
	}

	// The last apply of a manifest decides about what it does not contain, too.
	a.mustApply("without weights", httpRoute("/v3"))
	a.checkRoute("without weights", "/v3 1:1")
	reconcile(t, gateway, config, 0)
	a.checkRoute("without weights, at the next reconcile", "/v3 100:0")
	a.checkOwners("without weights", rules)
	a.mustApply("without weights, once more", httpRoute("/v4"))
}

// TestRouterReleasesFieldsOfEarlierVersions has routes whose fields the router has owned since a canary with an earlier
// version of this program, whose field manager had the name of the other plugin. One of them is upgraded in the canary.
func TestRouterReleasesFieldsOfEarlierVersions(t *testing.T) {
	plane, admin := startNewest(t)
	gateway := gatewayapi.New(gatewayapi.NewClient(adminConfig(plane)), gatewayapi.Namespaces{}, slog.New(slog.DiscardHandler))
	const config = `{"httpRoute":"web"}`
	for _, manager := range []string{gatewayapi.EarlierFieldManager, gatewayapi.FieldManager} {
		for _, inCanary := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, in the canary %t", manager, inCanary), func(t *testing.T) {
				a := author{t, admin, routePath}
				if err := a.apply(httpRoute("/"), true); err != nil {
					t.Fatal(err)
				}
				body, err := yaml.YAMLToJSON([]byte(httpRoute("/", 90, 10)))
				if err != nil {
					t.Fatal(err)
				}
				if err := admin.Patch(types.MergePatchType).AbsPath(routePath).Param("fieldManager", manager).
					Body(body).Do(t.Context()).Error(); err != nil {
					t.Fatal(err)
				}
				a.checkOwners("with the earlier version", rules, manager)
				if inCanary {
					reconcile(t, gateway, config, 20)
					a.checkRoute("in the canary", "/ 80:20")
				}
				reconcile(t, gateway, config, 0)
				reconcile(t, gateway, config, 0)
				a.checkRoute("at rest", "/ 100:0")
				a.checkOwners("at rest", rules)
				if !slices.Contains(writers(a.live()), user) {
					t.Errorf("the author's other fields have no owner: %q", writers(a.live()))
				}
				a.mustApply("at rest", httpRoute("/next"))
			})
		}
	}
}

// TestAuthorChangesScaledObject has the author of an HTTPScaledObject apply it before, during and after a canary. Its
// weights are in annotations that are in no manifest, so there is no conflict.
func TestAuthorChangesScaledObject(t *testing.T) {
	plane, admin := startNewest(t)
	if err := apiserver.ApplyFiles(t.Context(), admin, "", "../../config/crd/http.keda.sh_httpscaledobjects.yaml"); err != nil {
		t.Fatal(err)
	}
	kedify := httpso.New(httpso.NewClient(adminConfig(plane)), types.NamespacedName{}, slog.New(slog.DiscardHandler))
	const config, annotation = `{"httpScaledObjectName":"web"}`, "f:metadata f:annotations f:" + httpv1alpha1.AnnotationWeightedBackends
	for name, annotations := range map[string]string{"without annotations": "", "with annotations": ", annotations: {team: shop}"} {
		t.Run(name, func(t *testing.T) {
			a := author{t, admin, objectPath}
			manifest := func(host, further string) string {
				return fmt.Sprintf("{apiVersion: http.keda.sh/v1alpha1, kind: HTTPScaledObject, "+
					"metadata: {name: web, namespace: shop%s}, spec: {hosts: [%s], scaleTargetRef: {kind: Deployment, "+
					"apiVersion: apps/v1, name: web, service: web-stable, port: 80}}}", further, host)
			}
			weights := func() string {
				annotations, _ := a.live()["metadata"].(map[string]any)["annotations"].(map[string]any)
				text, _ := annotations[httpv1alpha1.AnnotationWeightedBackends].(string)
				return text
			}
			a.mustApply("a new object", manifest("a.test", annotations))
			reconcile(t, kedify, config, 0)
			a.checkOwners("before the canary", annotation)
			reconcile(t, kedify, config, 20)
			a.checkOwners("in the canary", annotation, httpso.FieldManager)
			split := weights()
			for _, force := range []bool{false, true} {
				if err := a.apply(manifest(fmt.Sprintf("%t.test", force), annotations), force); err != nil {
					t.Errorf("in the canary, force %t: %v", force, err)
				}
				if got := weights(); got != split || split == "" {
					t.Errorf("in the canary, force %t: the weights are %q, want %q", force, got, split)
				}
			}
			a.conflicts("weights in the manifest", manifest("a.test", ", annotations: {"+
				httpv1alpha1.AnnotationWeightedBackends+": '[]'}"), httpso.FieldManager, httpv1alpha1.AnnotationWeightedBackends)
			reconcile(t, kedify, config, 0)
			a.checkOwners("after the canary", annotation)
			a.mustApply("after the canary", manifest("b.test", annotations))
			if err := admin.Delete().AbsPath(objectPath).Do(context.WithoutCancel(t.Context())).Error(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// startNewest starts an API server with the newest release of the Gateway API.
func startNewest(t *testing.T) (*apiserver.ControlPlane, *rest.RESTClient) {
	t.Helper()
	binaries, err := apiserver.FromEnvironment(os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	return start(t, binaries, releases()[1])
}

// adminConfig returns the configuration of a client with all permissions.
func adminConfig(plane *apiserver.ControlPlane) func() (*rest.Config, error) {
	return func() (*rest.Config, error) { return plane.Config(apiserver.AdminToken), nil }
}
