package resolve

import (
	"net/netip"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// hintsByAddress are the hints of the ready endpoints of one port of a Service. The zero value is empty, and stays so
// without hints.
type hintsByAddress map[netip.AddrPort]model.Hint

// add adds the hint of an endpoint. If the endpoint is in two slices with different hints, the last in order counts.
func (h *hintsByAddress) add(at netip.AddrPort, hint model.Hint) {
	if hint.Compare((*h)[at]) <= 0 {
		return
	}
	if *h == nil {
		*h = hintsByAddress{}
	}
	(*h)[at] = hint
}

// of returns model.Endpoints.Hints for ready endpoints. As in kube-proxy (pkg/proxy/topology.go), hints for zones count
// only if each of the endpoints has one, and so do hints for nodes. Equal hints of all endpoints express no preference
// and are dropped, so that an application in one zone is served as without hints.
func (h *hintsByAddress) of(ready []netip.AddrPort) []model.Hint {
	if len(*h) == 0 {
		return nil
	}
	hints := make([]model.Hint, len(ready))
	for i, at := range ready {
		hints[i] = (*h)[at]
	}
	hasZones := isPreference(hints, func(hint model.Hint) string { return hint.Zones })
	hasNodes := isPreference(hints, func(hint model.Hint) string { return hint.Nodes })
	if !hasZones && !hasNodes {
		return nil
	}
	for i := range hints {
		if !hasZones {
			hints[i].Zones = ""
		}
		if !hasNodes {
			hints[i].Nodes = ""
		}
	}
	return hints
}

// isPreference reports whether all hints have names, and not all the same ones.
func isPreference(hints []model.Hint, names func(model.Hint) string) bool {
	differ := false
	for _, hint := range hints {
		if names(hint) == "" {
			return false
		}
		differ = differ || names(hint) != names(hints[0])
	}
	return differ
}
