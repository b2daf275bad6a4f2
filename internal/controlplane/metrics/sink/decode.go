package sink

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics"
)

const (
	// maxFamily limits one metric in bytes: a histogram of Envoy takes less than 1 KiB.
	maxFamily = 64 << 10
	// maxCluster limits the name of a cluster in bytes. A longer one does not count.
	maxCluster = 512
	// maxSamples limits the samples of one message: those of 100,000 clusters.
	maxSamples = 400_000
	// minCapacity is the capacity for samples that the decoder always keeps between messages.
	minCapacity = 4096
	// maxBytes limits the samples of one message in bytes. Those of 100,000 clusters take 58 MB.
	maxBytes = 64 << 20
)

// Errors of messages. The proxy receives their texts.
var (
	errMalformed = errors.New("malformed message")
	errTooLarge  = errors.New("message too large")
)

// messageMetrics is the field of envoy.service.metrics.v3.StreamMetricsMessage with the metrics.
const messageMetrics protowire.Number = 2

// tag is a field number with its wire type, as on the wire.
type tag = uint64

// Fields of io.prometheus.client (metrics.proto): number × 8 + wire type.
const (
	familyName   = tag(1<<3 | protowire.BytesType)
	familyMetric = tag(4<<3 | protowire.BytesType)

	metricLabel     = tag(1<<3 | protowire.BytesType)
	metricGauge     = tag(2<<3 | protowire.BytesType)
	metricCounter   = tag(3<<3 | protowire.BytesType)
	metricTimestamp = tag(6<<3 | protowire.VarintType)
	metricHistogram = tag(7<<3 | protowire.BytesType)

	labelName  = tag(1<<3 | protowire.BytesType)
	labelValue = tag(2<<3 | protowire.BytesType)
	amount     = tag(1<<3 | protowire.Fixed64Type)

	histogramCount   = tag(1<<3 | protowire.VarintType)
	histogramSum     = tag(2<<3 | protowire.Fixed64Type)
	histogramBucket  = tag(3<<3 | protowire.BytesType)
	bucketCumulative = tag(1<<3 | protowire.VarintType)
	bucketBound      = tag(2<<3 | protowire.Fixed64Type)
)

const (
	// clustersAdded is a counter that every Envoy has, and that rarely changes.
	clustersAdded = "cluster_manager.cluster_added"
	// activeConnections is the gauge of connections with clients, of the listeners that translate.StatPrefix names.
	activeConnections = "http.kedify-proxy.downstream_cx_active"
)

// decoder decodes messages one after the other, and reuses its memory. A returned batch is valid until the next call.
type decoder struct {
	family []byte
	// last are the samples of the last message. Most messages contain the same statistics in the same order, so the
	// decoder reuses their cluster names.
	last  []metrics.Sample
	first int // index of the family's first sample in the batch
	bytes int // of the samples of the last message
	// used and seen count the metrics of the last message.
	used, seen int
	// share counts the samples of the decoder with those of all others; nil does not count them.
	share *share
}

// decode reads one message of length bytes. It skips everything except the used statistics of clusters.
func (d *decoder) decode(from *bufio.Reader, length int64) (metrics.Batch, error) {
	batch := metrics.Batch{Samples: d.last[:0]}
	if isMuchLess := cap(d.last) > minCapacity && len(d.last) < cap(d.last)/4; isMuchLess {
		batch.Samples = nil
		if d.share != nil {
			d.share.free()
		}
	}
	defer func() { d.last = batch.Samples }()
	d.used, d.seen, d.bytes = 0, 0, 0
	limited := &limitedReader{from: from, left: length}
	for limited.left > 0 {
		field, size, err := readHeader(limited)
		if err != nil {
			return batch, err
		}
		if field != messageMetrics {
			if _, err := io.CopyN(io.Discard, limited, size); err != nil {
				return batch, truncated(err)
			}
			continue
		}
		if size > maxFamily {
			return batch, fmt.Errorf("%w: a metric of %d bytes exceeds the limit of %d", errTooLarge, size, maxFamily)
		}
		d.family = slices.Grow(d.family[:0], int(size))[:size]
		if _, err := io.ReadFull(limited, d.family); err != nil {
			return batch, truncated(err)
		}
		if err := d.readFamily(&batch); err != nil {
			return batch, err
		}
	}
	return batch, nil
}

// readHeader reads the tag and length of a field of a message. All fields are messages.
func readHeader(from *limitedReader) (field protowire.Number, size int64, err error) {
	tag, err := binary.ReadUvarint(from)
	if err != nil {
		return 0, 0, truncated(err)
	}
	field, kind := protowire.DecodeTag(tag)
	if kind != protowire.BytesType || !field.IsValid() {
		return 0, 0, fmt.Errorf("%w: field %d of wire type %d", errMalformed, field, kind)
	}
	length, err := binary.ReadUvarint(from)
	if err != nil {
		return 0, 0, truncated(err)
	}
	if length > uint64(max(0, from.left)) {
		return 0, 0, fmt.Errorf("%w: a field of %d bytes exceeds the remaining %d", errMalformed, length, from.left)
	}
	return field, int64(length), nil //nolint:gosec // compared with an int64 above
}

// readFamily adds the samples of the current family to the batch.
func (d *decoder) readFamily(batch *metrics.Batch) error {
	d.seen++
	d.first = len(batch.Samples)
	var name []byte
	return visitFields(d.family, func(at tag, value wireValue) error {
		switch at {
		case familyName:
			name = value.bytes
		case familyMetric:
			read, err := readMetric(value.bytes)
			if err != nil {
				return err
			}
			return d.add(batch, name, read)
		}
		return nil
	})
}

// add adds one metric to the batch.
func (d *decoder) add(batch *metrics.Batch, name []byte, read metric) error {
	if batch.Time == 0 {
		batch.Time = read.timestamp
	}
	cluster, measure, isUsed := clusterMetric(name, read)
	if read.kind == metricCounter && read.value == 0 {
		batch.HasZero = batch.HasZero || isUsed || string(name) == clustersAdded
	}
	if string(name) == activeConnections && read.kind == metricGauge {
		connections := read.value // A pointer to read would put every metric on the heap.
		batch.Connections = &connections
	}
	if !isUsed || math.IsNaN(read.value) || math.IsInf(read.value, 0) || read.value < 0 {
		return nil
	}
	sample := metrics.Sample{Measure: measure, Value: read.value}
	if n := len(batch.Samples); n > 0 {
		last := batch.Samples[n-1]
		if last.Cluster == string(cluster) {
			sample.Cluster = last.Cluster
		}
		if isRepeated := sample.Cluster != "" && last.Measure == measure && n > d.first; isRepeated {
			return nil
		}
	}
	if measure == metrics.ResponseTimes {
		if isOfNone := bytes.HasPrefix(read.histogram, []byte{byte(histogramCount), 0}); isOfNone {
			return nil // Envoy reports the histograms of all clusters that ever had a request.
		}
		var err error
		if sample.Times, err = readHistogram(read.histogram); err != nil {
			return err
		}
	}
	return d.appendSample(batch, sample, cluster)
}

// appendSample appends a sample to the batch, within the limits.
func (d *decoder) appendSample(batch *metrics.Batch, sample metrics.Sample, cluster []byte) error {
	d.bytes += int(unsafe.Sizeof(sample))
	if n := len(batch.Samples); sample.Cluster == "" {
		if n < len(d.last) && d.last[n].Cluster == string(cluster) {
			sample.Cluster = d.last[n].Cluster
		} else {
			sample.Cluster = string(cluster)
		}
		d.bytes += len(cluster)
	}
	if sample.Times != nil {
		d.bytes += int(unsafe.Sizeof(*sample.Times))
	}
	if len(batch.Samples) == maxSamples || d.bytes > maxBytes {
		return fmt.Errorf("%w: more than %d samples, or %d bytes of them", errTooLarge, maxSamples, maxBytes)
	}
	if d.share != nil && !d.share.grow(d.bytes) {
		return fmt.Errorf("%w: the metrics of all proxies of the fleet exceed %d bytes", errTooLarge, maxAccountMemory)
	}
	d.used++
	batch.Samples = append(batch.Samples, sample)
	return nil
}

// clusterMetric returns the cluster and the measure of a metric, and whether it is used. Its name is
// cluster.<cluster>.<statistic>, or cluster.<statistic> with a label if the bootstrap sets emit_tags_as_labels. In the
// second form Envoy names upstream_rq_5xx differently, and the label lacks the part of the cluster's name after a dot.
func clusterMetric(name []byte, read metric) (cluster []byte, measure metrics.Measure, isUsed bool) {
	rest, isCluster := bytes.CutPrefix(name, []byte("cluster."))
	if !isCluster {
		return nil, 0, false
	}
	dot := bytes.LastIndexByte(rest, '.')
	kind := metricCounter
	switch string(rest[dot+1:]) {
	case "upstream_rq_total":
		measure = metrics.RequestsTotal
	case "upstream_rq_5xx":
		measure = metrics.Responses5xx
	case "upstream_rq_active":
		measure, kind = metrics.RequestsActive, metricGauge
	case "upstream_rq_time":
		measure, kind = metrics.ResponseTimes, metricHistogram
	default:
		return nil, 0, false
	}
	if cluster = read.cluster; dot > 0 {
		cluster = rest[:dot]
	}
	return cluster, measure, read.kind == kind && len(cluster) > 0 && len(cluster) <= maxCluster
}

// metric is one io.prometheus.client.Metric.
type metric struct {
	kind      tag // metricCounter, metricGauge, metricHistogram, or another one
	value     float64
	timestamp int64
	cluster   []byte // from the label envoy.cluster_name
	histogram []byte
}

// readMetric decodes a metric.
func readMetric(text []byte) (metric, error) {
	var read metric
	err := visitFields(text, func(at tag, value wireValue) error {
		switch at {
		case metricTimestamp:
			read.timestamp = int64(value.number) //nolint:gosec // a signed field, written as two's complement
		case metricCounter, metricGauge:
			read.kind = at
			return visitFields(value.bytes, func(at tag, value wireValue) error {
				if at == amount {
					read.value = math.Float64frombits(value.number)
				}
				return nil
			})
		case metricHistogram:
			read.kind, read.histogram = at, value.bytes
		case metricLabel:
			return read.readLabel(value.bytes)
		}
		return nil
	})
	return read, err
}

// readLabel decodes a label, and stores the cluster name.
func (m *metric) readLabel(text []byte) error {
	var name, label []byte
	err := visitFields(text, func(at tag, value wireValue) error {
		switch at {
		case labelName:
			name = value.bytes
		case labelValue:
			label = value.bytes
		}
		return nil
	})
	if string(name) == "envoy.cluster_name" {
		m.cluster = label
	}
	return err
}

// readHistogram decodes a histogram of times.
func readHistogram(text []byte) (*metrics.Times, error) {
	times := new(metrics.Times)
	err := visitFields(text, func(at tag, value wireValue) error {
		switch at {
		case histogramCount:
			times.Count = value.number
		case histogramSum:
			times.Sum = math.Float64frombits(value.number)
		case histogramBucket:
			return readBucket(times, value.bytes)
		}
		return nil
	})
	return times, err
}

// readBucket decodes one bucket of a histogram.
func readBucket(times *metrics.Times, text []byte) error {
	var cumulative uint64
	var bound float64
	err := visitFields(text, func(at tag, value wireValue) error {
		switch at {
		case bucketCumulative:
			cumulative = value.number
		case bucketBound:
			bound = math.Float64frombits(value.number)
		}
		return nil
	})
	if err == nil {
		times.Set(bound, cumulative)
	}
	return err
}

// wireValue is the value of a field: bytes, or the bits of a number.
type wireValue struct {
	bytes  []byte
	number uint64
}

// visitFields calls visit for each field of a message, up to the first error. A field with an unexpected wire type has
// a tag that no caller uses.
func visitFields(text []byte, visit func(at tag, value wireValue) error) error {
	for len(text) > 0 {
		field, kind, n := protowire.ConsumeTag(text)
		if n < 0 {
			return fmt.Errorf("%w: %w", errMalformed, protowire.ParseError(n))
		}
		text = text[n:]
		var value wireValue
		switch kind {
		case protowire.BytesType:
			value.bytes, n = protowire.ConsumeBytes(text)
		case protowire.VarintType:
			value.number, n = protowire.ConsumeVarint(text)
		case protowire.Fixed64Type:
			value.number, n = protowire.ConsumeFixed64(text)
		default:
			n = protowire.ConsumeFieldValue(field, kind, text)
		}
		if n < 0 {
			return fmt.Errorf("%w: %w", errMalformed, protowire.ParseError(n))
		}
		if err := visit(protowire.EncodeTag(field, kind), value); err != nil {
			return err
		}
		text = text[n:]
	}
	return nil
}

// limitedReader reads one message, also byte by byte.
type limitedReader struct {
	from *bufio.Reader
	left int64
}

// Read implements io.Reader.
func (l *limitedReader) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, io.EOF
	}
	n, err := l.from.Read(p[:min(int64(len(p)), l.left)])
	l.left -= int64(n)
	return n, err
}

// ReadByte implements io.ByteReader.
func (l *limitedReader) ReadByte() (byte, error) {
	if l.left <= 0 {
		return 0, io.EOF
	}
	b, err := l.from.ReadByte()
	if err == nil {
		l.left--
	}
	return b, err
}

// truncated returns the error of a message that ends early.
func truncated(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: unexpected end", errMalformed)
	}
	return err
}
