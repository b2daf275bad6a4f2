package tracing

import (
	"context"
	"io"
	"maps"
	"net"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding/extauthz"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

const (
	cluster = "apps/shop/shop"
	// traceID and parentID are the trace and the span of the proxy's call.
	traceID, parentID = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	sampled           = "00-" + traceID + "-" + parentID + "-01"
	notSampled        = "00-" + traceID + "-" + parentID + "-00"
)

// proxyAddress returns the address of the proxy.
func proxyAddress() netip.Addr { return netip.MustParseAddr("10.0.0.7") }

func shop() model.Key { return model.Key{Namespace: "apps", Name: "shop"} }

// queue is an extauthz.Server with a proxy whose requests for workload shop it traces.
type queue struct {
	*extauthz.Server

	t        *testing.T
	spans    *tracetest.InMemoryExporter
	isServed bool // whether the proxy serves the cluster
	done     chan struct{}
}

// The queue is the only stream of the proxy.
func (*queue) Number() uint64 { return 1 }

func (*queue) Fleet() string { return "apps" }

func (q *queue) Serves(string) bool { return q.isServed }

// runQueue runs a test in a bubble, with a workload without endpoints.
func runQueue(t *testing.T, run func(*queue)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		spans := tracetest.NewInMemoryExporter()
		tracer := newTracer(Options{Version: "v1", Pod: "interceptor-0"}, sdktrace.NewSimpleSpanProcessor(spans))
		server, err := extauthz.New(extauthz.Options{
			Limits:     holding.Limits{Object: 500, Namespace: 500, Proxy: 500, Total: 500},
			Registerer: prometheus.NewRegistry(), Trace: tracer.Queue, Notify: func(model.Key, holding.Reason) {},
		})
		if err != nil {
			t.Fatal(err)
		}
		q := &queue{Server: server, t: t, spans: spans, done: make(chan struct{}, 500)}
		q.set(workload(0))
		q.Opened(proxyAddress(), q)
		run(q)
		q.Close()
		synctest.Wait()
	})
}

// workload returns the workload shop with a number of ready endpoints.
func workload(endpoints int) *holding.Workload {
	return &holding.Workload{
		Fleet: "apps", Clusters: []string{cluster}, Endpoints: []int{endpoints}, Timeout: time.Minute,
		FallbackTimeout: 28 * time.Second,
	}
}

// set changes the workload; nil removes it.
func (q *queue) set(changed *holding.Workload) {
	q.SetWorkloads(map[model.Key]*holding.Workload{shop(): changed})
}

// acknowledge has the proxy acknowledge the endpoints.
func (q *queue) acknowledge() {
	q.isServed = true
	q.EndpointsAcked(proxyAddress())
	synctest.Wait()
}

// call starts a call of the proxy with further metadata.
func (q *queue) call(ctx context.Context, pairs ...string) {
	q.t.Helper()
	md := metadata.Join(metadata.Pairs(translate.ClusterKey, cluster), metadata.Pairs(pairs...))
	ctx = metadata.NewIncomingContext(ctx, md)
	ctx = peer.NewContext(ctx, &peer.Peer{Addr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(proxyAddress(), 40000))})
	go func() {
		_ = q.ServeCheck(&checkStream{ctx: func() context.Context { return ctx }}) //nolint:contextcheck // that of its stream
		q.done <- struct{}{}
	}()
	synctest.Wait()
}

// checkStream is the stream of one call.
type checkStream struct {
	grpc.ServerStream

	ctx        func() context.Context
	isReceived bool
}

// Context implements grpc.ServerStream.
func (s *checkStream) Context() context.Context { return s.ctx() }

// RecvMsg implements grpc.ServerStream. The stream has one message, which is empty.
func (s *checkStream) RecvMsg(any) error {
	if s.isReceived {
		return io.EOF
	}
	s.isReceived = true
	return nil
}

// SendMsg implements grpc.ServerStream.
func (*checkStream) SendMsg(message any) error {
	_ = message.(*authv3.CheckResponse)
	return nil
}

// ended is the part of a span that the tests compare. Times are since the call.
type ended struct {
	attributes map[string]string
	events     map[string]time.Duration
	lasted     time.Duration
	isError    bool
}

// endedOf returns the part of a span that the tests compare.
func endedOf(span tracetest.SpanStub) ended {
	got := ended{
		attributes: map[string]string{}, events: map[string]time.Duration{},
		lasted: span.EndTime.Sub(span.StartTime), isError: span.Status.Code == codes.Error,
	}
	for _, pair := range span.Attributes {
		got.attributes[string(pair.Key)] = pair.Value.String()
	}
	for _, event := range span.Events {
		got.events[event.Name] = event.Time.Sub(span.StartTime)
	}
	return got
}

// TestSpanOfAQueuedRequest: the span of a queued request contains why it waited, what released it, and how long each part
// of the wait took.
func TestSpanOfAQueuedRequest(t *testing.T) {
	t.Parallel()
	const fallback = translate.HoldFallbackKey
	for name, test := range map[string]struct {
		before func(*queue)                     // before the call
		do     func(*queue, context.CancelFunc) // while it waits
		pairs  []string                         // of the call
		want   map[string]string                // of attributes, those that differ from the usual ones
		events map[string]time.Duration
		lasted time.Duration
	}{
		"the first endpoint becomes ready": {
			do: func(q *queue, _ context.CancelFunc) {
				time.Sleep(10 * time.Second)
				q.set(workload(1))
				time.Sleep(time.Second)
				q.set(workload(2))
				q.acknowledge()
			},
			want: map[string]string{
				"kedify.queue.outcome": "served", "kedify.queue.released_by": "endpoint-acknowledged",
				"kedify.queue.ready_endpoints": "2",
			},
			events: map[string]time.Duration{EventEndpointReady: 10 * time.Second, EventReleased: 11 * time.Second},
			lasted: 11 * time.Second,
		},
		"an endpoint is ready that the proxy has not acknowledged": {
			before: func(q *queue) {
				q.set(workload(3))
				time.Sleep(5 * time.Second)
			},
			do: func(q *queue, _ context.CancelFunc) {
				time.Sleep(2 * time.Second)
				q.acknowledge()
			},
			want: map[string]string{
				"kedify.queue.reason": "endpoint-not-acknowledged", "kedify.queue.outcome": "served",
				"kedify.queue.released_by": "endpoint-acknowledged", "kedify.queue.ready_endpoints": "3",
			},
			events: map[string]time.Duration{EventEndpointReady: -5 * time.Second, EventReleased: 2 * time.Second},
			lasted: 2 * time.Second,
		},
		"earlier requests are released first": {
			before: func(q *queue) {
				for range 150 {
					q.call(q.t.Context())
				}
				q.set(workload(1))
				q.acknowledge()
			},
			do: func(*queue, context.CancelFunc) { time.Sleep(time.Minute - time.Nanosecond) },
			want: map[string]string{
				"kedify.queue.reason": "earlier-requests", "kedify.queue.outcome": "served",
				"kedify.queue.released_by": "release-rate", "kedify.queue.ready_endpoints": "1", "kedify.queue.length": "51",
			},
			events: map[string]time.Duration{EventEndpointReady: 0, EventReleased: 3 * holding.RefillInterval},
			lasted: 3 * holding.RefillInterval,
		},
		"the deadline": {
			do:     func(*queue, context.CancelFunc) { time.Sleep(time.Minute) },
			want:   map[string]string{"kedify.queue.outcome": "deadline"},
			lasted: time.Minute,
		},
		"the deadline via the fallback listener": {
			pairs:  []string{fallback, "1"},
			do:     func(*queue, context.CancelFunc) { time.Sleep(time.Minute) },
			want:   map[string]string{"kedify.queue.outcome": "deadline", "kedify.queue.via_fallback": "true"},
			lasted: 28 * time.Second,
		},
		"the failover Service": {
			before: func(q *queue) {
				own := workload(0)
				own.HasFailover = true
				q.set(own)
			},
			do:     func(*queue, context.CancelFunc) { time.Sleep(time.Minute) },
			want:   map[string]string{"kedify.queue.outcome": "failover"},
			lasted: time.Minute,
		},
		"the client disconnects": {
			do:   func(_ *queue, cancel context.CancelFunc) { cancel() },
			want: map[string]string{"kedify.queue.outcome": "canceled"},
		},
		"the proxy moves to another replica": {
			do:   func(q *queue, _ context.CancelFunc) { q.Closed(proxyAddress(), q) },
			want: map[string]string{"kedify.queue.outcome": "proxy-moved"},
		},
		"the interceptor stops": {
			do:   func(q *queue, _ context.CancelFunc) { q.Close() },
			want: map[string]string{"kedify.queue.outcome": "interceptor-stopping"},
		},
		"the object is paused": {
			do: func(q *queue, _ context.CancelFunc) {
				paused := workload(0)
				paused.IsPaused = true
				q.set(paused)
			},
			want: map[string]string{"kedify.queue.outcome": "paused"},
		},
		"the object is deleted": {
			do:   func(q *queue, _ context.CancelFunc) { q.set(nil) },
			want: map[string]string{"kedify.queue.outcome": "unknown"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runQueue(t, func(q *queue) {
				if test.before != nil {
					test.before(q)
				}
				ctx, cancel := context.WithCancel(q.t.Context())
				defer cancel()
				q.call(ctx, slices.Concat([]string{"traceparent", sampled}, test.pairs)...)
				if spans := q.spans.GetSpans(); len(spans) > 0 {
					t.Fatalf("it does not wait: %v", endedOf(spans[0]))
				}
				test.do(q, cancel)
				synctest.Wait()
				spans := q.spans.GetSpans()
				if len(spans) != 1 {
					t.Fatalf("%d spans, want one", len(spans))
				}
				_, isReleased := test.want["kedify.queue.released_by"]
				want := ended{
					attributes: usualAttributes(test.lasted), events: test.events, lasted: test.lasted, isError: !isReleased,
				}
				maps.Copy(want.attributes, test.want)
				if want.events == nil {
					want.events = map[string]time.Duration{}
				}
				if diff := cmp.Diff(want, endedOf(spans[0]), cmp.AllowUnexported(ended{})); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				expectParent(t, spans[0])
			})
		})
	}
}

// usualAttributes returns the attributes of a request that has waited for a time, as the first one, without an endpoint.
func usualAttributes(lasted time.Duration) map[string]string {
	return map[string]string{
		"kedify.object.namespace": "apps", "kedify.object.name": "shop", "kedify.cluster": cluster,
		"kedify.proxy.address": proxyAddress().String(), "kedify.queue.reason": "no-endpoint", "kedify.queue.length": "1",
		"kedify.queue.via_fallback": "false",
		"kedify.queue.seconds":      attribute.Float64Value(lasted.Seconds()).String(),
	}
}

// expectParent checks the place of a span in the trace: it is the server of the proxy's call.
func expectParent(t *testing.T, span tracetest.SpanStub) {
	t.Helper()
	if span.Name != QueueSpan || span.SpanKind != trace.SpanKindServer ||
		span.SpanContext.TraceID().String() != traceID || span.Parent.SpanID().String() != parentID {
		t.Errorf("span %q of kind %v, trace %v, parent %v", span.Name, span.SpanKind, span.SpanContext.TraceID(),
			span.Parent.SpanID())
	}
}

// TestRequestsWithoutASpan: a request that does not wait, or whose proxy does not trace it, has no span.
func TestRequestsWithoutASpan(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		isServed bool
		pairs    []string
	}{
		"it does not wait":      {isServed: true, pairs: []string{"traceparent", sampled}},
		"no trace context":      {},
		"not sampled":           {pairs: []string{"traceparent", notSampled}},
		"invalid trace context": {pairs: []string{"traceparent", "00-" + traceID + "-01"}},
		"two trace contexts":    {pairs: []string{"traceparent", sampled, "traceparent", sampled}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runQueue(t, func(q *queue) {
				q.isServed = test.isServed
				q.call(q.t.Context(), test.pairs...)
				if isWaiting := len(q.done) == 0; isWaiting == test.isServed {
					t.Fatalf("it waits: %v", isWaiting)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				if spans := q.spans.GetSpans(); len(spans) > 0 || len(q.done) != 1 {
					t.Errorf("%d spans after %d calls, want none", len(spans), len(q.done))
				}
			})
		})
	}
}
