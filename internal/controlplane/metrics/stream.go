package metrics

import (
	"errors"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/model/sources"
)

// Measure is one of the statistics of a cluster, by its name in Envoy.
type Measure uint8

const (
	// RequestsTotal is the counter upstream_rq_total.
	RequestsTotal Measure = iota
	// Responses5xx is the counter upstream_rq_5xx.
	Responses5xx
	// RequestsActive is the gauge upstream_rq_active.
	RequestsActive
	// ResponseTimes is the histogram upstream_rq_time. Envoy always reports the interval since the last flush.
	ResponseTimes
	measureCount = iota
)

// Sample is one statistic of one cluster.
type Sample struct {
	// Cluster is the name of the cluster.
	Cluster string
	Measure Measure
	// Value is at least 0. Times is the value of ResponseTimes, and nil for others.
	Value float64
	Times *Times
}

// Batch is one message of a metric stream: one flush of a proxy, or a part of it.
type Batch struct {
	// Time is the time of the flush from the proxy's clock, in milliseconds. Parts of one flush have the same Time.
	Time int64
	// Samples are the statistics of clusters, in any order.
	Samples []Sample
	// HasZero means that a counter which only increases by one is 0: that of a Sample, or the counter of added
	// clusters. Envoy omits such a counter until it is incremented, so it is a difference. Other counters, such as
	// server.wip_protos, can be 0 as totals too.
	HasZero bool
	// Connections is the number of the proxy's connections with clients, nil if the batch does not contain it. Envoy omits
	// it until the first connection.
	Connections *float64
}

// attribution is the object and Service that a cluster belongs to.
type attribution struct {
	key     model.Key
	object  *object
	service string
}

// ErrNoRequestCounters means that a proxy reports the requests of no cluster, not even of the one that its reports go
// to. Omitted counters would count as zero.
var ErrNoRequestCounters = errors.New("no cluster has upstream_rq_total and upstream_rq_active: " +
	"let the proxy's stats_config.stats_matcher include them")

const (
	// minStale and maxStale limit how long a stream may be silent: three flush intervals within these bounds.
	minStale = 3 * time.Second
	maxStale = 30 * time.Second
	// initialStale is that time before the flush interval is known. Envoy's default interval is 5 s.
	initialStale = 15 * time.Second
	// history is the number of past flushes by which repeated batches are detected.
	history = 8
	// gapFactor times the shortest of the last flush intervals, or more, means that a flush was lost.
	gapFactor = 1.75
	// maxValue limits a counter: beyond it a float64 cannot count by one.
	maxValue = 1 << 53
	// maxClusters limits the clusters of one object on a stream: 16 backends, and those being removed.
	maxClusters = 64
)

// form is whether the counters of a stream are deltas or totals.
type form uint8

const (
	formUnknown form = iota
	formDeltas
	formTotals
)

// cluster is the state of a cluster on a stream.
type cluster struct {
	owner       model.Key // that it was first counted for
	attribution attribution
	version     int               // of the Meter's objects at the attribution
	flushes     [measureCount]int // the last flush with each measure
	total       [measureCount]float64
}

// Stream is one metric stream of a proxy. Make it with Meter.Open.
type Stream struct {
	meter   *Meter
	fleet   model.Fleet
	proxy   *proxy
	address netip.Addr // of an external proxy

	form      form
	flushes   int  // number of flushes, including the current one
	isCovered bool // the current flush covers the time since the last one
	from      time.Duration
	last      time.Duration // time of the current flush
	interval  time.Duration // between the last two flushes
	seen      [measureCount]bool
	isEnded   bool
	clusters  map[string]*cluster
	counts    map[model.Key]int // of clusters, by object

	connections   float64 // with clients
	connectionsAt int     // the flush with connections
}

// Open starts a stream of a proxy, and ends the one before. The name of an external proxy is its address.
func (m *Meter) Open(now time.Time, fleet model.Fleet, name string) *Stream {
	p := m.proxy(now, fleet, name)
	s := &Stream{
		meter: m, fleet: fleet, proxy: p, last: m.at(now), clusters: map[string]*cluster{}, counts: map[model.Key]int{},
	}
	if fleet == ExternalFleet {
		s.address, _ = netip.ParseAddr(name) // The zero address is in no list.
		p.namespaces = map[string]struct{}{}
	}
	if p.stream != nil {
		p.stream.isEnded = true
	}
	p.stream = s
	return s
}

// Close ends the stream. Its counts remain until the proxy is removed.
func (s *Stream) Close() {
	if s.isEnded {
		return
	}
	s.isEnded = true
	if s.fleet == ExternalFleet {
		s.proxy.namespaces, s.proxy.isRemoved = nil, true
	}
}

// IsCurrent reports whether the stream is open and the latest one of its proxy. Other streams do not count.
func (s *Stream) IsCurrent() bool { return s.proxy.stream == s && !s.isEnded }

// Apply counts a batch. isNew is false if it was counted before. The error has ErrNoRequestCounters in its chain if the
// stream is unusable.
func (s *Stream) Apply(now time.Time, batch Batch) (isNew bool, err error) {
	if isEmpty := batch.Time == 0; isEmpty || !s.IsCurrent() {
		return false, nil
	}
	switch {
	case s.flushes > 0 && s.proxy.times[len(s.proxy.times)-1] == batch.Time: // another part of the flush
	case slices.Contains(s.proxy.times, batch.Time):
		return false, nil
	default:
		if s.flushes > 1 && (!s.seen[RequestsTotal] || !s.seen[RequestsActive]) {
			return false, ErrNoRequestCounters
		}
		s.begin(s.meter.at(now), batch.Time)
	}
	if batch.HasZero && s.form != formDeltas {
		if s.isCovered {
			s.proxy.covered.retract(s.from)
		}
		s.form, s.isCovered = formDeltas, false
	}
	if n := batch.Connections; n != nil && *n >= 0 && *n <= maxValue {
		s.connections, s.connectionsAt = *n, s.flushes
	}
	for _, sample := range batch.Samples {
		isNew = s.count(sample) || isNew
	}
	return isNew, nil
}

// begin starts a flush.
func (s *Stream) begin(now time.Duration, timestamp int64) {
	if s.form == formUnknown && s.flushes >= 2 {
		s.form = formTotals // two whole flushes without a zero
	}
	s.isCovered = s.form != formUnknown && s.flushes > 0 && (s.form == formTotals || !s.isGap(timestamp))
	maps.DeleteFunc(s.clusters, func(_ string, c *cluster) bool {
		isOld := slices.Max(c.flushes[:]) < s.flushes
		if isOld {
			s.counts[c.owner]--
		}
		return isOld
	})
	if s.flushes > 0 {
		s.interval = max(now-s.last, s.interval/2) // Delayed flushes arrive together.
	}
	s.flushes++
	s.from, s.last = s.last, now
	s.proxy.times = append(s.proxy.times[max(0, len(s.proxy.times)-history+1):], timestamp)
	if s.isCovered {
		s.proxy.covered.add(s.from, now, now-maxWindow-time.Minute)
	}
}

// isGap reports whether a flush may have been lost before timestamp: the interval is that of several flushes, or the
// proxy's clock was changed.
func (s *Stream) isGap(timestamp int64) bool {
	shortest, times := int64(0), s.proxy.times
	for i := 1; i < len(times); i++ {
		if interval := times[i] - times[i-1]; interval > 0 && (shortest == 0 || interval < shortest) {
			shortest = interval
		}
	}
	passed := timestamp - times[len(times)-1]
	return passed <= 0 || shortest > 0 && float64(passed) >= gapFactor*float64(shortest)
}

// count counts a sample. It returns false if the sample is a duplicate, invalid, or of a cluster without an object.
func (s *Stream) count(sample Sample) (isNew bool) {
	if !(sample.Value >= 0 && sample.Value <= maxValue) { // NaN is neither.
		return false
	}
	s.seen[sample.Measure] = true
	if s.fleet != ExternalFleet {
		return s.countFor(sample.Cluster, sample)
	}
	for namespace := range s.meter.keys[sample.Cluster] {
		isNew = s.countFor(externalName(namespace, sample.Cluster), sample) || isNew
	}
	return isNew
}

// externalName returns the name under which a Stream stores a cluster of an external proxy for the object of one
// namespace. Each namespace with the cluster as external key counts it separately.
func externalName(namespace, cluster string) string { return namespace + "/" + cluster }

// countFor counts a sample for the cluster with this name in Stream.clusters.
func (s *Stream) countFor(name string, sample Sample) bool {
	c := s.clusters[name]
	if c == nil || c.version != s.meter.version {
		if c = s.attribute(name, c); c == nil {
			return false
		}
	}
	if c.flushes[sample.Measure] == s.flushes {
		return false
	}
	key, o, service := c.attribution.key, c.attribution.object, c.attribution.service
	added := s.added(o, c, sample)
	c.flushes[sample.Measure], c.total[sample.Measure] = s.flushes, sample.Value
	switch {
	case !s.isCovered:
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

// attribute resolves the object of a cluster again. c is the existing entry or nil. The result is nil if no object owns
// the cluster, or if the object has too many clusters.
func (s *Stream) attribute(name string, c *cluster) *cluster {
	key, service, isKnown := s.ownerOf(name)
	if !isKnown {
		return nil
	}
	if s.fleet == ExternalFleet { // It serves an object: without its metrics the demand is unknown from now on.
		s.proxy.namespaces[key.Namespace] = struct{}{}
	}
	if c == nil {
		if s.counts[key] >= maxClusters {
			return nil
		}
		s.counts[key]++
		c = &cluster{owner: key}
		s.clusters[name] = c
	}
	c.attribution, c.version = attribution{key, s.meter.objects[key], service}, s.meter.version
	return c
}

// added returns the increase of a sample since the last flush. The first total of an object added since then may cover
// any time before: it adds nothing, and the object is counted from this flush on.
func (s *Stream) added(o *object, c *cluster, sample Sample) float64 {
	before := c.total[sample.Measure]
	isCounter := sample.Measure == RequestsTotal || sample.Measure == Responses5xx
	switch {
	case s.form != formTotals || !isCounter:
	case c.flushes[sample.Measure] == 0 && o.since >= s.from:
		o.since = max(o.since, s.last)
		return 0
	case sample.Value >= before: // otherwise the counter was reset to zero
		return sample.Value - before
	}
	return sample.Value
}

// add adds requests to the rate of an object.
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
	if s.last > s.from { // Leave out the time before the object was added.
		requests *= float64(s.last-from) / float64(s.last-s.from)
	}
	r.add(from, s.last, requests)
}

// ownerOf returns the object of a cluster: the one in the cluster's name, with the Service, or the one with that
// external key. name is that in Stream.clusters.
func (s *Stream) ownerOf(name string) (key model.Key, service string, isKnown bool) {
	namespace, rest, _ := strings.Cut(name, "/")
	if s.fleet == ExternalFleet {
		key, isKnown = s.meter.ownerOfKey(namespace, rest)
		return key, "", isKnown && sources.Contain(s.meter.objects[key].Spec.ExternalSources, s.address)
	}
	object, service, isKnown := strings.Cut(rest, "/")
	key = model.Key{Namespace: namespace, Name: object}
	o := s.meter.objects[key]
	// A name with a dot is a statistic of a cluster, such as <cluster>.internal.upstream_rq_5xx. A name with another
	// slash is a cluster that does not count: copies of a mirror route (translate.MirrorName), and requests to the
	// failover Service (translate.FailoverName).
	isKnown = isKnown && o != nil && o.Fleet == s.fleet && o.Spec.ExternalKey == "" && !strings.ContainsAny(service, "./")
	return key, service, isKnown
}

// addActive adds the active requests of each object to sums.
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

// activeConnections returns the number of connections with clients in the last flushes.
func (s *Stream) activeConnections() float64 {
	if s.connectionsAt < s.flushes-1 {
		return 0
	}
	return s.connections
}

// isFresh reports whether the stream is open and has reported recently.
func (s *Stream) isFresh(now time.Duration) bool {
	if s == nil || s.isEnded || s.flushes == 0 {
		return false
	}
	stale := initialStale
	if s.interval > 0 {
		stale = min(max(3*s.interval, minStale), maxStale)
	}
	return now-s.last <= stale
}
