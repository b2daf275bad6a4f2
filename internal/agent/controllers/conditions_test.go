package controllers_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/controllers"
	"github.com/kedify/argo-rollouts-plugin/internal/kube/crd"
	"github.com/kedify/argo-rollouts-plugin/test/kit/constants"
)

// reporter is a reconciler that writes one condition on HTTPScaledObject team/shop, and the request to do so.
type reporter struct {
	reconcile func(context.Context, ctrl.Request) (ctrl.Result, error)
	request   types.NamespacedName
	condition string
}

// reporters returns all reconcilers that write conditions, each for a client and a schema. api has an HTTPScaledObject
// and a ScaledObject shop in namespace team, whose proxy settings are invalid.
func reporters(api client.Client, published *crd.Published) map[string]reporter {
	return reportersOf(api, published, record.NewFakeRecorder(100))
}

// reportersOf is reporters that emit Events to a recorder.
func reportersOf(api client.Client, published *crd.Published, events record.EventRecorder) map[string]reporter {
	isInstalled := func(schema.GroupVersionKind) bool { return true }
	scaled := &controllers.ScaledObjectReconciler{
		Client: api, APIReader: api, Events: events, Now: time.Now, ScalerAddress: "scaler:9090", StatusSchema: published,
	}
	autowirer := &controllers.AutowireReconciler{
		Client: api, APIReader: api, Events: events, Now: time.Now, ScalerAddress: "scaler:9090", StatusSchema: published,
		IsInstalled: isInstalled, SharedNamespace: "keda",
		ListGrants: func(context.Context) ([]apis.ReferenceGrant, bool, error) { return nil, true, nil },
	}
	installer := &controllers.ProxyReconciler{
		Client: api, APIReader: api, Events: events, Now: time.Now, StatusSchema: published, IsInstalled: isInstalled,
		RemovalDelay: time.Minute,
	}
	team := types.NamespacedName{Name: "team"}
	return map[string]reporter{
		"ScaledObjects": {
			scaled.Reconcile, types.NamespacedName{Namespace: "team", Name: "shop"}, httpv1alpha1.ConditionTriggerAccepted,
		},
		"autowiring": {autowirer.Reconcile, team, httpv1alpha1.ConditionAutowired},
		"proxies":    {installer.Reconcile, team, httpv1alpha1.ConditionProxyInstalled},
	}
}

// newReporterAPI returns the API server of reporters. It rejects the first writes of a status with rejections.
func newReporterAPI(t *testing.T, rejections ...error) client.Client {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: "team", Annotations: map[string]string{httpv1alpha1.AnnotationProxyReplicas: "many"},
	}}
	scaled := &apis.ScaledObject{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "shop", UID: "scaled"}}
	scaled.Spec.ScaleTargetRef.Name = "shop"
	scaled.Spec.Triggers = []apis.Trigger{{Type: "external-push", Metadata: map[string]string{
		"scalerAddress": "scaler:9090", "hosts": "shop.test", "service": "shop", "port": "80",
	}}}
	shop := &httpv1alpha1.HTTPScaledObject{ObjectMeta: metav1.ObjectMeta{
		Namespace: "team", Name: "shop", Labels: map[string]string{httpv1alpha1.LabelManagedBy: httpv1alpha1.ManagedByAgent},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "keda.sh/v1alpha1", Kind: "ScaledObject", Name: "shop", UID: "scaled", Controller: new(true),
		}},
	}}
	return fake.NewClientBuilder().WithScheme(newScheme(t)).WithObjects(namespace, scaled, shop).WithStatusSubresource(shop).
		WithIndex(shop, "owner", func(client.Object) []string { return []string{"shop"} }).
		WithInterceptorFuncs(interceptor.Funcs{
			Patch: func(
				ctx context.Context, api client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption,
			) error {
				if _, isOfProxy := object.(*unstructured.Unstructured); isOfProxy {
					return nil
				}
				return api.Patch(ctx, object, patch, options...)
			},
			SubResourcePatch: func(
				ctx context.Context, api client.Client, name string, object client.Object, patch client.Patch,
				options ...client.SubResourcePatchOption,
			) error {
				if len(rejections) > 0 {
					rejection := rejections[0]
					rejections = rejections[1:]
					return rejection
				}
				return api.SubResource(name).Patch(ctx, object, patch, options...)
			},
		}).Build()
}

// roundTripper is an http.RoundTripper.
type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// publish returns the schema of a status whose conditions have fields.
func publish(t *testing.T, fields ...string) *crd.Published {
	t.Helper()
	properties := `"` + strings.Join(fields, `": {"type": "string"}, "`) + `": {"type": "string"}`
	document := fmt.Sprintf(`{"components": {"schemas": {"shop": {
		"x-kubernetes-group-version-kind": [{"group": "http.keda.sh", "version": "v1alpha1", "kind": "HTTPScaledObject"}],
		"properties": {"status": {"properties": {"conditions": {"items": {"properties": {%s}}}}}}}}}}`, properties)
	config := &rest.Config{Transport: roundTripper(func(*http.Request) (*http.Response, error) {
		return &http.Response{
			StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
			Body: io.NopCloser(strings.NewReader(document)),
		}, nil
	})}
	config.NegotiatedSerializer = serializer.NewCodecFactory(runtime.NewScheme()).WithoutConversion()
	config.GroupVersion = &schema.GroupVersion{}
	api, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	return crd.NewPublished(api, httpv1alpha1.SchemeGroupVersion.WithKind(httpv1alpha1.Kind), "status")
}

// rejections returns the errors that the API server may return if the CRD lacks a field, and the one for a CRD without
// the status subresource.
func rejections() map[string]error {
	return map[string]error{
		"internal error": apierrors.NewInternalError(errors.New("etcdserver: request timed out")),
		"bad request":    apierrors.NewBadRequest("rejected"),
		"invalid":        apierrors.NewInvalid(schema.GroupKind{Group: "http.keda.sh", Kind: "HTTPScaledObject"}, "shop", nil),
		"not found":      apierrors.NewNotFound(schema.GroupResource{Resource: "httpscaledobjects"}, "shop"),
	}
}

// TestRejectedConditionIsWrittenLater rejects one write of a condition, for each reconciler, error and CRD. A
// reconciler returns the error, or the delay after which it tries again. It never reports success before the write is
// done.
func TestRejectedConditionIsWrittenLater(t *testing.T) {
	t.Parallel()
	schemas := map[string][]string{
		"ours":              {"type", "status", "reason", "message", "lastTransitionTime"},
		"another project's": {"type", "status", "reason", "message", "timestamp"},
	}
	for kind, rejection := range rejections() {
		for owner, fields := range schemas {
			for name := range reporters(nil, nil) {
				t.Run(name+" "+kind+" "+owner, func(t *testing.T) {
					t.Parallel()
					api := newReporterAPI(t, rejection)
					reporter := reporters(api, publish(t, fields...))[name]
					result, err := reporter.reconcile(t.Context(), ctrl.Request{NamespacedName: reporter.request})
					isDeferred := kind == "not found" || owner != "ours"
					if isDeferred && (err != nil || result.RequeueAfter <= 0) || !isDeferred && !errors.Is(err, rejection) {
						t.Errorf("after the rejection: %+v, %v", result, err)
					}
					_, err = reporter.reconcile(t.Context(), ctrl.Request{NamespacedName: reporter.request})
					shop := new(httpv1alpha1.HTTPScaledObject)
					if err = errors.Join(err, api.Get(t.Context(), types.NamespacedName{Namespace: "team", Name: "shop"}, shop)); err != nil {
						t.Fatal(err)
					}
					isWritten := meta.FindStatusCondition(shop.Status.Conditions, reporter.condition) != nil
					if want := kind == "not found" || owner == "ours"; isWritten != want {
						t.Errorf("the next attempt writes the condition: %v, want %v", isWritten, want)
					}
				})
			}
		}
	}
}

// TestOutdatedWriteIsRepeated rejects a write because the object has changed. The reconciler tries again by itself: the
// predicates of the watch drop changes of the status.
func TestOutdatedWriteIsRepeated(t *testing.T) {
	t.Parallel()
	conflict := apierrors.NewConflict(schema.GroupResource{Group: "keda.sh", Resource: "scaledobjects"}, "shop",
		errors.New("the object has been modified"))
	for name, rejection := range map[string]error{"conflict": conflict, "invalid": rejections()["invalid"]} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := newReporterAPI(t)
			scaled := new(apis.ScaledObject)
			if err := api.Get(t.Context(), types.NamespacedName{Namespace: "team", Name: "shop"}, scaled); err != nil {
				t.Fatal(err)
			}
			scaled.Spec.Triggers[0].Type = "kedify-http" // the agent converts it
			if err := api.Update(t.Context(), scaled); err != nil {
				t.Fatal(err)
			}
			watching, ok := api.(client.WithWatch)
			if !ok {
				t.Fatal("not a client with watches")
			}
			isRejected := false
			racing := interceptor.NewClient(watching, interceptor.Funcs{Patch: func(
				ctx context.Context, api client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption,
			) error {
				if _, isScaled := object.(*apis.ScaledObject); !isScaled || isRejected {
					return api.Patch(ctx, object, patch, options...)
				}
				isRejected = true
				current := new(apis.ScaledObject)
				err := api.Get(ctx, client.ObjectKeyFromObject(object), current)
				current.Labels = map[string]string{"changed": "meanwhile"}
				return errors.Join(err, api.Update(ctx, current), rejection)
			}})
			reporter := reporters(racing, nil)["ScaledObjects"]
			result, err := reporter.reconcile(t.Context(), ctrl.Request{NamespacedName: reporter.request})
			if err != nil || result.RequeueAfter <= 0 || !isRejected {
				t.Errorf("rejected: %v; result %+v, error %v", isRejected, result, err)
			}
			_, err = reporter.reconcile(t.Context(), ctrl.Request{NamespacedName: reporter.request})
			if err = errors.Join(err, api.Get(t.Context(), client.ObjectKeyFromObject(scaled), scaled)); err != nil {
				t.Fatal(err)
			}
			if kind := scaled.Spec.Triggers[0].Type; kind != "external-push" {
				t.Errorf("the trigger is of type %q", kind)
			}
		})
	}
}

// TestEveryConditionHasTheGeneration: each type of condition that the agent writes has observedGeneration. If only the
// generation of the object changes, the condition is written again, and no Event is emitted.
func TestEveryConditionHasTheGeneration(t *testing.T) {
	t.Parallel()
	declared := map[string]bool{}
	for _, constant := range constants.Read(t, "Condition", "../../../api/http/v1alpha1") {
		if constant.File == "agent.go" { // internal/controlplane/status has the same test for the others
			declared[constant.Value] = true
		}
	}
	written := map[string]bool{}
	for name, reporter := range reporters(nil, nil) {
		written[reporter.condition] = true
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := newReporterAPI(t)
			events := record.NewFakeRecorder(100)
			reporter := reportersOf(api, nil, events)[name]
			for generation := int64(3); generation < 5; generation++ {
				shop := new(httpv1alpha1.HTTPScaledObject)
				key := types.NamespacedName{Namespace: "team", Name: "shop"}
				if err := api.Get(t.Context(), key, shop); err != nil {
					t.Fatal(err)
				}
				shop.Generation = generation
				if err := api.Update(t.Context(), shop); err != nil {
					t.Fatal(err)
				}
				before := len(events.Events)
				if _, err := reporter.reconcile(t.Context(), ctrl.Request{NamespacedName: reporter.request}); err != nil {
					t.Fatal(err)
				}
				if err := api.Get(t.Context(), key, shop); err != nil {
					t.Fatal(err)
				}
				condition := meta.FindStatusCondition(shop.Status.Conditions, reporter.condition)
				if condition == nil || condition.ObservedGeneration != generation {
					t.Errorf("generation %d: condition %+v", generation, condition)
				}
				if now := len(events.Events); generation > 3 && now > before {
					t.Errorf("generation %d: %d Events, want none for the same problem", generation, now-before)
				}
			}
		})
	}
	if diff := cmp.Diff(declared, written); diff != "" {
		t.Errorf("conditions of the agent (-constants of api/http/v1alpha1/agent.go +reporters):\n%s", diff)
	}
}
