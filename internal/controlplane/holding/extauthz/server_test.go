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

// stream is a proxy's discovery stream that serves the cluster once it is told so.
type stream struct {
	number uint64
	fleet  string
	serves atomic.Bool
}

func (s *stream) Number() uint64          { return s.number }
func (s *stream) Fleet() string           { return s.fleet }
func (s *stream) Serves(name string) bool { return strings.HasPrefix(name, cluster) && s.serves.Load() }

// stage is a Server with a proxy that is connected and an app that is known.
type stage struct {
	*extauthz.Server

	t      *testing.T
	stream *stream
	told   *[]holding.Occasion // of shop
}

// play runs a test in a bubble.
func play(t *testing.T, run func(*testing.T, *stage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server, told := newServerOf(t, holding.Limits{App: 500, Namespace: 500, Proxy: 500, Total: 500})
		s := &stage{Server: server, t: t, stream: &stream{number: 1, fleet: "apps"}, told: told}
		s.SetApps(map[model.Key]*holding.App{shop: app()})
		s.Opened(proxy, s.stream)
		run(t, s)
		s.Close()
		s.Close()
		synctest.Wait()
	})
}

func newServer(t *testing.T) *extauthz.Server {
	t.Helper()
	server, _ := newServerOf(t, holding.Limits{App: 500, Namespace: 500, Proxy: 500, Total: 500})
	return server
}

// newServerOf is newServer with limits, and what it tells the owner of shop.
func newServerOf(t *testing.T, limits holding.Limits) (server *extauthz.Server, told *[]holding.Occasion) {
	t.Helper()
	told = new([]holding.Occasion)
	server, err := extauthz.New(extauthz.Options{
		Limits: limits, Registerer: prometheus.NewRegistry(),
		Notify: func(app model.Key, is holding.Occasion) {
			if app != shop {
				t.Errorf("%s is told of", app)
			}
			*told = append(*told, is)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return server, told
}

// app is the app as it is known at first.
func app() *holding.App {
	return &holding.App{Fleet: "apps", Clusters: []string{cluster}, Patience: time.Minute, CaughtPatience: 28 * time.Second}
}

// ended is what a call came to: the status of the answer by the proxy, or the code of the call.
type ended struct {
	status int32
	reason string
	isCold bool
	code   codes.Code
	after  time.Duration
}

// call makes a call. What it comes to is in the channel.
func (s *stage) call(ctx context.Context, keys ...string) <-chan ended {
	s.t.Helper()
	return s.callFor(ctx, new(authv3.CheckRequest), keys...)
}

// view is call for a browser that opens a page.
func (s *stage) view() <-chan ended {
	s.t.Helper()
	return s.callFor(s.t.Context(), view())
}

// view is what a proxy asks for a browser that opens a page.
func view() *authv3.CheckRequest {
	return &authv3.CheckRequest{Attributes: &authv3.AttributeContext{Request: &authv3.AttributeContext_Request{
		Http: &authv3.AttributeContext_HttpRequest{Method: http.MethodGet, Path: "/", Headers: map[string]string{"accept": "text/html,*/*"}},
	}}}
}

// asking is the context of a call from the proxy, with more metadata.
func asking(ctx context.Context, keys ...string) context.Context {
	return askingFor(ctx, proxy, cluster, keys...)
}

// askingFor is asking from any proxy, for any cluster.
func askingFor(ctx context.Context, from netip.Addr, name string, keys ...string) context.Context {
	sent := metadata.Pairs(translate.ClusterKey, name)
	for _, key := range keys {
		sent.Append(key, "1")
	}
	ctx = metadata.NewIncomingContext(ctx, sent)
	return peer.NewContext(ctx, &peer.Peer{Addr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 40000))})
}

// headerOf is a header of what a client is answered in the app's place.
func headerOf(response *authv3.CheckResponse, name string) string {
	for _, header := range response.GetDeniedResponse().GetHeaders() {
		if header.GetHeader().GetKey() == name {
			return header.GetHeader().GetValue()
		}
	}
	return ""
}

// callFor is call for a request.
func (s *stage) callFor(ctx context.Context, request *authv3.CheckRequest, keys ...string) <-chan ended {
	s.t.Helper()
	return s.begin(asking(ctx, keys...), request)
}

// callFrom is call from any proxy, for any cluster.
func (s *stage) callFrom(ctx context.Context, from netip.Addr, name string) <-chan ended {
	s.t.Helper()
	return s.begin(askingFor(ctx, from, name), new(authv3.CheckRequest))
}

// begin makes the call of a context.
func (s *stage) begin(ctx context.Context, request *authv3.CheckRequest) <-chan ended {
	s.t.Helper()
	done := make(chan ended, 1)
	began := time.Now()
	go func() {
		response, err := s.Check(ctx, request)
		is := ended{code: status.Code(err), after: time.Since(began), reason: headerOf(response, extauthz.ReasonHeader)}
		is.status = int32(response.GetDeniedResponse().GetStatus().GetCode())
		is.isCold = len(response.GetOkResponse().GetResponseHeadersToAdd()) > 0
		done <- is
	}()
	synctest.Wait()
	return done
}

// pending says whether a call waits.
func (s *stage) pending(done <-chan ended) bool {
	synctest.Wait()
	return len(done) == 0
}

// expect compares what a call came to.
func (s *stage) expect(done <-chan ended, want ended) {
	s.t.Helper()
	if diff := cmp.Diff(want, <-done, cmp.AllowUnexported(ended{})); diff != "" {
		s.t.Errorf("-want +got:\n%s", diff)
	}
}

// TestACallWaitsForItsProxy: until the proxy has confirmed an endpoint.
func TestACallWaitsForItsProxy(t *testing.T) {
	t.Parallel()
	play(t, func(t *testing.T, s *stage) {
		t.Helper()
		done := s.call(t.Context())
		time.Sleep(10 * time.Second)
		s.Confirmed(proxy) // of something else
		s.stream.serves.Store(true)
		s.Confirmed(proxy.Next())
		if !s.pending(done) {
			t.Error("it goes on for what another proxy has confirmed")
		}
		counts, _ := s.Counts()
		if diff := cmp.Diff(map[model.Key]holding.Count{shop: {Waiting: 1}}, counts); diff != "" {
			t.Error(diff)
		}
		s.Confirmed(proxy)
		s.expect(done, ended{isCold: true, after: 10 * time.Second})
		s.expect(s.call(t.Context()), ended{}) // It goes on at once, and is no cold start.
		if counts, _ := s.Counts(); len(counts) > 0 {
			t.Errorf("still counted: %v", counts)
		}
	})
}

// TestHowAWaitEnds is the table of the other ends.
func TestHowAWaitEnds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		do   func(*stage, context.CancelFunc)
		keys []string
		want ended
	}{
		"its deadline":           {func(*stage, context.CancelFunc) {}, nil, ended{status: 503, reason: extauthz.ReasonDeadline, after: time.Minute}},
		"that of one in the net": {func(*stage, context.CancelFunc) {}, []string{translate.NetKey}, ended{status: 503, reason: extauthz.ReasonDeadline, after: 28 * time.Second}},
		"the client goes":        {func(_ *stage, cancel context.CancelFunc) { cancel() }, nil, ended{code: codes.Canceled}},
		"the object goes":        {func(s *stage, _ context.CancelFunc) { s.SetApps(map[model.Key]*holding.App{shop: nil}) }, nil, ended{status: 503, reason: extauthz.ReasonUnknown}},
		"the object is paused":   {func(s *stage, _ context.CancelFunc) { s.pause() }, nil, ended{status: 503, reason: extauthz.ReasonPaused}},
		"the proxy goes":         {func(s *stage, _ context.CancelFunc) { s.Closed(proxy, s.stream) }, nil, ended{code: codes.Unavailable}},
		"the interceptor stops":  {func(s *stage, _ context.CancelFunc) { s.Close() }, nil, ended{code: codes.Unavailable}},
		"nothing but a new stream": {func(s *stage, _ context.CancelFunc) {
			s.Opened(proxy, &stream{number: 2, fleet: "apps"})
			s.Closed(proxy, s.stream)
		}, nil, ended{status: 503, reason: extauthz.ReasonDeadline, after: time.Minute}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(t, func(t *testing.T, s *stage) {
				t.Helper()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				done := s.call(ctx, c.keys...)
				if !s.pending(done) {
					t.Fatal("it doesn't wait")
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

// pause has nothing start the app any more.
func (s *stage) pause() {
	paused := app()
	paused.IsPaused = true
	s.SetApps(map[model.Key]*holding.App{shop: paused})
}

// TestTheLatestStreamCounts: a proxy that has connected again may still have its old stream.
func TestTheLatestStreamCounts(t *testing.T) {
	t.Parallel()
	play(t, func(t *testing.T, s *stage) {
		t.Helper()
		done := s.call(t.Context())
		later := &stream{number: 2, fleet: "apps"}
		s.Opened(proxy, later)
		s.stream.serves.Store(true)
		s.Confirmed(proxy)
		if !s.pending(done) {
			t.Error("it goes on for what an old stream has confirmed")
		}
		later.serves.Store(true)
		s.Confirmed(proxy)
		s.expect(done, ended{isCold: true})
	})
}

// TestACallMayComeFirst: before the proxy's stream, and before the objects are known. It then waits, but not for long.
func TestACallMayComeFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &stage{Server: newServer(t), t: t, stream: &stream{number: 1, fleet: "apps"}}
		s.stream.serves.Store(true)
		s.expect(s.call(t.Context()), ended{code: codes.Unavailable, after: 2 * time.Second})
		done := s.call(t.Context())
		s.Opened(proxy, s.stream)
		if !s.pending(done) {
			t.Error("it is answered before the objects are known")
		}
		time.Sleep(time.Second)
		s.SetApps(map[model.Key]*holding.App{shop: app()})
		s.expect(done, ended{after: time.Second})
	})
}

// TestTheFirstOfAnAppIsTold: at once, and each that is first again, but not those that come beside it.
func TestTheFirstOfAnAppIsTold(t *testing.T) {
	t.Parallel()
	play(t, func(t *testing.T, s *stage) {
		t.Helper()
		isTold := func(urgent <-chan struct{}) bool {
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
			if !isTold(urgent) {
				t.Error("the first request is not told")
			}
			_, urgent = s.Counts()
			second := s.call(ctx)
			if isTold(urgent) {
				t.Error("the second one is told")
			}
			cancel()
			s.expect(first, ended{code: codes.Canceled})
			s.expect(second, ended{code: codes.Canceled})
		}
	})
}

// TestReleaseIsPaced: so many go on at once, fewer after each pause, and who comes meanwhile stands in line. After a rest as many go on at once as at first.
func TestReleaseIsPaced(t *testing.T) {
	t.Parallel()
	play(t, func(t *testing.T, s *stage) {
		t.Helper()
		for range 2 {
			s.stream.serves.Store(false)
			var all []<-chan ended
			for range 150 {
				all = append(all, s.call(t.Context()))
			}
			s.stream.serves.Store(true)
			s.Confirmed(proxy)
			all = append(all, s.call(t.Context()))
			s.Confirmed(proxy) // of something else
			for _, want := range []int{100, 120, 140, 151} {
				if got := s.answered(all); got != want {
					t.Errorf("%d go on, want %d", got, want)
				}
				time.Sleep(holding.PacePause)
			}
			time.Sleep(5 * holding.PacePause)
		}
	})
}

// TestAProxysAppsShareItsPace: many that wake at once are no more than one would be, each has its turn, and other proxies are not concerned.
func TestAProxysAppsShareItsPace(t *testing.T) {
	t.Parallel()
	play(t, func(t *testing.T, s *stage) {
		t.Helper()
		const apps, each = 10, 20
		many := app()
		for i := range apps {
			many.Clusters = append(many.Clusters, nameOf(i))
		}
		s.SetApps(map[model.Key]*holding.App{shop: many})
		other := &stream{number: 2, fleet: "apps"}
		s.Opened(proxy.Next(), other)
		var all, others []<-chan ended
		byCluster := make([][]<-chan ended, apps)
		for i := range apps * each {
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
		if got := s.answered(others); got != 100 {
			t.Errorf("%d of another proxy go on, want all", got)
		}
		for want := 100; want <= apps*each; want += 20 {
			if got := s.answered(all); got != want {
				t.Errorf("%d go on, want %d", got, want)
			}
			for i, own := range byCluster {
				if got := s.answered(own); got != want/apps {
					t.Errorf("%d of app %d go on, want %d", got, i, want/apps)
				}
			}
			time.Sleep(holding.PacePause)
		}
	})
}

// nameOf is the name of one of many clusters, which a stream serves that serves cluster.
func nameOf(i int) string { return fmt.Sprint(cluster, "-", i) }

// answered is how many calls have come to something.
func (s *stage) answered(all []<-chan ended) (count int) {
	synctest.Wait()
	for _, each := range all {
		count += len(each)
	}
	return count
}

// TestAPageWaits in place of a browser, which counts as one request until it has not asked for a while; others wait
// by themselves. When the app serves, the next view is the app's.
func TestAPageWaits(t *testing.T) {
	t.Parallel()
	play(t, func(t *testing.T, s *stage) {
		t.Helper()
		withPage := app()
		withPage.Page = new(page.Default())
		s.SetApps(map[model.Key]*holding.App{shop: withPage})
		waiting := func() int {
			synctest.Wait()
			counts, _ := s.Counts()
			return counts[shop].Waiting
		}
		_, urgent := s.Counts()
		for range 3 {
			s.expect(s.view(), ended{status: 503, reason: extauthz.ReasonPage})
			time.Sleep(10 * time.Second)
		}
		select {
		case <-urgent:
		default:
			t.Error("the first view is not told")
		}
		if got := waiting(); got != 1 {
			t.Errorf("%d wait after three views", got)
		}
		time.Sleep(5 * time.Second)
		if got := waiting(); got != 0 {
			t.Errorf("%d wait although nobody looks any more", got)
		}
		s.expect(s.view(), ended{status: 503, reason: extauthz.ReasonPage})
		other := s.call(t.Context())
		if got := waiting(); got != 2 {
			t.Errorf("%d wait, want a page and a request", got)
		}
		s.stream.serves.Store(true)
		s.Confirmed(proxy)
		s.expect(other, ended{isCold: true})
		s.expect(s.view(), ended{})
		if got := waiting(); got != 0 {
			t.Errorf("%d wait although the app serves", got)
		}
		s.stream.serves.Store(false) // It goes to zero again, while the last view is still remembered.
		s.expect(s.view(), ended{status: 503, reason: extauthz.ReasonPage})
		if got := waiting(); got != 1 {
			t.Errorf("%d wait at the next zero", got)
		}
	})
}

// TestAnotherServiceAnswers at the deadline of an app that names one: the request goes on with a mark, and is counted no more.
func TestAnotherServiceAnswers(t *testing.T) {
	t.Parallel()
	play(t, func(t *testing.T, s *stage) {
		t.Helper()
		own := app()
		own.FailsOver = true
		s.SetApps(map[model.Key]*holding.App{shop: own})
		began := time.Now()
		response, err := s.Check(asking(t.Context()), new(authv3.CheckRequest))
		mark := response.GetDynamicMetadata().GetFields()[translate.FailoverKey].GetBoolValue()
		removed := response.GetOkResponse().GetHeadersToRemove()
		if err != nil || !mark || len(removed) != 1 || time.Since(began) != own.Patience {
			t.Errorf("after %v: %v, %v", time.Since(began), response, err)
		}
		if counts, _ := s.Counts(); len(counts) > 0 {
			t.Errorf("still counted: %v", counts)
		}
		s.expectTold(holding.ColdStart, holding.FailedOver)
		s.stream.serves.Store(true)
		response, err = s.Check(asking(t.Context()), new(authv3.CheckRequest))
		if err != nil || response.GetDynamicMetadata() != nil || len(response.GetOkResponse().GetHeadersToRemove()) > 0 {
			t.Errorf("one for an app that serves: %v, %v", response, err)
		}
	})
}

// expectTold compares what the owner has been told.
func (s *stage) expectTold(want ...holding.Occasion) {
	s.t.Helper()
	if diff := cmp.Diff(want, *s.told); diff != "" {
		s.t.Errorf("told (-want +got):\n%s", diff)
	}
}

// TestWhatOwnersHearOf: the first of a cold start, each that is refused by a limit, and each that waits in vain; not those that are served, that go,
// or that follow their proxy.
func TestWhatOwnersHearOf(t *testing.T) {
	t.Parallel()
	play(t, func(t *testing.T, s *stage) {
		t.Helper()
		first := s.call(t.Context())
		for range 499 {
			s.call(t.Context())
		}
		s.expectTold(holding.ColdStart)
		s.expect(s.call(t.Context()), ended{status: 503, reason: extauthz.ReasonLimit})
		s.expectTold(holding.ColdStart, holding.TurnedAway)
		s.stream.serves.Store(true)
		s.Confirmed(proxy)
		s.expect(first, ended{isCold: true})
		time.Sleep(time.Second)
		s.expectTold(holding.ColdStart, holding.TurnedAway)
		s.stream.serves.Store(false)
		s.expect(s.call(t.Context()), ended{status: 503, reason: extauthz.ReasonDeadline, after: time.Minute})
		ctx, cancel := context.WithCancel(t.Context())
		gone := s.call(ctx)
		cancel()
		s.expect(gone, ended{code: codes.Canceled})
		s.expectTold(holding.ColdStart, holding.TurnedAway, holding.ColdStart, holding.TooLate, holding.ColdStart)
	})
}

// TestAPageOfItsOwn: what the object asks for is shown, and a view counts for as long as the page may stand still.
func TestAPageOfItsOwn(t *testing.T) {
	t.Parallel()
	play(t, func(t *testing.T, s *stage) {
		t.Helper()
		own := app()
		own.Page = &page.Page{Body: "soon", Status: 202, RetryAfter: time.Minute}
		s.SetApps(map[model.Key]*holding.App{shop: own})
		response, err := s.Check(asking(t.Context()), view())
		denied := response.GetDeniedResponse()
		if err != nil || denied.GetBody() != "soon" || denied.GetStatus().GetCode() != 202 || headerOf(response, "Retry-After") != "60" {
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

// TestBadCalls are those that no proxy makes.
func TestBadCalls(t *testing.T) {
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
