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

// proxy is a server that can be killed and restarted.
type proxy struct {
	t        *testing.T
	at       netip.AddrPort
	listener net.Listener
	accepted chan net.Conn
}

// newProxy returns a serving proxy at an address of its own: nothing else listens there after it is killed.
func newProxy(t *testing.T) *proxy {
	t.Helper()
	p := &proxy{t: t, at: netip.AddrPortFrom(loopback.Address(), 8080)}
	p.serve()
	t.Cleanup(p.kill)
	return p
}

// serve accepts connections.
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

// connection returns the next accepted connection.
func (p *proxy) connection() net.Conn {
	p.t.Helper()
	return await.Receive(p.t, "a connection", p.accepted)
}

// kill closes the listener and all connections.
func (p *proxy) kill() {
	_ = p.listener.Close() // It may be killed already.
	for conn := range p.accepted {
		_ = conn.Close()
	}
}

// start returns a running Prober and the channel of its events.
func start(t *testing.T) (*probe.Prober, <-chan string) {
	t.Helper()
	events := make(chan string, 100)
	prober := probe.New(func(_ context.Context, namespace string) { events <- namespace })
	ctx, end := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- prober.Start(ctx) }()
	t.Cleanup(func() {
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return prober, events
}

// expectEvent waits for an event of a namespace.
func expectEvent(t *testing.T, events <-chan string, want string) {
	t.Helper()
	if namespace := await.Receive(t, "news of namespace "+want, events); namespace != want {
		t.Errorf("there is news of namespace %s, want %s", namespace, want)
	}
}

func TestKilledProxyIsGone(t *testing.T) {
	t.Parallel()
	one, two := newProxy(t), newProxy(t)
	prober, events := start(t)
	both := []netip.AddrPort{one.at, two.at}
	if gone := prober.Watch("shop", both); len(gone) > 0 {
		t.Errorf("%v are gone, before any probe", gone)
	}
	first := one.connection()
	defer func() { _ = two.connection().Close() }()

	_ = first.Close() // Envoy closes idle connections, too.
	again := one.connection()
	if gone := prober.Watch("shop", both); len(gone) > 0 {
		t.Errorf("%v are gone, and take connections", gone)
	}

	one.kill()
	_ = again.Close()
	expectEvent(t, events, "shop")
	if gone := prober.Watch("shop", both); !slices.Equal(gone, both[:1]) {
		t.Errorf("%v are gone, want %v", gone, both[:1])
	}

	one.serve()
	expectEvent(t, events, "shop")
	if gone := prober.Watch("shop", both); len(gone) > 0 {
		t.Errorf("%v are gone, and are back", gone)
	}
}

// TestUnreachableProxyIsNotGone: a NetworkPolicy may forbid the connection.
func TestUnreachableProxyIsNotGone(t *testing.T) {
	t.Parallel()
	refusing, serving := newProxy(t), newProxy(t)
	refusing.kill()
	prober, events := start(t)
	all := []netip.AddrPort{refusing.at, serving.at}
	prober.Watch("shop", all)
	connection := serving.connection()
	serving.kill()
	_ = connection.Close()
	expectEvent(t, events, "shop")
	if gone := prober.Watch("shop", all); !slices.Equal(gone, all[1:]) {
		t.Errorf("%v are gone, want %v", gone, all[1:])
	}
}

// TestCloseUnwatchedConnections closes the connection to a proxy that is no longer watched, and keeps that of
// another namespace.
func TestCloseUnwatchedConnections(t *testing.T) {
	t.Parallel()
	mine, other := newProxy(t), newProxy(t)
	prober, _ := start(t)
	prober.Watch("shop", []netip.AddrPort{mine.at})
	prober.Watch("other", []netip.AddrPort{other.at})
	left, stays := mine.connection(), other.connection()
	prober.Watch("shop", nil)
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

// isTimeout reports whether a read timed out.
func isTimeout(err error) bool {
	timeout, is := err.(net.Error) //nolint:errorlint // What a connection says is not wrapped.
	return is && timeout.Timeout()
}
