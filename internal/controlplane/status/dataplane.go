package status

import (
	"cmp"
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/fault"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/observation"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/status/peers"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/model/split"
)

// dataPlane returns the data-plane report that object should have. While it has one that says the same and is not older
// than the last write, that one stays, with its writer.
func dataPlane(object *httpv1alpha1.HTTPScaledObject, seen observation.Outcome, taken Taken, writer string) *httpv1alpha1.DataPlaneStatus {
	before := object.Status.DataPlane
	report := &httpv1alpha1.DataPlaneStatus{
		AnnotationHash: split.Hash(object.Annotations[httpv1alpha1.AnnotationWeightedBackends], object.Annotations[httpv1alpha1.AnnotationManagedRoutes]),
		Proxies:        taken.Proxies,
		StableHashes:   slices.Clone(seen.StableHashes),
		ReportedBy:     writer,

		WeightedBackends: seen.WeightedBackends,
		ManagedRoutes:    seen.ManagedRoutes,
		ResourceVersion:  object.ResourceVersion,
	}
	if !seen.IsAccepted() {
		report.Proxies.Acked = 0 // Proxies may have all that is in force, but that is not the object as its annotation has it.
	}
	everywhere := report.Proxies.Acked == report.Proxies.Ready
	report.Effective = seen.IsAccepted() && taken.AsDesired && everywhere && report.Proxies.Ready > 0
	if before == nil {
		return report
	}
	if !everywhere {
		// A proxy may still send requests to the Pods that were there before.
		report.StableHashes = slices.Concat(report.StableHashes, before.StableHashes)
		slices.Sort(report.StableHashes)
		report.StableHashes = slices.Compact(report.StableHashes)
	}
	same := *report
	same.ReportedBy, same.ResourceVersion = before.ReportedBy, before.ResourceVersion
	// A report without a resource version comes before every version.
	isOld := kube.Older(cmp.Or(before.ResourceVersion, "0"), seen.WrittenAt)
	if apiequality.Semantic.DeepEqual(same, *before) && !isOld {
		return &same
	}
	return report
}

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
	object model.Key, fleet model.Fleet, published Publication, proxies []model.Proxy, known []*peers.State,
) Taken {
	taken := Taken{AsDesired: published.AsDesired}
	for _, proxy := range proxies {
		isKnown, hasAll := false, true
		for _, address := range proxy.Addresses {
			for _, state := range known {
				answer, connected := state.Answer(address, fleet, object, published.Digest)
				isKnown = isKnown || connected
				hasAll = hasAll && (answer.Confirmed || !connected || fault.EarlyACK)
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
