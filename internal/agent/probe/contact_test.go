package probe_test

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/agent/probe"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/loopback"
)

// proxy is a server that can be killed, and come back.
type proxy struct {
	t        *testing.T
	at       netip.AddrPort
	listener net.Listener
	accepted chan net.Conn
}

// newProxy returns one that serves, at an address of its own: nobody else listens there after it is killed.
func newProxy(t *testing.T) *proxy {
	t.Helper()
	p := &proxy{t: t, at: netip.AddrPortFrom(loopback.Address(), 8080)}
	p.serve()
	t.Cleanup(p.kill)
	return p
}

// serve has it take connections.
func (p *proxy) serve() {
	p.t.Helper()
	listener, err := new(net.ListenConfig).Listen(p.t.Context(), "tcp", p.at.String())
	if err != nil {
		p.t.Fatal(err)
	}
	accepted := make(chan net.Conn, 100)
	p.listener, p.accepted = listener, accepted
	go func() {
		defer close(accepted)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			accepted <- conn
		}
	}()
}

// connection is the next one that somebody has made.
func (p *proxy) connection() net.Conn {
	p.t.Helper()
	return await.Receive(p.t, "a connection", p.accepted)
}

// kill ends it with all its connections.
func (p *proxy) kill() {
	_ = p.listener.Close() // It may be killed already.
	for conn := range p.accepted {
		_ = conn.Close()
	}
}

// start returns a Keeper that runs, and what it tells.
func start(t *testing.T) (*probe.Keeper, <-chan string) {
	t.Helper()
	told := make(chan string, 100)
	keeper := probe.New(func(_ context.Context, namespace string) { told <- namespace })
	ctx, end := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- keeper.Start(ctx) }()
	t.Cleanup(func() {
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return keeper, told
}

// hears waits for news of a namespace.
func hears(t *testing.T, told <-chan string, want string) {
	t.Helper()
	if namespace := await.Receive(t, "news of namespace "+want, told); namespace != want {
		t.Errorf("there is news of namespace %s, want %s", namespace, want)
	}
}

func TestAKilledProxyIsGoneUntilItIsBack(t *testing.T) {
	t.Parallel()
	one, two := newProxy(t), newProxy(t)
	keeper, told := start(t)
	both := []netip.AddrPort{one.at, two.at}
	if gone := keeper.Keep("shop", both); len(gone) > 0 {
		t.Errorf("%v are gone, and nobody has looked", gone)
	}
	first := one.connection()
	defer func() { _ = two.connection().Close() }()

	_ = first.Close() // Envoy closes idle connections, too.
	again := one.connection()
	if gone := keeper.Keep("shop", both); len(gone) > 0 {
		t.Errorf("%v are gone, and take connections", gone)
	}

	one.kill()
	_ = again.Close()
	hears(t, told, "shop")
	if gone := keeper.Keep("shop", both); !slices.Equal(gone, both[:1]) {
		t.Errorf("%v are gone, want %v", gone, both[:1])
	}

	one.serve()
	hears(t, told, "shop")
	if gone := keeper.Keep("shop", both); len(gone) > 0 {
		t.Errorf("%v are gone, and are back", gone)
	}
}

// TestWhatWasNeverThereIsNotGone: somebody may forbid the connection.
func TestWhatWasNeverThereIsNotGone(t *testing.T) {
	t.Parallel()
	refusing, serving := newProxy(t), newProxy(t)
	refusing.kill()
	keeper, told := start(t)
	all := []netip.AddrPort{refusing.at, serving.at}
	keeper.Keep("shop", all)
	connection := serving.connection()
	serving.kill()
	_ = connection.Close()
	hears(t, told, "shop")
	if gone := keeper.Keep("shop", all); !slices.Equal(gone, all[1:]) {
		t.Errorf("%v are gone, want %v", gone, all[1:])
	}
}

// TestNobodyIsConnectedToForNothing ends the connection to a proxy that is no longer asked for, and keeps that of another namespace.
func TestNobodyIsConnectedToForNothing(t *testing.T) {
	t.Parallel()
	mine, other := newProxy(t), newProxy(t)
	keeper, _ := start(t)
	keeper.Keep("shop", []netip.AddrPort{mine.at})
	keeper.Keep("other", []netip.AddrPort{other.at})
	left, stays := mine.connection(), other.connection()
	keeper.Keep("shop", nil)
	if err := left.SetReadDeadline(time.Now().Add(await.Patience())); err != nil {
		t.Fatal(err)
	}
	if n, err := left.Read(make([]byte, 1)); n != 0 || err == nil || isTimeout(err) {
		t.Errorf("the connection says %d bytes and %v, want its end", n, err)
	}
	//testbounds:allow the deadline expires on purpose
	if err := stays.SetReadDeadline(time.Now().Add(time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := stays.Read(make([]byte, 1)); !isTimeout(err) {
		t.Errorf("the other namespace's connection says %v, want nothing", err)
	}
	if more := len(mine.accepted); more > 0 {
		t.Errorf("%d more connections were made", more)
	}
}

// isTimeout says that nothing was to be read in time.
func isTimeout(err error) bool {
	timeout, is := err.(net.Error) //nolint:errorlint // What a connection says is not wrapped.
	return is && timeout.Timeout()
}
