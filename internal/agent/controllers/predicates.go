package controllers

import (
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/event"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/autowire"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/proxies"
)

// nonStatusChanged reports whether an HTTPScaledObject has changed outside its status, which others write often.
func nonStatusChanged(change event.UpdateEvent) bool {
	before, after := change.ObjectOld, change.ObjectNew
	return before.GetGeneration() != after.GetGeneration() ||
		!equality.Semantic.DeepEqual(before.GetLabels(), after.GetLabels()) ||
		!equality.Semantic.DeepEqual(before.GetAnnotations(), after.GetAnnotations()) ||
		!equality.Semantic.DeepEqual(before.GetOwnerReferences(), after.GetOwnerReferences())
}

// targetChanged returns a function that reports whether an HTTPScaledObject has changed in a field that affects
// autowiring, or in the condition that the AutowireReconciler writes. sharedNamespace is that of the shared fleet.
func targetChanged(sharedNamespace string) func(event.UpdateEvent) bool {
	return func(change event.UpdateEvent) bool {
		before, isBefore := change.ObjectOld.(*httpv1alpha1.HTTPScaledObject)
		after, isAfter := change.ObjectNew.(*httpv1alpha1.HTTPScaledObject)
		if !isBefore || !isAfter {
			return true
		}
		oldTarget, wasTarget := autowire.TargetOf(before, sharedNamespace)
		newTarget, isTarget := autowire.TargetOf(after, sharedNamespace)
		return wasTarget != isTarget || !equality.Semantic.DeepEqual(oldTarget, newTarget) ||
			!equality.Semantic.DeepEqual(
				autowire.RivalOf(before, sharedNamespace), autowire.RivalOf(after, sharedNamespace)) ||
			(before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) ||
			!equality.Semantic.DeepEqual(
				meta.FindStatusCondition(before.Status.Conditions, httpv1alpha1.ConditionAutowired),
				meta.FindStatusCondition(after.Status.Conditions, httpv1alpha1.ConditionAutowired))
	}
}

// serviceChanged returns a function that reports whether a Service has changed in a field or an annotation that affects
// autowiring.
func serviceChanged() func(event.UpdateEvent) bool {
	trimmer := autowire.NewTrimmer()
	return func(change event.UpdateEvent) bool {
		before, isBefore := change.ObjectOld.(*corev1.Service)
		after, isAfter := change.ObjectNew.(*corev1.Service)
		return !isBefore || !isAfter || (before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) ||
			!equality.Semantic.DeepEqual(trimmer.Service(before).Spec, trimmer.Service(after).Spec) ||
			!maps.Equal(trimmer.ServiceAnnotations(before.Annotations), trimmer.ServiceAnnotations(after.Annotations))
	}
}

// terminationChanged reports whether a Deployment of proxies was replaced, has started or stopped terminating, or whether
// its Pods have got other labels.
func terminationChanged(change event.UpdateEvent) bool {
	before, isBefore := change.ObjectOld.(*appsv1.Deployment)
	after, isAfter := change.ObjectNew.(*appsv1.Deployment)
	return !isBefore || !isAfter || before.UID != after.UID ||
		autowire.IsTerminating(before) != autowire.IsTerminating(after) ||
		!equality.Semantic.DeepEqual(labelsOf(before), labelsOf(after))
}

// labelsOf returns the labels of the Pods of a Deployment of proxies, as autowire.Proxies.Labels does.
func labelsOf(deployment *appsv1.Deployment) [2]map[string]string {
	all, next := (&autowire.Proxies{Deployment: deployment}).Labels()
	return [2]map[string]string{all, next}
}

// routingChanged reports whether a Rollout manages other HTTPRoutes, Ingresses, VirtualServices or Routes.
func routingChanged(change event.UpdateEvent) bool {
	before, isBefore := change.ObjectOld.(*apis.Rollout)
	after, isAfter := change.ObjectNew.(*apis.Rollout)
	return !isBefore || !isAfter || autowire.RoutingConfig(before) != autowire.RoutingConfig(after)
}

// parentsChanged reports whether an HTTPRoute belongs to Gateways of other controllers.
func parentsChanged(change event.UpdateEvent) bool {
	before, isBefore := change.ObjectOld.(*apis.HTTPRoute)
	after, isAfter := change.ObjectNew.(*apis.HTTPRoute)
	return !isBefore || !isAfter || !slices.Equal(before.Status.Parents, after.Status.Parents)
}

// needChanged reports whether an HTTPScaledObject has changed in whether it needs proxies, in its fleet, or in the
// condition that the ProxyReconciler writes.
func needChanged(change event.UpdateEvent) bool {
	before, isBefore := change.ObjectOld.(*httpv1alpha1.HTTPScaledObject)
	after, isAfter := change.ObjectNew.(*httpv1alpha1.HTTPScaledObject)
	if !isBefore || !isAfter {
		return true
	}
	return proxies.NeedsProxy(before) != proxies.NeedsProxy(after) ||
		proxies.FleetNamespace(before, "") != proxies.FleetNamespace(after, "") ||
		!equality.Semantic.DeepEqual(
			meta.FindStatusCondition(before.Status.Conditions, httpv1alpha1.ConditionProxyInstalled),
			meta.FindStatusCondition(after.Status.Conditions, httpv1alpha1.ConditionProxyInstalled))
}
