package load

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// A server that reads a request on a kept connection and closes it without a response fails the request. The Transport
// of net/http hides that.
func TestACutConnectionIsNotHidden(t *testing.T) {
	const requests = 10
	var asked atomic.Int64
	var served sync.Map // the connections that have carried a request, by the client's address
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if _, again := served.LoadOrStore(r.RemoteAddr, true); again {
			panic(http.ErrAbortHandler) // closes the connection
		}
		_, _ = io.WriteString(w, `"blue"`)
	}))
	defer server.Close()
	failures := func(ask func() error) (failed int, reached int64) {
		asked.Store(0)
		for range requests {
			if ask() != nil {
				failed++
			}
		}
		return failed, asked.Load()
	}

	client := &http.Client{Transport: new(http.Transport), Timeout: await.Patience()}
	defer client.CloseIdleConnections()
	failed, reached := failures(func() error {
		response, err := client.Get(server.URL) //nolint:noctx // the client has a timeout
		if err == nil {
			_, _ = io.Copy(io.Discard, response.Body) // a connection is kept only after a complete read
			err = response.Body.Close()
		}
		return err
	})
	if failed != 0 || reached != 2*requests-1 {
		t.Errorf("net/http: %d of %d requests failed, %d reached the server: does it not repeat them any more?",
			failed, requests, reached)
	}

	kept := keptHTTP1{target: config(server.Listener.Addr().String()).target(), idle: make(chan *http1Conn, 1)}
	defer kept.close()
	failed, reached = failures(func() error {
		_, err := kept.ask(t.Context())
		return err
	})
	if failed != requests/2 || reached != requests {
		t.Errorf("%d of %d requests failed, %d reached the server, which cut every other one", failed, requests, reached)
	}
}
