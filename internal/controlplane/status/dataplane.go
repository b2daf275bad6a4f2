package status

import (
	"cmp"
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/fault"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/ingest"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/status/peers"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/model/inherited"
	"github.com/kedify/argo-rollouts-plugin/internal/model/split"
)

// dataPlane returns the data-plane report that object should have. If the present report has the same content and is
// not older than the last write to the object, dataPlane returns it with its writer.
func dataPlane(
	object *httpv1alpha1.HTTPScaledObject, outcome ingest.Outcome, acks Acks, writer string,
) *httpv1alpha1.DataPlaneStatus {
	before := object.Status.DataPlane
	report := &httpv1alpha1.DataPlaneStatus{
		AnnotationHash: split.Hash(object.Annotations[httpv1alpha1.AnnotationWeightedBackends],
			object.Annotations[httpv1alpha1.AnnotationManagedRoutes], object.Annotations[httpv1alpha1.AnnotationStickiness]),
		Proxies:      acks.Proxies,
		StableHashes: slices.Clone(outcome.StableHashes),
		ReportedBy:   writer,

		WeightedBackends: outcome.WeightedBackends,
		ManagedRoutes:    outcome.ManagedRoutes,
		Stickiness:       outcome.Stickiness,
		SessionAffinity:  outcome.SessionAffinity,
		AutowireSettings: autowireSettings(object, outcome),
		ResourceVersion:  object.ResourceVersion,
	}
	if !outcome.IsAccepted() {
		// Proxies may have ACKed everything that is published, but that isn't the object with its present annotations.
		report.Proxies.Acked = 0
	}
	hasEveryACK := report.Proxies.Acked == report.Proxies.Ready
	report.Effective = outcome.IsAccepted() && acks.AsDesired && hasEveryACK && report.Proxies.Ready > 0
	if before == nil {
		return report
	}
	if !hasEveryACK {
		// A proxy without the ACK may still send requests to the previous Pods.
		report.StableHashes = slices.Concat(report.StableHashes, before.StableHashes)
		slices.Sort(report.StableHashes)
		report.StableHashes = slices.Compact(report.StableHashes)
	}
	same := *report
	same.ReportedBy, same.ResourceVersion = before.ReportedBy, before.ResourceVersion
	// A report without a resource version comes before every version.
	isOld := kube.Older(cmp.Or(before.ResourceVersion, "0"), outcome.WrittenAt)
	if apiequality.Semantic.DeepEqual(same, *before) && !isOld {
		return &same
	}
	return report
}

// autowireSettings returns the text of annotation AnnotationAutowireSettings if the published configuration follows it.
func autowireSettings(object *httpv1alpha1.HTTPScaledObject, outcome ingest.Outcome) string {
	text := object.Annotations[httpv1alpha1.AnnotationAutowireSettings]
	if _, err := inherited.Parse(text); err != nil || !outcome.IsAccepted() {
		return ""
	}
	return text
}

// Acks is how far the proxies that serve one HTTPScaledObject have acknowledged it, over all replicas.
type Acks struct {
	// Proxies counts the Ready proxies and those of them that have acknowledged the object.
	Proxies httpv1alpha1.ProxyCounts
	// AsDesired means that the published weights are the desired weights of the object.
	AsDesired bool
	// Rejection names a proxy that rejected the object and its reason, "" if no proxy rejected it.
	Rejection string
}

// CountAcks counts the ACKs of an object by the proxies of a fleet. states has one State for each replica. A Ready
// proxy counts as acknowledged if every replica that it is connected to publishes the same and has received the proxy's
// ACK. A proxy that is in no State, because it isn't connected or its replica is unreachable, has not acknowledged
// anything.
func CountAcks(
	object model.Key, fleet model.Fleet, published Publication, proxies []model.Proxy, states []*peers.State,
) Acks {
	acks := Acks{AsDesired: published.AsDesired}
	for _, proxy := range proxies {
		hasAcked, rejection := ackOf(object, fleet, published.Digest, proxy, states)
		if rejection != "" && acks.Rejection == "" {
			acks.Rejection = rejection
		}
		if !proxy.IsReady {
			continue
		}
		acks.Proxies.Ready++
		if hasAcked {
			acks.Proxies.Acked++
		}
	}
	return acks
}

// ackOf reports whether a proxy has acknowledged the publication of an object with a digest, and the reason if it has
// rejected the object.
func ackOf(
	object model.Key, fleet model.Fleet, digest string, proxy model.Proxy, states []*peers.State,
) (hasAcked bool, rejection string) {
	isConnected, hasAcked := false, true
	for _, address := range proxy.Addresses {
		for _, state := range states {
			ack, connected := state.Ack(address, fleet, object, digest)
			isConnected = isConnected || connected
			hasAcked = hasAcked && (ack.Acked || !connected || fault.EarlyACK)
			if ack.NackMessage != "" && rejection == "" {
				rejection = "proxy " + address.String() + ": " + ack.NackMessage
			}
		}
	}
	return isConnected && hasAcked, rejection
}

// isIncomplete reports whether a Ready proxy has not acknowledged the object.
func (a Acks) isIncomplete() bool { return a.Proxies.Acked < a.Proxies.Ready }
