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

// Service is the name of the Service whose endpoints are the proxies of its namespace, and of their Deployment.
const Service = "kedify-proxy"

// Namespace is what decides about the proxies of a namespace.
type Namespace struct {
	// Name is its name, and Annotations are its annotations.
	Name        string
	Annotations map[string]string
	// IsNeeded says that the proxies of this namespace are to serve an HTTPScaledObject: see Needs.
	IsNeeded bool
	// IsWired says that something still sends requests to the proxies that the agent had sent there.
	IsWired bool
	// HasEndpoints says that Service has endpoints, which may be at their end.
	HasEndpoints bool
	// Found are the objects of the namespace that have the names of those of config/kedify-proxy.
	Found []*unstructured.Unstructured
	// Autoscaler is the ScaledObject of the name of the proxies, nil for none.
	Autoscaler *unstructured.Unstructured
	// Settings are the agent's.
	Settings Settings
	// Delay is how long proxies that nothing needs are kept.
	Delay time.Duration
	// Now is the time.
	Now time.Time
}

// Plan is what is to be done in a namespace.
type Plan struct {
	// Apply are the objects to apply, in order. One with a UID is there and the agent's; one without is new.
	Apply []*unstructured.Unstructured
	// Delete are the objects to delete, in order, as they were found.
	Delete []*unstructured.Unstructured
	// Condition is what is to be said of each HTTPScaledObject that needs the proxies, without a time. There may
	// be nothing to say.
	Condition *metav1.Condition
	// Again is when to plan anew even if nothing changes. Zero means never.
	Again time.Duration
}

// Needs says whether an HTTPScaledObject needs proxies that the agent installs: those that it has made do, however
// their requests get to the proxies, and others that ask for their Ingresses to be wired. One of the KEDA HTTP add-on
// in the same cluster is nothing that we should run an Envoy for.
func Needs(object *httpv1alpha1.HTTPScaledObject) bool {
	asked, isAsked := object.Annotations[httpv1alpha1.AnnotationTrafficAutowire]
	// What is left of a list with a mistake in it counts.
	parsed, _ := trigger.Parse(map[string]string{trigger.KeyTrafficAutowire: asked})
	isOurs := object.Labels[httpv1alpha1.LabelManagedBy] == httpv1alpha1.ManagedByAgent
	return object.DeletionTimestamp == nil && (isOurs || isAsked && len(parsed.Autowire) > 0)
}

// Fleet is the namespace of the proxies that serve an HTTPScaledObject. shared is that of the shared fleet.
func Fleet(object *httpv1alpha1.HTTPScaledObject, shared string) string {
	if object.Annotations[httpv1alpha1.AnnotationFleet] == httpv1alpha1.FleetShared {
		return shared
	}
	return object.Namespace
}

// Plan says what is to be done.
func (n *Namespace) Plan() (Plan, error) {
	settings, mistakes := n.Settings.with(n.Annotations)
	wanted, err := manifests(n.Name, settings)
	if err != nil {
		return Plan{}, err
	}
	own, foreign := map[string]*unstructured.Unstructured{}, map[string]bool{}
	for _, object := range n.Found {
		if object.GetLabels()[httpv1alpha1.LabelManagedBy] == httpv1alpha1.ManagedByAgent {
			own[name(object)] = object
		} else {
			foreign[name(object)] = true
		}
	}
	switch {
	case n.IsNeeded && len(foreign) > 0:
		return Plan{Condition: left(foreign)}, nil
	case n.IsNeeded:
		found := Plan{Condition: mistaken(mistakes)}
		for _, object := range wanted {
			err = found.apply(object, own[name(object)], settings)
			if err != nil {
				return Plan{}, err
			}
		}
		return found, found.scale(settings.autoscaler(n.Name), n.Autoscaler)
	case len(own) == 0:
		var found Plan
		return found, found.scale(nil, n.Autoscaler)
	default:
		return n.retire(wanted, own)
	}
}

// retire takes away the proxies that nothing needs: the Deployment when nothing has been sending them requests for
// some time, and the rest after their last request.
func (n *Namespace) retire(
	wanted []*unstructured.Unstructured, own map[string]*unstructured.Unstructured,
) (Plan, error) {
	var found Plan
	at := slices.IndexFunc(wanted, func(object *unstructured.Unstructured) bool {
		return object.GetKind() == "Deployment"
	})
	last := wanted[at]
	deployment := own[name(last)]
	switch {
	case deployment == nil && n.HasEndpoints:
		return found, found.scale(nil, n.Autoscaler) // their end is a change that brings the next plan
	case deployment == nil:
		if err := found.scale(nil, n.Autoscaler); err != nil {
			return Plan{}, err
		}
		for _, object := range slices.Backward(wanted) {
			if is := own[name(object)]; is != nil && is.GetDeletionTimestamp() == nil {
				found.Delete = append(found.Delete, is)
			}
		}
		return found, nil
	}
	since, err := time.Parse(time.RFC3339, deployment.GetAnnotations()[httpv1alpha1.AnnotationProxyUnneeded])
	rest := n.Delay - n.Now.Sub(since)
	switch {
	case deployment.GetDeletionTimestamp() != nil:
		return found, nil
	case n.IsWired: // what sends them requests is restored first, and that counts from then on
		return found, found.apply(last, deployment, n.Settings)
	case err != nil:
		annotate(last, httpv1alpha1.AnnotationProxyUnneeded, n.Now.UTC().Format(time.RFC3339))
		found.Again = n.Delay
		return found, found.apply(last, deployment, n.Settings)
	case rest > 0:
		found.Again = rest
	default: // what scales them goes before them
		err = found.scale(nil, n.Autoscaler)
		found.Delete = append(found.Delete, deployment)
		return found, err
	}
	return found, nil
}

// apply has an object applied unless it is as it should be. found is what is there of the agent's, or nil.
func (p *Plan) apply(wanted, found *unstructured.Unstructured, settings Settings) error {
	text, err := wanted.MarshalJSON()
	if err != nil {
		return err
	}
	annotate(wanted, httpv1alpha1.AnnotationProxyApplied, hash(text))
	if found != nil {
		if found.GetDeletionTimestamp() != nil {
			return nil // the end of its deletion is a change that brings the next plan
		}
		wanted.SetUID(found.GetUID())
		if err := settings.scaled(wanted, found); err != nil || covers(found.Object, wanted.Object) {
			return err
		}
	}
	p.Apply = append(p.Apply, wanted)
	return nil
}

// scaled leaves the replicas of a Deployment to whoever scales it, as long as nobody asks for another number. What KEDA has made of them
// stays also then, where it is between the numbers that are asked for.
func (s Settings) scaled(wanted, found *unstructured.Unstructured) error {
	asked := wanted.GetAnnotations()[httpv1alpha1.AnnotationProxyReplicas]
	replicas, has, err := unstructured.NestedInt64(found.Object, "spec", "replicas")
	isBetween := replicas >= int64(max(1, s.Replicas)) && replicas <= int64(s.MaxReplicas)
	isSame := found.GetAnnotations()[httpv1alpha1.AnnotationProxyReplicas] == asked
	if asked == "" || err != nil || !has || !isSame && !isBetween {
		return err
	}
	return unstructured.SetNestedField(wanted.Object, replicas, "spec", "replicas")
}

// covers says whether an object has all that is wanted of it. What it has beside that is the API server's, or
// somebody else's.
func covers(found, wanted any) bool {
	switch wanted := wanted.(type) {
	case map[string]any:
		object, is := found.(map[string]any)
		for key, value := range wanted {
			if !is || !covers(object[key], value) {
				return false
			}
		}
		return true
	case []any:
		list, is := found.([]any)
		return is && slices.EqualFunc(list, wanted, covers)
	default:
		return found == wanted
	}
}

// left is what is said where objects are somebody else's.
func left(foreign map[string]bool) *metav1.Condition {
	if foreign["Service "+Service] {
		return &metav1.Condition{
			Type: httpv1alpha1.ConditionProxyInstalled, Status: metav1.ConditionTrue,
			Reason:  httpv1alpha1.ReasonInstalledByHand,
			Message: fmt.Sprintf("Service %s is not the agent's, so the proxies are left to whoever made it", Service),
		}
	}
	names := make([]string, 0, len(foreign))
	for each := range foreign {
		names = append(names, each)
	}
	slices.Sort(names)
	return problem(httpv1alpha1.ReasonNameTaken, fmt.Sprintf(
		"no proxies are installed, because somebody else's objects have their names: %s; delete or rename them, or "+
			"install the proxies yourself, with Service %s", strings.Join(names, ", "), Service))
}

// mistaken is what is said about mistakes in the annotations of a namespace.
func mistaken(mistakes []string) *metav1.Condition {
	if len(mistakes) == 0 {
		return nil
	}
	return problem(httpv1alpha1.ReasonInvalidProxySettings,
		strings.Join(mistakes, "; ")+"; the agent's own setting counts")
}

// Refused is what is said where the API server does not take what the agent writes.
func Refused(err error) *metav1.Condition { return problem(httpv1alpha1.ReasonRefused, err.Error()) }

// problem is a condition about what is not as somebody wants it.
func problem(reason, message string) *metav1.Condition {
	return &metav1.Condition{
		Type: httpv1alpha1.ConditionProxyInstalled, Status: metav1.ConditionFalse, Reason: reason, Message: message,
	}
}

// name tells the objects of one namespace apart.
func name(object *unstructured.Unstructured) string { return object.GetKind() + " " + object.GetName() }
