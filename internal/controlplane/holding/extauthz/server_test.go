package extauthz_test

import (
	"context"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding/extauthz"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// TestCallWaitsForItsProxy checks that a call waits until its own proxy has ACKed an endpoint.
func TestCallWaitsForItsProxy(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, s *fixture) {
		t.Helper()
		done := s.call(t.Context())
		time.Sleep(10 * time.Second)
		s.EndpointsAcked(proxy) // of another cluster
		s.stream.serves.Store(true)
		s.EndpointsAcked(proxy.Next())
		if !s.pending(done) {
			t.Error("it was released by the ACK of another proxy")
		}
		counts, _ := s.Counts()
		if diff := cmp.Diff(map[model.Key]holding.Count{shop: {Waiting: 1}}, counts); diff != "" {
			t.Error(diff)
		}
		s.EndpointsAcked(proxy)
		s.expect(done, result{isCold: true, after: 10 * time.Second})
		s.expect(s.call(t.Context()), result{}) // It is released at once, and is no cold start.
		if counts, _ := s.Counts(); len(counts) > 0 {
			t.Errorf("still counted: %v", counts)
		}
	})
}

// TestEndOfWait checks the other ways in which a call ends.
func TestEndOfWait(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		do   func(*fixture, context.CancelFunc)
		keys []string
		want result
	}{
		"its deadline": {
			func(*fixture, context.CancelFunc) {}, nil, result{status: 503, reason: extauthz.ReasonDeadline, after: time.Minute},
		},
		"the deadline via fallback": {
			func(*fixture, context.CancelFunc) {},
			[]string{translate.HoldFallbackKey},
			result{status: 503, reason: extauthz.ReasonDeadline, after: 28 * time.Second},
		},
		"the client disconnects": {
			func(_ *fixture, cancel context.CancelFunc) { cancel() }, nil, result{code: codes.Canceled},
		},
		"the object is deleted": {
			func(s *fixture, _ context.CancelFunc) { s.SetWorkloads(map[model.Key]*holding.Workload{shop: nil}) }, nil,
			result{status: 503, reason: extauthz.ReasonUnknown},
		},
		"the object is paused": {
			func(s *fixture, _ context.CancelFunc) { s.pause() }, nil, result{status: 503, reason: extauthz.ReasonPaused},
		},
		"the proxy disconnects": {
			func(s *fixture, _ context.CancelFunc) { s.Closed(proxy, s.stream) }, nil, result{code: codes.Unavailable},
		},
		"the interceptor stops": {
			func(s *fixture, _ context.CancelFunc) { s.Close() }, nil, result{code: codes.Unavailable},
		},
		"only a new stream": {func(s *fixture, _ context.CancelFunc) {
			s.Opened(proxy, &stream{number: 2, fleet: "apps"})
			s.Closed(proxy, s.stream)
		}, nil, result{status: 503, reason: extauthz.ReasonDeadline, after: time.Minute}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, func(t *testing.T, s *fixture) {
				t.Helper()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				done := s.call(ctx, c.keys...)
				if !s.pending(done) {
					t.Fatal("it does not wait")
				}
				c.do(s, cancel)
				s.expect(done, c.want)
				if counts, _ := s.Counts(); len(counts) > 0 {
					t.Errorf("still counted: %v", counts)
				}
			})
		})
	}
}

// TestLatestStreamApplies has a proxy that has reconnected and still has its old stream.
func TestLatestStreamApplies(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, s *fixture) {
		t.Helper()
		done := s.call(t.Context())
		later := &stream{number: 2, fleet: "apps"}
		s.Opened(proxy, later)
		s.stream.serves.Store(true)
		s.EndpointsAcked(proxy)
		if !s.pending(done) {
			t.Error("it was released by the ACK on an old stream")
		}
		later.serves.Store(true)
		s.EndpointsAcked(proxy)
		s.expect(done, result{isCold: true})
	})
}

// TestCallBeforeStream makes calls before the proxy's stream opens, and before SetWorkloads. They wait briefly.
func TestCallBeforeStream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &fixture{Server: newServer(t), t: t, stream: &stream{number: 1, fleet: "apps"}}
		s.stream.serves.Store(true)
		s.expect(s.call(t.Context()), result{code: codes.Unavailable, after: 2 * time.Second})
		done := s.call(t.Context())
		s.Opened(proxy, s.stream)
		if !s.pending(done) {
			t.Error("it ended before SetWorkloads")
		}
		time.Sleep(time.Second)
		s.SetWorkloads(map[model.Key]*holding.Workload{shop: workload()})
		s.expect(done, result{after: time.Second})
	})
}

// TestFirstRequestIsUrgent checks that the channel of Counts is closed for the first queued request of a workload, and
// not for further ones.
func TestFirstRequestIsUrgent(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, s *fixture) {
		t.Helper()
		isUrgent := func(urgent <-chan struct{}) bool {
			synctest.Wait()
			select {
			case <-urgent:
				return true
			default:
				return false
			}
		}
		for range 2 {
			ctx, cancel := context.WithCancel(t.Context())
			_, urgent := s.Counts()
			first := s.call(ctx)
			if !isUrgent(urgent) {
				t.Error("the first request is not urgent")
			}
			_, urgent = s.Counts()
			second := s.call(ctx)
			if isUrgent(urgent) {
				t.Error("the second request is urgent")
			}
			cancel()
			s.expect(first, result{code: codes.Canceled})
			s.expect(second, result{code: codes.Canceled})
		}
	})
}

// TestFailover checks that a request of a workload with a failover Service is released at the deadline, with dynamic
// metadata, and leaves the queue.
func TestFailover(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, s *fixture) {
		t.Helper()
		own := workload()
		own.HasFailover = true
		s.SetWorkloads(map[model.Key]*holding.Workload{shop: own})
		began := time.Now()
		response, err := check(callContext(t.Context()), s.Server, new(authv3.CheckRequest))
		mark := response.GetDynamicMetadata().GetFields()[translate.FailoverKey].GetBoolValue()
		removed := response.GetOkResponse().GetHeadersToRemove()
		if err != nil || !mark || len(removed) != 1 || time.Since(began) != own.Timeout {
			t.Errorf("after %v: %v, %v", time.Since(began), response, err)
		}
		if counts, _ := s.Counts(); len(counts) > 0 {
			t.Errorf("still counted: %v", counts)
		}
		s.expectReasons(holding.ColdStart, holding.FailedOver)
		s.stream.serves.Store(true)
		response, err = check(callContext(t.Context()), s.Server, new(authv3.CheckRequest))
		if err != nil || response.GetDynamicMetadata() != nil || len(response.GetOkResponse().GetHeadersToRemove()) > 0 {
			t.Errorf("a workload that serves: %v, %v", response, err)
		}
	})
}

// TestNotify checks the notifications: the first request of a cold start, each rejected and each timed out request, but
// none for requests that are served, canceled or moved.
func TestNotify(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, s *fixture) {
		t.Helper()
		first := s.call(t.Context())
		for range 499 {
			s.call(t.Context())
		}
		s.expectReasons(holding.ColdStart)
		s.expect(s.call(t.Context()), result{status: 503, reason: extauthz.ReasonLimit})
		s.expectReasons(holding.ColdStart, holding.Rejected)
		s.stream.serves.Store(true)
		s.EndpointsAcked(proxy)
		s.expect(first, result{isCold: true})
		time.Sleep(time.Second)
		s.expectReasons(holding.ColdStart, holding.Rejected)
		s.stream.serves.Store(false)
		s.expect(s.call(t.Context()), result{status: 503, reason: extauthz.ReasonDeadline, after: time.Minute})
		ctx, cancel := context.WithCancel(t.Context())
		canceled := s.call(ctx)
		cancel()
		s.expect(canceled, result{code: codes.Canceled})
		s.expectReasons(holding.ColdStart, holding.Rejected, holding.ColdStart, holding.TimedOut, holding.ColdStart)
	})
}

// TestInvalidCalls makes calls that Envoy never makes.
func TestInvalidCalls(t *testing.T) {
	t.Parallel()
	at := peer.NewContext(t.Context(), &peer.Peer{Addr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(proxy, 1))})
	expect := func(name string, ctx context.Context, want codes.Code) {
		if _, err := check(ctx, newServer(t), new(authv3.CheckRequest)); status.Code(err) != want {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
	expect("no peer", t.Context(), codes.Internal)
	expect("no address", peer.NewContext(t.Context(), &peer.Peer{Addr: &net.UnixAddr{Name: "x"}}), codes.Internal)
	expect("no cluster", at, codes.InvalidArgument)
	two := metadata.Pairs(translate.ClusterKey, "a", translate.ClusterKey, "b")
	expect("two clusters", metadata.NewIncomingContext(at, two), codes.InvalidArgument)
}
