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
)

// Sort is what is left over.
type Sort string

// The sorts. docs/reference/cli.md has them all.
const (
	// Weights are those of an HTTPScaledObject, with the mark of their owner.
	Weights Sort = "Weights"
	// UnownedWeights are those of an HTTPScaledObject without a mark, that no Rollout names. The published plugin writes
	// none, and neither does a hand.
	UnownedWeights Sort = "UnownedWeights"
	// Mark is the mark of an owner without weights.
	Mark Sort = "Mark"
	// StatusAnnotation is a report in an annotation that nobody reads.
	StatusAnnotation Sort = "StatusAnnotation"
	// ManagedRules are header or mirror routes in a route of the Gateway API, Destinations an experiment's backends, and
	// Record what the annotation says of a Rollout beside those.
	ManagedRules Sort = "ManagedRules"
	Destinations Sort = "Destinations"
	Record       Sort = "Record"
	// RouteWeights are those in a route, of a Rollout that exists and has another one now.
	RouteWeights Sort = "RouteWeights"
	// Label is the in-progress label on a route that no Rollout names.
	Label Sort = "Label"
	// InterceptorLease is that of interceptors that were uninstalled.
	InterceptorLease Sort = "InterceptorLease"
	// Trial is the namespace of a throw-away canary whose command has ended without removing it.
	Trial Sort = "Trial"
)

// Leftover is an object with something left over on it.
type Leftover struct {
	// Sorts are what.
	Sorts []Sort `json:"sorts"`
	// Object is its kind, namespace and name.
	Object string `json:"object"`
	// Message says what it is, whose it was, and what becomes of requests without it.
	Message string `json:"message"`
	// Unowned says that it may be a user's.
	Unowned bool `json:"unowned"`
	// Removal is how it is taken away.
	Removal Removal `json:"-"`
}

// Removal is one request that takes something away, and that fails when the object is not what it was. One of its fields
// is set.
type Removal struct {
	// Patch changes an HTTPScaledObject of the name Of (RFC 6902).
	Of    types.NamespacedName
	Patch []Operation
	// Route is put in the place of the route; it has the resource version that was read.
	Route *facts.Route
	// Lease is deleted while it has this UID and resource version.
	Lease *Precondition
	// Namespace is deleted, with all that is in it, while it has this UID and resource version.
	Namespace *Precondition
}

// Operation is one of a JSON patch.
type Operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// Precondition is what an object has to have.
type Precondition struct {
	Name            types.NamespacedName
	UID             types.UID
	ResourceVersion string
}

// Find finds what is left over, in the order of the objects. Of Rollouts of other namespaces than namespace nothing is
// known, unless that is empty.
func Find(cluster *facts.Facts, namespace string) []Leftover {
	f := finder{cluster: cluster, namespace: namespace}
	var all []Leftover
	for i := range cluster.HTTPScaledObjects {
		all = append(all, f.object(&cluster.HTTPScaledObjects[i])...)
	}
	for i := range cluster.Routes {
		all = append(all, f.route(&cluster.Routes[i])...)
	}
	all = append(all, f.lease()...)
	all = append(all, f.trials()...)
	slices.SortStableFunc(all, func(a, b Leftover) int { return cmp.Compare(a.Object, b.Object) })
	return all
}

// finder finds what is left over.
type finder struct {
	cluster   *facts.Facts
	namespace string
}

// rollout is the Rollout of that name, nil where there is none.
func (f *finder) rollout(name types.NamespacedName) *facts.Rollout {
	at := slices.IndexFunc(f.cluster.Rollouts, func(r facts.Rollout) bool { return r.Key() == name })
	if at < 0 {
		return nil
	}
	return &f.cluster.Rollouts[at]
}

// isKnown says whether the Rollouts of a namespace have been read.
func (f *finder) isKnown(namespace string) bool { return f.namespace == "" || f.namespace == namespace }

// gone says why a Rollout has nothing to do with an object any more; false where it may have. A Rollout whose
// configuration cannot be read may mean any object.
func (f *finder) gone(name types.NamespacedName, mayName func(*facts.Rollout) bool) (why string, is bool) {
	rollout := f.rollout(name)
	switch {
	case !f.isKnown(name.Namespace):
		return "", false
	case rollout == nil:
		return fmt.Sprintf("Rollout %s does not exist", name), true
	case mayName(rollout):
		return "", false
	default:
		return fmt.Sprintf("Rollout %s no longer references it", name), true
	}
}

// object finds what is left over on an HTTPScaledObject.
func (f *finder) object(object *httpv1alpha1.HTTPScaledObject) []Leftover {
	name := types.NamespacedName{Namespace: object.Namespace, Name: object.Name}
	mayName := func(r *facts.Rollout) bool { return f.mayShareBy(r, object) }
	weights, hasWeights := object.Annotations[httpv1alpha1.AnnotationWeightedBackends]
	_, isMarked := object.Annotations[httpv1alpha1.AnnotationWeightedBackendsOwner]
	mark, isOurs := f.cluster.Marks[name]
	left := Leftover{Object: fmt.Sprintf("%s %s", httpv1alpha1.Kind, name)}
	var remove []string
	switch why, isGone := f.gone(mark.Rollout, mayName); {
	case isOurs && isGone && hasWeights:
		left.Sorts, remove = []Sort{Weights}, []string{httpv1alpha1.AnnotationWeightedBackends, httpv1alpha1.AnnotationWeightedBackendsOwner}
		left.Message = fmt.Sprintf("%s, but its weights are still active (%s); without them all requests go to %s", why, oneLine(weights),
			object.Spec.ScaleTargetRef.Service)
		if _, has := object.Annotations[httpv1alpha1.AnnotationManagedRoutes]; has {
			remove = append(remove, httpv1alpha1.AnnotationManagedRoutes)
			left.Message += ", including those of its header and mirror routes"
		}
	case isOurs && isGone:
		left.Sorts, remove = []Sort{Mark}, []string{httpv1alpha1.AnnotationWeightedBackendsOwner}
		left.Message = why + ", and its owner annotation has no weights"
	case hasWeights && !isMarked && f.isKnown(name.Namespace) && !slices.ContainsFunc(f.cluster.Rollouts, func(r facts.Rollout) bool { return mayName(&r) }):
		left.Sorts, left.Unowned, remove = []Sort{UnownedWeights}, true, []string{httpv1alpha1.AnnotationWeightedBackends}
		left.Message = fmt.Sprintf("no Rollout references it, and its weights (%s) have no owner annotation: set by the published plugin or manually; "+
			"without them all requests go to %s", oneLine(weights), object.Spec.ScaleTargetRef.Service)
	}
	if _, has := object.Annotations[httpv1alpha1.AnnotationStatus]; has && object.Status.DataPlane != nil {
		told := "the status contains the report, so the annotation is unused: " + httpv1alpha1.AnnotationStatus
		if left.Unowned { // --unowned applies to the weights only, so the annotation is a leftover of its own
			alone := Leftover{Object: left.Object, Sorts: []Sort{StatusAnnotation}, Message: told}
			alone.Removal = Removal{Of: name, Patch: without(object, []string{httpv1alpha1.AnnotationStatus})}
			left.Removal = Removal{Of: name, Patch: without(object, remove)}
			return []Leftover{left, alone}
		}
		left.Sorts, remove = append(left.Sorts, StatusAnnotation), append(remove, httpv1alpha1.AnnotationStatus)
		left.Message = strings.TrimPrefix(left.Message+"; "+told, "; ")
	}
	if len(remove) == 0 {
		return nil
	}
	left.Removal = Removal{Of: name, Patch: without(object, remove)}
	return []Leftover{left}
}

// mayShareBy says whether a Rollout may share requests by an HTTPScaledObject: it names that, or one of the same ScaledObject. One that is missing, or a configuration
// that cannot be read, may mean any.
func (f *finder) mayShareBy(r *facts.Rollout, object *httpv1alpha1.HTTPScaledObject) bool {
	if r.Namespace != object.Namespace || !r.Uses(facts.HTTPRouter) {
		return false
	}
	others := f.cluster.ObjectsOf(r)
	isOfMissing := len(others) == 0 && httpv1alpha1.ScaledObjectOf(object) != ""
	return r.ObjectError != nil || r.Object == object.Name || isOfMissing ||
		slices.ContainsFunc(others, func(o *httpv1alpha1.HTTPScaledObject) bool { return o.Name == object.Name })
}

// oneLine is a text of weights on one line, cut where it is long.
func oneLine(text string) string {
	return fmt.Sprintf("%.200s", strings.Join(strings.Fields(strings.ReplaceAll(text, "\n- ", ", ")), " "))
}

// without is a patch that removes annotations which are as they were read, of the very object.
func without(object *httpv1alpha1.HTTPScaledObject, annotations []string) []Operation {
	tests, removals := []Operation{{Op: "test", Path: "/metadata/uid", Value: object.UID}}, []Operation{}
	for _, name := range annotations {
		path := "/metadata/annotations/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
		tests = append(tests, Operation{Op: "test", Path: path, Value: object.Annotations[name]})
		removals = append(removals, Operation{Op: "remove", Path: path})
	}
	return append(tests, removals...)
}

// lease finds the Lease of interceptors that are not installed any more.
func (f *finder) lease() []Leftover {
	lease := f.cluster.Lease
	if lease == nil || f.cluster.Interceptor != nil || f.namespace != "" {
		return nil
	}
	if renewed := lease.Spec.RenewTime; renewed != nil && f.cluster.Now.Sub(renewed.Time) < 4*httpv1alpha1.LeaseFreshness {
		return nil // an interceptor is running in a Deployment with other labels
	}
	name := types.NamespacedName{Namespace: lease.Namespace, Name: lease.Name}
	return []Leftover{{
		Object: fmt.Sprintf("Lease %s", name), Sorts: []Sort{InterceptorLease},
		Message: "no interceptor is installed, and the Lease is not renewed",
		Removal: Removal{Lease: &Precondition{Name: name, UID: lease.UID, ResourceVersion: lease.ResourceVersion}},
	}}
}

// trials finds the namespaces of throw-away canaries whose time is over. One that is being deleted goes by itself.
func (f *finder) trials() []Leftover {
	var all []Leftover
	for _, namespace := range f.cluster.Trials {
		until, err := time.Parse(time.RFC3339, namespace.Annotations[facts.TrialUntil])
		if err != nil || f.cluster.Now.Before(until) || namespace.DeletionTimestamp != nil {
			continue
		}
		all = append(all, Leftover{
			Object: "Namespace " + namespace.Name, Sorts: []Sort{Trial},
			Message: fmt.Sprintf("kubectl http-canary try should have deleted it by %s", until.Format(time.RFC3339)),
			Removal: Removal{Namespace: &Precondition{
				Name: types.NamespacedName{Name: namespace.Name}, UID: namespace.UID, ResourceVersion: namespace.ResourceVersion,
			}},
		})
	}
	return all
}
