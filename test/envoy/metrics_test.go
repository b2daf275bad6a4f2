package envoy_test

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics/sink"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/port"
	"github.com/kedify/argo-rollouts-plugin/test/kit/samples"
	"github.com/kedify/argo-rollouts-plugin/test/kit/stall"
	"github.com/kedify/argo-rollouts-plugin/test/kit/traffic"
)

// interval is the flush interval of the installed bootstrap.
const interval = "stats_flush_interval: 1s"

// runningSink is a metric sink that serves.
type runningSink struct {
	*sink.Sink

	registry *prometheus.Registry
	address  string
	stop     func()
}

// startSink starts a metric sink that runs until the test ends or stop is called. It accepts the local proxy as one of
// the fleet, and knows objects.
func startSink(t *testing.T, at *port.Port, objects map[model.Key]*metrics.Object) *runningSink {
	t.Helper()
	registry := prometheus.NewRegistry()
	sink, err := sink.New(sink.Options{
		Replica: "test", Now: time.Now, Registerer: registry, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	sink.SetObjects(objects)
	sink.SetProxies(map[model.Fleet][]model.Proxy{
		namespace: {{
			Name: "kedify-proxy-1", IsReady: true, IsServing: true, Addresses: []netip.Addr{netip.MustParseAddr("127.0.0.1")},
		}},
	})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- sink.Serve(ctx, at.Listen(t)) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	t.Cleanup(stop)
	return &runningSink{sink, registry, at.Address(), stop}
}

// value returns the demand of an object.
func (s *runningSink) value(key model.Key) (metrics.Value, error) {
	report, _ := s.Report()
	return metrics.Merge(key, []metrics.Report{report}, nil)
}

// connections returns the number of connections between clients and the proxies of a fleet.
func (s *runningSink) connections(fleet model.Fleet) (float64, error) {
	report, _ := s.Report()
	return metrics.MergeConnections(fleet, []metrics.Report{report}, nil)
}

// sinkAddressChange returns the change of the bootstrap that makes a proxy send its metrics to a sink.
func sinkAddressChange(t *testing.T, address string) [2]string {
	t.Helper()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return [2]string{"address: " + sinkService + ", port_value: 9901", "address: " + host + ", port_value: " + port}
}

// rateOver returns the Spec of a request rate.
func rateOver(window time.Duration) metrics.Spec {
	return metrics.Spec{Metric: metrics.RequestRate, Target: 10, Window: window, Granularity: 500 * time.Millisecond}
}

// TestDemand sends a known number of requests to a canary with two backends through the installed proxy, which reports
// in every form that a bootstrap supports. The demand equals the number of requests.
func TestDemand(t *testing.T) { //nolint:tparallel // in parallel with CPU-bound tests requests are not sent evenly
	const deltas = "report_counters_as_deltas: true"
	forms := map[string][][2]string{
		"the installed bootstrap": {{interval, interval}},
		"totals":                  {{deltas, "report_counters_as_deltas: false"}},
		"tags as labels":          {{deltas, deltas + "\n      emit_tags_as_labels: true"}},
		"batches":                 {{deltas, deltas + "\n      batch_size: 3"}},
		"every 200 ms":            {{interval, "stats_flush_interval: 0.2s"}},
	}
	for name, changes := range forms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key := model.Key{Namespace: namespace, Name: "shop"}
			sink := startSink(t, port.Open(t), map[model.Key]*metrics.Object{
				key: {Fleet: namespace, Spec: rateOver(2 * time.Second), Services: []string{"stable", "canary"}},
			})
			stable, canary := startBackend(t, "stable"), startBackend(t, "canary")
			object := kit.WithAnnotation(kit.NewScaledObject(namespace, "shop", "stable", 1, "shop.example.com"),
				"http.kedify.io/weighted-backends", "[{service: stable, weight: 50}, {service: canary, weight: 50}]")
			resources := translated(t, newInputs(t, []*backend{stable, canary}, object), translate.DefaultOptions())
			s := serve(t, "DELTA_GRPC", resources, append(changes, sinkAddressChange(t, sink.address))...)
			s.await(t, resources)
			value := func() (metrics.Value, error) { return sink.value(key) }
			await.True(t, "the demand is known", func() bool {
				_, err := value()
				return err == nil
			})
			s.checkCounted(t, sink)
			s.checkRate(t, value)
			s.checkInFlight(t, value, stable, canary)
		})
	}
}

// requestsOf returns the number of requests of each backend.
func requestsOf(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	return samples.ByLabel(t, registry, "kedify_backend_requests_total", "backend")
}

// checkCounted sends requests until the sink has counted all requests of a round, and never more than were sent. A late
// flush of Envoy may cover several intervals, so that its requests are unknown: then there is another round.
func (s *served) checkCounted(t *testing.T, sink *runningSink) {
	t.Helper()
	const each, limit = 300, 10 * time.Second
	sent := 0.0
	await.True(t, "a round of requests is counted", func() bool {
		before := requestsOf(t, sink.registry)
		for range each {
			if status, _ := s.request(t, "HTTP/2", "shop.example.com", "/", nil); status != http.StatusOK {
				t.Fatalf("status %d", status)
			}
		}
		sent += each
		for begin := time.Now(); time.Since(begin) < limit; { //testbounds:allow the next round begins, and nothing fails
			awaitFlush(t, sink)
			after := requestsOf(t, sink.registry)
			stable, canary := after["stable"]-before["stable"], after["canary"]-before["canary"]
			if all := after["stable"] + after["canary"]; all > sent {
				t.Fatalf("%v requests were counted, but only %v were sent", all, sent)
			}
			if stable+canary < each {
				continue
			}
			if stable < each/3 || canary < each/3 {
				t.Errorf("%v and %v requests by backend, want about one half each", stable, canary)
			}
			return true
		}
		return false
	})
}

// checkRate sends requests evenly, for longer than the window, until the sink reports their rate. If the machine
// stalls, the requests are not even and the rate of the window differs from the average rate.
func (s *served) checkRate(t *testing.T, value func() (metrics.Value, error)) {
	t.Helper()
	var sentRate float64
	var got metrics.Value
	var err error
	await.Described(t, "the rate of even requests", func() bool {
		sentRate = s.sendEvenly(t)
		got, err = value()
		return err == nil && math.Abs(got.RequestRate-sentRate) <= sentRate/10
	}, func() string { return fmt.Sprintf("%+v, %v; want a rate of %.1f", got, err, sentRate) })
}

// sendEvenly sends requests for some seconds. It returns the number of requests per second.
func (s *served) sendEvenly(t *testing.T) (rate float64) {
	t.Helper()
	const each, length = 10 * time.Millisecond, 4 * time.Second
	ticker := time.NewTicker(each)
	defer ticker.Stop()
	began := time.Now()
	sent, last := 0.0, began
	for ; last.Sub(began) < length; sent++ {
		<-ticker.C
		if answer, err := traffic.Get(t.Context(), "http://"+s.address+"/", "shop.example.com", nil); err != nil ||
			answer.Status != http.StatusOK {
			t.Fatal(answer, err)
		}
		last = time.Now()
	}
	return sent / last.Sub(began).Seconds()
}

// TestMetricSinkRestart replaces the sink under steady traffic. The demand is unknown at first. As soon as it is known,
// it is the rate of the requests since the restart. The verdict of a round is void if the machine stalled during the
// round.
func TestMetricSinkRestart(t *testing.T) { //nolint:paralleltest // the client must not wait for a processor
	const rounds, attempts = 3, 10
	key := model.Key{Namespace: namespace, Name: "shop"}
	objects := map[model.Key]*metrics.Object{
		key: {Fleet: namespace, Spec: rateOver(time.Minute), Services: []string{"shop"}},
	}
	at, stalls := port.Open(t), stall.Watch(t)
	sink := startSink(t, at, objects)
	app := startBackend(t, "shop")
	resources := translated(t, newInputs(t, []*backend{app},
		kit.NewScaledObject(namespace, "shop", "shop", 1, "shop.example.com")), translate.DefaultOptions())
	s := serve(t, "DELTA_GRPC", resources, sinkAddressChange(t, at.Address()))
	s.await(t, resources)
	answered := s.sendUntilEnd(t)
	for attempt, valid := 0, 0; valid < rounds; attempt++ {
		if attempt == attempts {
			t.Logf("void: the machine stalled in %d of %d rounds", attempts-valid, attempts)
			return
		}
		await.True(t, "the rate is known", func() bool {
			value, err := sink.value(key)
			return err == nil && value.RequestRate > 0
		})
		sink.stop()
		began, before, unknown := time.Now(), answered.Load(), 0
		sink = startSink(t, at, objects)
		var value metrics.Value
		await.True(t, "the demand is known again", func() bool {
			var err error
			if value, err = sink.value(key); err != nil {
				unknown++
			}
			return err == nil
		})
		if unknown == 0 {
			t.Error("the demand is known at once, want an error first")
		}
		now := time.Now()
		sentRate := float64(answered.Load()-before) / now.Sub(began).Seconds()
		t.Logf("%+v, sent rate %.1f", value, sentRate)
		if stalls.Largest(began, now) > stall.Limit {
			continue
		}
		valid++
		if value.RequestRate < 0.5*sentRate || value.RequestRate > 1.5*sentRate {
			t.Errorf("rate %.1f of %.1f, as soon as it is known", value.RequestRate, sentRate)
		}
	}
}

// sendUntilEnd sends at most a hundred requests per second until the test ends. It returns the counter of responses.
func (s *served) sendUntilEnd(t *testing.T) *atomic.Int64 {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var sending sync.WaitGroup
	answered := new(atomic.Int64)
	sending.Go(func() {
		ticker := time.NewTicker(10 * time.Millisecond)
		defer ticker.Stop()
		for ctx.Err() == nil {
			<-ticker.C
			if _, err := traffic.Get(ctx, "http://"+s.address+"/", "shop.example.com", nil); err == nil {
				answered.Add(1)
			}
		}
	})
	t.Cleanup(func() {
		stop()
		sending.Wait()
	})
	return answered
}

// checkInFlight sends requests that apps answer on release, and checks the number of requests in flight before and
// after.
func (s *served) checkInFlight(t *testing.T, value func() (metrics.Value, error), apps ...*backend) {
	t.Helper()
	const requests = 5
	var sending sync.WaitGroup
	for range requests {
		sending.Go(func() { _, _ = traffic.Get(t.Context(), "http://"+s.address+"/held", "shop.example.com", nil) })
	}
	inFlight := func(want float64) {
		t.Helper()
		await.True(t, fmt.Sprint(want, " requests are in flight"), func() bool {
			got, err := value()
			return err == nil && got.Concurrency == want
		})
	}
	inFlight(requests)
	for _, app := range apps {
		close(app.release)
	}
	sending.Wait()
	inFlight(0)
}

// awaitFlush waits until the sink has received a flush.
func awaitFlush(t *testing.T, sink *runningSink) {
	t.Helper()
	_, arrived := sink.Report()
	await.Receive(t, "a flush", arrived)
}

// TestDemandOfHTTP10: requests over HTTP/1.0 are counted and are in flight like others. Requests with an invalid Host
// are not counted: they reach no application.
func TestDemandOfHTTP10(t *testing.T) {
	t.Parallel()
	key := model.Key{Namespace: namespace, Name: "shop"}
	sink := startSink(t, port.Open(t), map[model.Key]*metrics.Object{
		key: {Fleet: namespace, Spec: rateOver(2 * time.Second), Services: []string{"shop"}},
	})
	app := startBackend(t, "shop")
	resources := translated(t, newInputs(t, []*backend{app},
		kit.NewScaledObject(namespace, "shop", "shop", 1, "shop.example.com")), translate.DefaultOptions())
	s := serve(t, "DELTA_GRPC", resources, [2]string{interval, interval}, sinkAddressChange(t, sink.address))
	s.await(t, resources)
	value := func() (metrics.Value, error) { return sink.value(key) }
	await.True(t, "the demand is known", func() bool {
		_, err := value()
		return err == nil
	})
	requests := [][]string{
		{"GET / HTTP/1.0", "Host: shop.example.com"},
		{"GET / HTTP/1.0", "Host: shop.example.com", "Connection: keep-alive"},
		{"GET http://SHOP.example.com./ HTTP/1.0"},
		{"HEAD / HTTP/1.0", "Host: shop.example.com:80"},
		{"POST / HTTP/1.0", "Host: shop.example.com", "Content-Length: 0"},
	}
	const repeats, flushes = 10, 5
	sent := 0.0
	await.True(t, "a round of requests is counted", func() bool { // The requests of a late flush are unknown.
		before := requestsOf(t, sink.registry)["shop"]
		for range repeats {
			for _, lines := range requests {
				if got := dial(t, s.address).send(lines...); got.status != http.StatusOK {
					t.Fatalf("%q: %+v", lines, got)
				}
				sent++
			}
			got := dial(t, s.address).send("GET / HTTP/1.0", "Host: shop.example.com:80", "Host: a")
			if got.status != http.StatusBadRequest {
				t.Fatalf("several hosts: %+v", got)
			}
		}
		for range flushes {
			awaitFlush(t, sink)
			after := requestsOf(t, sink.registry)["shop"]
			if after > sent {
				t.Fatalf("%v requests were counted, but only %v were sent", after, sent)
			}
			if after-before >= float64(repeats*len(requests)) {
				return true
			}
		}
		return false
	})
	client, answer := dial(t, s.address), make(chan result, 1)
	go func() { answer <- client.send("GET /held HTTP/1.0", "Host: shop.example.com") }()
	inFlight := func(want float64) {
		t.Helper()
		await.True(t, fmt.Sprint(want, " requests are in flight"), func() bool {
			got, err := value()
			return err == nil && got.Concurrency == want
		})
	}
	inFlight(1)
	close(app.release)
	if got := <-answer; got.status != http.StatusOK {
		t.Errorf("the request in flight: %+v", got)
	}
	inFlight(0)
}
