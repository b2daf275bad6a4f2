package metrics_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics"
)

// TestConnections has the number of connections with clients as the proxies of a fleet report it to two replicas.
func TestConnections(t *testing.T) {
	t.Parallel()
	a, b := newFixture(t, "1", "2"), newFixture(t, "1", "2")
	report := func(s *fixture, name string, connections float64) {
		t.Helper()
		if s.streams[name] == nil {
			s.streams[name] = s.meter.Open(s.now, fleet, name)
		}
		batch := metrics.Batch{Time: s.now.UnixMilli(), HasZero: true, Samples: []metrics.Sample{
			{Cluster: "xds_cluster", Measure: metrics.RequestsTotal}, {Cluster: "xds_cluster", Measure: metrics.RequestsActive},
		}}
		if connections >= 0 {
			batch.Connections = &connections
		}
		if _, err := s.streams[name].Apply(s.now, batch); err != nil {
			t.Fatal(err)
		}
	}
	want := func(when string, connections float64, wantErr string) {
		t.Helper()
		reports := []metrics.Report{a.meter.Report(a.now, "a"), b.meter.Report(b.now, "b")}
		got, err := metrics.MergeConnections(fleet, reports, nil)
		isRight := err == nil && wantErr == "" && got == connections
		if wantErr != "" {
			isRight = errors.Is(err, metrics.ErrUnknown) && strings.Contains(err.Error(), wantErr)
		}
		if !isRight {
			t.Errorf("%s: %v connections, %v; want %v, %q", when, got, err, connections, wantErr)
		}
	}
	pass := func(by time.Duration) { a.now, b.now = a.now.Add(by), b.now.Add(by) }

	want("no proxy has reported", 0, "proxy apps/1 sends no metrics; proxy apps/2 sends no metrics")
	report(a, "1", 3)
	want("one has reported", 0, "proxy apps/2 sends no metrics")
	report(b, "2", -1) // Envoy omits the gauge until the first connection.
	want("each reports to a replica", 3, "")
	pass(time.Second)
	report(a, "1", 2)
	report(b, "2", 40)
	want("more connections", 42, "")
	pass(time.Second)
	report(a, "1", 0)
	report(b, "2", 40)
	want("the first has none any more", 40, "")
	report(a, "2", 40)
	want("the second moves to the other replica", 0, "proxy apps/2 sends metrics to two replicas (transient)")
	b.end("2")
	want("it has moved", 40, "")
	pass(maxSilence)
	want("both are silent", 0, "sends no metrics")
}

// maxSilence is longer than any stream is current without a message.
const maxSilence = time.Minute

// TestConnectionsOfChanges has reports that contain only changes: they always contain all connections.
func TestConnectionsOfChanges(t *testing.T) {
	t.Parallel()
	s := newFixture(t, "1")
	last := metrics.Report{Replica: "a"}
	applied := s.meter.Changes(s.now, &last)
	for _, connections := range []float64{5, 5, 0} {
		s.now = s.now.Add(time.Second)
		if s.streams["1"] == nil {
			s.streams["1"] = s.meter.Open(s.now, fleet, "1")
		}
		if _, err := s.streams["1"].Apply(s.now, metrics.Batch{
			Time: s.now.UnixMilli(), Connections: &connections, Samples: []metrics.Sample{
				{Measure: metrics.RequestsTotal}, {Measure: metrics.RequestsActive},
			},
		}); err != nil {
			t.Fatal(err)
		}
		applied = overTheWire(t, s.meter.Changes(s.now, &last)).ApplyTo(applied)
		if got := applied.Connections[fleet]; got != connections {
			t.Errorf("%v connections, want %v", got, connections)
		}
	}
}
