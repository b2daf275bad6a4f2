package extauthz_test

import (
	"context"
	"io"
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
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding/extauthz"
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

func (s *stream) Number() uint64 { return s.number }

func (s *stream) Fleet() string { return s.fleet }

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

// checkStream is the stream of one call.
type checkStream struct {
	grpc.ServerStream

	context  func() context.Context
	request  *authv3.CheckRequest // nil once it was received
	response *authv3.CheckResponse
}

func (s *checkStream) Context() context.Context { return s.context() }

func (s *checkStream) RecvMsg(into any) error {
	if s.request == nil {
		return io.EOF
	}
	proto.Merge(into.(proto.Message), s.request)
	s.request = nil
	return nil
}

func (s *checkStream) SendMsg(m any) error {
	s.response = m.(*authv3.CheckResponse)
	return nil
}

// contextOf returns the context of calls of a proxy.
func (s *fixture) contextOf(from netip.Addr) func() context.Context {
	return func() context.Context { return callContextFor(s.t.Context(), from, cluster) }
}

// check makes a call, and returns its response.
func check(ctx context.Context, s *extauthz.Server, request *authv3.CheckRequest) (*authv3.CheckResponse, error) {
	stream := &checkStream{context: func() context.Context { return ctx }, request: request}
	err := s.ServeCheck(stream) //nolint:contextcheck // the call has the context of its stream
	return stream.response, err
}

// start makes a call with a context.
func (s *fixture) start(ctx context.Context, request *authv3.CheckRequest) <-chan result {
	s.t.Helper()
	done := make(chan result, 1)
	began := time.Now()
	go func() {
		response, err := check(ctx, s.Server, request)
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

// pause pauses autoscaling of the workload.
func (s *fixture) pause() {
	paused := workload()
	paused.IsPaused = true
	s.SetWorkloads(map[model.Key]*holding.Workload{shop: paused})
}

// ended returns how many calls have ended.
func (s *fixture) ended(all []<-chan result) (count int) {
	synctest.Wait()
	for _, each := range all {
		count += len(each)
	}
	return count
}

// expectReasons compares the reasons of all notifications.
func (s *fixture) expectReasons(want ...holding.Reason) {
	s.t.Helper()
	if diff := cmp.Diff(want, *s.reasons); diff != "" {
		s.t.Errorf("reasons (-want +got):\n%s", diff)
	}
}
