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

// TestUnpublishedObjectsAwaitNoACK: no proxy can acknowledge an object whose present version is not published.
func TestUnpublishedObjectsAwaitNoACK(t *testing.T) {
	for name, published := range map[string]map[string]uint32{
		"never published": {"other": 0}, "last valid version is published": {"other": 0, "shop": 20},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newFixture(t)
				gauges := s.instrument(t)
				s.proxies.publish(splitAt(map[string]uint32{"other": 0}))
				s.proxies.confirm("10.0.0.1:1")
				config := splitAt(published)
				s.proxies.publish(config)
				defer s.lead(t)()
				s.reporter.Observe(ingest.Pass{
					Objects:  s.objectsWith(config, problem("ServiceNotFound", "Service shop-stable does not exist")),
					Proxies:  map[model.Fleet][]model.Proxy{"apps": {readyProxy("a", "10.0.0.1")}},
					Replicas: s.replicas,
				})
				time.Sleep(10 * time.Minute) // synctest time
				got := gauges()
				for _, gauge := range []string{"kedify_status_unacked_objects", "kedify_status_longest_unacked_seconds"} {
					if got[gauge] != 0 {
						t.Errorf("%s is %v, want 0", gauge, got[gauge])
					}
				}
			})
		})
	}
}

// TestFleetsThatNeedProxies: a fleet without Service kedify-proxy has a series only if an object in it relies on Envoy,
// which one of the KEDA HTTP add-on does not.
func TestFleetsThatNeedProxies(t *testing.T) {
	installed := map[model.Fleet][]model.Proxy{"apps": {}}
	managedBy := func(name string) map[string]string { return map[string]string{httpv1alpha1.LabelManagedBy: name} }
	autowire := func(kinds string) map[string]string {
		return map[string]string{httpv1alpha1.AnnotationTrafficAutowire: kinds}
	}
	external := map[string]string{httpv1alpha1.AnnotationExternalProxyMetricKey: "cluster"}
	for name, test := range map[string]struct {
		labels, annotations map[string]string
		proxies             map[model.Fleet][]model.Proxy
		hasSeries           bool
	}{
		"an object of the HTTP add-on": {},
		"the same next to another fleet": {
			proxies: map[model.Fleet][]model.Proxy{"web": {readyProxy("a", "10.0.0.1")}},
		},
		"the same with Service kedify-proxy":    {proxies: installed, hasSeries: true},
		"an object of another tool":             {labels: managedBy("Helm")},
		"an object of the agent":                {labels: managedBy(httpv1alpha1.ManagedByAgent), hasSeries: true},
		"an object that requests autowiring":    {annotations: autowire("ingress"), hasSeries: true},
		"an object that requests no autowiring": {annotations: autowire("false")},
		"a canary": {
			annotations: map[string]string{httpv1alpha1.AnnotationWeightedBackends: "[]"}, hasSeries: true,
		},
		"an object that counts the requests of an external Envoy": {annotations: external, proxies: installed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newFixture(t)
				gauges := s.instrument(t)
				s.objects["shop"].Labels, s.objects["shop"].Annotations = test.labels, test.annotations
				delete(s.objects, "other")
				s.watch()
				config := splitAt(map[string]uint32{"shop": 0})
				s.proxies.publish(config)
				defer s.lead(t)()
				s.reporter.Observe(ingest.Pass{Objects: s.objectsWith(config), Proxies: test.proxies, Replicas: s.replicas})
				time.Sleep(time.Second) // synctest time
				ready, hasSeries := gauges()["kedify_status_fleet_ready_proxies"]
				if ready != 0 || hasSeries != test.hasSeries {
					t.Errorf("%v Ready proxies, series %v, want 0, %v", ready, hasSeries, test.hasSeries)
				}
			})
		})
	}
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
