package metrics

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// Measure is one of the statistics of a cluster that are used, as Envoy names them.
type Measure uint8

const (
	// RequestsTotal is the counter upstream_rq_total.
	RequestsTotal Measure = iota
	// Responses5xx is the counter upstream_rq_5xx.
	Responses5xx
	// RequestsActive is the gauge upstream_rq_active.
	RequestsActive
	// ResponseTimes is the histogram upstream_rq_time. Envoy reports that of the time since the flush
	// before, in all forms.
	ResponseTimes
	measureCount = iota
)

// Sample is one statistic of one cluster.
type Sample struct {
	// Cluster is the name of the cluster, and Measure says what was measured.
	Cluster string
	Measure Measure
	// Value is what was measured, at least 0. Times is it for ResponseTimes, and nil for others.
	Value float64
	Times *Times
}

// Batch is one message of a metric stream: one flush of a proxy, or a part of it.
type Batch struct {
	// Time is the time of the flush by the proxy's clock, in milliseconds. Parts of one flush have the
	// same.
	Time int64
	// Samples are the statistics of clusters, in any order.
	Samples []Sample
	// HasZero says that a counter which only grows by one is 0: that of a Sample, or the one of clusters
	// that were added. Envoy leaves such a counter out until it grows, so it is a difference. There are
	// others, such as server.wip_protos, that are 0 in any form.
	HasZero bool
}

// belonging says whose a cluster is.
type belonging struct {
	key     model.Key
	object  *object
	service string
}

// ErrNoRequestCounters says that a proxy reports no cluster's requests, not even those of the cluster that
// its reports go to: what it leaves out would be taken for zero.
var ErrNoRequestCounters = errors.New("no cluster has upstream_rq_total and upstream_rq_active: " +
	"let the proxy's stats_config.stats_matcher include them")

const (
	// minStale and maxStale bound how long a stream may be silent: three flush intervals within these.
	minStale = 3 * time.Second
	maxStale = 30 * time.Second
	// unpacedStale is that time before the flush interval is known. Envoy's default is 5 s.
	unpacedStale = 15 * time.Second
	// remembered is how many batches are told from new ones.
	remembered = 8
	// gapFactor times the shortest of the last flush intervals, or more, is a flush that was lost.
	gapFactor = 1.75
	// maxValue bounds a counter: beyond it a float64 doesn't count by one any more.
	maxValue = 1 << 53
	// maxClusters bounds how many clusters of one object a stream may have: 16 backends, and those
	// that are leaving.
	maxClusters = 64
)

// form says what a stream's counters are.
type form uint8

const (
	formUnknown form = iota
	formDeltas
	formTotals
)

// cluster is what a stream said of a cluster last.
type cluster struct {
	owner   model.Key // that it was counted for at first
	belongs belonging
	version int               // of the Meter's objects, by which it belongs there
	flushes [measureCount]int // in which each measure came last
	total   [measureCount]float64
}

// Stream is one metric stream of a proxy. Make it with Meter.Open.
type Stream struct {
	meter *Meter
	fleet model.Fleet
	proxy *proxy

	form     form
	flushes  int  // how many flushes have come, the present one included
	isKnown  bool // the time since the flush before is covered by the present one
	from     time.Duration
	last     time.Duration // when the present flush came
	pace     time.Duration // between the last two flushes
	seen     [measureCount]bool
	isEnded  bool
	clusters map[string]*cluster
	counts   map[model.Key]int // of clusters, by object
}

// Open begins a stream of a proxy, in the place of the one before.
func (m *Meter) Open(now time.Time, fleet model.Fleet, name string) *Stream {
	p := m.proxy(now, fleet, name)
	s := &Stream{meter: m, fleet: fleet, proxy: p, last: m.at(now), clusters: map[string]*cluster{}, counts: map[model.Key]int{}}
	if p.stream != nil {
		p.stream.isEnded = true
	}
	p.stream = s
	return s
}

// Close ends the stream. What it has counted stays, as far as the proxy goes with it or comes back.
func (s *Stream) Close() {
	if s.isEnded {
		return
	}
	s.isEnded = true
	if s.fleet == ExternalFleet {
		s.proxy.serves, s.proxy.isGone = false, true
	}
}

// IsCurrent says that the stream is the latest one of its proxy. Of one that is not, nothing counts.
func (s *Stream) IsCurrent() bool { return s.proxy.stream == s && !s.isEnded }

// Apply takes a batch in. It returns false for one that was there before. The error has
// ErrNoRequestCounters in its chain when the stream is of no use.
func (s *Stream) Apply(now time.Time, batch Batch) (bool, error) {
	if isEmpty := batch.Time == 0; isEmpty || !s.IsCurrent() {
		return false, nil
	}
	switch {
	case s.flushes > 0 && s.proxy.times[len(s.proxy.times)-1] == batch.Time: // maybe another part of the flush
	case slices.Contains(s.proxy.times, batch.Time):
		return false, nil
	default:
		if s.flushes > 1 && (!s.seen[RequestsTotal] || !s.seen[RequestsActive]) {
			return false, ErrNoRequestCounters
		}
		s.begin(s.meter.at(now), batch.Time)
	}
	if batch.HasZero && s.form != formDeltas {
		if s.isKnown {
			s.proxy.covered.retract(s.from)
		}
		s.form, s.isKnown = formDeltas, false
	}
	isNew := false
	for _, sample := range batch.Samples {
		isNew = s.take(sample) || isNew
	}
	return isNew, nil
}

// begin is the beginning of a flush.
func (s *Stream) begin(now time.Duration, timestamp int64) {
	if s.form == formUnknown && s.flushes >= 2 {
		s.form = formTotals // two whole flushes without a zero
	}
	s.isKnown = s.form != formUnknown && s.flushes > 0 && (s.form == formTotals || !s.isGap(timestamp))
	maps.DeleteFunc(s.clusters, func(_ string, c *cluster) bool {
		isOld := slices.Max(c.flushes[:]) < s.flushes
		if isOld {
			s.counts[c.owner]--
		}
		return isOld
	})
	if s.flushes > 0 {
		s.pace = max(now-s.last, s.pace/2) // Flushes that were held up come together.
	}
	s.flushes++
	s.from, s.last = s.last, now
	s.proxy.times = append(s.proxy.times[max(0, len(s.proxy.times)-remembered+1):], timestamp)
	if s.isKnown {
		s.proxy.covered.add(s.from, now, now-maxWindow-time.Minute)
	}
}

// isGap says that a flush may have been lost between the last one and that of a timestamp: the time
// between them is that of several, or the proxy's clock was set.
func (s *Stream) isGap(timestamp int64) bool {
	shortest, times := int64(0), s.proxy.times
	for i := 1; i < len(times); i++ {
		if each := times[i] - times[i-1]; each > 0 && (shortest == 0 || each < shortest) {
			shortest = each
		}
	}
	passed := timestamp - times[len(times)-1]
	return passed <= 0 || shortest > 0 && float64(passed) >= gapFactor*float64(shortest)
}

// take counts a sample, unless it is known or about nothing that counts.
func (s *Stream) take(sample Sample) bool {
	if !(sample.Value >= 0 && sample.Value <= maxValue) { // NaN is neither.
		return false
	}
	s.seen[sample.Measure] = true
	c := s.clusters[sample.Cluster]
	if c == nil || c.version != s.meter.version {
		if c = s.attribute(sample.Cluster, c); c == nil {
			return false
		}
	}
	if c.flushes[sample.Measure] == s.flushes {
		return false
	}
	key, o, service := c.belongs.key, c.belongs.object, c.belongs.service
	added := s.added(o, c, sample)
	c.flushes[sample.Measure], c.total[sample.Measure] = s.flushes, sample.Value
	switch {
	case !s.isKnown:
	case sample.Measure == RequestsTotal:
		o.count(s.last, service, Totals{Requests: added})
		s.add(key, o, added)
	case sample.Measure == Responses5xx:
		o.count(s.last, service, Totals{Errors: added})
	case sample.Times != nil:
		o.count(s.last, service, Totals{Times: *sample.Times})
	}
	return true
}

// attribute finds out anew whose a cluster is, which is known already or nil. It returns nil for one that is nobody's, or too many.
func (s *Stream) attribute(name string, c *cluster) *cluster {
	key, service, isKnown := s.ownerOf(name)
	if !isKnown {
		return nil
	}
	if s.fleet == ExternalFleet { // It has requests of an object: from now on they would be missed.
		s.proxy.serves = true
	}
	if c == nil {
		if s.counts[key] >= maxClusters {
			return nil
		}
		s.counts[key]++
		c = &cluster{owner: key}
		s.clusters[name] = c
	}
	c.belongs, c.version = belonging{key, s.meter.objects[key], service}, s.meter.version
	return c
}

// added is what a sample adds to the flush before. The first total of an object that has become known since then
// may be of all the time before: it adds nothing, and the object is counted from this flush on.
func (s *Stream) added(o *object, c *cluster, sample Sample) float64 {
	before := c.total[sample.Measure]
	isCounter := sample.Measure == RequestsTotal || sample.Measure == Responses5xx
	switch {
	case s.form != formTotals || !isCounter:
	case c.flushes[sample.Measure] == 0 && o.since >= s.from:
		o.since = max(o.since, s.last)
		return 0
	case sample.Value >= before: // else the cluster began anew, from zero
		return sample.Value - before
	}
	return sample.Value
}

// add counts requests in the rate of an object.
func (s *Stream) add(key model.Key, o *object, requests float64) {
	if requests == 0 {
		return
	}
	r := s.proxy.rings[key]
	if r == nil {
		r = newRing(o.Spec)
		s.proxy.rings[key] = r
	}
	from := max(s.from, o.since)
	if s.last > s.from { // Of the time before the object was known, its share is left out.
		requests *= float64(s.last-from) / float64(s.last-s.from)
	}
	r.add(from, s.last, requests)
}

// ownerOf says whose a cluster is: the object and the Service that its name has, or the object that has
// its name as external key.
func (s *Stream) ownerOf(name string) (key model.Key, service string, isKnown bool) {
	if s.fleet == ExternalFleet {
		key, isKnown = s.meter.ownerOfKey(name)
		return key, "", isKnown
	}
	namespace, rest, _ := strings.Cut(name, "/")
	object, service, isKnown := strings.Cut(rest, "/")
	key = model.Key{Namespace: namespace, Name: object}
	o := s.meter.objects[key]
	// Names with a dot are parts of a cluster's statistics, such as <cluster>.internal.upstream_rq_5xx, and those with one more slash are of clusters of which the
	// requests are nobody's: copies that a mirror route makes (translate.MirrorName), and what another Service answers at the end of a wait
	// (translate.FailoverName).
	isKnown = isKnown && o != nil && o.Fleet == s.fleet && o.Spec.ExternalKey == "" && !strings.ContainsAny(service, "./")
	return key, service, isKnown
}

// addActive adds the requests in flight of each object.
func (s *Stream) addActive(sums map[model.Key]float64) {
	for name, c := range s.clusters {
		if c.total[RequestsActive] == 0 || c.flushes[RequestsActive] < s.flushes-1 {
			continue
		}
		if key, _, isKnown := s.ownerOf(name); isKnown {
			sums[key] += c.total[RequestsActive]
		}
	}
}

// isFresh says that the stream is open and not silent.
func (s *Stream) isFresh(now time.Duration) bool {
	if s == nil || s.isEnded || s.flushes == 0 {
		return false
	}
	stale := unpacedStale
	if s.pace > 0 {
		stale = min(max(3*s.pace, minStale), maxStale)
	}
	return now-s.last <= stale
}
