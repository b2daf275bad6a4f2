package autowire

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// precedenceBlocker returns why the proxies would not send a backend's requests to its targets: another HTTPScaledObject
// has a more specific host or path prefix. The proxies select the most specific host first and match the request
// against no other host, then the longest path prefix (model.Match).
func (p *objectPlan) precedenceBlocker(targets []*Target, original *backend) (reason, message string) {
	for _, host := range original.received.hosts {
		owners := p.hostOwners(host, targets[0].IsShared)
		for _, path := range original.received.paths {
			rival := rivalFor(owners, targets, path)
			if rival == nil || p.isForService(rival, original) {
				continue
			}
			prefix := cmp.Or(strings.TrimSuffix(path.text, "/"), "/")
			return httpv1alpha1.ReasonRequestMismatch, fmt.Sprintf(
				"the proxies would match its requests for %[1]s%[2]s with HTTPScaledObject %[3]q, whose host or path prefix is "+
					"the most specific; add host %[1]q and path prefix %[2]q to the trigger of HTTPScaledObject %[4]q",
				normalizeHost(host), prefix, rival.Name, targets[0].Name)
		}
	}
	return "", ""
}

// hostOwners returns the HTTPScaledObjects of a fleet with the most specific host that includes all hosts of a pattern.
func (p *objectPlan) hostOwners(host string, isShared bool) []*Target {
	var owners []*Target
	var best model.Host
	for _, objects := range [][]Target{p.Targets, p.Rivals} {
		for i := range objects {
			object := &objects[i]
			for _, pattern := range object.Hosts {
				if object.IsShared != isShared || !hostCovers(pattern, host) {
					continue
				}
				candidate := model.Host(normalizeHost(pattern))
				switch order := candidate.Compare(best); {
				case len(owners) == 0 || order < 0:
					owners, best = []*Target{object}, candidate
				case order == 0:
					owners = append(owners, object)
				}
			}
		}
	}
	return owners
}

// rivalFor returns the owner of a host that receives the requests with a path, or nil if that is a target. If no owner
// does, the requests get status 404, which is expected only of a target's host.
func rivalFor(owners, targets []*Target, path path) *Target {
	isTarget := func(owner *Target) bool { return slices.Contains(targets, owner) }
	var winner *Target
	longest := -1
	for _, owner := range owners {
		length := owner.prefixLength(path)
		if !owner.IsPartial && (length > longest || length == longest && length >= 0 && isTarget(owner)) {
			winner, longest = owner, length
		}
	}
	switch {
	case winner == nil && !slices.ContainsFunc(owners, isTarget) && len(owners) > 0:
		return owners[0]
	case winner == nil || isTarget(winner):
		return nil
	}
	return winner
}

// prefixLength returns the length of the target's longest path prefix that matches a path, or -1.
func (t *Target) prefixLength(path path) int {
	if len(t.PathPrefixes) == 0 {
		return 0
	}
	longest := -1
	for _, prefix := range t.PathPrefixes {
		if hasPathPrefix(prefix, path.text) {
			longest = max(longest, len(strings.TrimSuffix(prefix, "/")))
		}
	}
	return longest
}
