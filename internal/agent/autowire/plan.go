package autowire

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/plan"
)

// Namespace is what decides about the Ingresses of a namespace.
type Namespace struct {
	// Ingresses are all of them, as they are.
	Ingresses []networkingv1.Ingress
	// Targets are what requests are to come by the proxies for.
	Targets []Target
	// Ports are those of Services, by the Service's name.
	Ports map[string][]corev1.ServicePort
	// HasProxy says that Service kedify-proxy has a ready endpoint and ProxyPort.
	HasProxy bool
	// Now is the time.
	Now time.Time
	// CoolDown is how long nothing is wired again after the proxies were lost.
	CoolDown time.Duration
}

// Plan is what is to be done in a namespace.
type Plan struct {
	// Changes are the writes, one for each Ingress that is not as it should be.
	Changes []Change
	// Conditions are what is to be said of each target, by its name, once the changes are made; without times.
	Conditions map[string]metav1.Condition
	// Again is when to plan anew even if nothing changes. Zero means never.
	Again time.Duration
}

// Change is the one write that makes an Ingress what it should be.
type Change struct {
	// Index is that of the Ingress in the Namespace.
	Index int
	// Patch fits this version of it only.
	Patch []plan.Operation
	// Reason and Message say in an Event what becomes of it.
	Reason, Message string
}

// Plan says what is to be done.
func (n *Namespace) Plan() (Plan, error) {
	found := Plan{Conditions: map[string]metav1.Condition{}}
	told := outcomes{}
	for i := range n.Ingresses {
		ingress := &n.Ingresses[i]
		if ingress.DeletionTimestamp != nil {
			continue
		}
		one := &wiring{Namespace: n, ingress: ingress, places: backends(ingress), told: told}
		change, err := one.plan()
		if err != nil {
			return Plan{}, fmt.Errorf("ingress %s: %w", ingress.Name, err)
		}
		if change.Index = i; len(change.Patch) > 0 {
			found.Changes = append(found.Changes, change)
		}
		if one.again > 0 && (found.Again == 0 || one.again < found.Again) {
			found.Again = one.again
		}
	}
	for _, target := range n.Targets {
		found.Conditions[target.Name] = told.condition(target)
	}
	return found, nil
}

// wiring is the plan for one Ingress in the making.
type wiring struct {
	*Namespace

	ingress *networkingv1.Ingress
	places  []backend
	told    outcomes
	again   time.Duration
}

// plan compares an Ingress with what it should be.
func (w *wiring) plan() (Change, error) {
	record, err := readUndo(w.ingress.Annotations[httpv1alpha1.AnnotationAutowireUndo])
	if err != nil {
		w.tellAll(httpv1alpha1.ReasonUndoUnreadable, err.Error())
		return Change{}, nil
	}
	originals, isRestored := match(w.places, record)
	held := holdOf(w.ingress)
	switch {
	case isRestored:
		held = held.restored(writer(w.ingress), w.Now)
	case len(originals) > 0 && !w.HasProxy:
		held = hold{Reason: httpv1alpha1.ReasonProxyUnavailable, At: w.Now}
	}
	wired, isConcerned := w.decide(originals, held)
	if isOver := held.Reason == httpv1alpha1.ReasonProxyUnavailable && len(wired) > 0; isOver || !isConcerned {
		held = hold{}
	}
	return w.change(originals, wired, held, isRestored)
}

// decide finds the backends that are to go to the proxies, by index, each with its original. isConcerned says
// whether there are any that would, if nothing were in the way.
func (w *wiring) decide(originals map[int]backend, held hold) (wired map[int]backend, isConcerned bool) {
	wired = map[int]backend{}
	for i, place := range w.places {
		original, isWired := originals[i]
		if !isWired {
			original = place
		}
		targets := w.of(original)
		if len(targets) == 0 {
			continue
		}
		if place.isProxy() && !isWired { // written so by the user, and not ours to undo
			w.tell(targets, place, httpv1alpha1.ReasonWired, "")
			continue
		}
		isConcerned = true
		reason, message := w.obstacle(targets, isWired, held)
		if reason == "" {
			wired[i], reason = original, httpv1alpha1.ReasonWired
		}
		w.tell(targets, place, reason, message)
	}
	return wired, isConcerned
}

// of are the targets that a backend with this original is for.
func (w *wiring) of(original backend) []*Target {
	var found []*Target
	for i := range w.Targets {
		target := &w.Targets[i]
		isAbout := original.isProxy() || target.isAbout(original.service, w.Ports[original.service.Name])
		if target.NotCarriedOut == "" && isAbout && target.takes(original) {
			found = append(found, target)
		}
	}
	return found
}

// obstacle says why a backend must not go to the proxies now; no reason means that nothing is in the way. One
// that does go there stays, whatever becomes of the condition Programmed: the proxies keep what they had.
func (w *wiring) obstacle(targets []*Target, isWired bool, held hold) (reason, message string) {
	rest := held.rest(w.CoolDown, w.Now)
	switch pending := slices.IndexFunc(targets, func(t *Target) bool { return !t.IsProgrammed }); {
	case !w.HasProxy:
		return httpv1alpha1.ReasonProxyUnavailable,
			fmt.Sprintf("Service %s has no ready endpoint, or no port %d", ProxyService, ProxyPort)
	case isWired:
		return "", ""
	case held.isForGood():
		return httpv1alpha1.ReasonRestored, fmt.Sprintf(
			"%s has restored it %d times and is left alone; let it ignore the backends, then remove annotation %s",
			held.By, held.Times, httpv1alpha1.AnnotationAutowireHold)
	case rest > 0 && held.Reason != "":
		w.again = rest
		if held.Reason == httpv1alpha1.ReasonRestored {
			return held.Reason, held.By + " has restored it; it is tried again later"
		}
		return held.Reason, "the proxies were gone a moment ago; it is tried again after the cool-down"
	case pending >= 0:
		return httpv1alpha1.ReasonNotProgrammed,
			fmt.Sprintf("not every Ready proxy has HTTPScaledObject %q; see its condition %s",
				targets[pending].Name, httpv1alpha1.ConditionProgrammed)
	}
	return "", ""
}

// change is the write after which wired, and nothing else that was, goes to the proxies.
func (w *wiring) change(originals, wired map[int]backend, held hold, isRestored bool) (Change, error) {
	var places, were []backend
	for _, i := range slices.Sorted(maps.Keys(wired)) {
		places, were = append(places, w.places[i]), append(were, wired[i])
	}
	undoText, err := undo(places, were)
	if err != nil {
		return Change{}, err
	}
	heldText, err := held.text()
	if err != nil {
		return Change{}, err
	}
	change := Change{Patch: w.annotate(
		httpv1alpha1.AnnotationAutowireUndo, undoText, httpv1alpha1.AnnotationAutowireHold, heldText)}
	var on, off []string
	for i, place := range w.places {
		_, was := originals[i]
		switch _, is := wired[i]; {
		case is && !was:
			change.Patch, on = append(change.Patch, replace(place, proxy())...), append(on, place.String())
		case was && !is:
			change.Patch = append(change.Patch, replace(place, originals[i].service)...)
			off = append(off, place.String())
		}
	}
	change.say(on, off, held, isRestored)
	return change, nil
}

// annotate are the operations that give an Ingress annotations: names, each followed by its value, which is
// empty for one that must not be there.
func (w *wiring) annotate(pairs ...string) []plan.Operation {
	var patch []plan.Operation
	has := w.ingress.Annotations != nil
	for pair := range slices.Chunk(pairs, 2) {
		name, value := pair[0], pair[1]
		found, is := w.ingress.Annotations[name]
		switch {
		case value == "" && is:
			patch = append(patch, plan.Operation{Op: "remove", Path: annotationPointer(name)})
		case value == found:
		case has:
			patch = append(patch, plan.Operation{Op: "add", Path: annotationPointer(name), Value: value})
		default:
			all := map[string]string{name: value}
			patch = append(patch, plan.Operation{Op: "add", Path: "/metadata/annotations", Value: all})
			has = true
		}
	}
	return patch
}

// say makes the Event of a change. A change of annotations alone has none.
func (c *Change) say(on, off []string, held hold, isRestored bool) {
	switch {
	case isRestored:
		c.Reason = httpv1alpha1.ReasonRestored
		c.Message = fmt.Sprintf(
			"%s has restored backends that went to Service %s (time %d of %d, then it is left alone)",
			held.By, ProxyService, held.Times, mostRestored)
	case len(on) > 0:
		c.Reason = httpv1alpha1.ReasonWired
		c.Message = fmt.Sprintf("requests for %s go to Service %s", strings.Join(on, ", "), ProxyService)
	case len(off) > 0:
		c.Reason = httpv1alpha1.ReasonUnwired
		c.Message = fmt.Sprintf("requests for %s go to their own Services again", strings.Join(off, ", "))
	}
}
