package ingest_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
)

// TestGauges follows the gauges while objects are added, changed and removed, with successful and failed
// publications; passes count only changes that are resolved.
func TestGauges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newEnvironment(t)
		defer s.run(t)()
		expect := func(when, problems, routes, passes string) {
			t.Helper()
			time.Sleep(time.Second) // The clock is synctest's.
			want := strings.NewReplacer("PROBLEMS", problems, "ROUTES", routes, "PASSES", passes).Replace(`
				# HELP kedify_ingest_passes_total Passes: changes of the watched objects that were resolved, translated and published.
				# TYPE kedify_ingest_passes_total counter
				kedify_ingest_passes_total PASSES
				# HELP kedify_ingest_problems Validation errors in HTTPScaledObjects that are reported in their status.
				# TYPE kedify_ingest_problems gauge
				kedify_ingest_problems PROBLEMS
				# HELP kedify_ingest_routes Routes in the last published configuration.
				# TYPE kedify_ingest_routes gauge
				kedify_ingest_routes ROUTES
			`)
			if err := testutil.GatherAndCompare(
				s.registry, strings.NewReader(want), "kedify_ingest_passes_total", "kedify_ingest_problems", "kedify_ingest_routes",
			); err != nil {
				t.Errorf("%s: %v", when, err)
			}
		}
		expect("at first", "0", "1", "1")
		broken := kit.WithAnnotation(kit.NewScaledObject("apps", "broken", "shop", 2, "a.test", "b.test"),
			httpv1alpha1.AnnotationWeightedBackends, "half")
		s.scaledObjects.Add(broken)
		expect("an invalid one with two hosts", "1", "3", "2")
		written := broken.DeepCopy()
		written.Status.TargetService = "shop:80"
		s.scaledObjects.Modify(written)
		expect("a new status", "1", "3", "2")
		mended := broken.DeepCopy()
		delete(mended.Annotations, httpv1alpha1.AnnotationWeightedBackends)
		s.scaledObjects.Modify(mended)
		expect("corrected", "0", "3", "3")
		s.mu.Lock()
		s.refuse = errors.New("inconsistent")
		s.mu.Unlock()
		s.scaledObjects.Modify(broken)
		expect("publication fails", "1", "3", "4")
		s.scaledObjects.Delete(broken)
		expect("one is deleted", "0", "1", "5")
		s.mu.Lock()
		s.refuse = nil
		s.mu.Unlock()
		s.scaledObjects.Delete(shop())
		expect("all are deleted", "0", "0", "6")
	})
}
