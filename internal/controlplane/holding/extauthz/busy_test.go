package extauthz_test

import (
	"sync"
	"testing"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding/extauthz"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// busyStream is a stream whose session can be busy, such as with the first resources of a proxy: Serves waits for the
// lock of the session.
type busyStream struct {
	stream

	session sync.Mutex
	asked   chan struct{} // has an element if Serves was called
}

func (s *busyStream) Serves(name string) bool {
	select {
	case s.asked <- struct{}{}:
	default:
	}
	s.session.Lock()
	defer s.session.Unlock()
	return s.stream.Serves(name)
}

// checkFrom makes a call of a proxy, by its number, and returns a channel that is closed when the call has released its request.
func checkFrom(t *testing.T, server *extauthz.Server, from int) <-chan struct{} {
	t.Helper()
	released, at := make(chan struct{}), proxy
	for range from {
		at = at.Next()
	}
	ctx := callContextFor(await.Context(t), at, cluster)
	go func() {
		if response, err := check(ctx, server, new(authv3.CheckRequest)); err == nil && response.GetOkResponse() != nil {
			close(released)
		}
	}()
	return released
}

// TestBusySessionDelaysNoOtherProxy has a proxy whose session is busy when its requests are to be released. Requests of
// another proxy are queued and released meanwhile, and workloads change.
func TestBusySessionDelaysNoOtherProxy(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	defer server.Close()
	server.SetWorkloads(map[model.Key]*holding.Workload{shop: workload()})
	busy := &busyStream{stream: stream{number: 1, fleet: "apps"}, asked: make(chan struct{}, 1)}
	other := &stream{number: 2, fleet: "apps"}
	server.Opened(proxy, busy)
	server.Opened(proxy.Next(), other)
	areQueued := func(count int) func() bool {
		return func() bool {
			counts, _ := server.Counts()
			return counts[shop].Waiting == count
		}
	}
	own, others := checkFrom(t, server, 0), checkFrom(t, server, 1)
	await.True(t, "both requests are queued", areQueued(2))

	<-busy.asked // by the call
	busy.session.Lock()
	unlock := sync.OnceFunc(busy.session.Unlock)
	defer unlock()
	acked := make(chan struct{})
	go func() {
		server.EndpointsAcked(proxy)
		close(acked)
	}()
	await.Receive(t, "the question what the busy proxy serves", busy.asked)
	changed := make(chan struct{})
	go func() {
		server.SetWorkloads(map[model.Key]*holding.Workload{shop: workload()})
		close(changed)
	}()
	await.Receive(t, "the end of SetWorkloads", changed)
	later := checkFrom(t, server, 1)
	await.True(t, "another request is queued", areQueued(3))
	other.serves.Store(true)
	server.EndpointsAcked(proxy.Next())
	await.Receive(t, "the release of the first request of the other proxy", others)
	await.Receive(t, "the release of its later request", later)
	await.Receive(t, "a request that does not wait", checkFrom(t, server, 1))
	if !areQueued(1)() {
		t.Error("the request of the busy proxy is not queued")
	}

	busy.serves.Store(true)
	unlock()
	await.Receive(t, "the end of the busy session", acked)
	await.Receive(t, "the release of its request", own)
}

// TestACKBetweenCheckAndQueue has a proxy that acknowledges an endpoint after a call has asked what it serves, and
// before the request is queued. No later ACK follows.
func TestACKBetweenCheckAndQueue(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	defer server.Close()
	server.SetWorkloads(map[model.Key]*holding.Workload{shop: workload()})
	server.Opened(proxy, &lateStream{stream: stream{number: 1, fleet: "apps"}})
	await.Receive(t, "the release of the request", checkFrom(t, server, 0))
}

// lateStream is a stream that serves the cluster from the second call of Serves on.
type lateStream struct{ stream }

func (s *lateStream) Serves(string) bool { return s.serves.Swap(true) }
