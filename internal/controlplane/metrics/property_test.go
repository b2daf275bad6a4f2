package metrics_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

const fleet = model.Fleet("apps")

var (
	epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	shop  = model.Key{Namespace: "apps", Name: "shop"}
)

// simulatedProxy is a proxy with an even request rate, half of it to a canary, that flushes its counters.
type simulatedProxy struct {
	name     string
	rate     float64 // requests per second
	flush    time.Duration
	isDeltas bool

	stream *metrics.Stream
	next   time.Time     // the next flush
	clock  time.Duration // how much its clock is ahead
	totals float64
	since  time.Time // of the last flush
	carry  float64   // part of a request
	truth  []event
	last   metrics.Batch // that was sent
	sent   int           // batches on the stream
}

// event is a number of requests at a time.
type event struct {
	at       time.Time
	requests float64
}

// batch returns the flush of a proxy at a time.
func (p *simulatedProxy) batch(now time.Time) metrics.Batch {
	asked := p.rate*now.Sub(p.since).Seconds() + p.carry
	whole := math.Floor(asked)
	p.carry, p.since = asked-whole, now
	p.truth = append(p.truth, event{now, whole})
	before := p.totals
	p.totals += whole
	sample := func(service string, measure metrics.Measure, value float64) metrics.Sample {
		return metrics.Sample{Cluster: "apps/shop/" + service, Measure: measure, Value: value}
	}
	value := func(part float64) float64 {
		if p.isDeltas {
			return math.Floor(p.totals*part) - math.Floor(before*part)
		}
		return math.Floor(p.totals * part)
	}
	stable := value(0.5)
	all := value(1)
	return metrics.Batch{
		Time: now.Add(p.clock).UnixMilli(), HasZero: p.isDeltas,
		Samples: []metrics.Sample{
			sample("stable", metrics.RequestsTotal, stable), sample("canary", metrics.RequestsTotal, all-stable),
			sample("stable", metrics.RequestsActive, 3), sample("canary", metrics.RequestsActive, 1),
			{Cluster: "apps/unknown/x", Measure: metrics.RequestsTotal, Value: 1e6},
			{Cluster: "kedify_metrics_service", Measure: metrics.RequestsTotal, Value: 1},
		},
	}
}

// faults are the probabilities of each fault per flush.
type faults struct{ lost, cut, repeated, restarted, clock float64 }

// simulate runs proxies for a time and calls see after each flush, and before the next one.
func simulate(t *testing.T, seed uint64, proxies []*simulatedProxy, spec metrics.Spec, likely faults, length time.Duration,
	see func(now time.Time, m *metrics.Meter),
) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 1))
	m := metrics.NewMeter(epoch)
	members := make([]model.Proxy, 0, len(proxies))
	for _, p := range proxies {
		members = append(members, model.Proxy{Name: p.name, IsServing: true})
		p.since, p.next = epoch, epoch.Add(time.Duration(random.Float64()*float64(p.flush)))
	}
	m.SetProxies(epoch, map[model.Fleet][]model.Proxy{fleet: members})
	m.SetObject(epoch, shop, metrics.Object{Fleet: fleet, Spec: spec, Services: []string{"stable", "canary"}})
	for now := epoch; now.Sub(epoch) < length; {
		p := proxies[0]
		for _, each := range proxies {
			if each.next.Before(p.next) {
				p = each
			}
		}
		now = p.next
		p.next = now.Add(p.flush + time.Duration(random.Float64()*0.02*float64(p.flush)))
		p.play(t, now, m, random, likely)
		see(now, m)
		later := p.next
		for _, each := range proxies {
			if each.next.Before(later) {
				later = each.next
			}
		}
		see(now.Add(time.Duration(random.Float64()*float64(later.Sub(now)))), m)
	}
}

// play sends one flush, or simulates a fault.
func (p *simulatedProxy) play(t *testing.T, now time.Time, m *metrics.Meter, random *rand.Rand, likely faults) {
	t.Helper()
	if random.Float64() < likely.restarted {
		p.totals, p.carry, p.stream = 0, 0, nil
	}
	if random.Float64() < likely.clock {
		p.clock += time.Duration((random.Float64() - 0.5) * float64(time.Hour))
	}
	batch := p.batch(now)
	if random.Float64() < likely.lost && p.sent > 2 { // A gap shows when the flush interval is known.
		return
	}
	if random.Float64() < likely.cut && p.stream != nil {
		p.stream.Close()
		p.stream = nil
		return
	}
	if p.stream == nil {
		p.stream, p.sent = m.Open(now, fleet, p.name), 0
	}
	apply := func(batch metrics.Batch) {
		if _, err := p.stream.Apply(now, batch); err != nil {
			t.Fatal(err)
		}
	}
	apply(batch)
	p.sent++
	if random.Float64() < likely.repeated {
		apply(batch)
		if len(p.last.Samples) > 0 {
			apply(p.last)
		}
	}
	p.last = batch
}

// TestRateIsExact runs proxies with a steady rate through loss, repetition, restarts and clock changes. Each known
// value equals the rate.
func TestRateIsExact(t *testing.T) {
	t.Parallel()
	known, unknown := 0, 0
	for seed := range uint64(120) {
		random := rand.New(rand.NewPCG(seed, 0))
		granularity := []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second}[seed%4]
		spec := metrics.Spec{
			Metric: metrics.RequestRate, Target: 10,
			Window: []time.Duration{time.Second, 10 * time.Second, time.Minute, 3 * time.Minute}[random.IntN(4)],
		}
		spec.Granularity = min(granularity, spec.Window)
		var proxies []*simulatedProxy
		var want float64
		for i := range 1 + random.IntN(3) {
			p := &simulatedProxy{
				name: strconv.Itoa(i), rate: 20 + random.Float64()*500, isDeltas: seed%3 > 0,
				flush: []time.Duration{200 * time.Millisecond, time.Second, 5 * time.Second}[random.IntN(3)],
			}
			want += p.rate
			proxies = append(proxies, p)
		}
		likely := faults{}
		if seed%5 > 0 {
			likely = faults{lost: 0.05, cut: 0.02, repeated: 0.1, restarted: 0.02, clock: 0.02}
		}
		simulate(t, seed, proxies, spec, likely, 3*time.Minute, func(now time.Time, m *metrics.Meter) {
			value, err := metrics.Merge(shop, []metrics.Report{m.Report(now, "a")}, nil)
			if err != nil {
				if !errors.Is(err, metrics.ErrUnknown) {
					t.Fatal(err)
				}
				unknown++
				return
			}
			known++
			// A rate over the shortest known time, one flush, is off by a request for each proxy and side.
			if off := math.Abs(value.RequestRate - want); off > 0.06*want+3 {
				t.Fatalf("seed %d, %v: rate %.1f, want %.1f (%+v, %d proxies, deltas %v)",
					seed, now.Sub(epoch), value.RequestRate, want, spec, len(proxies), proxies[0].isDeltas)
			}
			if value.Concurrency != float64(4*len(proxies)) {
				t.Fatalf("seed %d: concurrency %v with %d proxies", seed, value.Concurrency, len(proxies))
			}
		})
	}
	t.Logf("%d values, %d times unknown", known, unknown)
	if known < 10*unknown {
		t.Errorf("%d values, but %d times unknown", known, unknown)
	}
}

// TestChangingRateIsAveraged changes the rate at random. The value equals the requests of the window, within the
// requests in the buckets at its edges.
func TestChangingRateIsAveraged(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 0))
		spec := metrics.Spec{
			Metric: metrics.RequestRate, Target: 10, Window: time.Minute,
			Granularity: []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second}[seed%4],
		}
		p := &simulatedProxy{name: "p", rate: 100, isDeltas: seed%2 == 0, flush: time.Second}
		const highest = 1000
		simulate(t, seed, []*simulatedProxy{p}, spec, faults{repeated: 0.2}, 4*time.Minute, func(now time.Time, m *metrics.Meter) {
			if random.Float64() < 0.1 {
				p.rate = random.Float64() * highest
			}
			value, err := metrics.Merge(shop, []metrics.Report{m.Report(now, "a")}, nil)
			if now.Sub(epoch) < 70*time.Second {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var came float64
			for _, each := range p.truth {
				if now.Sub(each.at) < spec.Window {
					came += each.requests
				}
			}
			want := came / spec.Window.Seconds()
			edge := highest * (spec.Granularity + p.flush).Seconds() / spec.Window.Seconds()
			if math.Abs(value.RequestRate-want) > edge+1 {
				t.Fatalf("seed %d: rate %.1f, want %.1f ± %.1f", seed, value.RequestRate, want, edge)
			}
		})
	}
}
