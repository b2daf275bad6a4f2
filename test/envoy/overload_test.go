package envoy_test

import (
	"errors"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/netspace"
)

// memory is a file that a proxy reads instead of the size of its heap.
type memory struct{ file string }

// newMemory returns a memory of which nothing is used.
func newMemory(t *testing.T) memory {
	t.Helper()
	m := memory{filepath.Join(t.TempDir(), "used")}
	m.use(t, "0")
	return m
}

// use changes the used share, from "0" to "1". Envoy watches for files that are moved to the path.
func (m memory) use(t *testing.T, share string) {
	t.Helper()
	if err := os.WriteFile(m.file+".new", []byte(share), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(m.file+".new", m.file); err != nil {
		t.Fatal(err)
	}
}

// changes returns the changes of the bootstrap by which the proxy reads the file, and has statistics of its actions.
func (m memory) changes() []string {
	return []string{
		"envoy.resource_monitors.fixed_heap", "envoy.resource_monitors.injected_resource",
		"resource_monitors.fixed_heap.v3.FixedHeapConfig", "resource_monitors.injected_resource.v3.InjectedResourceConfig",
		"max_heap_size_bytes: 900000000", "filename: " + m.file,
		"- prefix: server.", "- prefix: server.\n        - prefix: overload.",
	}
}

// awaitAction waits until an action of the overload manager is at its maximum, or is not active.
func (n *node) awaitAction(t *testing.T, action string, isActive bool) {
	t.Helper()
	await.True(t, "the state of "+action, func() bool {
		return (n.stat(t, "overload.envoy.overload_actions."+action+".active") == 1) == isActive
	})
}

// client returns the address of the proxy for clients.
func (n *node) client() string {
	return netip.AddrPortFrom(n.served[0], translate.ListenerPort).String()
}

// get sends a request on the connection.
func (c *rawClient) get() result {
	if err := c.write("GET / HTTP/1.1", "Host: app.test"); err != nil {
		return result{err: err}
	}
	return c.read(http.MethodGet)
}

// TestOverload raises the used memory of a proxy: above 95 % it rejects requests and closes idle connections, and above
// 98 % a new connection waits until there is memory again. Probes succeed all the time.
func TestOverload(t *testing.T) {
	t.Parallel()
	if !netspace.Isolate(t, netspace.IPv4) {
		return
	}
	used := newMemory(t)
	n := startNode(t, addressesOf(netspace.IPv4), used.changes()...)
	ready := func(at string) {
		t.Helper()
		if code, body := n.status(t, http.MethodGet, "/ready", nil); code != http.StatusOK {
			t.Errorf("/ready at %s of the memory: %d %s", at, code, body)
		}
	}
	idle := dial(t, n.client())
	if got := idle.get(); got.status != http.StatusOK {
		t.Fatalf("a request without overload: %+v", got)
	}

	used.use(t, "0.96")
	n.awaitAction(t, "stop_accepting_requests", true)
	await.True(t, "the rejection of a request", func() bool {
		return dial(t, n.client()).get().status == http.StatusServiceUnavailable
	})
	ready("96 %")
	if _, err := idle.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("an idle connection at 96 %% of the memory: %v, want its end", err)
	}

	used.use(t, "0.99")
	n.awaitAction(t, "stop_accepting_connections", true)
	const accepted = "http.kedify-proxy.downstream_cx_total"
	var waiting *rawClient
	await.True(t, "a connection that is not accepted", func() bool {
		before := n.stat(t, accepted)
		waiting = dial(t, n.client())
		ready("99 %")
		return n.stat(t, accepted) == before
	})

	used.use(t, "0.1")
	n.awaitAction(t, "stop_accepting_requests", false)
	if got := waiting.get(); got.status != http.StatusOK && got.status != http.StatusServiceUnavailable {
		t.Errorf("the connection that waited: %+v", got)
	}
	await.True(t, "requests are served again", func() bool {
		return dial(t, n.client()).get().status == http.StatusOK
	})
}

// TestOverloadResetsLargeStreams: a proxy without memory resets an upload that the app does not read. A stream that
// buffers nothing continues.
func TestOverloadResetsLargeStreams(t *testing.T) {
	t.Parallel()
	if !netspace.Isolate(t, netspace.IPv4) {
		return
	}
	used := newMemory(t)
	n := startNode(t, addressesOf(netspace.IPv4), used.changes()...)
	client := &http.Transport{Protocols: new(http.Protocols)}
	client.Protocols.SetUnencryptedHTTP2(true)
	defer client.CloseIdleConnections()
	send := func(path string, body io.Reader) <-chan result {
		answer := make(chan result, 1)
		request, err := http.NewRequestWithContext(await.Context(t), http.MethodPost, "http://"+n.client()+path, body)
		if err != nil {
			t.Fatal(err)
		}
		request.Host = "app.test"
		go func() { answer <- roundTrip(request, client) }()
		return answer
	}
	release := sync.OnceFunc(func() { close(n.app.release) })
	defer release()
	small := send("/held", http.NoBody)
	<-n.app.arrived
	large := send("/held", io.LimitReader(zeros{}, 1<<30))
	// Each change of the pressure is an occasion to reset streams. The upload fills the buffers meanwhile.
	var got result
	await.True(t, "the end of the upload", func() bool {
		for _, share := range []string{"0.97", "1"} {
			used.use(t, share)
			n.awaitAction(t, "stop_accepting_connections", share == "1")
		}
		select {
		case got = <-large:
			return true
		default:
			return false
		}
	})
	if got.err == nil {
		t.Errorf("the upload is answered: %+v", got)
	}
	used.use(t, "0")
	release()
	if got := <-small; got.status != http.StatusOK {
		t.Errorf("the small request: %+v", got)
	}
}
