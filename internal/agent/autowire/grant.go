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

const (
	// grantMinAge is the age after which backends rely on a ReferenceGrant. A Gateway watches ReferenceGrants and
	// routes separately, and answers 500 if it sees the route first. The API server truncates times to seconds.
	grantMinAge = 3 * time.Second
	// grantRetention is how long an unused ReferenceGrant stays, for the same reason.
	grantRetention = 10 * time.Second
	// grantRetryInterval is how often to check whether ReferenceGrants have become readable.
	grantRetryInterval = 5 * time.Second
)

// Shared is the state of the shared fleet in the interceptor's namespace.
type Shared struct {
	// Namespace is the namespace of its proxies. If it is empty, no backend is pointed at the shared fleet.
	Namespace string
	// HasProxy reports whether its Service can serve requests on ProxyPort, HasHTTP2Proxy the same for HTTP2Port.
	HasProxy, HasHTTP2Proxy bool
	// Service is its Service kedify-proxy, nil if it does not exist.
	Service *corev1.Service
	// Grants are the ReferenceGrants of its namespace. GrantsSynced reports whether they have been read.
	Grants       []apis.ReferenceGrant
	GrantsSynced bool
	// GrantError is the API server's error for Plan.Grant, or empty.
	GrantError string
}

// GrantChange is the change of the agent's ReferenceGrant for a namespace. At most one of Apply and Delete is set.
type GrantChange struct {
	// Apply is the desired ReferenceGrant. It has a UID if the agent's ReferenceGrant exists.
	Apply *apis.ReferenceGrant
	// Delete is the unused ReferenceGrant, as it was read.
	Delete *apis.ReferenceGrant
	// RequeueAfter is when to plan again. Zero means never.
	RequeueAfter time.Duration
}

// GrantName returns the name of the agent's ReferenceGrant for the HTTPRoutes of a namespace.
func GrantName(namespace string) string { return ProxyService + "-" + namespace }

// FromNamespaces returns the namespaces in spec.from of a ReferenceGrant.
func FromNamespaces(grant *apis.ReferenceGrant) []string {
	var namespaces []string
	for _, from := range grant.Spec.From {
		namespaces = append(namespaces, from.Namespace)
	}
	return namespaces
}

// planGrant returns the change of the ReferenceGrant. isNeeded reports whether a backend relies on one.
func (n *Namespace) planGrant(isNeeded bool) GrantChange {
	if n.Shared.Namespace == "" || n.Shared.Namespace == n.Name {
		return GrantChange{}
	}
	if !n.Shared.GrantsSynced {
		if isNeeded {
			return GrantChange{RequeueAfter: grantRetryInterval}
		}
		return GrantChange{}
	}
	current, isUnused := n.ownGrant(), false
	if current != nil {
		isUnused = current.Annotations[httpv1alpha1.AnnotationProxyUnneeded] != ""
	}
	switch {
	case isNeeded && current == nil && !n.grantedSince().IsZero(): // another ReferenceGrant permits it
		return GrantChange{}
	case isNeeded && current != nil && current.DeletionTimestamp != nil:
		return GrantChange{} // its removal triggers the next plan
	case isNeeded && (current == nil || isUnused || !n.permits(current)):
		return GrantChange{Apply: n.desiredGrant(current, "")}
	case isNeeded || current == nil || current.DeletionTimestamp != nil:
		return GrantChange{}
	case !isUnused:
		return GrantChange{Apply: n.desiredGrant(current, n.Now.UTC().Format(time.RFC3339)), RequeueAfter: grantRetention}
	}
	since, err := time.Parse(time.RFC3339, current.Annotations[httpv1alpha1.AnnotationProxyUnneeded])
	if rest := grantRetention - n.Now.Sub(since); err == nil && rest > 0 {
		return GrantChange{RequeueAfter: rest}
	}
	return GrantChange{Delete: current}
}

// ownGrant returns the agent's ReferenceGrant for the namespace, or nil.
func (n *Namespace) ownGrant() *apis.ReferenceGrant {
	at := slices.IndexFunc(n.Shared.Grants, func(grant apis.ReferenceGrant) bool {
		return grant.Name == GrantName(n.Name) && isManaged(&grant)
	})
	if at < 0 {
		return nil
	}
	return &n.Shared.Grants[at]
}

// desiredGrant returns the desired ReferenceGrant. current is the existing one, or nil. unusedSince is the time
// since which nothing relies on it, empty if something does.
func (n *Namespace) desiredGrant(current *apis.ReferenceGrant, unusedSince string) *apis.ReferenceGrant {
	name, route := ProxyService, apis.HTTPRouteKind()
	wanted := &apis.ReferenceGrant{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: n.Shared.Namespace, Name: GrantName(n.Name),
			Labels: map[string]string{httpv1alpha1.LabelManagedBy: httpv1alpha1.ManagedByAgent, "app": ProxyService},
		},
		Spec: apis.ReferenceGrantSpec{
			From: []apis.ReferenceGrantFrom{{Group: route.Group, Kind: route.Kind, Namespace: n.Name}},
			To:   []apis.ReferenceGrantTo{{Kind: "Service", Name: &name}},
		},
	}
	wanted.SetGroupVersionKind(apis.ReferenceGrantKind())
	if unusedSince != "" {
		wanted.Annotations = map[string]string{httpv1alpha1.AnnotationProxyUnneeded: unusedSince}
	}
	if current != nil {
		wanted.UID = current.UID
	}
	return wanted
}

// permits reports whether a ReferenceGrant allows HTTPRoutes of the namespace to reference the shared fleet's
// Service.
func (n *Namespace) permits(grant *apis.ReferenceGrant) bool {
	route := apis.HTTPRouteKind()
	return slices.ContainsFunc(grant.Spec.From, func(from apis.ReferenceGrantFrom) bool {
		return from.Group == route.Group && from.Kind == route.Kind && from.Namespace == n.Name
	}) && slices.ContainsFunc(grant.Spec.To, func(to apis.ReferenceGrantTo) bool {
		return to.Group == "" && to.Kind == "Service" && (to.Name == nil || *to.Name == ProxyService)
	})
}

// grantedSince returns when the oldest ReferenceGrant was created that permits HTTPRoutes of the namespace to
// reference the shared fleet's Service. It is zero if none permits it.
func (n *Namespace) grantedSince() time.Time {
	var since time.Time
	for i := range n.Shared.Grants {
		grant := &n.Shared.Grants[i]
		created := grant.CreationTimestamp.Time
		if grant.DeletionTimestamp == nil && n.permits(grant) && (since.IsZero() || created.Before(since)) {
			since = created
		}
	}
	return since
}

// grantBlocker returns why no backend may reference the shared fleet's Service now. An empty reason means that
// nothing blocks it. A backend that already references it stays while the ReferenceGrants are unknown, and while
// this plan creates the grant again: that takes less time than two changes of the route.
func (p *objectPlan) grantBlocker(isWired bool) (reason, message string) {
	if !p.Shared.GrantsSynced {
		if isWired {
			return "", ""
		}
		return httpv1alpha1.ReasonNotGranted, fmt.Sprintf("ReferenceGrants of namespace %s cannot be read yet; "+
			"if this persists, check the agent's log, and its Role in config/agent/rbac.yaml", p.Shared.Namespace)
	}
	subject := fmt.Sprintf("ReferenceGrant %s/%s, which allows HTTPRoutes of namespace %s to reference Service %s,",
		p.Shared.Namespace, GrantName(p.Name), p.Name, ProxyService)
	since := p.grantedSince()
	rest := grantMinAge - p.Now.Sub(since)
	switch {
	case since.IsZero() && p.Shared.GrantError != "":
		return httpv1alpha1.ReasonWriteRejected, subject + " is missing, " +
			"and the API server rejected the agent's write: " + p.Shared.GrantError + "; create it manually"
	case since.IsZero() && !isWired:
		return httpv1alpha1.ReasonNotGranted, subject + " is missing"
	case !isWired && rest > 0:
		p.requeueIn(rest)
		return httpv1alpha1.ReasonNotGranted, subject + " is new; the agent waits until Gateways have observed it"
	}
	return "", ""
}

// fleetBlocker returns why one backend cannot reference the proxies of all its targets.
func (p *objectPlan) fleetBlocker(targets []*Target) (reason, message string) {
	if other := p.mixedFleet(targets); other != nil {
		return httpv1alpha1.ReasonUnsupportedSetting, fmt.Sprintf(
			"HTTPScaledObjects %q and %q match its requests, and only one of them uses the shared fleet",
			targets[0].Name, other.Name)
	}
	switch {
	case !targets[0].IsShared:
		return "", ""
	case p.object.kind == trigger.AutowireVirtualService:
		return httpv1alpha1.ReasonUnsupportedSetting, fmt.Sprintf(
			"the shared fleet is in another namespace, and the agent points VirtualServices at proxies of their own "+
				"namespace only; use an HTTPRoute, or remove annotation %s", httpv1alpha1.AnnotationFleet)
	case p.object.kind != trigger.AutowireHTTPRoute:
		return httpv1alpha1.ReasonUnsupportedSetting, fmt.Sprintf(
			"the shared fleet is in another namespace, which no %s can reference; use an "+
				"HTTPRoute, or remove annotation %s", kindNames()[p.object.kind], httpv1alpha1.AnnotationFleet)
	case p.Shared.Namespace == "":
		return httpv1alpha1.ReasonUnsupportedSetting,
			"the agent does not watch the namespace of the shared fleet; add it to --namespaces"
	}
	return "", ""
}

// mixedFleet returns a target that is served by another fleet than the first one, or nil.
func (p *objectPlan) mixedFleet(targets []*Target) *Target {
	at := slices.IndexFunc(targets, func(target *Target) bool { return target.IsShared != targets[0].IsShared })
	if at < 0 {
		return nil
	}
	return targets[at]
}

// isInFleet reports whether a proxy backend references the fleet of a target.
func (p *objectPlan) isInFleet(ref *backend, target *Target) bool {
	if target.IsShared {
		return ref.isCrossNamespace && ref.namespace == p.Shared.Namespace
	}
	return !ref.isCrossNamespace
}

// requeueIn schedules the next plan after a delay, or earlier if one is already scheduled.
func (p *objectPlan) requeueIn(rest time.Duration) {
	if p.requeueAfter == 0 || rest < p.requeueAfter {
		p.requeueAfter = rest
	}
}
