package controllers_test

import (
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/controllers"
)

// TestDeleteAfterRestore deletes the ScaledObject of an HTTPScaledObject. While condition Autowired is present,
// the AutowireReconciler has not restored all backends.
func TestDeleteAfterRestore(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		conditions []metav1.Condition
		isGone     bool
	}{
		"all is wired":    {[]metav1.Condition{{Type: "Autowired", Status: "True", Reason: "Wired"}}, false},
		"partly wired":    {[]metav1.Condition{{Type: "Autowired", Status: "False", Reason: "BackendRevertedByOther"}}, false},
		"all is restored": {[]metav1.Condition{{Type: "Programmed", Status: "True", Reason: "Programmed"}}, true},
		"no annotation":   {nil, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shop := &httpv1alpha1.HTTPScaledObject{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "shop", UID: "uid"}}
			shop.Status.Conditions = test.conditions
			api := fake.NewClientBuilder().WithScheme(newScheme(t)).WithObjects(shop).WithIndex(&httpv1alpha1.HTTPScaledObject{}, "owner",
				func(client.Object) []string { return []string{"shop"} }).Build()
			agent := controllers.ScaledObjectReconciler{Client: api, APIReader: api, Events: record.NewFakeRecorder(10), Now: time.Now}
			name := client.ObjectKeyFromObject(shop)
			result, err := agent.Reconcile(t.Context(), ctrl.Request{NamespacedName: name})
			if err != nil {
				t.Fatal(err)
			}
			isGone := apierrors.IsNotFound(api.Get(t.Context(), name, shop))
			if isGone != test.isGone || isGone == (result.RequeueAfter > 0) {
				t.Errorf("gone: %v, tried again after %v", isGone, result.RequeueAfter)
			}
		})
	}
}
