package resolve

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	httpv1beta1 "github.com/kedify/argo-rollouts-plugin/api/http/v1beta1"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

const (
	// maxDelegation is the maximum length of AnnotationAllowedNamespaces in bytes. It equals the length up to which
	// the interceptor keeps annotations: a longer text may be cut within a name, and is not read.
	maxDelegation = 4096
	// maxDescribed is the maximum number of hosts or objects in one message.
	maxDescribed = 3
)

// delegation are the sorted namespaces to which an object delegates its hosts.
type delegation []string

// includes reports whether the delegation includes a namespace.
func (d delegation) includes(namespace string) bool {
	if len(d) > 0 && d[0] == httpv1alpha1.AllNamespaces {
		return true // It precedes all valid names.
	}
	_, isListed := slices.BinarySearch(d, namespace)
	return isListed
}

// delegationOf parses AnnotationAllowedNamespaces. With issues it returns only the valid names.
func delegationOf(object *httpv1alpha1.HTTPScaledObject) (delegation, []issue) {
	const annotation = httpv1alpha1.AnnotationAllowedNamespaces
	text := object.Annotations[annotation]
	if len(text) > maxDelegation {
		return nil, []issue{{httpv1alpha1.ReasonInvalidAllowedNamespaces, fmt.Sprintf(
			"annotation %s: it is longer than %d bytes and is ignored: list fewer namespaces, or %q for all",
			annotation, maxDelegation, httpv1alpha1.AllNamespaces)}}
	}
	var names delegation
	var issues []issue
	for entry := range strings.SplitSeq(text, ",") {
		name := strings.TrimSpace(entry)
		switch {
		case name == "":
		case name == httpv1alpha1.AllNamespaces || len(validation.IsDNS1123Label(name)) == 0:
			names = append(names, name)
		case len(issues) == 0:
			issues = []issue{{httpv1alpha1.ReasonInvalidAllowedNamespaces, fmt.Sprintf(
				"annotation %s: %.80q is not the name of a namespace and is ignored: separate names by commas, "+
					"or set it to %q for all", annotation, name, httpv1alpha1.AllNamespaces)}}
		}
	}
	slices.Sort(names)
	return slices.Compact(names), issues
}

// claimant is an object that claims a host of a fleet.
type claimant struct {
	object  model.Key
	created time.Time
	allowed delegation
	// isRetained is true if the object no longer names the host, and keeps its published Routes because of an error. It
	// does not own the host.
	isRetained bool
	// isConverted is true for an InterceptorRoute. Messages about other objects name the kind.
	isConverted bool
}

// compare orders claimants by age, oldest first, then by namespace and name.
func (c claimant) compare(other claimant) int {
	return cmp.Or(c.created.Compare(other.created), c.object.Compare(other.object))
}

// equal reports whether all fields are equal.
func (c claimant) equal(other claimant) bool {
	return c.compare(other) == 0 && slices.Equal(c.allowed, other.allowed) && c.isRetained == other.isRetained &&
		c.isConverted == other.isConverted
}

// permits reports whether other may have routes of a host that c owns.
func (c claimant) permits(other claimant) bool {
	return other.object.Namespace == c.object.Namespace || c.allowed.includes(other.object.Namespace) ||
		!other.isRetained && other.compare(c) < 0
}

// hostOwners are the owners of a host, oldest first: of the wildcards that cover the host, and of the host itself. An
// object has routes of the host only with the permission of all owners. If all claimants are of one namespace, all of
// them have it.
type hostOwners []claimant

// blocker returns the first owner that does not permit a claimant.
func (o hostOwners) blocker(other claimant) (model.Key, bool) {
	for _, owner := range o {
		if !owner.permits(other) {
			return owner.object, true
		}
	}
	return model.Key{}, false
}

// below returns the owners of a host from those of the next wildcard above it. The oldest permitted claim owns the
// host. It takes the place of younger owners: a new wildcard takes nothing from the older hosts that it covers.
func (o hostOwners) below(claims []claim) hostOwners {
	for _, current := range claims { // oldest first
		if _, isBlocked := o.blocker(current.claimant); isBlocked || current.isRetained {
			continue
		}
		owners := make(hostOwners, 0, len(o)+1)
		for _, owner := range o {
			if owner.compare(current.claimant) < 0 {
				owners = append(owners, owner)
			}
		}
		return append(owners, current.claimant)
	}
	return o
}

// rejection is a claim to a host of a fleet without the permission of an owner.
type rejection struct {
	claimant model.Key
	host     model.Host
	owner    model.Key // the object that does not permit it
}

// compareRejections orders rejections for messages.
func compareRejections(a, b rejection) int {
	return cmp.Or(a.claimant.Compare(b.claimant), a.host.Compare(b.host), a.owner.Compare(b.owner))
}

// rejectForeign returns the Routes of the claims with the permission of all owners of their host, and the rejections of
// the others.
func rejectForeign(claims map[fleetHost][]claim) (permitted []model.Route, rejected []rejection) {
	for _, ofHost := range claims {
		slices.SortFunc(ofHost, compareClaims)
	}
	for at, ofHost := range claims {
		var owners hostOwners
		for _, host := range broadestFirst(at.host) {
			owners = owners.below(claims[fleetHost{at.fleet, host}])
		}
		for _, current := range ofHost {
			if owner, isBlocked := owners.blocker(current.claimant); isBlocked {
				rejected = append(rejected, rejection{current.object, at.host, owner})
			} else {
				permitted = append(permitted, current.routes...)
			}
		}
	}
	return permitted, rejected
}

// foreignHostProblems returns the Problems of the objects with rejected claims, and the warnings of the owners.
func foreignHostProblems(rejected []rejection, kindOf kindLookup) []model.Problem {
	slices.SortFunc(rejected, compareRejections)
	problems := lostHosts(rejected, kindOf)
	contested := map[model.Key][]rejection{}
	for _, current := range rejected {
		contested[current.owner] = append(contested[current.owner], current)
	}
	for owner, claims := range contested {
		problems = append(problems, contestedHosts(owner, claims, kindOf))
	}
	return problems
}

// lostHosts returns one Problem for each pair of a claimant and an owner that rejects it. rejected are sorted.
func lostHosts(rejected []rejection, kindOf kindLookup) []model.Problem {
	type pair struct{ claimant, owner model.Key }
	lost := map[pair][]model.Host{}
	for _, current := range rejected {
		at := pair{current.claimant, current.owner}
		if hosts := lost[at]; len(hosts) == 0 || hosts[len(hosts)-1] != current.host { // once for all path prefixes
			lost[at] = append(hosts, current.host)
		}
	}
	var problems []model.Problem
	for at, hosts := range lost {
		problems = append(problems, foreignHost(at.claimant, at.owner, hosts, kindOf))
	}
	return problems
}

// foreignHost returns the Problem of an object with sorted hosts that an object of another namespace owns.
func foreignHost(loser, owner model.Key, hosts []model.Host, kindOf kindLookup) model.Problem {
	field := "spec.hosts"
	if kindOf(loser) == httpv1beta1.Kind {
		field = "spec.rules"
	}
	texts := make([]string, 0, maxDescribed)
	for _, host := range hosts[:min(maxDescribed, len(hosts))] {
		texts = append(texts, string(host))
	}
	if more := len(hosts) - len(texts); more > 0 {
		texts = append(texts, fmt.Sprintf("%d more", more))
	}
	return model.Problem{
		On:     loser,
		Reason: httpv1alpha1.ReasonRouteConflict,
		Message: fmt.Sprintf("%s: %s: belongs to namespace %q, whose %s %s is the oldest with the "+
			"host or a wildcard above it: remove the host, or have the owner add %q to the annotation %s of %s",
			field, strings.Join(texts, ", "), owner.Namespace, kindOf(owner), owner, loser.Namespace,
			httpv1alpha1.AnnotationAllowedNamespaces, owner),
	}
}

// contestedHosts returns the warning of the owner of hosts that objects of other namespaces claim. rejected are
// sorted. The message contains no number, so that it does not change with each further claim.
func contestedHosts(owner model.Key, rejected []rejection, kindOf kindLookup) model.Problem {
	texts := make([]string, 0, maxDescribed+1)
	for _, current := range rejected[:min(maxDescribed, len(rejected))] {
		texts = append(texts, fmt.Sprintf("%s %s claims host %s", kindOf(current.claimant), current.claimant, current.host))
	}
	if len(rejected) > maxDescribed {
		texts = append(texts, "and others")
	}
	return model.Problem{
		On:     owner,
		Reason: httpv1alpha1.ReasonHostClaimedByOther,
		Message: fmt.Sprintf("%s: no request is routed there, because the host belongs to this object: if its namespace "+
			"may have routes of the host, add it to the annotation %s",
			strings.Join(texts, ", "), httpv1alpha1.AnnotationAllowedNamespaces),
		IsWarning: true,
	}
}
