package status

import (
	"cmp"
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/apiserver"
	"github.com/kedify/argo-rollouts-plugin/internal/observation"
	"github.com/kedify/argo-rollouts-plugin/internal/split"
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
	isOld := apiserver.Older(cmp.Or(before.ResourceVersion, "0"), seen.WrittenAt)
	if apiequality.Semantic.DeepEqual(same, *before) && !isOld {
		return &same
	}
	return report
}
