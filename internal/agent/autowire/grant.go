package autowire

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
	"github.com/kedify/argo-rollouts-plugin/internal/trigger"
)

const (
	// grantSettles is how old a ReferenceGrant has to be for backends to rely on it: a Gateway hears of it by another watch than of routes, and
	// answers 500 where the route comes first. An API server cuts times to the second.
	grantSettles = 3 * time.Second
	// grantStays is how long it stays when nothing relies on it any more, for the same reason.
	grantStays = 10 * time.Second
	// lookAgain is after how long is looked again whether ReferenceGrants can be read.
	lookAgain = 5 * time.Second
)

// Shared is what is known of the shared fleet, which is that of the interceptor's namespace.
type Shared struct {
	// Namespace is where its proxies are. Empty means that nobody knows, and nothing is pointed there.
	Namespace string
	// HasProxy says that requests for ProxyPort of its Service find a proxy.
	HasProxy bool
	// Grants are the ReferenceGrants of its namespace. AreKnown says that they have been read.
	Grants   []apis.ReferenceGrant
	AreKnown bool
	// Refused is what the API server has said of the Plan's Grant, or empty.
	Refused string
}

// GrantChange is what is to be done about the agent's ReferenceGrant for a namespace. At most one of Apply and Delete is set.
type GrantChange struct {
	// Apply is the ReferenceGrant as it should be. With a UID it is there, and the agent's.
	Apply *apis.ReferenceGrant
	// Delete is the one that nothing relies on any more, as it was read.
	Delete *apis.ReferenceGrant
	// Again is when to plan anew. Zero means never.
	Again time.Duration
}

// GrantName is the name of the agent's ReferenceGrant for the HTTPRoutes of a namespace.
func GrantName(namespace string) string { return ProxyService + "-" + namespace }

// GrantedTo are the namespaces that a ReferenceGrant, whoever's it is, concerns.
func GrantedTo(grant *apis.ReferenceGrant) []string {
	var found []string
	for _, from := range grant.Spec.From {
		found = append(found, from.Namespace)
	}
	return found
}

// grant says what is to be done about the ReferenceGrant. isWanted says that a backend relies on one.
func (n *Namespace) grant(isWanted bool) GrantChange {
	if n.Shared.Namespace == "" || n.Shared.Namespace == n.Name {
		return GrantChange{}
	}
	if !n.Shared.AreKnown {
		if isWanted {
			return GrantChange{Again: lookAgain}
		}
		return GrantChange{}
	}
	own, isLeft := n.ownGrant(), false
	if own != nil {
		isLeft = own.Annotations[httpv1alpha1.AnnotationProxyUnneeded] != ""
	}
	switch {
	case isWanted && own == nil && !n.grantedSince().IsZero(): // by somebody else's
		return GrantChange{}
	case isWanted && own != nil && own.DeletionTimestamp != nil:
		return GrantChange{} // its end is a change that brings the next plan
	case isWanted && (own == nil || isLeft || !n.permits(own)):
		return GrantChange{Apply: n.wantedGrant(own, "")}
	case isWanted || own == nil || own.DeletionTimestamp != nil:
		return GrantChange{}
	case !isLeft:
		return GrantChange{Apply: n.wantedGrant(own, n.Now.UTC().Format(time.RFC3339)), Again: grantStays}
	}
	since, err := time.Parse(time.RFC3339, own.Annotations[httpv1alpha1.AnnotationProxyUnneeded])
	if rest := grantStays - n.Now.Sub(since); err == nil && rest > 0 {
		return GrantChange{Again: rest}
	}
	return GrantChange{Delete: own}
}

// ownGrant is the agent's ReferenceGrant for the namespace, or nil.
func (n *Namespace) ownGrant() *apis.ReferenceGrant {
	at := slices.IndexFunc(n.Shared.Grants, func(grant apis.ReferenceGrant) bool {
		return grant.Name == GrantName(n.Name) && grant.Labels[httpv1alpha1.LabelManagedBy] == httpv1alpha1.ManagedByAgent
	})
	if at < 0 {
		return nil
	}
	return &n.Shared.Grants[at]
}

// wantedGrant is the ReferenceGrant as it should be, in the place of the one that is there, or of none. since is when it was last relied on,
// and empty while it is.
func (n *Namespace) wantedGrant(found *apis.ReferenceGrant, since string) *apis.ReferenceGrant {
	name := ProxyService
	wanted := &apis.ReferenceGrant{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: n.Shared.Namespace, Name: GrantName(n.Name),
			Labels: map[string]string{httpv1alpha1.LabelManagedBy: httpv1alpha1.ManagedByAgent, "app": ProxyService},
		},
		Spec: apis.ReferenceGrantSpec{
			From: []apis.ReferenceGrantFrom{{Group: apis.HTTPRouteKind().Group, Kind: titles()[trigger.AutowireHTTPRoute], Namespace: n.Name}},
			To:   []apis.ReferenceGrantTo{{Kind: "Service", Name: &name}},
		},
	}
	wanted.SetGroupVersionKind(apis.ReferenceGrantKind())
	if since != "" {
		wanted.Annotations = map[string]string{httpv1alpha1.AnnotationProxyUnneeded: since}
	}
	if found != nil {
		wanted.UID = found.UID
	}
	return wanted
}

// permits says whether a ReferenceGrant lets HTTPRoutes of the namespace name the shared fleet's Service.
func (n *Namespace) permits(grant *apis.ReferenceGrant) bool {
	return slices.ContainsFunc(grant.Spec.From, func(from apis.ReferenceGrantFrom) bool {
		return from.Group == apis.HTTPRouteKind().Group && from.Kind == apis.HTTPRouteKind().Kind && from.Namespace == n.Name
	}) && slices.ContainsFunc(grant.Spec.To, func(to apis.ReferenceGrantTo) bool {
		return to.Group == "" && to.Kind == "Service" && (to.Name == nil || *to.Name == ProxyService)
	})
}

// grantedSince is how long HTTPRoutes of the namespace may have been naming the shared fleet's Service; zero means that they may not.
func (n *Namespace) grantedSince() time.Time {
	var since time.Time
	for i := range n.Shared.Grants {
		grant := &n.Shared.Grants[i]
		made := grant.CreationTimestamp.Time
		if grant.DeletionTimestamp == nil && n.permits(grant) && (since.IsZero() || made.Before(since)) {
			since = made
		}
	}
	return since
}

// ungranted says why no backend may name the shared fleet's Service now; no reason means that one may. One that does stays while nobody knows better,
// and where the ReferenceGrant is made again by this plan: that heals sooner than two changes of the route.
func (w *wiring) ungranted(isWired bool) (reason, message string) {
	if !w.Shared.AreKnown {
		if isWired {
			return "", ""
		}
		return httpv1alpha1.ReasonNotGranted, fmt.Sprintf("ReferenceGrants of namespace %s cannot be read yet; "+
			"if this stays so, look into the agent's log, and give it the Role of config/agent/rbac.yaml", w.Shared.Namespace)
	}
	what := fmt.Sprintf("ReferenceGrant %s/%s, which lets HTTPRoutes of namespace %s name Service %s there,",
		w.Shared.Namespace, GrantName(w.Name), w.Name, ProxyService)
	since := w.grantedSince()
	rest := grantSettles - w.Now.Sub(since)
	switch {
	case since.IsZero() && w.Shared.Refused != "":
		return httpv1alpha1.ReasonRefused, what + " is missing, and the API server refused it to the agent: " + w.Shared.Refused + "; create it yourself"
	case since.IsZero() && !isWired:
		return httpv1alpha1.ReasonNotGranted, what + " is missing"
	case !isWired && rest > 0:
		w.againAfter(rest)
		return httpv1alpha1.ReasonNotGranted, what + " is a moment old; Gateways are given time to hear of it"
	}
	return "", ""
}

// unreachable says why the proxies of targets cannot be what one backend names.
func (w *wiring) unreachable(targets []*Target) (reason, message string) {
	if other := w.isMixed(targets); other != nil {
		return httpv1alpha1.ReasonNotCarriedOut, fmt.Sprintf("its requests are for HTTPScaledObjects %q and %q, and only one of them has the shared fleet",
			targets[0].Name, other.Name)
	}
	switch {
	case !targets[0].IsShared:
		return "", ""
	case w.object.kind != trigger.AutowireHTTPRoute:
		return httpv1alpha1.ReasonNotCarriedOut, fmt.Sprintf("the shared fleet is in another namespace, which no %s can name; use an HTTPRoute, or leave "+
			"out the annotation %s", titles()[w.object.kind], httpv1alpha1.AnnotationFleet)
	case w.Shared.Namespace == "":
		return httpv1alpha1.ReasonNotCarriedOut, "the agent does not watch the namespace of the shared fleet; add it to --namespaces"
	}
	return "", ""
}

// isMixed is a target that another fleet serves than the first one, or nil.
func (w *wiring) isMixed(targets []*Target) *Target {
	at := slices.IndexFunc(targets, func(target *Target) bool { return target.IsShared != targets[0].IsShared })
	if at < 0 {
		return nil
	}
	return targets[at]
}

// isInFleet says whether a backend that names proxies names those of a target.
func (w *wiring) isInFleet(place *backend, target *Target) bool {
	if target.IsShared {
		return place.isElsewhere && place.namespace == w.Shared.Namespace
	}
	return !place.isElsewhere
}

// againAfter has the plan be made anew after a time, if not before.
func (w *wiring) againAfter(rest time.Duration) {
	if w.again == 0 || rest < w.again {
		w.again = rest
	}
}
