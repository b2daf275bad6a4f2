package autowire

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
	"github.com/kedify/argo-rollouts-plugin/internal/trigger"
)

// Namespace is the input of a plan: the state of one namespace.
type Namespace struct {
	// Objects are the Ingresses, HTTPRoutes, VirtualServices and Routes of the namespace, and its Services of
	// ServiceObjects, as stored.
	Objects []Object
	// Targets are the HTTPScaledObjects with autowiring enabled.
	Targets []Target
	// Rivals are the other HTTPScaledObjects. The proxies serve them, too. See RivalOf.
	Rivals []Target
	// Services are the namespace's Services by name, with the fields of Trimmer.Service.
	Services map[string]*corev1.Service
	// Classes are the IngressClasses of the cluster.
	Classes Classes
	// TLSPolicies are the BackendTLSPolicies of the namespace.
	TLSPolicies []apis.BackendTLSPolicy
	// DestinationRules are the DestinationRules of the namespace.
	DestinationRules []apis.DestinationRule
	// Unreadable are the problems due to which Classes, for Ingresses, TLSPolicies, for HTTPRoutes, and DestinationRules,
	// for VirtualServices, are unknown.
	Unreadable map[trigger.AutowireKind]string
	// Unlisted are the problems due to which the objects of a kind are unknown and missing in Objects.
	Unlisted map[trigger.AutowireKind]string
	// HasProxy reports whether Service kedify-proxy can serve requests on ProxyPort, HasTLSProxy and HasHTTP2Proxy the
	// same for TLSPort and HTTP2Port. See Proxies.CanServe.
	HasProxy, HasTLSProxy, HasHTTP2Proxy bool
	// ProxyLabels are labels that all Pods of the proxies have, and NextProxyLabels those that they get. See Proxies.Labels.
	ProxyLabels, NextProxyLabels map[string]string
	// OtherEndpoints describes, for Services of ServicesWithoutSelector by name, an EndpointSlice that Kubernetes does not
	// maintain, for messages. A Service without such a slice is missing.
	OtherEndpoints map[string]string
	// ServiceErrors are the API server's errors for Plan.Services, by name.
	ServiceErrors map[string]string
	// Name is the namespace's name. Shared is the state of the shared fleet.
	Name   string
	Shared Shared
	// Now is the current time.
	Now time.Time
	// CoolDown is how long backends stay at their original Service after the proxies became unavailable.
	CoolDown time.Duration
}

// Plan is the set of writes that a namespace needs.
type Plan struct {
	// Grant is the change of the namespace's ReferenceGrant. It precedes Changes.
	Grant GrantChange
	// Services are the changes of fallback Services. They precede Changes.
	Services []ServiceChange
	// Settings are the new texts of annotation AnnotationAutowireSettings of HTTPScaledObjects, by name. An empty text
	// removes the annotation. They are independent of Changes: a backend waits until the proxies have its settings.
	Settings map[string]string
	// Changes are the writes, one for each object that differs from its desired state.
	Changes []Change
	// Conditions are the conditions of the targets after the writes, by target name, without transition times.
	Conditions map[string]metav1.Condition
	// RequeueAfter is when to plan again even if nothing changes. Zero means never.
	RequeueAfter time.Duration
}

// Plan computes the writes for the namespace.
func (n *Namespace) Plan() (Plan, error) {
	plan := Plan{Conditions: map[string]metav1.Condition{}}
	results, needsGrant := outcomes{}, false
	objects := n.objectPlans(results)
	all := n.inheritances(objects)
	for _, current := range objects {
		current.inherited = all
		change, err := current.plan()
		if err != nil {
			return Plan{}, fmt.Errorf("%s: %w", current.object, err)
		}
		if change.Index = current.index; len(change.Patch) > 0 || change.Releases {
			plan.Changes = append(plan.Changes, change)
		}
		plan.RequeueAfter = earlier(plan.RequeueAfter, current.requeueAfter)
		needsGrant = needsGrant || current.needsGrant
	}
	plan.Grant = n.planGrant(needsGrant)
	services, unusedIn := n.planServices(objects)
	plan.Services, plan.RequeueAfter = services, earlier(plan.RequeueAfter, unusedIn)
	areRestored := !slices.ContainsFunc(plan.Changes, func(c Change) bool { return c.restores })
	settings, rest := n.planSettings(all, areRestored)
	plan.Settings = settings
	plan.RequeueAfter = earlier(earlier(plan.RequeueAfter, plan.Grant.RequeueAfter), rest)
	for _, target := range n.Targets {
		plan.Conditions[target.Name] = results.condition(target, n.Unlisted)
	}
	return plan, nil
}

// objectPlans returns the prepared plans of the objects that are not being deleted.
func (n *Namespace) objectPlans(results outcomes) []*objectPlan {
	rules := annotationRules()
	n.inheritFromMasters()
	splitters, hostAnnotated := n.splitters(rules), n.hostAnnotations()
	var plans []*objectPlan
	for i := range n.Objects {
		object := &n.Objects[i]
		if object.meta.GetDeletionTimestamp() != nil {
			continue
		}
		current := &objectPlan{
			Namespace: n, object: object, index: i, rules: rules, splitters: splitters, hostAnnotated: hostAnnotated,
			results: results,
		}
		current.prepare()
		plans = append(plans, current)
	}
	return plans
}

// objectPlan is the plan for one object while it is computed.
type objectPlan struct {
	*Namespace

	// object is the object, and index its index in Namespace.Objects.
	object *Object
	index  int
	// rules is the table of annotations. splitters are the Ingresses that split the traffic of others. hostAnnotated are
	// those with annotations that affect all Ingresses with the same host.
	rules         []annotationRule
	splitters     []splitter
	hostAnnotated []hostAnnotations
	// toProxies is what the annotations of the object, and of Service kedify-proxy, do to requests to the proxies.
	toProxies behavior
	// originals are the originals of the wired backends, by index. isRestored and recordIssue are the results of
	// matchOriginals and parseRestorePatch.
	originals   map[int]backend
	isRestored  bool
	recordIssue string
	// originalPort is the port of a Route before it is wired, as backend.targetPort.
	originalPort string
	// inherited are the inheritances of all targets and rivals, by name.
	inherited    map[string]*inheritance
	results      outcomes
	requeueAfter time.Duration
	// needsGrant reports whether a backend references the shared fleet, or will as soon as nothing blocks it.
	needsGrant bool
}

// plan compares the object with its desired state.
func (p *objectPlan) plan() (Change, error) {
	if p.recordIssue != "" {
		p.recordForAll(httpv1alpha1.ReasonInvalidRestoreRecord, p.recordIssue)
		return Change{}, nil
	}
	if change, isComplete := p.addSelector(); !isComplete {
		return change, nil
	}
	state := coolDownOf(p.object.meta)
	if at := p.leftover(); at >= 0 {
		return p.removeLeftover(at, state)
	}
	switch {
	case p.isRestored:
		state = state.afterRestore(lastSpecManager(p.object.meta), p.Now)
	case p.isProxyLost(p.originals):
		state = coolDown{Reason: httpv1alpha1.ReasonProxyUnavailable, At: p.Now}
	}
	wired, hasTarget := p.selectBackends(p.originals, state)
	if isExpired := state.Reason == httpv1alpha1.ReasonProxyUnavailable && len(wired) > 0; isExpired || !hasTarget {
		state = coolDown{}
	}
	return p.change(p.originals, wired, state, p.isRestored)
}

// isProxyLost reports whether a rewritten backend no longer reaches a proxy that serves it: no proxy is available,
// or the target has moved to the other fleet. The previous fleet drops the object when the new one serves it.
func (p *objectPlan) isProxyLost(originals map[int]backend) bool {
	for i, original := range originals {
		ref := &p.object.backends[i]
		targets := p.targetsOf(&original)
		if !p.hasProxy(ref) || len(targets) > 0 && p.mixedFleet(targets) == nil && !p.isInFleet(ref, targets[0]) {
			return true
		}
	}
	return false
}

// hasProxy reports whether requests to a rewritten backend reach a proxy.
func (p *objectPlan) hasProxy(ref *backend) bool {
	hasProxy, hasHTTP2Proxy := p.HasProxy, p.HasHTTP2Proxy
	if ref.isCrossNamespace {
		isShared := ref.namespace == p.Shared.Namespace
		hasProxy, hasHTTP2Proxy = isShared && p.Shared.HasProxy, isShared && p.Shared.HasHTTP2Proxy
	}
	switch ref.service.Port.Number {
	case TLSPort:
		return hasProxy && p.HasTLSProxy
	case HTTP2Port:
		return hasProxy && hasHTTP2Proxy
	}
	return hasProxy
}

// selectBackends returns the backends to rewrite, by index. hasTarget reports whether the object has any backend
// of a target, blocked ones included.
func (p *objectPlan) selectBackends(
	originals map[int]backend, state coolDown,
) (wired map[int]rewrite, hasTarget bool) {
	wired = map[int]rewrite{}
	backends := p.originalBackends(originals)
	for i := range backends {
		ref, original := &p.object.backends[i], &backends[i]
		_, hasOriginal := originals[i]
		isWired := hasOriginal && !p.isReverted()
		targets := p.targetsOf(original)
		if p.needsGrant = p.needsGrant || isWired && ref.isCrossNamespace; len(targets) == 0 {
			continue
		}
		if ref.isProxy() && !hasOriginal { // written by the user: the agent has no original to restore
			p.recordOutcome(targets, ref, httpv1alpha1.ReasonWired, "")
			continue
		}
		hasTarget = true
		toService := p.behaviorOf(original.service.Name, original.service.Port)
		to := p.destination(original, targets, toService)
		if isWired && p.isPending(ref, &to, targets) {
			to = *ref
		}
		reason, message := p.lastingBlocker(targets, backends, i, &to, toService, isWired)
		if reason == "" {
			p.needsGrant = p.needsGrant || to.isCrossNamespace
			reason, message = p.blocker(targets, &to, isWired && p.isInFleet(ref, targets[0]), state)
		}
		if reason == "" {
			wired[i], reason = rewrite{original: *original, replacement: to}, httpv1alpha1.ReasonWired
		}
		if reason == httpv1alpha1.ReasonWired {
			ref = ref.withLabelSuffix(to.suffix())
		}
		p.recordOutcome(targets, ref, reason, message)
	}
	return wired, hasTarget
}

// lastingBlocker returns why a backend must not reference the proxies until a user changes something, or until a Service
// to forward to exists. An empty reason means that nothing blocks it.
func (p *objectPlan) lastingBlocker(
	targets []*Target, originals []backend, at int, to *backend, toService behavior, isWired bool,
) (reason, message string) {
	reason, message = p.serviceBlocker(targets, &originals[at], isWired)
	if reason == "" {
		reason, message = p.permanentBlocker(targets, originals, at, to, toService)
	}
	if reason == "" && !isWired {
		reason, message = p.forwardBlocker(targets)
	}
	return reason, message
}

// permanentBlocker returns why a backend must not reference the proxies until a user changes something. An empty
// reason means that nothing blocks it.
func (p *objectPlan) permanentBlocker(
	targets []*Target, originals []backend, at int, to *backend, toService behavior,
) (reason, message string) {
	original, ref := &originals[at], &p.object.backends[at]
	for _, blocker := range []func() (string, string){
		func() (string, string) { return p.unmanaged(original, originals) },
		func() (string, string) { return p.fleetBlocker(targets) },
		func() (string, string) { return original.filterBlocker(p.object) },
		func() (string, string) { return p.kindBlocker(originals, at, to) },
		func() (string, string) { return p.annotationBlocker(targets, original, toService) },
		func() (string, string) { return p.precedenceBlocker(targets, original) },
		func() (string, string) {
			if p.isUndecided(ref, targets) {
				return "", ""
			}
			isCurrent := ref.isProxy() && p.isInFleet(ref, targets[0])
			return p.protocolBlocker(targets, original, toService, to, isCurrent)
		},
		func() (string, string) {
			if p.isUndecided(ref, targets) {
				return "", ""
			}
			return p.serviceTypeBlocker()
		},
		func() (string, string) { return p.healthBlocker(to) },
		func() (string, string) { return p.unreadableBlocker(ref) },
	} {
		if reason, message = blocker(); reason != "" {
			return reason, message
		}
	}
	return "", ""
}

// isPending reports whether a wired backend stays as it is until its new port, or what decides about it, is known.
func (p *objectPlan) isPending(ref, to *backend, targets []*Target) bool {
	return p.isPortPending(ref, to) || p.isUndecided(ref, targets)
}

// rewrite is a backend before and after it points to the proxies.
type rewrite struct{ original, replacement backend }

// originalBackends returns the object's backends with every rewrite restored.
func (p *objectPlan) originalBackends(originals map[int]backend) []backend {
	all := slices.Clone(p.object.backends)
	for i, original := range originals {
		all[i] = original
	}
	return all
}

// targetsOf returns the targets whose traffic reaches a backend with this original.
//
// Without a target for the requests as proxies receive them, these are the targets for the requests before annotations
// change them.
func (p *objectPlan) targetsOf(original *backend) []*Target {
	var targets, before []*Target
	for i := range p.Targets {
		target := &p.Targets[i]
		isFor := original.isProxy() && p.isInFleet(original, target) || p.isForService(target, original)
		switch {
		case target.Unsupported != "" || !slices.Contains(target.Kinds, p.object.kind) || !isFor:
		case p.object.kind == trigger.AutowireService: // serviceBlocker compares the hosts
			targets = append(targets, target)
		case target.matches(original.received):
			targets = append(targets, target)
		case target.matches(original.requests):
			before = append(before, target)
		}
	}
	if len(targets) == 0 {
		return before
	}
	return targets
}

// isForService reports whether a backend with this original references the Service and port of a target.
func (p *objectPlan) isForService(target *Target, original *backend) bool {
	if original.selection != nil {
		return target.AutowireService == p.object.meta.GetName()
	}
	return target.matchesService(original.service, p.service(original.service.Name).Spec.Ports)
}

// destination returns the backend that replaces original and references the proxies of its targets. toService is the
// behavior for the backend's Service.
func (p *objectPlan) destination(original *backend, targets []*Target, toService behavior) backend {
	to := original.withService(proxyBackend(ProxyPort), original.namespace)
	if len(targets) > 0 && targets[0].IsShared {
		to.namespace, to.isCrossNamespace = p.Shared.Namespace, true
	}
	to.service.Port.Number = p.proxyPort(original, targets, toService, to.isCrossNamespace)
	if original.isRouteTarget {
		to.targetPort = p.proxyTargetPort(to.service.Port.Number)
	}
	if original.selection != nil {
		to.selection = p.ofProxies(original.selection, to.service.Port.Number)
	}
	return to
}

// blocker returns why a backend must not reference the proxies now. An empty reason means that nothing blocks it.
// A backend that already references them stays, regardless of condition Programmed: the proxies keep their last good
// configuration.
func (p *objectPlan) blocker(
	targets []*Target, to *backend, isWired bool, state coolDown,
) (reason, message string) {
	rest := state.remaining(p.CoolDown, p.Now)
	if to.isCrossNamespace {
		if reason, message = p.grantBlocker(isWired); reason != "" {
			return reason, message
		}
	}
	switch pending := slices.IndexFunc(targets, func(t *Target) bool { return !t.IsProgrammed }); {
	case !p.hasProxy(to):
		return httpv1alpha1.ReasonProxyUnavailable,
			fmt.Sprintf("Service %[1]s%[3]s has no ready endpoint, or no port %[2]d, "+
				"or all Pods of Deployment %[1]s are terminating",
				ProxyService, to.service.Port.Number, to.namespaceSuffix())
	case isWired:
		return "", ""
	case state.isPermanent():
		return httpv1alpha1.ReasonBackendRevertedByOther, fmt.Sprintf(
			"%s has restored it %d times, so autowiring has stopped; "+
				"configure it to ignore the backends, then remove annotation %s",
			state.By, state.Times, httpv1alpha1.AnnotationAutowireHold)
	case rest > 0 && state.Reason != "":
		p.requeueIn(rest)
		if state.Reason == httpv1alpha1.ReasonBackendRevertedByOther {
			return state.Reason, state.By + " has restored it; the agent retries later"
		}
		return state.Reason, "the proxies were unavailable, or the object moves to another fleet; " +
			"the agent retries after the cool-down"
	case pending >= 0:
		return httpv1alpha1.ReasonNotProgrammed,
			fmt.Sprintf("not every Ready proxy has acknowledged HTTPScaledObject %q; see its condition %s",
				targets[pending].Name, httpv1alpha1.ConditionProgrammed)
	}
	return p.settingsBlocker(targets)
}
