package envoy_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/demand"
	"github.com/kedify/argo-rollouts-plugin/internal/ir"
	"github.com/kedify/argo-rollouts-plugin/internal/metricsink"
	"github.com/kedify/argo-rollouts-plugin/internal/testkit"
	"github.com/kedify/argo-rollouts-plugin/internal/testkit/traffic"
	"github.com/kedify/argo-rollouts-plugin/internal/translate"
)

// anyPort is the address of a server on any free port.
const anyPort = "127.0.0.1:0"

// sinkStage is a metric sink that serves.
type sinkStage struct {
	*metricsink.Sink

	registry *prometheus.Registry
	address  string
	stop     func()
}

// startSink runs a metric sink until the test ends, or stop is called. It knows the proxy of this machine as one of the fleet, and objects.
func startSink(t *testing.T, address string, objects map[ir.Key]*demand.Object) *sinkStage {
	t.Helper()
	registry := prometheus.NewRegistry()
	sink, err := metricsink.New(metricsink.Options{
		Replica: "test", Now: time.Now, Registerer: registry, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	sink.SetObjects(objects)
	sink.SetProxies(map[ir.Fleet][]ir.Proxy{
		namespace: {{Name: "kedify-proxy-1", IsReady: true, IsServing: true, Addresses: []netip.Addr{netip.MustParseAddr("127.0.0.1")}}},
	})
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- sink.Serve(ctx, listener) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	t.Cleanup(stop)
	return &sinkStage{sink, registry, listener.Addr().String(), stop}
}

// value is the demand for an object.
func (s *sinkStage) value(key ir.Key) (demand.Value, error) {
	report, _ := s.Report()
	return demand.Merge(key, []demand.Report{report}, nil)
}

// toSink are the changes of the bootstrap that lead a proxy to a sink.
func toSink(t *testing.T, address string) [2]string {
	t.Helper()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return [2]string{"address: " + sinkService + ", port_value: 9901", "address: " + host + ", port_value: " + port}
}

// rateOver is a Spec of a request rate.
func rateOver(window time.Duration) demand.Spec {
	return demand.Spec{Metric: demand.RequestRate, Target: 10, Window: window, Granularity: 500 * time.Millisecond}
}

// TestDemandIsWhatEnvoyCounts sends a known number of requests through the installed proxy, in a canary of two backends, while the
// proxy reports in every form that a bootstrap can ask for. The demand is what was sent.
func TestDemandIsWhatEnvoyCounts(t *testing.T) { //nolint:tparallel // beside tests that fill the machine nothing is sent evenly
	const interval = "stats_flush_interval: 1s"
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
			key := ir.Key{Namespace: namespace, Name: "shop"}
			sink := startSink(t, anyPort, map[ir.Key]*demand.Object{
				key: {Fleet: namespace, Spec: rateOver(2 * time.Second), Services: []string{"stable", "canary"}},
			})
			stable, canary := startBackend(t, "stable"), startBackend(t, "canary")
			object := testkit.WithAnnotation(testkit.NewScaledObject(namespace, "shop", "stable", 1, "shop.example.com"),
				"http.kedify.io/weighted-backends", "[{service: stable, weight: 50}, {service: canary, weight: 50}]")
			resources := translated(t, world(t, []*backend{stable, canary}, object), translate.DefaultOptions())
			s := serve(t, "DELTA_GRPC", resources, append(changes, toSink(t, sink.address))...)
			s.await(t, resources)
			value := func() (demand.Value, error) { return sink.value(key) }
			testkit.Eventually(t, patience, "the demand is known", func() bool {
				_, err := value()
				return err == nil
			})
			const sent = 300
			for range sent {
				if status, _ := s.request(t, "HTTP/2", "shop.example.com", "/", nil); status != http.StatusOK {
					t.Fatalf("answered with %d", status)
				}
			}
			backends := map[string]float64{}
			testkit.Eventually(t, patience, "all requests are counted", func() bool {
				backends = requestsOf(t, sink.registry)
				return backends["stable"]+backends["canary"] >= sent
			})
			is, err := value()
			if err != nil || is.RequestRate == 0 {
				t.Errorf("%+v, %v", is, err)
			}
			if backends["stable"]+backends["canary"] != sent || backends["stable"] < sent/3 || backends["canary"] < sent/3 {
				t.Errorf("%v requests by backend, want %d in all, about one half each", backends, sent)
			}
			s.steady(t, value)
			s.hold(t, value, stable, canary)
		})
	}
}

// requestsOf are the requests of each backend.
func requestsOf(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	requests := map[string]float64{}
	for _, family := range families {
		if family.GetName() != "kedify_backend_requests_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetName() == "service" {
					requests[label.GetValue()] = metric.GetCounter().GetValue()
				}
			}
		}
	}
	return requests
}

// steady sends requests evenly, for longer than the window, and wants to see their rate. Where this machine stood still meanwhile they were not even: the
// rate of the window is not that of all of them then, and they are sent again.
func (s *served) steady(t *testing.T, value func() (demand.Value, error)) {
	t.Helper()
	const attempts, still = 5, 150 * time.Millisecond
	for attempt := 1; ; attempt++ {
		truth, longest := s.evenly(t)
		is, err := value()
		t.Logf("%.1f requests a second are %.1f; at most %s between two", truth, is.RequestRate, longest)
		if err == nil && math.Abs(is.RequestRate-truth) <= truth/10 {
			return
		}
		if longest < still || attempt == attempts {
			t.Errorf("%+v, %v; want a rate of %.1f", is, err, truth)
			return
		}
	}
}

// evenly sends requests for some seconds. It returns how many came in a second, and the longest time between two.
func (s *served) evenly(t *testing.T) (rate float64, longest time.Duration) {
	t.Helper()
	const each, length = 10 * time.Millisecond, 4 * time.Second
	ticker := time.NewTicker(each)
	defer ticker.Stop()
	began := time.Now()
	sent, last := 0.0, began
	for ; last.Sub(began) < length; sent++ {
		<-ticker.C
		if answer, err := traffic.Ask(t.Context(), "http://"+s.address+"/", "shop.example.com", nil); err != nil || answer.Status != http.StatusOK {
			t.Fatal(answer, err)
		}
		now := time.Now()
		longest, last = max(longest, now.Sub(last)), now
	}
	return sent / last.Sub(began).Seconds(), longest
}

// TestASinkThatComesBack ends the sink under steady traffic and begins another one. The demand is unknown for a moment, and never
// less than it is.
//
// It does not run beside other tests: its rate is that of a second or less, and what sends the requests must not wait for a processor.
func TestASinkThatComesBack(t *testing.T) { //nolint:paralleltest // see above
	key := ir.Key{Namespace: namespace, Name: "shop"}
	objects := map[ir.Key]*demand.Object{key: {Fleet: namespace, Spec: rateOver(time.Minute), Services: []string{"shop"}}}
	sink := startSink(t, anyPort, objects)
	app := startBackend(t, "shop")
	resources := translated(t, world(t, []*backend{app}, testkit.NewScaledObject(namespace, "shop", "shop", 1, "shop.example.com")), translate.DefaultOptions())
	s := serve(t, "DELTA_GRPC", resources, toSink(t, sink.address))
	s.await(t, resources)
	const each, highest = 10 * time.Millisecond, 100.0
	ctx, stop := context.WithCancel(t.Context())
	var sending sync.WaitGroup
	sending.Go(func() {
		ticker := time.NewTicker(each)
		defer ticker.Stop()
		for ctx.Err() == nil {
			<-ticker.C
			_, _ = traffic.Ask(ctx, "http://"+s.address+"/", "shop.example.com", nil)
		}
	})
	defer sending.Wait()
	defer stop()
	for range 3 {
		testkit.Eventually(t, patience, "the rate is known", func() bool {
			is, err := sink.value(key)
			return err == nil && is.RequestRate > 0.5*highest
		})
		sink.stop()
		sink = startSink(t, sink.address, objects)
		unknown := 0
		testkit.Eventually(t, patience, "the demand is known again", func() bool {
			is, err := sink.value(key)
			if err != nil {
				unknown++
				return false
			}
			if t.Logf("%+v", is); is.RequestRate < 0.5*highest || is.RequestRate > 1.2*highest {
				t.Errorf("rate %.1f of %.1f, as soon as it is known", is.RequestRate, highest)
			}
			return true
		})
		if unknown == 0 {
			t.Error("the demand is known at once, by whom?")
		}
	}
}

// hold has apps hold requests, and wants to see so many in flight, and then none.
func (s *served) hold(t *testing.T, value func() (demand.Value, error), apps ...*backend) {
	t.Helper()
	const held = 5
	var asking sync.WaitGroup
	for range held {
		asking.Go(func() { _, _ = traffic.Ask(t.Context(), "http://"+s.address+"/held", "shop.example.com", nil) })
	}
	inFlight := func(want float64) {
		t.Helper()
		testkit.Eventually(t, patience, fmt.Sprint(want, " requests are in flight"), func() bool {
			is, err := value()
			return err == nil && is.Concurrency == want
		})
	}
	inFlight(held)
	for _, app := range apps {
		close(app.release)
	}
	asking.Wait()
	inFlight(0)
}

// cpuOf is the processor time of the main thread of a process.
func cpuOf(t *testing.T, pid int) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/stat", pid, pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:])) // from the third of proc(5), state
	var ticks int
	for _, field := range fields[11:13] { // utime and stime
		number, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		ticks += number
	}
	return time.Duration(ticks) * 10 * time.Millisecond // USER_HZ is 100 on every Linux
}

// ownCPU is the processor time of this process.
func ownCPU(t *testing.T) time.Duration {
	t.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// gathered is the value of a counter of a registry.
func gathered(t *testing.T, registry *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			return family.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatalf("there is no %s", name)
	return 0
}

// awaitFlush waits until the sink has taken a flush in.
func awaitFlush(t *testing.T, sink *sinkStage) {
	t.Helper()
	_, arrived := sink.Report()
	select {
	case <-arrived:
	case <-time.After(patience):
		t.Fatal("no flush arrives")
	}
}

// TestThousandsOfClusters has a proxy with 3000 clusters report, by the installed bootstrap and by one that leaves nothing of
// a cluster out, as the public one does.
func TestThousandsOfClusters(t *testing.T) {
	// On a busy machine most flushes are late, so a round leaves a part of the clusters out.
	const clusters, flushes, rounds = 3000, 2, 12
	// limit is the processor time that the sink may take for one flush.
	const limit = raceFactor * 200 * time.Millisecond
	app := startBackend(t, "shop")
	objects, known := []*httpv1alpha1.HTTPScaledObject{}, map[ir.Key]*demand.Object{}
	for i := range clusters {
		name := fmt.Sprintf("app-%04d", i)
		objects = append(objects, testkit.NewScaledObject(namespace, name, "shop", 1, name+".example.com"))
		known[ir.Key{Namespace: namespace, Name: name}] = &demand.Object{
			Fleet: namespace, Spec: rateOver(time.Minute), Services: []string{"shop"},
		}
	}
	resources := translated(t, world(t, []*backend{app}, objects...), translate.DefaultOptions())
	for name, change := range map[string][2]string{
		"installed":            {"- prefix: server.", "- prefix: server."},
		"all of every cluster": {"- prefix: server.", "- prefix: cluster."},
	} {
		t.Run(name, func(t *testing.T) {
			sink := startSink(t, anyPort, known)
			s := serve(t, "DELTA_GRPC", resources, change, toSink(t, sink.address))
			s.await(t, resources)
			counter := func(name string) float64 { return gathered(t, sink.registry, "kedify_metric_sink_"+name+"_total") }
			measure := func(state string) {
				awaitFlush(t, sink)
				begin, size, metrics := counter("messages"), counter("received_bytes"), counter("received_metrics")
				envoy, own := cpuOf(t, s.PID()), ownCPU(t)
				for range flushes {
					awaitFlush(t, sink)
				}
				own, envoy = ownCPU(t)-own, cpuOf(t, s.PID())-envoy
				count := counter("messages") - begin
				each := own / time.Duration(count)
				t.Logf("%s, %d clusters %s: %.0f metrics, %.0f kB a flush; sink %v of %v CPU, Envoy's main thread %v", name, clusters, state,
					(counter("received_metrics")-metrics)/count, (counter("received_bytes")-size)/count/1000, each, limit, envoy/time.Duration(count))
				if each > limit {
					t.Errorf("a flush takes the sink %v, at most %v is right", each, limit)
				}
			}
			measure("idle")
			for round, unasked := 0, slices.Collect(maps.Keys(known)); len(unasked) > 0; round++ {
				if round == rounds {
					t.Fatalf("no rate is known of %v; each has had %d requests", unasked, rounds)
				}
				for _, key := range unasked {
					if answer, err := traffic.Ask(t.Context(), "http://"+s.address+"/", key.Name+".example.com", nil); err != nil || answer.Status != http.StatusOK {
						t.Fatal(answer, err)
					}
				}
				measure("used")
				// A flush that is late may be of the time of several: then its requests are not known, and asked again.
				report, _ := sink.Report()
				unasked = slices.DeleteFunc(unasked, func(key ir.Key) bool {
					value, err := demand.Merge(key, []demand.Report{report}, nil)
					return err == nil && value.RequestRate > 0
				})
			}
		})
	}
}
