package cleanup

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
	"github.com/kedify/argo-rollouts-plugin/internal/kube/lease"
)

// Kind is a kind of leftover.
type Kind string

// The kinds of leftovers. docs/reference/cli.md lists them.
const (
	// Weights are weights of an HTTPScaledObject or InterceptorRoute with an owner annotation.
	Weights Kind = "Weights"
	// UnownedWeights are weights of an object without an owner annotation that no Rollout references. The published plugin
	// and users write no owner annotation.
	UnownedWeights Kind = "UnownedWeights"
	// OwnerAnnotation is an owner annotation without weights.
	OwnerAnnotation Kind = "Mark"
	// StatusAnnotation is a report in an annotation, although the status contains the report.
	StatusAnnotation Kind = "StatusAnnotation"
	// ManagedRules are header or mirror routes in a Gateway API route, Destinations the backends of an experiment, and
	// Record the rest of a Rollout's entry in the annotation.
	ManagedRules Kind = "ManagedRules"
	Destinations Kind = "Destinations"
	Record       Kind = "Record"
	// RouteWeights are weights in a route whose Rollout exists but references another route now.
	RouteWeights Kind = "RouteWeights"
	// Label is the in-progress label on a route that no Rollout references.
	Label Kind = "Label"
	// InterceptorLease is the Lease of uninstalled interceptors.
	InterceptorLease Kind = "InterceptorLease"
	// Trial is the namespace of a throwaway canary that was not removed.
	Trial Kind = "Trial"
)

// Leftover is an object with leftovers.
type Leftover struct {
	// Kinds are the kinds of leftovers on the object.
	Kinds []Kind `json:"kinds"`
	// Object is the kind, namespace and name of the object.
	Object string `json:"object"`
	// Message describes the leftovers, their former owner, and the effect of the removal on requests.
	Message string `json:"message"`
	// Unowned is true if the data may belong to a user.
	Unowned bool `json:"unowned"`
	// Removal removes the leftovers.
	Removal Removal `json:"-"`
}

// Removal is one request that removes leftovers. It fails if the object has changed since it was read. Exactly one of
// Patch, Route, Lease, Uninstalled and Namespace is set.
type Removal struct {
	// Patch changes the object of kind Kind, HTTPScaledObject or InterceptorRoute, with name Object (RFC 6902).
	Kind   string
	Object types.NamespacedName
	Patch  []PatchOperation
	// Route replaces the route. It contains the resource version that was read.
	Route *facts.Route
	// Lease is deleted if it matches the precondition.
	Lease *Precondition
	// Uninstalled is a Lease that gets the holder lease.Uninstalled if it matches the precondition.
	Uninstalled *Precondition
	// Namespace is deleted, including all objects in it, if it matches the precondition.
	Namespace *Precondition
}

// PatchOperation is an operation of a JSON patch.
type PatchOperation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// Precondition is the name of an object with the UID and the resource version that it must have.
type Precondition struct {
	Name            types.NamespacedName
	UID             types.UID
	ResourceVersion string
}

// Find returns the leftovers, sorted by object. If namespace is not empty, only Rollouts of that namespace have been
// read.
func Find(cluster *facts.Facts, namespace string) []Leftover {
	f := finder{cluster: cluster, namespace: namespace}
	var all []Leftover
	for i := range cluster.HTTPScaledObjects {
		all = append(all, f.checkObject(&cluster.HTTPScaledObjects[i])...)
	}
	for i := range cluster.InterceptorRoutes {
		all = append(all, f.checkObject(&cluster.InterceptorRoutes[i])...)
	}
	for i := range cluster.Routes {
		all = append(all, f.checkRoute(&cluster.Routes[i])...)
	}
	all = append(all, f.checkLease()...)
	all = append(all, f.checkTrials()...)
	slices.SortStableFunc(all, func(a, b Leftover) int { return cmp.Compare(a.Object, b.Object) })
	return all
}

// finder finds leftovers.
type finder struct {
	cluster   *facts.Facts
	namespace string
}

// rollout returns the Rollout of that name, or nil.
func (f *finder) rollout(name types.NamespacedName) *facts.Rollout {
	at := slices.IndexFunc(f.cluster.Rollouts, func(r facts.Rollout) bool { return r.Key() == name })
	if at < 0 {
		return nil
	}
	return &f.cluster.Rollouts[at]
}

// isRead reports whether the Rollouts of a namespace have been read.
func (f *finder) isRead(namespace string) bool { return f.namespace == "" || f.namespace == namespace }

// staleReason returns why a Rollout no longer uses an object; false if it may still use it. mayReference reports
// whether an existing Rollout may reference the object.
func (f *finder) staleReason(
	name types.NamespacedName, mayReference func(*facts.Rollout) bool,
) (reason string, ok bool) {
	rollout := f.rollout(name)
	switch {
	case !f.isRead(name.Namespace):
		return "", false
	case rollout == nil:
		return fmt.Sprintf("Rollout %s does not exist", name), true
	case mayReference(rollout):
		return "", false
	default:
		return fmt.Sprintf("Rollout %s no longer references it", name), true
	}
}

// checkObject finds leftovers on an HTTPScaledObject or an InterceptorRoute.
func (f *finder) checkObject(object *httpv1alpha1.HTTPScaledObject) []Leftover {
	name := types.NamespacedName{Namespace: object.Namespace, Name: object.Name}
	mayReference := func(r *facts.Rollout) bool { return f.mayUseObject(r, object) }
	weights, hasWeights := object.Annotations[httpv1alpha1.AnnotationWeightedBackends]
	_, hasOwnerAnnotation := object.Annotations[httpv1alpha1.AnnotationWeightedBackendsOwner]
	owner, isOwned := f.cluster.OwnerOf(object)
	kind := facts.KindOf(object)
	leftover := Leftover{Object: fmt.Sprintf("%s %s", kind, name)}
	var remove []string
	switch reason, isStale := f.staleReason(owner.Rollout, mayReference); {
	case isOwned && isStale && hasWeights:
		leftover.Kinds = []Kind{Weights}
		remove = []string{httpv1alpha1.AnnotationWeightedBackends, httpv1alpha1.AnnotationWeightedBackendsOwner}
		leftover.Message = fmt.Sprintf("%s, but its weights are still active (%s); without them all requests go to %s",
			reason, oneLine(weights), object.Spec.ScaleTargetRef.Service)
		if _, ok := object.Annotations[httpv1alpha1.AnnotationManagedRoutes]; ok {
			remove = append(remove, httpv1alpha1.AnnotationManagedRoutes)
			leftover.Message += ", including those of its header and mirror routes"
		}
		if _, ok := object.Annotations[httpv1alpha1.AnnotationStickiness]; ok {
			remove = append(remove, httpv1alpha1.AnnotationStickiness)
		}
	case isOwned && isStale:
		leftover.Kinds, remove = []Kind{OwnerAnnotation}, []string{httpv1alpha1.AnnotationWeightedBackendsOwner}
		leftover.Message = reason + ", and its owner annotation has no weights"
	case hasWeights && !hasOwnerAnnotation && f.isRead(name.Namespace) &&
		!slices.ContainsFunc(f.cluster.Rollouts, func(r facts.Rollout) bool { return mayReference(&r) }):
		leftover.Kinds, leftover.Unowned = []Kind{UnownedWeights}, true
		remove = []string{httpv1alpha1.AnnotationWeightedBackends}
		leftover.Message = fmt.Sprintf("no Rollout references it, and its weights (%s) have no owner annotation: "+
			"set by the published plugin or manually; without them all requests go to %s",
			oneLine(weights), object.Spec.ScaleTargetRef.Service)
	}
	if _, ok := object.Annotations[httpv1alpha1.AnnotationStatus]; ok && object.Status.DataPlane != nil {
		message := "the status contains the report, so the annotation is unused: " + httpv1alpha1.AnnotationStatus
		if leftover.Unowned { // --unowned applies to the weights only, so the annotation is a leftover of its own
			annotation := Leftover{Object: leftover.Object, Kinds: []Kind{StatusAnnotation}, Message: message}
			patch := removeAnnotations(object, []string{httpv1alpha1.AnnotationStatus})
			annotation.Removal = Removal{Kind: kind, Object: name, Patch: patch}
			leftover.Removal = Removal{Kind: kind, Object: name, Patch: removeAnnotations(object, remove)}
			return []Leftover{leftover, annotation}
		}
		leftover.Kinds, remove = append(leftover.Kinds, StatusAnnotation), append(remove, httpv1alpha1.AnnotationStatus)
		leftover.Message = strings.TrimPrefix(leftover.Message+"; "+message, "; ")
	}
	if len(remove) == 0 {
		return nil
	}
	leftover.Removal = Removal{Kind: kind, Object: name, Patch: removeAnnotations(object, remove)}
	return []Leftover{leftover}
}

// mayUseObject reports whether a Rollout may split requests with an HTTPScaledObject or an InterceptorRoute: the Rollout
// references it, or another HTTPScaledObject of the same ScaledObject. A Rollout that references a missing
// HTTPScaledObject may use any one, and a Rollout whose configuration is invalid any object.
func (f *finder) mayUseObject(r *facts.Rollout, object *httpv1alpha1.HTTPScaledObject) bool {
	isRoute := object.Spec.Converted != nil
	switch {
	case r.Namespace != object.Namespace || !r.Uses(facts.HTTPRouter):
		return false
	case r.ObjectError != nil:
		return true
	case isRoute || r.InterceptorRoute != "":
		return isRoute && r.InterceptorRoute == object.Name
	}
	others := f.cluster.ObjectsOf(r)
	isReferenceMissing := len(others) == 0 && httpv1alpha1.ScaledObjectOf(object) != ""
	return r.Object == object.Name || isReferenceMissing ||
		slices.ContainsFunc(others, func(o *httpv1alpha1.HTTPScaledObject) bool { return o.Name == object.Name })
}

// oneLine formats weights in one line of at most 200 characters.
func oneLine(text string) string {
	return fmt.Sprintf("%.200s", strings.Join(strings.Fields(strings.ReplaceAll(text, "\n- ", ", ")), " "))
}

// removeAnnotations returns a patch that removes annotations. It tests the UID of the object and the values of the
// annotations.
func removeAnnotations(object *httpv1alpha1.HTTPScaledObject, annotations []string) []PatchOperation {
	tests, removals := []PatchOperation{{Op: "test", Path: "/metadata/uid", Value: object.UID}}, []PatchOperation{}
	for _, name := range annotations {
		path := "/metadata/annotations/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
		tests = append(tests, PatchOperation{Op: "test", Path: path, Value: object.Annotations[name]})
		removals = append(removals, PatchOperation{Op: "remove", Path: path})
	}
	return append(tests, removals...)
}

// checkLease finds the Lease of uninstalled interceptors. While objects have a report, it is kept as a mark: a router
// without it cannot distinguish uninstalled interceptors from crashed ones, and waits for their reports.
func (f *finder) checkLease() []Leftover {
	live := f.cluster.Lease
	if live == nil || f.cluster.Interceptor != nil || f.namespace != "" {
		return nil
	}
	if renewed := live.Spec.RenewTime; renewed != nil &&
		f.cluster.Now.Sub(renewed.Time) < 4*httpv1alpha1.LeaseFreshness && !lease.IsUninstalled(live) {
		return nil // an interceptor is running in a Deployment with other labels
	}
	name := types.NamespacedName{Namespace: live.Namespace, Name: live.Name}
	read := &Precondition{Name: name, UID: live.UID, ResourceVersion: live.ResourceVersion}
	leftover := Leftover{
		Object: fmt.Sprintf("Lease %s", name), Kinds: []Kind{InterceptorLease},
		Message: "no interceptor is installed, and the Lease is not renewed",
		Removal: Removal{Lease: read},
	}
	hasReport := func(object httpv1alpha1.HTTPScaledObject) bool {
		return httpv1alpha1.StatusOf(&object).DataPlane != nil
	}
	if slices.ContainsFunc(f.cluster.HTTPScaledObjects, hasReport) ||
		slices.ContainsFunc(f.cluster.InterceptorRoutes, hasReport) {
		leftover.Message += ": Rollouts wait for the reports of interceptors until it is marked as uninstalled"
		leftover.Removal = Removal{Uninstalled: read}
		if lease.IsUninstalled(live) {
			return nil
		}
	}
	return []Leftover{leftover}
}

// checkTrials finds the namespaces of throwaway canaries whose deadline has passed. It ignores those that are being
// deleted.
func (f *finder) checkTrials() []Leftover {
	var all []Leftover
	for _, namespace := range f.cluster.Trials {
		deadline, err := time.Parse(time.RFC3339, namespace.Annotations[facts.TrialUntil])
		if err != nil || f.cluster.Now.Before(deadline) || namespace.DeletionTimestamp != nil {
			continue
		}
		all = append(all, Leftover{
			Object: "Namespace " + namespace.Name, Kinds: []Kind{Trial},
			Message: "kubectl http-canary try should have deleted it by " + deadline.Format(time.RFC3339),
			Removal: Removal{Namespace: &Precondition{
				Name: types.NamespacedName{Name: namespace.Name}, UID: namespace.UID,
				ResourceVersion: namespace.ResourceVersion,
			}},
		})
	}
	return all
}
