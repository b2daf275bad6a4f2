package refusals_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/testkit"
	"github.com/kedify/argo-rollouts-plugin/internal/testkit/netspace"
)

// loadPause is the time between two requests of a load.
const loadPause = 10 * time.Millisecond

// startApp runs an app that answers with its name, and returns its port.
func startApp(t *testing.T, name string) int {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", netspace.Address().String()+":0")
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, name) }))
	server.Listener = listener
	server.Start()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	address, ok := listener.Addr().(*net.TCPAddr)
	if !ok {
		t.Fatalf("the listener has the address %v", listener.Addr())
	}
	return address.Port
}

// answer is what a request got.
type answer struct {
	status int
	body   string
}

// get makes a request. host is whom it is for, whatever the URL says; empty for the URL's.
func (s *stage) get(ctx context.Context, url, host string) (answer, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return answer{}, err
	}
	request.Host = host
	response, err := s.client.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, string(body)}, err
}

// ask makes a request through Envoy and returns the name of the app that answered, or the status where none did.
func (s *stage) ask(ctx context.Context, host string) (string, error) {
	got, err := s.get(ctx, "http://127.0.0.1:8080/", host)
	if err != nil || got.status != http.StatusOK {
		return strconv.Itoa(got.status), err
	}
	return got.body, nil
}

// answers counts who answers that many requests for host.
func (s *stage) answers(t *testing.T, host string, requests int) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for range requests {
		got, err := s.ask(t.Context(), host)
		if err != nil {
			t.Fatalf("%s: %v", host, err)
		}
		counts[got]++
	}
	return counts
}

// expectAnswers waits until want answers a request for host and then makes sure that nobody else does.
func (s *stage) expectAnswers(t *testing.T, host, want string) {
	t.Helper()
	testkit.Eventually(t, patience, want+" answers for "+host, func() bool { return s.answers(t, host, 1)[want] == 1 })
	const requests = 20
	if got := s.answers(t, host, requests); got[want] != requests {
		t.Errorf("answers for %s are from %v, want %d from %s", host, got, requests, want)
	}
}

// startLoad makes requests for a host until stop, which fails the test if one of them was not answered by an app.
func (s *stage) startLoad(t *testing.T, host string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	sent, failed := 0, []string(nil)
	group.Go(func() {
		ticker := time.NewTicker(loadPause)
		defer ticker.Stop()
		for ; ctx.Err() == nil; <-ticker.C {
			got, err := s.ask(context.WithoutCancel(ctx), host)
			sent++
			if err != nil || (got != "stable" && got != "canary") {
				failed = append(failed, fmt.Sprint(got, err))
			}
		}
	})
	return func() {
		cancel()
		group.Wait()
		if sent == 0 || len(failed) > 0 {
			t.Errorf("of %d requests for %s %d failed: %.3q", sent, host, len(failed), failed)
		}
	}
}
