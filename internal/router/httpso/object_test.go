package httpso

import (
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/model/split"
	"github.com/kedify/argo-rollouts-plugin/internal/router/engine"
)

// TestReportFromBeforeTheLastWriteIsStale changes a weight back and forth: a report about the first write must not
// count for the last one, although the text is the same.
func TestReportFromBeforeTheLastWriteIsStale(t *testing.T) {
	t.Parallel()
	name := types.NamespacedName{Namespace: "shop", Name: "web"}
	state := func(version, text, reportedAt string) *object {
		return &object{
			name: name, resourceVersion: version, weightedBackends: text, hasWeightedBackends: true,
			report: &httpv1alpha1.DataPlaneStatus{
				AnnotationHash: split.Hash(text, ""), Proxies: httpv1alpha1.ProxyCounts{Ready: 1, Acked: 1}, Effective: true,
				ResourceVersion: reportedAt,
			},
		}
	}
	tests := map[string]struct {
		states  []*object
		stopped bool // no interceptor runs
		after   time.Duration
		want    bool
	}{
		"no previous state": {states: []*object{state("10", "a", "3")}, want: true},
		"an unchanged text": {
			states: []*object{state("10", "a", "3"), state("11", "a", "3")},
			want:   true,
		},
		"changed back and forth": {states: []*object{
			state("10", "a", "3"), state("11", "b", "3"),
			state("12", "a", "3"),
		}},
		"changed back and forth and reported again": {states: []*object{
			state("10", "a", "3"), state("11", "b", "3"),
			state("12", "a", "3"), state("13", "a", "12"),
		}, want: true},
		"reported between the changes": {states: []*object{
			state("10", "a", "3"), state("11", "b", "3"),
			state("12", "a", "11"),
		}},
		"an interceptor that reports no version": {states: []*object{
			state("10", "a", ""), state("11", "b", ""),
			state("12", "a", ""),
		}, want: true},
		"an interceptor that has not reported for long": {states: []*object{
			state("10", "a", "3"), state("11", "b", "3"),
			state("12", "a", "3"),
		}, after: 6 * time.Second, want: true},
		"no interceptor that could report runs": {states: []*object{
			state("10", "a", "3"), state("11", "b", "3"),
			state("12", "a", "3"),
		}, stopped: true, after: time.Hour},
		"an outdated event arrives last": {states: []*object{
			state("10", "a", "3"), state("12", "a", "3"),
			state("11", "b", "3"),
		}, want: true},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				cache := kube.NewCache((*object).after)
				for _, state := range test.states {
					cache.Put(state)
				}
				time.Sleep(test.after) // The clock is synctest's.
				live, _, _ := cache.Get(name)
				if got, _ := reportedState(live, !test.stopped); (got == engine.Applied) != test.want {
					t.Errorf("reportedState = %v, want Applied: %v", got, test.want)
				}
			})
		})
	}
}
