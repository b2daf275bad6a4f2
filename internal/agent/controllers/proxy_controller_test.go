package controllers_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/controllers"
)

// TestReportWriteErrors has several answers of an API server to the write of a Deployment.
func TestReportWriteErrors(t *testing.T) {
	deployments := schema.GroupResource{Group: "apps", Resource: "deployments"}
	ending := apierrors.NewForbidden(deployments, "kedify-proxy", errors.New("the namespace is being terminated"))
	ending.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	tests := map[string]struct {
		answer  error
		event   string // the beginning of the one there is; none if empty
		status  int    // writes of a condition
		isTried bool   // again, by an error
		isSoon  bool   // again, without one
	}{
		"taken": {},
		"over a quota": {
			answer: apierrors.NewForbidden(deployments, "kedify-proxy", errors.New("exceeded quota")),
			event:  "Warning WriteRejected install the proxies: write Deployment team/kedify-proxy: ", status: 1, isTried: true,
		},
		"forbidden": {
			answer: apierrors.NewForbidden(deployments, "kedify-proxy",
				errors.New(`User "agent" cannot patch resource "deployments" in API group "apps" in the namespace "team"`)),
			event: "Warning WriteForbidden install the proxies: write Deployment team/kedify-proxy: ", status: 1, isTried: true,
		},
		"unavailable":           {answer: apierrors.NewServiceUnavailable("starting"), isTried: true},
		"conflict":              {answer: apierrors.NewConflict(deployments, "kedify-proxy", errors.New("it is another one")), isSoon: true},
		"namespace terminating": {answer: ending},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			shop := &httpv1alpha1.HTTPScaledObject{ObjectMeta: metav1.ObjectMeta{
				Namespace: "team", Name: "shop", Labels: map[string]string{httpv1alpha1.LabelManagedBy: httpv1alpha1.ManagedByAgent},
			}}
			var applied []string
			conditions := 0
			api := fake.NewClientBuilder().WithScheme(newScheme(t)).WithObjects(shop, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}}).
				WithInterceptorFuncs(interceptor.Funcs{
					Patch: func(_ context.Context, _ client.WithWatch, object client.Object, _ client.Patch, _ ...client.PatchOption) error {
						kind := object.GetObjectKind().GroupVersionKind().Kind
						applied = append(applied, kind)
						if kind == "Deployment" {
							return test.answer
						}
						return nil
					},
					SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
						conditions++
						return nil
					},
				}).Build()
			events := record.NewFakeRecorder(10)
			installer := &controllers.ProxyReconciler{
				Client: api, Events: events, Now: time.Now, RemovalDelay: time.Minute,
				IsInstalled: func(schema.GroupVersionKind) bool { return false },
			}
			result, err := installer.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "team"}})
			if (err != nil) != test.isTried || (result.RequeueAfter > 0) != test.isSoon {
				t.Errorf("Reconcile = %+v, %v", result, err)
			}
			if want := []string{"ConfigMap", "Service", "Service", "PodDisruptionBudget", "Deployment"}; !slices.Equal(applied, want) {
				t.Errorf("applied %v, want %v", applied, want)
			}
			close(events.Events)
			event := <-events.Events
			if conditions != test.status || !strings.HasPrefix(event, test.event) || (event == "") != (test.event == "") {
				t.Errorf("%d writes of a condition, and Event %q", conditions, event)
			}
		})
	}
}
