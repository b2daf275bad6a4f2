package status_test

import (
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	discoveryv1 "k8s.io/api/discovery/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/ingest"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/status"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// instrument creates a Reporter that is the leader, and returns a function that reads its gauges.
func (s *fixture) instrument(t *testing.T) (gauges func() map[string]float64) {
	t.Helper()
	registry := prometheus.NewRegistry()
	var err error
	s.reporter, err = status.New(status.Options{
		Client: s.server, Source: s.proxies, Elect: always, Replica: "interceptor-0", Registerer: registry,
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return func() map[string]float64 {
		t.Helper()
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		values := map[string]float64{}
		for _, family := range families {
			if gauge := family.GetMetric()[0].GetGauge(); gauge != nil {
				values[family.GetName()] = gauge.GetValue()
			}
		}
		return values
	}
}

// TestGauges expects counts on the leader, and 0 on another replica.
func TestGauges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		gauges := s.instrument(t)
		// A negative number of Ready proxies means no series.
		expect := func(when string, unacked, refused, ready, longest float64) {
			t.Helper()
			time.Sleep(time.Second) // synctest time
			want := map[string]float64{
				"kedify_status_unacked_objects": unacked, "kedify_status_rejected_objects": refused,
				"kedify_status_unreachable_replicas": 0, "kedify_status_longest_unacked_seconds": longest,
			}
			if ready >= 0 {
				want["kedify_status_fleet_ready_proxies"] = ready
			}
			if diff := cmp.Diff(want, gauges()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", when, diff)
			}
		}
		s.canary(20)
		expect("before the election", 0, 0, -1, 0)
		stop := s.lead(t)
		expect("no ACK", 2, 0, 2, 1)
		expect("no ACK a second later", 2, 0, 2, 2)
		s.proxies.confirm("10.0.0.1:1")
		s.proxies.confirm("10.0.0.2:1")
		expect("both proxies have ACKed everything", 0, 0, 2, 0)
		s.proxies.setAck("10.0.0.1:1", resourcev3.ScopedRouteType, "shop.test", s.proxies.nack("shop.test"))
		expect("a proxy rejects an object", 1, 1, 2, 1)
		// The series of a fleet without Ready proxies remains. A fleet without objects has none.
		terminating := readyProxy("a", "10.0.0.1")
		terminating.IsReady = false
		for _, proxies := range [][]model.Proxy{{terminating}, nil} {
			s.reporter.Observe(ingest.Pass{Replicas: s.replicas, Proxies: map[model.Fleet][]model.Proxy{
				"apps": proxies, "empty": {readyProxy("c", "10.0.0.3")},
			}})
			rejected := float64(len(proxies)) // the terminating proxy rejected an object before
			expect(fmt.Sprintf("%d proxies, none of them Ready", len(proxies)), 0, rejected, 0, 0)
		}
		stop()
		expect("after the leadership", 0, 0, -1, 0)
	})
}

// TestFleetsOfExternalProxies: a fleet whose objects count the requests of an external Envoy needs no proxies.
func TestFleetsOfExternalProxies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		gauges := s.instrument(t)
		s.mu.Lock()
		for _, object := range s.objects {
			object.Annotations = map[string]string{httpv1alpha1.AnnotationExternalProxyMetricKey: "cluster"}
		}
		s.mu.Unlock()
		config := splitAt(map[string]uint32{"shop": 0, "other": 0})
		s.proxies.publish(config)
		s.watch()
		stop := s.lead(t)
		defer stop()
		s.reporter.Observe(ingest.Pass{Objects: s.objectsWith(config), Replicas: s.replicas})
		time.Sleep(time.Second) // synctest time
		if ready, ok := gauges()["kedify_status_fleet_ready_proxies"]; ok {
			t.Errorf("the fleet has %v Ready proxies, want no series", ready)
		}
	})
}

// TestUnreachableReplicasAreCounted has another replica with an unknown protocol.
func TestUnreachableReplicasAreCounted(t *testing.T) {
	s := newFixture(t)
	gauges := s.instrument(t)
	at, _ := serveReplica(t, func(grpc.ServiceRegistrar) {})
	s.replicas = []*discoveryv1.EndpointSlice{endpointsOf("interceptor-1", at)}
	stop := s.lead(t)
	s.canary(20)
	s.proxies.confirm("10.0.0.1:1")
	s.waitFor(t, "2/1 false")
	if got := gauges()["kedify_status_unreachable_replicas"]; got != 1 {
		t.Errorf("%v replicas are unreachable", got)
	}
	stop()
	if got := gauges()["kedify_status_unreachable_replicas"]; got != 0 {
		t.Errorf("after the leadership %v replicas are unreachable", got)
	}
}
