package agent_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/controllers"
	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// TestNoRedundantWrites has changes without effect: the agent reconciles each and writes nothing in the namespace.
func TestNoRedundantWrites(t *testing.T) {
	t.Parallel()
	team := namespace(t, "quiet")
	byHand := strings.Replace(
		shop(`{hosts: shop.test, port: "80", service: shop, trafficAutowire: "false", scalerAddress: "`+scaler+`"}`),
		"kedify-http", "external-push", 1)
	apply(t, team, byHand)
	awaitParts(t, team, len(proxyParts))
	// The event of an object's creation may be reconciled before the one of its conditions, which
	// are then written twice. A first bound comes after both.
	before := bound(t, team, 6, 0)
	patch(t, scaledObject(team, "shop"), `{"metadata": {"annotations": {"team": "a"}}}`)
	patch(t, httpScaledObject(team, "shop"), `{"metadata": {"annotations": {"team": "a"}}}`)
	patch(t, httpScaledObject(team, "shop"), `{"spec": {"scaledownPeriod": 7}}`)
	// What comes after is reconciled after: the queue is one.
	after := bound(t, team, 7, len(before))
	if diff := cmp.Diff(append(withoutStatus(before), "patch httpscaledobjects/"), withoutStatus(after)); diff != "" {
		t.Errorf("writes, the last one for the bound (-want +got):\n%s", diff)
	}
	// The condition has the generation that it is for, of which there were three: two bounds and the user's field.
	const generations = 3
	if statuses := len(after) - len(before) - 1; statuses > generations {
		t.Errorf("%d writes of the status, of %d generations: %v", statuses, generations, after)
	}
}

// withoutStatus returns the writes that are not of the status of an HTTPScaledObject.
func withoutStatus(writes []string) []string {
	return slices.DeleteFunc(slices.Clone(writes), func(write string) bool { return write == "patch httpscaledobjects/status" })
}

// bound changes the maximum replicas of ScaledObject shop, and returns the agent's writes once there are more than
// some and the HTTPScaledObject has the new maximum.
func bound(t *testing.T, namespace string, most int32, some int) []string {
	t.Helper()
	awaitObject(t, namespace, "shop", "its conditions", func(object *httpv1alpha1.HTTPScaledObject) bool {
		return len(object.Status.Conditions) > 0
	})
	patch(t, scaledObject(namespace, "shop"), fmt.Sprintf(`{"spec": {"maxReplicaCount": %d}}`, most))
	awaitObject(t, namespace, "shop", "its new bound", func(object *httpv1alpha1.HTTPScaledObject) bool {
		return *object.Spec.Replicas.Max == most
	})
	var found []string
	await.True(t, "the write is written down", func() bool {
		found = writes(t, namespace)
		return len(found) > some && slices.Contains(found[some:], "patch httpscaledobjects/")
	})
	return found
}

// writes returns the agent's write requests in a namespace.
func writes(t *testing.T, namespace string) []string {
	t.Helper()
	events, err := shared.audit.RequestsOf(account)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, event := range events {
		reads := slices.Contains([]string{"get", "list", "watch"}, event.Verb)
		if event.ObjectRef.Namespace == namespace && !reads {
			found = append(found, event.Verb+" "+event.ObjectRef.Resource+"/"+event.ObjectRef.Subresource)
		}
	}
	return found
}

// TestStaleCacheTakesOverNothing creates the HTTPScaledObject after the cache was read. The reconciler runs in the
// test and does not see the object.
func TestStaleCacheTakesOverNothing(t *testing.T) {
	t.Parallel()
	team := namespace(t, "behind")
	apply(t, team, `{apiVersion: http.keda.sh/v1alpha1, kind: HTTPScaledObject, metadata: {name: mine},
		spec: {hosts: [mine.test], scaleTargetRef: {service: mine, port: 80}}}`)

	scheme := runtime.NewScheme()
	if err := errors.Join(httpv1alpha1.AddToScheme(scheme), apis.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	direct, err := client.NewWithWatch(shared.Config(apiserver.AdminToken), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	gone := apierrors.NewNotFound(schema.GroupResource{Resource: httpv1alpha1.Resource}, "mine")
	stale := interceptor.NewClient(direct, interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
			scaled, ok := object.(*apis.ScaledObject)
			if !ok {
				return gone
			}
			scaled.Namespace, scaled.Name, scaled.UID = key.Namespace, key.Name, "uid"
			scaled.Spec.ScaleTargetRef.Name = "shop"
			scaled.Spec.Triggers = []apis.Trigger{{Type: "external-push", Metadata: map[string]string{
				"convertedFrom": "kedify-http", "hosts": "shop.test", "port": "80", "service": "shop",
			}}}
			return nil
		},
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return nil },
	})
	reconciler := controllers.ScaledObjectReconciler{
		Client: stale, APIReader: direct, Events: record.NewFakeRecorder(10), Now: time.Now, ScalerAddress: scaler,
	}
	request := ctrl.Request{NamespacedName: types.NamespacedName{Namespace: team, Name: "mine"}}
	result, err := reconciler.Reconcile(t.Context(), request)
	if err != nil || result.RequeueAfter == 0 {
		t.Errorf("Reconcile = %+v, %v; want another try", result, err)
	}
	found := awaitObject(t, team, "mine", "there", there)
	if found.Spec.Hosts[0] != "mine.test" || len(found.OwnerReferences) > 0 || len(found.Labels) > 0 {
		t.Errorf("it was taken over: %+v", found)
	}
}
