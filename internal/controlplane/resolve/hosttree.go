package resolve

import (
	"slices"
	"strings"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// broader returns the most specific wildcard that covers all names of a host, and false for model.AnyHost.
func broader(host model.Host) (model.Host, bool) {
	if host == model.AnyHost {
		return "", false
	}
	name := strings.TrimPrefix(string(host), "*.")
	if _, rest, hasParent := strings.Cut(name, "."); hasParent {
		return model.Host("*." + rest), true
	}
	return model.AnyHost, true
}

// broadestFirst returns the wildcards that cover a host, the broadest first, and the host itself.
func broadestFirst(host model.Host) []model.Host {
	hosts := []model.Host{host}
	for wildcard, ok := broader(host); ok; wildcard, ok = broader(wildcard) {
		hosts = append(hosts, wildcard)
	}
	slices.Reverse(hosts)
	return hosts
}

// hostTree finds the hosts that a wildcard covers. It contains for each wildcard the hosts and wildcards of which it
// is the broader one. So its size and the cost of a change depend on the number of labels of a host.
type hostTree map[model.Host]map[model.Host]struct{}

// add adds a host.
func (t hostTree) add(host model.Host) {
	for wildcard, ok := broader(host); ok; host, wildcard, ok = next(wildcard) {
		hosts := t[wildcard]
		if _, isPresent := hosts[host]; isPresent {
			return
		}
		if hosts == nil {
			hosts = map[model.Host]struct{}{}
			t[wildcard] = hosts
		}
		hosts[host] = struct{}{}
	}
}

// remove removes a host, and wildcards above it without any other host. isClaimed reports whether a wildcard was added
// as a host.
func (t hostTree) remove(host model.Host, isClaimed func(model.Host) bool) {
	for wildcard, ok := broader(host); ok; host, wildcard, ok = next(wildcard) {
		if len(t[host]) > 0 || isClaimed(host) {
			return
		}
		if delete(t[wildcard], host); len(t[wildcard]) == 0 {
			delete(t, wildcard)
		}
	}
}

// next returns a wildcard and the wildcard above it.
func next(wildcard model.Host) (host, above model.Host, ok bool) {
	above, ok = broader(wildcard)
	return wildcard, above, ok
}

// visitBelow calls visit for each host and wildcard below a wildcard.
func (t hostTree) visitBelow(wildcard model.Host, visit func(model.Host)) {
	for host := range t[wildcard] {
		visit(host)
		t.visitBelow(host, visit)
	}
}
