package status

import (
	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/ir"
	"github.com/kedify/argo-rollouts-plugin/internal/replicas"
)

// Taken is what the proxies that serve one HTTPScaledObject have taken of it, all replicas together.
type Taken struct {
	// Proxies counts them.
	Proxies httpv1alpha1.ProxyCounts
	// AsDesired says that the published weights are those that the object asks for.
	AsDesired bool
	// Refusal says which proxy refused the object and why, "" when none did.
	Refusal string
}

// TakenOf tells what the proxies of a fleet have taken of an object, by what all replicas know of
// their proxies. A Ready proxy counts as having it when every replica that it is connected to publishes
// the same and knows that the proxy confirmed it. A proxy that nobody knows, because it is not
// connected or because its replica does not answer, has nothing.
func TakenOf(
	object ir.Key, fleet ir.Fleet, published Publication, proxies []ir.Proxy, known []*replicas.State,
) Taken {
	taken := Taken{AsDesired: published.AsDesired}
	for _, proxy := range proxies {
		isKnown, hasAll := false, true
		for _, address := range proxy.Addresses {
			for _, state := range known {
				answer, connected := state.Answer(address, fleet, object, published.Digest)
				isKnown = isKnown || connected
				hasAll = hasAll && (answer.Confirmed || !connected)
				if answer.Refusal != "" && taken.Refusal == "" {
					taken.Refusal = "proxy " + address.String() + ": " + answer.Refusal
				}
			}
		}
		if !proxy.IsReady {
			continue
		}
		taken.Proxies.Ready++
		if isKnown && hasAll {
			taken.Proxies.Acked++
		}
	}
	return taken
}

// isUnacked says that not every Ready proxy has the object.
func (t Taken) isUnacked() bool { return t.Proxies.Acked < t.Proxies.Ready }
