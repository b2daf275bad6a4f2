package status_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/ingest"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/status"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/test/kit/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// server is an API server in memory. It stores objects and records the writes.
type server struct {
	mu      sync.Mutex
	objects map[string]*httpv1alpha1.HTTPScaledObject
	writes  []string
	fail    error
	version int
}

// ApplyStatus implements status.Client.
func (s *server) ApplyStatus(
	_ context.Context, object *httpv1alpha1.HTTPScaledObject, is httpv1alpha1.HTTPScaledObjectStatus,
) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return s.fail
	}
	stored := s.objects[object.Name].DeepCopy()
	stored.Status = is
	s.version++
	stored.ResourceVersion = fmt.Sprint("v", s.version)
	s.objects[object.Name] = stored
	s.writes = append(s.writes, "status "+object.Name+" "+is.Conditions[0].Reason)
	return nil
}

// CreateEvent implements status.Client.
func (s *server) CreateEvent(_ context.Context, event *eventsv1.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes = append(s.writes, fmt.Sprintf("event %s %s %s: %s", event.Regarding.Name, event.Type, event.Reason,
		event.Note))
	return nil
}

// takeWrites returns the writes since the last call, sorted.
func (s *server) takeWrites() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	protocol := s.writes
	s.writes = nil
	slices.Sort(protocol)
	return protocol
}

// list returns the objects as a watch would deliver them.
func (s *server) list() []*httpv1alpha1.HTTPScaledObject {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []*httpv1alpha1.HTTPScaledObject
	for _, object := range s.objects {
		list = append(list, object)
	}
	return list
}

// never is an election that this replica never wins.
func never(ctx context.Context, _ func(context.Context)) error {
	<-ctx.Done()
	return nil
}

// always is an election that this replica always wins.
func always(ctx context.Context, lead func(context.Context)) error {
	lead(ctx)
	return nil
}

// fixture is the Reporter of one replica, with an API server and proxies.
type fixture struct {
	*server
	proxies  *proxies
	reporter *status.Reporter
	listed   []*httpv1alpha1.HTTPScaledObject
	replicas []*discoveryv1.EndpointSlice
}

// newReporter returns the Reporter of a replica that is the leader while it runs.
func newReporter(t *testing.T, client status.Client, source status.Source, replica string) *status.Reporter {
	t.Helper()
	return newReporterWith(t, client, source, replica, always)
}

// newReporterWith returns the Reporter of a replica with an election.
func newReporterWith(
	t *testing.T, client status.Client, source status.Source, replica string,
	elect func(context.Context, func(context.Context)) error,
) *status.Reporter {
	t.Helper()
	reporter, err := status.New(status.Options{
		Client: client, Source: source, Elect: elect, Replica: replica,
		Registerer: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return reporter
}

// newFixture returns a fixture with the objects shop and other. It starts nothing.
func newFixture(t *testing.T) *fixture {
	t.Helper()
	other := shop()
	other.Name, other.UID = "other", "u2"
	s := &fixture{
		server:  &server{objects: map[string]*httpv1alpha1.HTTPScaledObject{"shop": shop(), "other": other}},
		proxies: newProxies(),
	}
	s.reporter = newReporter(t, s.server, s.proxies, "interceptor-0")
	s.watch()
	return s
}

// watch delivers the stored objects to the Reporter.
func (s *fixture) watch() { s.listed = s.list() }

// lead runs the Reporter as the leader until the returned function is called.
func (s *fixture) lead(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	observed, done := make(chan struct{}), make(chan error)
	close(observed)
	go func() { done <- s.reporter.Run(ctx, observed) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run = %v", err)
		}
	}
}

// objectsWith returns all watched objects with their parts of config and with problems.
func (s *fixture) objectsWith(config model.Config, problems ...model.Problem) map[model.Key]ingest.Object {
	objects, parts := map[model.Key]ingest.Object{}, byObject(config)
	for _, object := range s.listed {
		key := model.Key{Namespace: object.Namespace, Name: object.Name}
		seen := ingest.Outcome{Served: true}
		for _, found := range problems {
			if found.On == key {
				seen.Problems = append(seen.Problems, found)
			}
		}
		objects[key] = ingest.Object{ScaledObject: object, Fleet: "apps", Outcome: seen, Published: parts[key]}
	}
	return objects
}

// report sends a pass with problems to the Reporter, all objects being served, and waits for the writes.
func (s *fixture) report(problems ...model.Problem) {
	s.reporter.Observe(ingest.Pass{Objects: s.objectsWith(model.Config{}, problems...)})
	time.Sleep(time.Second) // synctest time
	synctest.Wait()
}

func TestWriterWritesChangesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		defer s.lead(t)()
		zero := problem("InvalidWeightedBackends", "all weights are zero")
		steps := []struct {
			name string
			do   func()
			want []string
		}{
			{
				"new objects get a status and no event", func() { s.report() },
				[]string{"status other Accepted", "status shop Accepted"},
			},
			{"the same pass again, before the watch delivers the status", func() { s.report() }, nil},
			{"and after", func() { s.watch(); s.report() }, nil},
			{"an invalid object", func() { s.report(zero) }, []string{
				"event shop Warning InvalidWeightedBackends: all weights are zero",
				"status shop InvalidWeightedBackends",
			}},
			{"the same problem in a hundred passes", func() {
				for range 100 {
					s.report(zero)
				}
			}, nil},
			{"and after the watch", func() { s.watch(); s.report(zero) }, nil},
			{"another problem", func() { s.report(problem("ServiceNotFound", "no Service x")) }, []string{
				"event shop Warning ServiceNotFound: no Service x", "status shop ServiceNotFound",
			}},
			{"corrected before the watch delivers the status", func() { s.report() }, []string{
				"event shop Normal Accepted: Accepted; all referenced Services were resolved.", "status shop Accepted",
			}},
		}
		for _, step := range steps {
			step.do()
			if diff := cmp.Diff(step.want, s.takeWrites()); diff != "" {
				t.Errorf("%s: written (-want +got):\n%s", step.name, diff)
			}
		}
	})
}

func TestWriterOnlyWritesWhileElected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		s.report(problem("RouteConflict", "taken"))
		if got := s.takeWrites(); got != nil {
			t.Fatalf("written without being elected: %v", got)
		}
		stop := s.lead(t)
		synctest.Wait()
		want := []string{"event shop Warning RouteConflict: taken", "status other Accepted", "status shop RouteConflict"}
		if diff := cmp.Diff(want, s.takeWrites()); diff != "" {
			t.Errorf("written after the election (-want +got):\n%s", diff)
		}
		stop()
		s.watch()
		s.report(problem("RouteConflict", "taken"))
		defer s.lead(t)()
		synctest.Wait()
		if got := s.takeWrites(); got != nil {
			t.Errorf("a new leadership began with writing unchanged statuses: %v", got)
		}
	})
}

func TestWriterRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		defer s.lead(t)()
		s.fail = errors.New("the API server is unavailable")
		s.report()
		if got := s.takeWrites(); got != nil {
			t.Fatalf("written: %v", got)
		}
		s.mu.Lock()
		s.fail = nil
		s.mu.Unlock()
		time.Sleep(3 * time.Second) // synctest time; no other pass arrives.
		if diff := cmp.Diff([]string{"status other Accepted", "status shop Accepted"}, s.takeWrites()); diff != "" {
			t.Errorf("written after the API server came back (-want +got):\n%s", diff)
		}
	})
}

func TestWriterForgetsDeletedObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		defer s.lead(t)()
		s.fail = fmt.Errorf("%w: not found", status.ErrGone)
		s.report()
		gone := map[model.Key]ingest.Object{}
		for key := range s.objectsWith(model.Config{}) {
			gone[key] = ingest.Object{}
		}
		s.reporter.Observe(ingest.Pass{Objects: gone})
		synctest.Wait()
		s.mu.Lock()
		s.fail = nil
		s.mu.Unlock()
		time.Sleep(time.Minute) // synctest time
		if got := s.takeWrites(); got != nil {
			t.Errorf("written for deleted objects: %v", got)
		}
	})
}

// TestWriterRetriesNotFound uses an API server that returns 404 for the status of existing objects, as it does if the
// CRD has no status subresource.
func TestWriterRetriesNotFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		defer s.lead(t)()
		s.fail = fmt.Errorf("%w: not found", status.ErrGone)
		s.report()
		s.mu.Lock()
		s.fail = nil
		s.mu.Unlock()
		time.Sleep(3 * time.Second) // synctest time; no other pass arrives.
		if diff := cmp.Diff([]string{"status other Accepted", "status shop Accepted"}, s.takeWrites()); diff != "" {
			t.Errorf("written after the CRD was fixed (-want +got):\n%s", diff)
		}
	})
}

// collector is a server that stores Events.
type collector struct {
	server
	events []*eventsv1.Event
}

// CreateEvent implements status.Client.
func (c *collector) CreateEvent(_ context.Context, event *eventsv1.Event) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, event)
	return nil
}

// TestInvalidScalingMetricEvents expects an Event for an invalid spec.scalingMetric and one for its correction.
func TestInvalidScalingMetricEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		object := shop()
		client := &collector{server: server{objects: map[string]*httpv1alpha1.HTTPScaledObject{object.Name: object}}}
		reporter := newReporter(t, client, newProxies(), "a")
		s := &fixture{server: &client.server, reporter: reporter, listed: []*httpv1alpha1.HTTPScaledObject{object}}
		defer s.lead(t)()
		for _, target := range []int{1, -1, -1, 2} {
			object = object.DeepCopy()
			object.Spec.ScalingMetric = &httpv1alpha1.ScalingMetric{
				Concurrency: &httpv1alpha1.ConcurrencyMetric{TargetValue: target},
			}
			s.listed = []*httpv1alpha1.HTTPScaledObject{object}
			s.report()
			time.Sleep(time.Minute)
			synctest.Wait()
			object.Status = s.server.objects[object.Name].Status
		}
		client.mu.Lock()
		defer client.mu.Unlock()
		var got []string
		for _, event := range client.events {
			got = append(got, event.Type+" "+event.Reason)
		}
		if diff := cmp.Diff([]string{"Warning InvalidScalingMetric", "Normal ScalingMetricAccepted"}, got); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

func TestEventsFitAPILimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		object := shop()
		object.Name = strings.Repeat("s", 253)
		client := &collector{server: server{objects: map[string]*httpv1alpha1.HTTPScaledObject{object.Name: object}}}
		reporter := newReporter(t, client, newProxies(), strings.Repeat("i", 300))
		s := &fixture{server: &client.server, reporter: reporter, listed: []*httpv1alpha1.HTTPScaledObject{object}}
		defer s.lead(t)()
		long := model.Problem{
			On: model.Key{Namespace: "apps", Name: object.Name}, Reason: "InvalidHosts",
			Message: strings.Repeat("ö", 2000),
		}
		s.report(long)
		client.mu.Lock()
		defer client.mu.Unlock()
		if len(client.events) != 1 {
			t.Fatalf("%d events, want 1", len(client.events))
		}
		event := client.events[0]
		if len(event.Note) > 1024 || len(event.Name) > 253 || len(event.ReportingInstance) > 128 {
			t.Errorf("note of %d bytes, name of %d, instance of %d", len(event.Note), len(event.Name),
				len(event.ReportingInstance))
		}
		if event.Regarding.UID != object.UID || event.Regarding.Kind != "HTTPScaledObject" ||
			event.EventTime.IsZero() ||
			event.ReportingController == "" || event.Action == "" || event.Namespace != "apps" {
			t.Errorf("incomplete event: %+v", event)
		}
	})
}
