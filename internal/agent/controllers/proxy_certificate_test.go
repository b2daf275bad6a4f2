package controllers_test

import (
	"context"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
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

// TestProxiesWaitForTheCertificate has proxies that must connect by TLS: none are installed without TLS meanwhile, and
// those that are not needed any more are not changed to proxies without TLS.
func TestProxiesWaitForTheCertificate(t *testing.T) {
	managed := map[string]string{httpv1alpha1.LabelManagedBy: httpv1alpha1.ManagedByAgent}
	for name, test := range map[string]struct {
		object client.Object
		want   []string // applied kinds
	}{
		"needed": {
			&httpv1alpha1.HTTPScaledObject{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "shop", Labels: managed}},
			[]string{"ConfigMap", "Service", "Service", "PodDisruptionBudget", "Deployment"},
		},
		"not needed any more": {
			&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "kedify-proxy", Labels: managed}},
			[]string{"Deployment"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var applied []string
			var ca []byte
			api := clientThatRecords(t, &applied, test.object)
			installer := &controllers.ProxyReconciler{
				Client: api, APIReader: api, Events: record.NewFakeRecorder(10), Now: time.Now,
				RemovalDelay: time.Minute, IsInstalled: func(schema.GroupVersionKind) bool { return false },
				CA: func() []byte { return ca },
			}
			request := ctrl.Request{NamespacedName: types.NamespacedName{Name: "team"}}
			result, err := installer.Reconcile(t.Context(), request)
			if err != nil || result.RequeueAfter == 0 || len(applied) > 0 {
				t.Errorf("without a certificate: %+v, %v, applied %v", result, err, applied)
			}
			ca = []byte("ca")
			result, err = installer.Reconcile(t.Context(), request)
			if err != nil || !slices.Equal(applied, test.want) {
				t.Errorf("with a certificate: %+v, %v, applied %v, want %v", result, err, applied, test.want)
			}
		})
	}
}

// clientThatRecords returns a client of namespace team with an object. It appends the kind of each applied object to
// applied, and applies none.
func clientThatRecords(t *testing.T, applied *[]string, object client.Object) client.Client {
	t.Helper()
	return fake.NewClientBuilder().WithScheme(newScheme(t)).
		WithObjects(object, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}}).
		WithInterceptorFuncs(interceptor.Funcs{
			Patch: func(
				_ context.Context, _ client.WithWatch, object client.Object, _ client.Patch, _ ...client.PatchOption,
			) error {
				*applied = append(*applied, object.GetObjectKind().GroupVersionKind().Kind)
				return nil
			},
		}).Build()
}

// TestFleetIsStrictAfterTheLastPlaintextProxy has Pods of proxies without a token, in several states.
func TestFleetIsStrictAfterTheLastPlaintextProxy(t *testing.T) {
	managed := map[string]string{httpv1alpha1.LabelManagedBy: httpv1alpha1.ManagedByAgent}
	pod := func(app, volume string, phase corev1.PodPhase) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "proxy", Labels: map[string]string{"app": app}},
			Spec:       corev1.PodSpec{Volumes: []corev1.Volume{{Name: volume}}}, Status: corev1.PodStatus{Phase: phase},
		}
	}
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		want bool // strict
	}{
		"it runs":      {pod("kedify-proxy", "bootstrap", corev1.PodRunning), false},
		"it has ended": {pod("kedify-proxy", "bootstrap", corev1.PodSucceeded), true},
		"with a token": {pod("kedify-proxy", "interceptor-token", corev1.PodRunning), true},
		"no proxy":     {pod("shop", "bootstrap", corev1.PodRunning), true},
	} {
		t.Run(name, func(t *testing.T) {
			isStrict := false
			shop := &httpv1alpha1.HTTPScaledObject{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "shop", Labels: managed}}
			api := fake.NewClientBuilder().WithScheme(newScheme(t)).
				WithObjects(test.pod, shop, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}}).
				WithInterceptorFuncs(interceptor.Funcs{Patch: func(
					_ context.Context, _ client.WithWatch, object client.Object, _ client.Patch, _ ...client.PatchOption,
				) error {
					isStrict = isStrict || object.GetAnnotations()["http.kedify.io/proxy-authentication"] == "strict"
					return nil
				}}).Build()
			installer := &controllers.ProxyReconciler{
				Client: api, APIReader: api, Events: record.NewFakeRecorder(10), Now: time.Now,
				IsInstalled: func(schema.GroupVersionKind) bool { return false }, CA: func() []byte { return []byte("ca") },
			}
			result, err := installer.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "team"}})
			if err != nil || isStrict != test.want || (result.RequeueAfter > 0) == test.want {
				t.Errorf("strict %t, %+v, %v", isStrict, result, err)
			}
		})
	}
}
