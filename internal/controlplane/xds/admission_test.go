package xds

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/xds/session"
	"github.com/kedify/argo-rollouts-plugin/internal/server/grpcserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
	"github.com/kedify/argo-rollouts-plugin/test/kit/envoyresources"
)

// memoryFor returns the memory for a number of proxies that join at a time, each with the resources of a number of
// applications, and these resources.
func memoryFor(tb testing.TB, proxies, applications int) (*grpcserver.Budget, envoyresources.Resources) {
	tb.Helper()
	desired := envoyresources.Applications(tb, applications)
	bytes := 0
	for _, resources := range desired {
		bytes += proxies * len(resources) * session.JoiningBytes
	}
	return grpcserver.NewBudget(bytes, bytes), desired
}

// TestJoiningProxiesWaitForMemory has memory for one proxy. The next one receives nothing until that one has joined.
// Meanwhile a proxy that has joined receives a change.
func TestJoiningProxiesWaitForMemory(t *testing.T) {
	t.Parallel()
	memory, desired := memoryFor(t, 1, 10)
	s := serve(t, Options{Joining: memory})
	if err := s.publish(desired); err != nil {
		t.Fatal(err)
	}
	established := kit.NewXDSClient(t, s.conn, kit.XDSDelta)
	established.WaitFor(s.isSynced)
	s.await(func([]StreamState) bool { return memory.Used() == 0 })
	slow, err := discoveryv3.NewAggregatedDiscoveryServiceClient(s.conn).DeltaAggregatedResources(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := slow.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: resourcev3.ClusterType}); err != nil {
		t.Fatal(err)
	}
	if _, err := slow.Recv(); err != nil { // It does not answer.
		t.Fatal(err)
	}
	next := kit.NewXDSClient(t, s.conn, kit.XDSDelta)
	s.await(func(states []StreamState) bool { return len(states) == 3 })
	envoyresources.AddCanary(desired)
	if err := s.publish(desired); err != nil {
		t.Fatal(err)
	}
	established.WaitFor(s.isSynced)
	if clusters := next.State().Clusters; len(clusters) > 0 {
		t.Errorf("a proxy that waits has received %d clusters", len(clusters))
	}
	if err := slow.CloseSend(); err != nil {
		t.Fatal(err)
	}
	next.WaitFor(s.isSynced)
}

// TestJoiningProxyEndsIfOthersWait has two proxies that never answer. The first one loses its turn after a while, but
// only because the second one waits for it.
func TestJoiningProxyEndsIfOthersWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		memory, desired := memoryFor(t, 1, 10)
		s := NewServer(Options{Joining: memory})
		if err := s.Publish(testFleet, desired); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := make(chan error, 2)
		join := func() {
			s.mu.Lock()
			st := &stream{fleet: s.fleet(testFleet), session: session.New(session.ModeDelta, 0, "", session.ProxyRejections{})}
			s.mu.Unlock()
			reserved := s.admit(ctx, st.fleet)
			defer reserved.Release()
			ended <- s.run(ctx, st, silent{ctx}, s.options.Logger, reserved)
		}
		go join()
		time.Sleep(joinTimeout + joinPause/2) // The clock is synctest's.
		go join()
		synctest.Wait()
		if len(ended) > 0 || memory.Used() == 0 {
			t.Fatalf("%d streams have ended, %d bytes are reserved, want one stream", len(ended), memory.Used())
		}
		time.Sleep(joinPause)
		if err := <-ended; status.Code(err) != codes.Unavailable {
			t.Errorf("the first one ended with %v", err)
		}
		time.Sleep(2 * joinTimeout)
		if len(ended) > 0 || memory.Used() == 0 {
			t.Errorf("%d streams have ended, %d bytes are reserved, want the second stream", len(ended), memory.Used())
		}
		cancel()
		if err := <-ended; status.Code(err) != codes.Canceled {
			t.Errorf("the second one ended with %v", err)
		}
	})
}

// silent is the transport of a proxy that sends nothing.
type silent struct{ ctx context.Context } //nolint:containedctx // its stream has one

func (t silent) receive() (session.Request, error) {
	<-t.ctx.Done()
	return session.Request{}, t.ctx.Err()
}

func (silent) send(session.Response) error { return nil }
