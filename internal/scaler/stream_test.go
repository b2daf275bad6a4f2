package scaler_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics"
	"github.com/kedify/argo-rollouts-plugin/internal/scaler"
	"github.com/kedify/argo-rollouts-plugin/internal/scaler/externalscaler"
)

// recorder is the server's side of a stream. It records the times of pushes.
type recorder struct {
	grpc.ServerStream

	ctx    context.Context //nolint:containedctx // a stream has its context
	began  time.Time
	pushed []time.Duration
	denied int
}

func (r *recorder) Context() context.Context { return r.ctx }

func (r *recorder) Send(response *externalscaler.IsActiveResponse) error {
	if !response.GetResult() {
		r.denied++
	}
	r.pushed = append(r.pushed, time.Since(r.began))
	return nil
}

// TestPushes changes the state of an object on a synthetic clock, and checks when true is pushed.
func TestPushes(t *testing.T) {
	queued, busy := state{demand: metrics.Value{Queued: 1}}, state{demand: metrics.Value{RequestRate: 1}}
	unknown, streaming := state{err: errSilent}, state{demand: metrics.Value{Concurrency: 1}}
	type at map[time.Duration]state
	const ms = time.Millisecond
	tests := []struct {
		name  string
		known at
		want  []time.Duration
	}{
		{"nothing while idle", at{0: {}}, nil},
		{"nothing while unknown", at{0: unknown}, nil},
		{"once on connect while active", at{0: busy}, []time.Duration{0}},
		{
			"at once when a request is queued, and each second while it is",
			at{0: {}, 300 * ms: queued, 2500 * ms: {}},
			[]time.Duration{300 * ms, 1300 * ms, 2300 * ms},
		},
		{
			"a second queued request is not pushed at once",
			at{0: queued, 300 * ms: queued, 1500 * ms: {}},
			[]time.Duration{0, 1000 * ms},
		},
		{"once when it becomes active", at{0: {}, 300 * ms: busy}, []time.Duration{300 * ms}},
		{"once when a stream opens, whatever its rate", at{0: {}, 300 * ms: streaming}, []time.Duration{300 * ms}},
		{"nothing when only the streams are left", at{0: busy, 300 * ms: streaming}, []time.Duration{0}},
		{"again when it becomes active again", at{0: busy, 300 * ms: {}, 600 * ms: busy}, []time.Duration{0, 600 * ms}},
		{"nothing after unknown activity in between", at{0: busy, 300 * ms: unknown, 600 * ms: busy}, []time.Duration{0}},
		{"a canary is noticed within a second", at{0: {}, 300 * ms: {canary: true}}, []time.Duration{300 * ms}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newFakeSource()
				w.set(web, test.known[0])
				delete(test.known, 0)
				ctx, cancel := context.WithCancel(t.Context())
				stream := &recorder{ctx: ctx, began: time.Now()}
				observer, err := scaler.NewMetrics(prometheus.NewRegistry())
				if err != nil {
					t.Fatal(err)
				}
				service := scaler.NewService(w, w, observer, slog.New(slog.DiscardHandler))
				done := make(chan error, 1)
				go func() { done <- service.StreamIsActive(reference(nil), stream) }()
				for when, known := range test.known {
					time.AfterFunc(when, func() { w.set(web, known) })
				}
				time.Sleep(5 * time.Second) // The clock is synctest's.
				cancel()
				if err := <-done; !errors.Is(err, context.Canceled) {
					t.Errorf("the stream ended with %v", err)
				}
				if diff := cmp.Diff(test.want, stream.pushed); diff != "" || stream.denied > 0 {
					t.Errorf("%d times false; pushes (-want +got)\n%s", stream.denied, diff)
				}
			})
		})
	}
}

// TestIdleStreamsDoNotPoll lets an hour pass: without a change, only a stream with unknown activity or queued requests
// reads the demand again.
func TestIdleStreamsDoNotPoll(t *testing.T) {
	for name, test := range map[string]struct {
		known       state
		least, most int
	}{
		"idle":            {state{}, 1, 1},
		"active":          {state{demand: metrics.Value{RequestRate: 1}}, 1, 1},
		"streaming":       {state{demand: metrics.Value{Concurrency: 1}}, 1, 1},
		"in a canary":     {state{canary: true}, 1, 1},
		"not known":       {state{err: errSilent}, 3600, 3602},
		"queued":          {state{demand: metrics.Value{Queued: 1}}, 3600, 3602},
		"maybe in canary": {state{errCanary: errSilent}, 3600, 3602},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newFakeSource()
				w.set(web, test.known)
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				observer, err := scaler.NewMetrics(prometheus.NewRegistry())
				if err != nil {
					t.Fatal(err)
				}
				service := scaler.NewService(w, w, observer, slog.New(slog.DiscardHandler))
				if err := service.StreamIsActive(
					reference(nil), &recorder{ctx: ctx, began: time.Now()},
				); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("the stream ended with %v", err)
				}
				if w.calls < test.least || w.calls > test.most {
					t.Errorf("%d calls of Demand in an hour, want %d to %d", w.calls, test.least, test.most)
				}
			})
		})
	}
}

// TestCloseEndsStreamsCleanly checks what KEDA's back-off depends on: Close ends each stream with EOF, which is status
// OK, and so does a later stream on the same connection.
func TestCloseEndsStreamsCleanly(t *testing.T) {
	w := newFakeSource()
	w.set(web, state{demand: metrics.Value{Queued: 1}})
	client, service, _ := serve(t, w, 10)
	stream, err := client.StreamIsActive(t.Context(), reference(nil))
	if err != nil {
		t.Fatal(err)
	}
	if pushed, err := stream.Recv(); !pushed.GetResult() || err != nil {
		t.Fatalf("pushed %v, %v", pushed, err)
	}
	service.Close()
	service.Close()
	for {
		if _, err = stream.Recv(); err != nil {
			break
		}
	}
	if !errors.Is(err, io.EOF) {
		t.Errorf("the stream ended with %v, want EOF", err)
	}
	late, err := client.StreamIsActive(t.Context(), reference(nil))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := late.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("a late stream ended with %v, want EOF", err)
	}
	if _, err := client.IsActive(t.Context(), reference(nil)); err != nil {
		t.Errorf("a call during shutdown: %v", err)
	}
}

// TestStreamBeforeItsObject opens a stream before its HTTPScaledObject exists.
func TestStreamBeforeItsObject(t *testing.T) {
	w := newFakeSource()
	client, _, _ := serve(t, w, 10)
	stream, err := client.StreamIsActive(t.Context(), reference(nil))
	if err != nil {
		t.Fatal(err)
	}
	w.set(web, state{demand: metrics.Value{Queued: 1}})
	if pushed, err := stream.Recv(); !pushed.GetResult() || err != nil {
		t.Errorf("pushed %v, %v", pushed, err)
	}
}

func TestStreamOfAnInvalidTriggerFails(t *testing.T) {
	client, _, _ := serve(t, newFakeSource(), 10)
	stream, err := client.StreamIsActive(t.Context(), reference(map[string]string{"targetValue": "x"}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); status.Code(err) != codes.InvalidArgument {
		t.Errorf("the stream ended with %v", err)
	}
}

// TestStreamsOfAConnectionAreLimited opens one stream more than the limit of a connection. As in HTTP/2, it waits.
func TestStreamsOfAConnectionAreLimited(t *testing.T) {
	w := newFakeSource()
	w.set(web, state{demand: metrics.Value{Queued: 1}})
	client, _, _ := serve(t, w, 1)
	first, err := client.StreamIsActive(t.Context(), reference(nil))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := first.Recv(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond) //testbounds:allow it is there to expire
	defer cancel()
	if _, err := client.IsActive(ctx, reference(nil)); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("a call above the limit: %v, want it to wait", err)
	}
}

// TestLargeTrigger sends triggers with as much metadata as is allowed, and more, and one in a namespace that no cluster
// can have.
func TestLargeTrigger(t *testing.T) {
	w := newFakeSource()
	w.set(web, state{})
	client, _, _ := serve(t, w, 10)
	for size, want := range map[int]codes.Code{60 << 10: codes.OK, 65 << 10: codes.ResourceExhausted} {
		_, err := client.IsActive(t.Context(), reference(map[string]string{"hosts": strings.Repeat("x", size)}))
		if status.Code(err) != want {
			t.Errorf("metadata of %d bytes: %v, want %v", size, err, want)
		}
	}
	_, err := client.IsActive(t.Context(), &externalscaler.ScaledObjectRef{Namespace: strings.Repeat("x", 9000), Name: "web"})
	if got := status.Convert(err); got.Code() != codes.InvalidArgument || len(got.Message()) > 2000 {
		t.Errorf("an invalid namespace: %v, %d bytes", got.Code(), len(got.Message()))
	}
}
