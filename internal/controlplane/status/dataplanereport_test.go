package status_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/ingest"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/status"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/model/split"
)

func TestDataPlaneReport(t *testing.T) {
	const text = "- service: shop-stable\n  weight: 80\n- service: shop-canary\n  weight: 20\n"
	counts := func(ready, acked int32) httpv1alpha1.ProxyCounts {
		return httpv1alpha1.ProxyCounts{Ready: ready, Acked: acked}
	}
	fine := ingest.Outcome{Served: true, StableHashes: []string{"new"}}
	before := &httpv1alpha1.DataPlaneStatus{
		AnnotationHash: split.Hash(text, ""), Proxies: counts(2, 2), StableHashes: []string{"old"}, Effective: true,
		ReportedBy: "interceptor-9",
	}
	report := func(hashes []string, proxies httpv1alpha1.ProxyCounts, effective bool) *httpv1alpha1.DataPlaneStatus {
		return &httpv1alpha1.DataPlaneStatus{
			AnnotationHash: split.Hash(text, ""), Proxies: proxies, StableHashes: hashes, Effective: effective,
			ReportedBy: "interceptor-0", ResourceVersion: "13",
		}
	}
	reportedAt := func(report *httpv1alpha1.DataPlaneStatus, version string) *httpv1alpha1.DataPlaneStatus {
		at := *report
		at.ResourceVersion = version
		return &at
	}
	tests := []struct {
		name    string
		before  *httpv1alpha1.DataPlaneStatus
		outcome ingest.Outcome
		acks    status.Acks
		want    *httpv1alpha1.DataPlaneStatus
	}{
		{
			"all have ACKed it", nil, fine,
			status.Acks{Proxies: counts(2, 2), AsDesired: true},
			report([]string{"new"}, counts(2, 2), true),
		},
		{
			"one has not", nil, fine,
			status.Acks{Proxies: counts(2, 1), AsDesired: true},
			report([]string{"new"}, counts(2, 1), false),
		},
		{"no proxy", nil, fine, status.Acks{AsDesired: true}, report([]string{"new"}, counts(0, 0), false)},
		{
			"a weight is redirected", nil, fine,
			status.Acks{Proxies: counts(2, 2)},
			report([]string{"new"}, counts(2, 2), false),
		},
		{
			"invalid: the published weights are not those of the annotation", nil,
			ingest.Outcome{Served: true, Problems: []model.Problem{problem("InvalidWeightedBackends", "no")}},
			status.Acks{Proxies: counts(2, 2), AsDesired: true},
			report(nil, counts(2, 0), false),
		},
		{
			"a failed publication", nil,
			ingest.Outcome{Served: true, Failure: "no"},
			status.Acks{Proxies: counts(2, 2), AsDesired: true},
			report(nil, counts(2, 0), false),
		},
		{
			"new Pods behind the stable Service, and all proxies have them", before, fine,
			status.Acks{Proxies: counts(2, 2), AsDesired: true},
			report([]string{"new"}, counts(2, 2), true),
		},
		{
			"new Pods, and a proxy may still use the old ones", before, fine,
			status.Acks{Proxies: counts(2, 1), AsDesired: true},
			report([]string{"new", "old"}, counts(2, 1), false),
		},
		{
			"the same as another replica reported", before,
			ingest.Outcome{Served: true, StableHashes: []string{"old"}},
			status.Acks{Proxies: counts(2, 2), AsDesired: true},
			before,
		},
		{
			"the same, for a weight that was changed back since", before,
			ingest.Outcome{Served: true, StableHashes: []string{"old"}, WrittenAt: "12"},
			status.Acks{Proxies: counts(2, 2), AsDesired: true},
			report([]string{"old"}, counts(2, 2), true),
		},
		{
			"and after that was reported", reportedAt(before, "12"),
			ingest.Outcome{Served: true, StableHashes: []string{"old"}, WrittenAt: "12"},
			status.Acks{Proxies: counts(2, 2), AsDesired: true},
			reportedAt(before, "12"),
		},
		{
			"the same, with an active header route that was not reported", before,
			ingest.Outcome{Served: true, StableHashes: []string{"old"}, ManagedRoutes: "[]"},
			status.Acks{Proxies: counts(2, 2), AsDesired: true},
			func() *httpv1alpha1.DataPlaneStatus {
				now := report([]string{"old"}, counts(2, 2), true)
				now.ManagedRoutes = "[]"
				return now
			}(),
		},
		{
			"the same, with active stickiness and session affinity that were not reported", before,
			ingest.Outcome{
				Served: true, StableHashes: []string{"old"}, Stickiness: `{"header":"x-user"}`, SessionAffinity: `{"sourceAddress":{}}`,
			},
			status.Acks{Proxies: counts(2, 2), AsDesired: true},
			func() *httpv1alpha1.DataPlaneStatus {
				now := report([]string{"old"}, counts(2, 2), true)
				now.Stickiness, now.SessionAffinity = `{"header":"x-user"}`, `{"sourceAddress":{}}`
				return now
			}(),
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			object := shop()
			object.ResourceVersion = "13"
			object.Annotations = map[string]string{httpv1alpha1.AnnotationWeightedBackends: text}
			object.Status.DataPlane = test.before
			got := status.Compute(object, test.outcome, test.acks, "interceptor-0", noon()).DataPlane
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("report (-want +got):\n%s", diff)
			}
		})
	}
}

// TestReportHashCoversEveryAnnotation: the report is about the weights, the managed routes and the stickiness.
func TestReportHashCoversEveryAnnotation(t *testing.T) {
	t.Parallel()
	object := shop()
	object.Annotations = map[string]string{
		httpv1alpha1.AnnotationWeightedBackends: "weights", httpv1alpha1.AnnotationManagedRoutes: "routes",
		httpv1alpha1.AnnotationStickiness: "stickiness",
	}
	outcome := ingest.Outcome{Served: true}
	got := status.Compute(object, outcome, status.Acks{}, "interceptor-0", noon()).DataPlane.AnnotationHash
	if want := split.Hash("weights", "routes", "stickiness"); got != want {
		t.Errorf("hash %s, want %s", got, want)
	}
	delete(object.Annotations, httpv1alpha1.AnnotationStickiness)
	got = status.Compute(object, outcome, status.Acks{}, "interceptor-0", noon()).DataPlane.AnnotationHash
	if want := split.Hash("weights", "routes"); got != want {
		t.Errorf("without stickiness: hash %s, want %s", got, want)
	}
}
