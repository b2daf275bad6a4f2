package extauthz_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding/extauthz"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding/page"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

const cluster = "apps/shop/shop"

var (
	proxy = netip.MustParseAddr("10.0.0.7")
	shop  = model.Key{Namespace: "apps", Name: "shop"}
)

// stream is a proxy's discovery stream that serves the cluster once serves is set.
type stream struct {
	number uint64
	fleet  string
	serves atomic.Bool
}

func (s *stream) Number() uint64          { return s.number }
func (s *stream) Fleet() string           { return s.fleet }
func (s *stream) Serves(name string) bool { return strings.HasPrefix(name, cluster) && s.serves.Load() }

// fixture is a Server with a connected proxy and a workload.
type fixture struct {
	*extauthz.Server

	t       *testing.T
	stream  *stream
	reasons *[]holding.Reason // of shop
}

// run runs a test in a bubble.
func run(t *testing.T, run func(*testing.T, *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server, reasons := newServerOf(t, holding.Limits{Object: 500, Namespace: 500, Proxy: 500, Total: 500})
		s := &fixture{Server: server, t: t, stream: &stream{number: 1, fleet: "apps"}, reasons: reasons}
		s.SetWorkloads(map[model.Key]*holding.Workload{shop: workload()})
		s.Opened(proxy, s.stream)
		run(t, s)
		s.Close()
		s.Close()
		synctest.Wait()
	})
}

func newServer(t *testing.T) *extauthz.Server {
	t.Helper()
	server, _ := newServerOf(t, holding.Limits{Object: 500, Namespace: 500, Proxy: 500, Total: 500})
	return server
}

// newServerOf is newServer with limits, and returns the notifications of shop.
func newServerOf(t *testing.T, limits holding.Limits) (server *extauthz.Server, reasons *[]holding.Reason) {
	t.Helper()
	reasons = new([]holding.Reason)
	server, err := extauthz.New(extauthz.Options{
		Limits: limits, Registerer: prometheus.NewRegistry(),
		Notify: func(key model.Key, reason holding.Reason) {
			if key != shop {
				t.Errorf("notified of %s", key)
			}
			*reasons = append(*reasons, reason)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return server, reasons
}

// workload returns the workload that each test starts with.
func workload() *holding.Workload {
	return &holding.Workload{
		Fleet: "apps", Clusters: []string{cluster}, Timeout: time.Minute, FallbackTimeout: 28 * time.Second,
	}
}

// result is the result of a call: the status of the local reply, or the code of the call.
type result struct {
	status int32
	reason string
	isCold bool
	code   codes.Code
	after  time.Duration
}

// call makes a call. The channel receives its result.
func (s *fixture) call(ctx context.Context, keys ...string) <-chan result {
	s.t.Helper()
	return s.callFor(ctx, new(authv3.CheckRequest), keys...)
}

// view is call for a browser that opens a page.
func (s *fixture) view() <-chan result {
	s.t.Helper()
	return s.callFor(s.t.Context(), pageView())
}

// pageView returns the call for a browser that opens a page.
func pageView() *authv3.CheckRequest {
	return &authv3.CheckRequest{Attributes: &authv3.AttributeContext{Request: &authv3.AttributeContext_Request{
		Http: &authv3.AttributeContext_HttpRequest{
			Method: http.MethodGet, Path: "/", Headers: map[string]string{"accept": "text/html,*/*"},
		},
	}}}
}

// callContext returns the context of a call from the proxy, with further metadata keys.
func callContext(ctx context.Context, keys ...string) context.Context {
	return callContextFor(ctx, proxy, cluster, keys...)
}

// callContextFor is callContext for any proxy and cluster.
func callContextFor(ctx context.Context, from netip.Addr, name string, keys ...string) context.Context {
	md := metadata.Pairs(translate.ClusterKey, name)
	for _, key := range keys {
		md.Append(key, "1")
	}
	ctx = metadata.NewIncomingContext(ctx, md)
	return peer.NewContext(ctx, &peer.Peer{Addr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 40000))})
}

// headerOf returns a header of the local reply.
func headerOf(response *authv3.CheckResponse, name string) string {
	for _, header := range response.GetDeniedResponse().GetHeaders() {
		if header.GetHeader().GetKey() == name {
			return header.GetHeader().GetValue()
		}
	}
	return ""
}

// callFor is call with a check request.
func (s *fixture) callFor(ctx context.Context, request *authv3.CheckRequest, keys ...string) <-chan result {
	s.t.Helper()
	return s.start(callContext(ctx, keys...), request)
}

// callFrom is call from any proxy, for any cluster.
func (s *fixture) callFrom(ctx context.Context, from netip.Addr, name string) <-chan result {
	s.t.Helper()
	return s.start(callContextFor(ctx, from, name), new(authv3.CheckRequest))
}

// start makes a call with a context.
func (s *fixture) start(ctx context.Context, request *authv3.CheckRequest) <-chan result {
	s.t.Helper()
	done := make(chan result, 1)
	began := time.Now()
	go func() {
		response, err := s.Check(ctx, request)
		got := result{code: status.Code(err), after: time.Since(began), reason: headerOf(response, extauthz.ReasonHeader)}
		got.status = int32(response.GetDeniedResponse().GetStatus().GetCode())
		got.isCold = len(response.GetOkResponse().GetResponseHeadersToAdd()) > 0
		done <- got
	}()
	synctest.Wait()
	return done
}

// pending reports whether a call waits.
func (s *fixture) pending(done <-chan result) bool {
	synctest.Wait()
	return len(done) == 0
}

// expect compares the result of a call.
func (s *fixture) expect(done <-chan result, want result) {
	s.t.Helper()
	if diff := cmp.Diff(want, <-done, cmp.AllowUnexported(result{})); diff != "" {
		s.t.Errorf("-want +got:\n%s", diff)
	}
}

// TestCallWaitsForItsProxy checks that a call waits until its own proxy has ACKed an endpoint.
func TestCallWaitsForItsProxy(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, s *fixture) {
		t.Helper()
		done := s.call(t.Context())
		time.Sleep(10 * time.Second)
		s.Confirmed(proxy) // of another cluster
		s.stream.serves.Store(true)
		s.Confirmed(proxy.Next())
		if !s.pending(done) {
			t.Error("it was released by the ACK of another proxy")
		}
		counts, _ := s.Counts()
		if diff := cmp.Diff(map[model.Key]holding.Count{shop: {Waiting: 1}}, counts); diff != "" {
			t.Error(diff)
		}
		s.Confirmed(proxy)
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
			func(*fixture, context.CancelFunc) {}, []string{translate.HoldFallbackKey},
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

// pause pauses autoscaling of the workload.
func (s *fixture) pause() {
	paused := workload()
	paused.IsPaused = true
	s.SetWorkloads(map[model.Key]*holding.Workload{shop: paused})
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
		s.Confirmed(proxy)
		if !s.pending(done) {
			t.Error("it was released by the ACK on an old stream")
		}
		later.serves.Store(true)
		s.Confirmed(proxy)
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

// TestReleaseIsPaced checks the burst, the refills and the order of requests that arrive in between. After a pause the
// burst is available again.
func TestReleaseIsPaced(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, s *fixture) {
		t.Helper()
		for range 2 {
			s.stream.serves.Store(false)
			var all []<-chan result
			for range 150 {
				all = append(all, s.call(t.Context()))
			}
			s.stream.serves.Store(true)
			s.Confirmed(proxy)
			all = append(all, s.call(t.Context()))
			s.Confirmed(proxy) // of another cluster
			for _, want := range []int{100, 120, 140, 151} {
				if got := s.ended(all); got != want {
					t.Errorf("%d released, want %d", got, want)
				}
				time.Sleep(holding.RefillInterval)
			}
			time.Sleep(5 * holding.RefillInterval)
		}
	})
}

// TestWorkloadsShareThePacer checks that all clusters of a proxy share its Pacer in turn, and that other proxies are
// not affected.
func TestWorkloadsShareThePacer(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, s *fixture) {
		t.Helper()
		const clusters, each = 10, 20
		many := workload()
		for i := range clusters {
			many.Clusters = append(many.Clusters, nameOf(i))
		}
		s.SetWorkloads(map[model.Key]*holding.Workload{shop: many})
		other := &stream{number: 2, fleet: "apps"}
		s.Opened(proxy.Next(), other)
		var all, others []<-chan result
		byCluster := make([][]<-chan result, clusters)
		for i := range clusters * each {
			done := s.callFrom(t.Context(), proxy, nameOf(i/each))
			all, byCluster[i/each] = append(all, done), append(byCluster[i/each], done)
			if i < 100 {
				others = append(others, s.callFrom(t.Context(), proxy.Next(), nameOf(i/each)))
			}
		}
		s.stream.serves.Store(true)
		other.serves.Store(true)
		s.Confirmed(proxy)
		s.Confirmed(proxy.Next())
		if got := s.ended(others); got != 100 {
			t.Errorf("%d of another proxy released, want all", got)
		}
		for want := 100; want <= clusters*each; want += 20 {
			if got := s.ended(all); got != want {
				t.Errorf("%d released, want %d", got, want)
			}
			for i, own := range byCluster {
				if got := s.ended(own); got != want/clusters {
					t.Errorf("%d of cluster %d released, want %d", got, i, want/clusters)
				}
			}
			time.Sleep(holding.RefillInterval)
		}
	})
}

// nameOf returns the name of one of many clusters with the prefix cluster.
func nameOf(i int) string { return fmt.Sprint(cluster, "-", i) }

// ended returns how many calls have ended.
func (s *fixture) ended(all []<-chan result) (count int) {
	synctest.Wait()
	for _, each := range all {
		count += len(each)
	}
	return count
}

// TestWaitingPage checks that page views count as one request until the browser stops refreshing, that other requests
// wait as usual, and that the next view is released once the workload serves.
func TestWaitingPage(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, s *fixture) {
		t.Helper()
		withPage := workload()
		withPage.Page = new(page.Default())
		s.SetWorkloads(map[model.Key]*holding.Workload{shop: withPage})
		waiting := func() int {
			synctest.Wait()
			counts, _ := s.Counts()
			return counts[shop].Waiting
		}
		_, urgent := s.Counts()
		for range 3 {
			s.expect(s.view(), result{status: 503, reason: extauthz.ReasonPage})
			time.Sleep(10 * time.Second)
		}
		select {
		case <-urgent:
		default:
			t.Error("the first view is not urgent")
		}
		if got := waiting(); got != 1 {
			t.Errorf("%d wait after three views", got)
		}
		time.Sleep(5 * time.Second)
		if got := waiting(); got != 0 {
			t.Errorf("%d wait although no browser refreshes any more", got)
		}
		s.expect(s.view(), result{status: 503, reason: extauthz.ReasonPage})
		other := s.call(t.Context())
		if got := waiting(); got != 2 {
			t.Errorf("%d wait, want a page and a request", got)
		}
		s.stream.serves.Store(true)
		s.Confirmed(proxy)
		s.expect(other, result{isCold: true})
		s.expect(s.view(), result{})
		if got := waiting(); got != 0 {
			t.Errorf("%d wait although the workload serves", got)
		}
		s.stream.serves.Store(false) // Scaled to zero again, while the last view still counts.
		s.expect(s.view(), result{status: 503, reason: extauthz.ReasonPage})
		if got := waiting(); got != 1 {
			t.Errorf("%d wait at the next zero", got)
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
		response, err := s.Check(callContext(t.Context()), new(authv3.CheckRequest))
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
		response, err = s.Check(callContext(t.Context()), new(authv3.CheckRequest))
		if err != nil || response.GetDynamicMetadata() != nil || len(response.GetOkResponse().GetHeadersToRemove()) > 0 {
			t.Errorf("a workload that serves: %v, %v", response, err)
		}
	})
}

// expectReasons compares the reasons of all notifications.
func (s *fixture) expectReasons(want ...holding.Reason) {
	s.t.Helper()
	if diff := cmp.Diff(want, *s.reasons); diff != "" {
		s.t.Errorf("reasons (-want +got):\n%s", diff)
	}
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
		s.Confirmed(proxy)
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

// TestCustomPage checks that the page of the object is shown, and that a view counts until its next refresh is overdue.
func TestCustomPage(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, s *fixture) {
		t.Helper()
		own := workload()
		own.Page = &page.Page{Body: "soon", Status: 202, RetryAfter: time.Minute}
		s.SetWorkloads(map[model.Key]*holding.Workload{shop: own})
		response, err := s.Check(callContext(t.Context()), pageView())
		denied := response.GetDeniedResponse()
		if err != nil || denied.GetBody() != "soon" || denied.GetStatus().GetCode() != 202 ||
			headerOf(response, "Retry-After") != "60" {
			t.Errorf("%v, %v", response, err)
		}
		for _, want := range []int{1, 0} {
			if counts, _ := s.Counts(); counts[shop].Waiting != want {
				t.Errorf("%+v, want %d", counts, want)
			}
			time.Sleep(73 * time.Second)
		}
	})
}

// TestInvalidCalls makes calls that Envoy never makes.
func TestInvalidCalls(t *testing.T) {
	t.Parallel()
	at := peer.NewContext(t.Context(), &peer.Peer{Addr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(proxy, 1))})
	expect := func(name string, ctx context.Context, want codes.Code) {
		if _, err := newServer(t).Check(ctx, new(authv3.CheckRequest)); status.Code(err) != want {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
	expect("no peer", t.Context(), codes.Internal)
	expect("no address", peer.NewContext(t.Context(), &peer.Peer{Addr: &net.UnixAddr{Name: "x"}}), codes.Internal)
	expect("no cluster", at, codes.InvalidArgument)
	two := metadata.Pairs(translate.ClusterKey, "a", translate.ClusterKey, "b")
	expect("two clusters", metadata.NewIncomingContext(at, two), codes.InvalidArgument)
}
