package refusals_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/netspace"
	"github.com/kedify/argo-rollouts-plugin/test/kit/traffic"
)

const (
	// proxyAddress is the address of Envoy's listener.
	proxyAddress = "127.0.0.1:8080"
	// rate is the maximum number of requests per second of a load.
	rate = 250
)

// startApp starts an app that responds with its name as a JSON string, and returns its port.
func startApp(t *testing.T, name string) int {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", netspace.Address().String()+":0")
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request,
	) {
		_, _ = fmt.Fprintf(w, "%q", name)
	}))
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

// get sends a request through Envoy and returns the name of the app that responded, or the status if it is not 200.
func get(ctx context.Context, host string) (string, error) {
	got, err := traffic.Get(ctx, "http://"+proxyAddress+"/", host, nil)
	if err != nil || got.Status != http.StatusOK {
		return strconv.Itoa(got.Status), err
	}
	return strconv.Unquote(string(got.Body))
}

// answers counts the results of a number of requests for host.
func answers(t *testing.T, host string, requests int) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for range requests {
		got, err := get(t.Context(), host)
		if err != nil {
			t.Fatalf("%s: %v", host, err)
		}
		counts[got]++
	}
	return counts
}

// expectAnswers waits until want responds to a request for host, and then checks that all further responses are from
// want.
func expectAnswers(t *testing.T, host, want string) {
	t.Helper()
	await.True(t, want+" answers for "+host, func() bool { return answers(t, host, 1)[want] == 1 })
	const requests = 20
	if got := answers(t, host, requests); got[want] != requests {
		t.Errorf("answers for %s are from %v, want %d from %s", host, got, requests, want)
	}
}

// startLoad sends requests for a host until stop, which fails the test if an app did not respond to one of them.
func startLoad(t *testing.T, host string) (stop func()) {
	t.Helper()
	return traffic.Start(t, proxyAddress, host, rate, "stable", "canary").Stop
}
