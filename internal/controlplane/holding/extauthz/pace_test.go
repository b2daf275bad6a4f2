package extauthz_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// TestReleaseIsPaced checks the burst, the refills and the order of requests that arrive in between. After a pause the
// burst is available again.
func TestReleaseIsPaced(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, s *fixture) {
		t.Helper()
		for range 2 {
			s.stream.serves.Store(false)
			var all []<-chan result
			for range 150 {
				all = append(all, s.call(t.Context()))
			}
			s.stream.serves.Store(true)
			s.EndpointsAcked(proxy)
			all = append(all, s.call(t.Context()))
			s.EndpointsAcked(proxy) // of another cluster
			for _, want := range []int{100, 120, 140, 151} {
				if got := s.ended(all); got != want {
					t.Errorf("%d released, want %d", got, want)
				}
				time.Sleep(holding.RefillInterval)
			}
			time.Sleep(5 * holding.RefillInterval)
		}
	})
}

// TestWorkloadsShareThePacer checks that all clusters of a proxy share its Pacer in turn, and that other proxies are
// not affected.
func TestWorkloadsShareThePacer(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, s *fixture) {
		t.Helper()
		const clusters, each = 10, 20
		many := workload()
		for i := range clusters {
			many.Clusters = append(many.Clusters, nameOf(i))
		}
		s.SetWorkloads(map[model.Key]*holding.Workload{shop: many})
		other := &stream{number: 2, fleet: "apps"}
		s.Opened(proxy.Next(), other)
		var all, others []<-chan result
		byCluster := make([][]<-chan result, clusters)
		for i := range clusters * each {
			done := s.callFrom(t.Context(), proxy, nameOf(i/each))
			all, byCluster[i/each] = append(all, done), append(byCluster[i/each], done)
			if i < 100 {
				others = append(others, s.callFrom(t.Context(), proxy.Next(), nameOf(i/each)))
			}
		}
		s.stream.serves.Store(true)
		other.serves.Store(true)
		s.EndpointsAcked(proxy)
		s.EndpointsAcked(proxy.Next())
		if got := s.ended(others); got != 100 {
			t.Errorf("%d of another proxy released, want all", got)
		}
		for want := 100; want <= clusters*each; want += 20 {
			if got := s.ended(all); got != want {
				t.Errorf("%d released, want %d", got, want)
			}
			for i, own := range byCluster {
				if got := s.ended(own); got != want/clusters {
					t.Errorf("%d of cluster %d released, want %d", got, i, want/clusters)
				}
			}
			time.Sleep(holding.RefillInterval)
		}
	})
}

// nameOf returns the name of one of many clusters with the prefix cluster.
func nameOf(i int) string { return fmt.Sprint(cluster, "-", i) }
