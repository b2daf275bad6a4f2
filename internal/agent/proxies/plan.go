package proxies

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/trigger"
)

// Service is the name of the proxies' Service and Deployment.
const Service = "kedify-proxy"

// Namespace is the input of a plan: the state of one namespace.
type Namespace struct {
	// Name and Annotations are those of the Namespace.
	Name        string
	Annotations map[string]string
	// IsNeeded reports whether an HTTPScaledObject needs the proxies of this namespace: see NeedsProxy.
	IsNeeded bool
	// IsWired reports whether a backend that the agent rewrote still points to the proxies.
	IsWired bool
	// HasEndpoints reports whether Service has endpoints, terminating ones included.
	HasEndpoints bool
	// Existing are the objects in the namespace that have the names of those in config/kedify-proxy.
	Existing []*unstructured.Unstructured
	// Autoscaler is the ScaledObject with the name of the proxies, nil for none.
	Autoscaler *unstructured.Unstructured
	// HasPlaintext reports whether a Pod of the proxies has no token for the interceptor, see NeedsPods.
	HasPlaintext bool
	// Settings are the agent's settings.
	Settings Settings
	// Delay is how long unneeded proxies are kept.
	Delay time.Duration
	// Now is the current time.
	Now time.Time
}

// Plan is the set of writes that a namespace needs.
type Plan struct {
	// Apply are the objects to apply, in order. An object with a UID exists and is managed by the agent; one
	// without is new.
	Apply []*unstructured.Unstructured
	// Delete are the objects to delete, in order, as they exist.
	Delete []*unstructured.Unstructured
	// Condition is the condition of each HTTPScaledObject that needs the proxies, without a time. Nil means no
	// condition.
	Condition *metav1.Condition
	// RequeueAfter is when to plan again even if nothing changes. Zero means never.
	RequeueAfter time.Duration
}

// NeedsProxy reports whether an HTTPScaledObject needs proxies that the agent installs, see trigger.NeedsProxy. One that
// is being deleted does not.
func NeedsProxy(object *httpv1alpha1.HTTPScaledObject) bool {
	return object.DeletionTimestamp == nil && trigger.NeedsProxy(object)
}

// FleetNamespace returns the namespace of the proxies that serve an HTTPScaledObject. shared is the namespace of
// the shared fleet.
func FleetNamespace(object *httpv1alpha1.HTTPScaledObject, shared string) string {
	if object.Annotations[httpv1alpha1.AnnotationFleet] == httpv1alpha1.FleetShared {
		return shared
	}
	return object.Namespace
}

// Plan computes the writes for the namespace.
func (n *Namespace) Plan() (Plan, error) {
	settings, problems := n.Settings.withAnnotations(n.Annotations)
	settings.isStrict = n.isStrict()
	wanted, err := manifests(n.Name, settings)
	if err != nil {
		return Plan{}, err
	}
	managed, unmanaged := map[string]*unstructured.Unstructured{}, map[string]bool{}
	for _, object := range n.Existing {
		if object.GetLabels()[httpv1alpha1.LabelManagedBy] == httpv1alpha1.ManagedByAgent {
			managed[key(object)] = object
		} else {
			unmanaged[key(object)] = true
		}
	}
	switch {
	case n.IsNeeded && len(unmanaged) > 0:
		return Plan{Condition: unmanagedCondition(unmanaged)}, nil
	case n.IsNeeded:
		plan := Plan{Condition: settingsCondition(problems)}
		if n.awaitsTokens() && !settings.isStrict {
			plan.RequeueAfter = authenticationRetry // No watch reports the end of the last Pod without a token.
		}
		for _, object := range wanted {
			err = plan.apply(object, managed[key(object)], settings)
			if err != nil {
				return Plan{}, err
			}
		}
		return plan, plan.planAutoscaler(settings.autoscaler(n.Name), n.Autoscaler)
	case len(managed) == 0:
		var plan Plan
		return plan, plan.planAutoscaler(nil, n.Autoscaler)
	default:
		return n.planRemoval(wanted, managed)
	}
}

// planRemoval removes unneeded proxies: the Deployment after nothing has sent requests to them for Delay, and the
// rest after the last Pod has terminated.
func (n *Namespace) planRemoval(
	wanted []*unstructured.Unstructured, managed map[string]*unstructured.Unstructured,
) (Plan, error) {
	var plan Plan
	at := slices.IndexFunc(wanted, func(object *unstructured.Unstructured) bool {
		return object.GetKind() == "Deployment"
	})
	last := wanted[at]
	deployment := managed[key(last)]
	switch {
	case deployment == nil && n.HasEndpoints:
		return plan, plan.planAutoscaler(nil, n.Autoscaler) // the removal of an endpoint triggers the next plan
	case deployment == nil:
		if err := plan.planAutoscaler(nil, n.Autoscaler); err != nil {
			return Plan{}, err
		}
		for _, object := range slices.Backward(wanted) {
			if existing := managed[key(object)]; existing != nil && existing.GetDeletionTimestamp() == nil {
				plan.Delete = append(plan.Delete, existing)
			}
		}
		return plan, nil
	}
	since, err := time.Parse(time.RFC3339, deployment.GetAnnotations()[httpv1alpha1.AnnotationProxyUnneeded])
	rest := n.Delay - n.Now.Sub(since)
	switch {
	case deployment.GetDeletionTimestamp() != nil:
		return plan, nil
	case n.IsWired: // the delay starts after the rewritten backends are restored
		return plan, plan.apply(last, deployment, n.Settings)
	case err != nil:
		annotate(last, httpv1alpha1.AnnotationProxyUnneeded, n.Now.UTC().Format(time.RFC3339))
		plan.RequeueAfter = n.Delay
		return plan, plan.apply(last, deployment, n.Settings)
	case rest > 0:
		plan.RequeueAfter = rest
	default: // the autoscaler is deleted before its target
		err = plan.planAutoscaler(nil, n.Autoscaler)
		plan.Delete = append(plan.Delete, deployment)
		return plan, err
	}
	return plan, nil
}

// apply adds an object unless the existing one has its desired state. current is the agent's existing object, or
// nil.
func (p *Plan) apply(wanted, current *unstructured.Unstructured, settings Settings) error {
	text, err := wanted.MarshalJSON()
	if err != nil {
		return err
	}
	annotate(wanted, httpv1alpha1.AnnotationProxyApplied, hash(text))
	if current != nil {
		if current.GetDeletionTimestamp() != nil {
			return nil // the end of its deletion triggers the next plan
		}
		wanted.SetUID(current.GetUID())
		if err := settings.keepReplicas(wanted, current); err != nil || covers(current.Object, wanted.Object) {
			return err
		}
	}
	p.Apply = append(p.Apply, wanted)
	return nil
}

// keepReplicas keeps the replicas of a Deployment that someone else scales, until the configured number changes.
// Then it still keeps a number that KEDA set within the configured range.
func (s Settings) keepReplicas(wanted, current *unstructured.Unstructured) error {
	desired := wanted.GetAnnotations()[httpv1alpha1.AnnotationProxyReplicas]
	replicas, has, err := unstructured.NestedInt64(current.Object, "spec", "replicas")
	isBetween := replicas >= int64(max(1, s.Replicas)) && replicas <= int64(s.MaxReplicas)
	isSame := current.GetAnnotations()[httpv1alpha1.AnnotationProxyReplicas] == desired
	if desired == "" || err != nil || !has || !isSame && !isBetween {
		return err
	}
	return unstructured.SetNestedField(wanted.Object, replicas, "spec", "replicas")
}

// covers reports whether an object contains everything in wanted. Other fields belong to the API server or to
// other field managers.
func covers(current, wanted any) bool {
	switch wanted := wanted.(type) {
	case map[string]any:
		object, ok := current.(map[string]any)
		for key, value := range wanted {
			if !ok || !covers(object[key], value) {
				return false
			}
		}
		return true
	case []any:
		list, ok := current.([]any)
		return ok && slices.EqualFunc(list, wanted, covers)
	default:
		return current == wanted
	}
}

// unmanagedCondition returns the condition about objects that the agent does not manage.
func unmanagedCondition(unmanaged map[string]bool) *metav1.Condition {
	if unmanaged["Service "+Service] {
		return &metav1.Condition{
			Type: httpv1alpha1.ConditionProxyInstalled, Status: metav1.ConditionTrue,
			Reason:  httpv1alpha1.ReasonNotManagedByAgent,
			Message: fmt.Sprintf("Service %s is not managed by the agent, so the agent does not install proxies", Service),
		}
	}
	names := make([]string, 0, len(unmanaged))
	for name := range unmanaged {
		names = append(names, name)
	}
	slices.Sort(names)
	return falseCondition(httpv1alpha1.ReasonNameInUse, fmt.Sprintf(
		"no proxies are installed, because objects that the agent does not manage have their names: %s; "+
			"delete or rename them, or "+
			"install the proxies manually, including Service %s", strings.Join(names, ", "), Service))
}

// settingsCondition returns the condition about invalid annotations of a namespace.
func settingsCondition(problems []string) *metav1.Condition {
	if len(problems) == 0 {
		return nil
	}
	return falseCondition(httpv1alpha1.ReasonInvalidProxySettings,
		strings.Join(problems, "; ")+"; the agent uses its own setting")
}

// WriteFailed returns the condition about a write that the API server has rejected.
func WriteFailed(reason, message string) *metav1.Condition { return falseCondition(reason, message) }

// falseCondition returns condition ProxyInstalled with status False.
func falseCondition(reason, message string) *metav1.Condition {
	return &metav1.Condition{
		Type: httpv1alpha1.ConditionProxyInstalled, Status: metav1.ConditionFalse, Reason: reason, Message: message,
	}
}

// key identifies an object within its namespace.
func key(object *unstructured.Unstructured) string { return object.GetKind() + " " + object.GetName() }
