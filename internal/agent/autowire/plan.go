package autowire

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/desired"
	"github.com/kedify/argo-rollouts-plugin/internal/trigger"
)

// Namespace is what decides about the objects of a namespace.
type Namespace struct {
	// Objects are its Ingresses and HTTPRoutes, as they are.
	Objects []Object
	// Targets are what requests are to come by the proxies for.
	Targets []Target
	// Ports are those of Services, by the Service's name.
	Ports map[string][]corev1.ServicePort
	// HasProxy says that requests for ProxyPort of Service kedify-proxy find a proxy, and HasTLSProxy the same of TLSPort:
	// see Proxies.
	HasProxy, HasTLSProxy bool
	// Name is the namespace's, and Shared is what is known of the shared fleet.
	Name   string
	Shared Shared
	// Now is the time.
	Now time.Time
	// CoolDown is how long nothing is wired again after the proxies were lost.
	CoolDown time.Duration
}

// Plan is what is to be done in a namespace.
type Plan struct {
	// Grant is what is to be done about the namespace's ReferenceGrant, before the Changes.
	Grant GrantChange
	// Changes are the writes, one for each object that is not as it should be.
	Changes []Change
	// Conditions are what is to be said of each target, by its name, once the changes are made; without times.
	Conditions map[string]metav1.Condition
	// Again is when to plan anew even if nothing changes. Zero means never.
	Again time.Duration
}

// Change is the one write that makes an object what it should be.
type Change struct {
	// Index is that of the object in the Namespace.
	Index int
	// Patch fits this version of it only.
	Patch []desired.Operation
	// Reason and Message say in an Event what becomes of it.
	Reason, Message string
}

// At is the patch for one version of the object, which the API server refuses for any other: JSON Patch can replace
// metadata.resourceVersion, and what comes of that is compared with what is stored.
func (c *Change) At(version string) []desired.Operation {
	return append(slices.Clone(c.Patch), desired.Operation{Op: "replace", Path: "/metadata/resourceVersion", Value: version})
}

// Plan says what is to be done.
func (n *Namespace) Plan() (Plan, error) {
	found := Plan{Conditions: map[string]metav1.Condition{}}
	told, isGranted := outcomes{}, false
	for i := range n.Objects {
		object := &n.Objects[i]
		if object.meta.GetDeletionTimestamp() != nil {
			continue
		}
		one := &wiring{Namespace: n, object: object, told: told}
		change, err := one.plan()
		if err != nil {
			return Plan{}, fmt.Errorf("%s: %w", object, err)
		}
		if change.Index = i; len(change.Patch) > 0 {
			found.Changes = append(found.Changes, change)
		}
		if one.again > 0 && (found.Again == 0 || one.again < found.Again) {
			found.Again = one.again
		}
		isGranted = isGranted || one.wantsGrant
	}
	if found.Grant = n.grant(isGranted); found.Grant.Again > 0 && (found.Again == 0 || found.Grant.Again < found.Again) {
		found.Again = found.Grant.Again
	}
	for _, target := range n.Targets {
		found.Conditions[target.Name] = told.condition(target)
	}
	return found, nil
}

// wiring is the plan for one object in the making.
type wiring struct {
	*Namespace

	object *Object
	told   outcomes
	again  time.Duration
	// wantsGrant says that a backend goes to the shared fleet, or is to as soon as nothing is in the way.
	wantsGrant bool
}

// plan compares an object with what it should be.
func (w *wiring) plan() (Change, error) {
	record, err := readUndo(w.object.meta.GetAnnotations()[httpv1alpha1.AnnotationAutowireUndo])
	if err != nil {
		w.tellAll(httpv1alpha1.ReasonUndoUnreadable, err.Error())
		return Change{}, nil
	}
	originals, isRestored := match(w.object.places, record)
	held := holdOf(w.object.meta)
	switch {
	case isRestored:
		held = held.restored(writer(w.object.meta), w.Now)
	case w.isLost(originals):
		held = hold{Reason: httpv1alpha1.ReasonProxyUnavailable, At: w.Now}
	}
	wired, isConcerned := w.decide(originals, held)
	if isOver := held.Reason == httpv1alpha1.ReasonProxyUnavailable && len(wired) > 0; isOver || !isConcerned {
		held = hold{}
	}
	return w.change(originals, wired, held, isRestored)
}

// isLost says whether what was wired finds no proxy any more, or only those of a fleet that is not the one that is to serve it:
// that has given its object up when the other one took it.
func (w *wiring) isLost(originals map[int]backend) bool {
	for i, original := range originals {
		place := &w.object.places[i]
		targets := w.of(&original)
		if !w.hasProxy(place) || len(targets) > 0 && w.isMixed(targets) == nil && !w.isInFleet(place, targets[0]) {
			return true
		}
	}
	return false
}

// hasProxy says whether requests that go where a backend does, as it is wired, find a proxy.
func (w *wiring) hasProxy(place *backend) bool {
	if place.isElsewhere {
		return place.namespace == w.Shared.Namespace && w.Shared.HasProxy
	}
	return w.HasProxy && (place.service.Port.Number != TLSPort || w.HasTLSProxy)
}

// decide finds the backends that are to go to the proxies, by index. isConcerned says whether there are any
// that would, if nothing were in the way.
func (w *wiring) decide(originals map[int]backend, held hold) (wired map[int]wire, isConcerned bool) {
	wired = map[int]wire{}
	unwired := w.unwired(originals)
	for i := range unwired {
		place, original := &w.object.places[i], &unwired[i]
		_, isWired := originals[i]
		targets := w.of(original)
		if w.wantsGrant = w.wantsGrant || isWired && place.isElsewhere; len(targets) == 0 {
			continue
		}
		if place.isProxy() && !isWired { // written so by the user, and not ours to undo
			w.tell(targets, place, httpv1alpha1.ReasonWired, "")
			continue
		}
		isConcerned = true
		to := w.destination(original, targets)
		reason, message := w.foreign(original, unwired)
		if reason == "" {
			reason, message = w.unreachable(targets)
		}
		isThere := isWired && w.isInFleet(place, targets[0])
		if reason == "" {
			reason, message = w.mute(targets, to.service.Port.Number, isThere)
		}
		if reason == "" {
			w.wantsGrant = w.wantsGrant || to.isElsewhere
			reason, message = w.obstacle(targets, &to, isThere, held)
		}
		if reason == "" {
			wired[i], reason = wire{*original, to}, httpv1alpha1.ReasonWired
		}
		if reason == httpv1alpha1.ReasonWired {
			place = place.titled(to.suffix())
		}
		w.tell(targets, place, reason, message)
	}
	return wired, isConcerned
}

// wire is a backend that is to go to the proxies, and what it names then.
type wire struct{ original, to backend }

// unwired are the backends of the object with what was wired undone.
func (w *wiring) unwired(originals map[int]backend) []backend {
	all := slices.Clone(w.object.places)
	for i, original := range originals {
		all[i] = original
	}
	return all
}

// of are the targets that a backend with this original is for.
func (w *wiring) of(original *backend) []*Target {
	var found []*Target
	for i := range w.Targets {
		target := &w.Targets[i]
		isAbout := original.isProxy() && w.isInFleet(original, target) || target.isAbout(original.service, w.Ports[original.service.Name])
		if target.NotCarriedOut == "" && slices.Contains(target.Kinds, w.object.kind) && isAbout &&
			target.takes(original.sees) {
			found = append(found, target)
		}
	}
	return found
}

// foreign says why a backend is not to go to the proxies at all: somebody else shares the requests. That is another
// router, or its rule, between Services of which others go to the proxies or would: those tell requests apart by what
// they ask for, and would not keep the rule's shares.
func (w *wiring) foreign(original *backend, all []backend) (reason, message string) {
	if w.object.router != "" {
		return httpv1alpha1.ReasonRouted, w.object.router + ", shares its requests"
	}
	for i := range all {
		other := &all[i]
		isBeside := original.rule != "" && other.rule == original.rule && other.service != original.service
		switch {
		case isBeside && other.isProxy():
			return httpv1alpha1.ReasonNotCarriedOut, "somebody has its rule share requests with Service " + ProxyService
		case isBeside && len(w.of(other)) > 0:
			return httpv1alpha1.ReasonNotCarriedOut, fmt.Sprintf("its rule shares requests with Service %s, "+
				"which is a trigger's, too; the proxies would not keep the shares", other.service.Name)
		}
	}
	return "", ""
}

// destination is a backend in the place of another one that goes to the proxies of its targets.
func (w *wiring) destination(original *backend, targets []*Target) backend {
	if len(targets) > 0 && targets[0].IsShared {
		to := original.naming(proxy(ProxyPort), w.Shared.Namespace)
		to.isElsewhere = true
		return to
	}
	return original.naming(proxy(w.port(original, targets)), original.namespace)
}

// port is the one of the proxies that a backend is to name: that for TLS where its Ingress says that backends are spoken
// to so, and where its Service's port says it of itself and the targets have certificates.
func (w *wiring) port(original *backend, targets []*Target) int32 {
	isNamed := !slices.ContainsFunc(targets, func(t *Target) bool { return t.Certificate == NotNamed })
	isAsked := w.object.kind == trigger.AutowireIngress && isNamed &&
		isTLSPort(original.service.Port, w.Ports[original.service.Name])
	if w.object.speech.isTLS || isAsked {
		return TLSPort
	}
	return ProxyPort
}

// mute says why the proxies would not answer what a backend is spoken to in. Over TLS they need a certificate;
// a backend that does go there stays while they may have an old one.
func (w *wiring) mute(targets []*Target, port int32, isWired bool) (reason, message string) {
	if w.object.speech.isForeign {
		return httpv1alpha1.ReasonNotCarriedOut, w.object.speech.by + " asks for what the proxies don't answer; they do HTTP and HTTPS"
	}
	if port != TLSPort {
		return "", ""
	}
	for _, target := range targets {
		switch {
		case target.Certificate == NotNamed:
			return httpv1alpha1.ReasonNotCarriedOut, fmt.Sprintf("%s has backends spoken to over TLS, and HTTPScaledObject %q has no certificate; "+
				"set tlsSecretName in its trigger", w.object.speech.by, target.Name)
		case target.Certificate == NotInForce, target.Certificate == FromBefore && !isWired:
			return httpv1alpha1.ReasonNoCertificate, fmt.Sprintf("the proxies have no certificate for every host of HTTPScaledObject %q; "+
				"see its condition %s", target.Name, httpv1alpha1.ConditionTLSReady)
		}
	}
	return "", ""
}

// obstacle says why a backend must not go to the proxies now; no reason means that nothing is in the way. One
// that does go there stays, whatever becomes of the condition Programmed: the proxies keep what they had.
func (w *wiring) obstacle(targets []*Target, to *backend, isWired bool, held hold) (reason, message string) {
	rest := held.rest(w.CoolDown, w.Now)
	if to.isElsewhere {
		if reason, message = w.ungranted(isWired); reason != "" {
			return reason, message
		}
	}
	switch pending := slices.IndexFunc(targets, func(t *Target) bool { return !t.IsProgrammed }); {
	case !w.hasProxy(to):
		return httpv1alpha1.ReasonProxyUnavailable,
			fmt.Sprintf("Service %[1]s%[3]s has no ready endpoint, or no port %[2]d, or all Pods of Deployment %[1]s are about to end",
				ProxyService, to.service.Port.Number, to.where())
	case isWired:
		return "", ""
	case held.isForGood():
		return httpv1alpha1.ReasonRestored, fmt.Sprintf(
			"%s has restored it %d times and is left alone; let it ignore the backends, then remove annotation %s",
			held.By, held.Times, httpv1alpha1.AnnotationAutowireHold)
	case rest > 0 && held.Reason != "":
		w.againAfter(rest)
		if held.Reason == httpv1alpha1.ReasonRestored {
			return held.Reason, held.By + " has restored it; it is tried again later"
		}
		return held.Reason, "the proxies were gone a moment ago, or other ones are to serve it; it is tried again after the cool-down"
	case pending >= 0:
		return httpv1alpha1.ReasonNotProgrammed,
			fmt.Sprintf("not every Ready proxy has HTTPScaledObject %q; see its condition %s",
				targets[pending].Name, httpv1alpha1.ConditionProgrammed)
	}
	return "", ""
}

// change is the write after which wired, and nothing else that was, goes to the proxies.
func (w *wiring) change(originals map[int]backend, wired map[int]wire, held hold, isRestored bool) (Change, error) {
	var places, were []backend
	for _, i := range slices.Sorted(maps.Keys(wired)) {
		places, were = append(places, wired[i].to), append(were, wired[i].original)
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
	for i := range w.object.places {
		place := &w.object.places[i]
		original, was := originals[i]
		switch to, is := wired[i]; {
		case is && !place.names(&to.to):
			change.Patch, on = append(change.Patch, place.replace(&to.to)...), append(on, place.title+to.to.suffix())
		case was && !is:
			change.Patch, off = append(change.Patch, place.replace(&original)...), append(off, place.title)
		}
	}
	change.say(on, off, held, isRestored)
	return change, nil
}

// annotate are the operations that give an object annotations: names, each followed by its value, which is
// empty for one that must not be there.
func (w *wiring) annotate(pairs ...string) []desired.Operation {
	var patch []desired.Operation
	annotations := w.object.meta.GetAnnotations()
	has := annotations != nil
	for pair := range slices.Chunk(pairs, 2) {
		name, value := pair[0], pair[1]
		found, is := annotations[name]
		switch {
		case value == "" && is:
			patch = append(patch, desired.Operation{Op: "remove", Path: annotationPointer(name)})
		case value == found:
		case has:
			patch = append(patch, desired.Operation{Op: "add", Path: annotationPointer(name), Value: value})
		default:
			all := map[string]string{name: value}
			patch = append(patch, desired.Operation{Op: "add", Path: "/metadata/annotations", Value: all})
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
