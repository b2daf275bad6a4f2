package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/loopback"
	"github.com/kedify/argo-rollouts-plugin/test/kit/memhttp"
)

// serve starts an in-memory server and returns a configuration for it.
func serve(t *testing.T, handler http.HandlerFunc) Config {
	t.Helper()
	c := config("proxy:80")
	c.Timeout, c.Dial = 5*time.Second, memhttp.Serve(t, memhttp.Server(handler))
	return c
}

// serveTCP starts a server on the loopback interface, where a connection can be reset. It uses the real clock. The loop
// is closed, so that a slow machine has no more requests in flight and no request is late.
func serveTCP(t *testing.T, handler http.HandlerFunc) Config {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	server.Config = memhttp.Server(handler)
	server.Start()
	t.Cleanup(server.Close)
	c := config(server.Listener.Addr().String())
	c.MaxInFlight, c.Rate, c.Closed = 16, 1000, true
	return c
}

func config(address string) Config {
	return Config{
		Address: address, Host: "rollouts-demo.example.com", Path: "/color", Rate: 250,
		Timeout: await.Patience(), MaxInFlight: 1250, Colors: []string{"blue", "yellow"},
	}
}

// blue returns a successful response to each request.
func blue(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `"blue"`) }

// drive runs the client until n requests have ended, and stops it.
func drive(t *testing.T, c Config, n int) (Totals, []Pinned) {
	t.Helper()
	client, err := Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	await.Described(t, fmt.Sprintf("the end of %d requests", n),
		func() bool { return client.Window(0, n).Complete() }, func() string {
			return fmt.Sprintf("%+v", client.Totals())
		})
	return client.Stop()
}

func TestEveryKindIsAnsweredOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked, second atomic.Int64
		c := serve(t, func(w http.ResponseWriter, r *http.Request) {
			asked.Add(1)
			if r.ProtoMajor == 2 {
				second.Add(1)
			}
			if r.Host != "rollouts-demo.example.com" || r.URL.Path != "/color" {
				http.NotFound(w, r)
				return
			}
			_, _ = io.WriteString(w, `"blue"`)
		})
		totals, pinned := drive(t, c, 500)
		if totals.Failed != 0 || totals.InFlight != 0 || totals.Overloaded {
			t.Fatalf("totals: %+v", totals)
		}
		if int64(totals.Sent) != asked.Load() || totals.OK != totals.Sent {
			t.Errorf("sent %d, answered 200 %d, the server counted %d", totals.Sent, totals.OK, asked.Load())
		}
		perKind := map[Kind]int{}
		for i := range totals.Sent {
			perKind[Plan{}.Kind(i)]++
		}
		if diff := cmp.Diff(perKind, totals.Answered); diff != "" {
			t.Errorf("answers by kind (-planned +answered):\n%s", diff)
		}
		if want := totals.Answered[FreshHTTP2] + totals.Answered[KeptHTTP2] +
			totals.Answered[PinnedHTTP2]; second.Load() != int64(want) {
			t.Errorf("the server saw %d HTTP/2 requests, want %d", second.Load(), want)
		}
		for _, p := range pinned {
			if p.Lost != nil || p.Answered == 0 {
				t.Errorf("%s: %d answers, lost: %v", p.Kind, p.Answered, p.Lost)
			}
		}
	})
}

// Dial opens the connections of every kind.
func TestEveryKindIsDialledByDial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := serve(t, blue)
		dial := c.Dial
		c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			if address != c.Address {
				t.Errorf("connect to %s, want %s", address, c.Address)
			}
			return dial(ctx, network, address)
		}
		totals, _ := drive(t, c, 100)
		if totals.Failed != 0 {
			t.Errorf("%d of %d requests failed: %v", totals.Failed, totals.Ended, totals.Reasons)
		}
	})
}

func TestWindowsAddUp(t *testing.T) {
	good := func(color string) Result { return Result{Color: color, Latency: time.Second} }
	failed := Result{Err: ErrAnswer, Latency: time.Minute}
	got := Merge(
		NewWindow(5, []Result{good("blue"), good("blue"), failed}),
		NewWindow(5, []Result{good("blue"), failed, good("yellow"), good("yellow"), good("yellow")}),
	)
	seconds := []time.Duration{time.Second, time.Second, time.Second, time.Second, time.Second, time.Second}
	want := Window{Asked: 10, Done: 8, Failed: 2, Colors: map[string]int{"blue": 3, "yellow": 3}, Latencies: seconds}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the sum (-want +got):\n%s", diff)
	}
}

func TestEveryRequestHasTheHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("role") != "qa" {
				http.NotFound(w, r)
				return
			}
			_, _ = io.WriteString(w, `"blue"`)
		})
		c.Header = map[string]string{"role": "qa"}
		if totals, _ := drive(t, c, 50); totals.Failed != 0 {
			t.Errorf("requests without the header: %v", totals.Reasons)
		}
	})
}

func TestSampleIsOfRequestsDueFromAMomentOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var color atomic.Value
		color.Store(`"blue"`)
		c := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, color.Load().(string)) })
		client, err := Start(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Stop()
		before, err := client.Sample(t.Context(), time.Now(), 20)
		if err != nil {
			t.Fatal(err)
		}
		color.Store(`"yellow"`)
		// A request that is due right now may already have ended.
		after, err := client.Sample(t.Context(), time.Now().Add(1), 20)
		if err != nil {
			t.Fatal(err)
		}
		if before.Colors["blue"] != 20 || after.Colors["yellow"] != 20 {
			t.Errorf("before the change %v, after it %v", before.Colors, after.Colors)
		}
		client.Stop()
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if _, err := client.Sample(ctx, time.Now(), 20); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a sample of a client that has stopped: %v", err)
		}
	})
}

func TestConnectionsAreFreshKeptAndPinned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var connections atomic.Int64
		server := memhttp.Server(blue)
		server.ConnState = func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				connections.Add(1)
			}
		}
		c := config("proxy:80")
		c.Dial = memhttp.Serve(t, server)
		totals, _ := drive(t, c, 500)
		fresh := int64(totals.Answered[FreshHTTP1] + totals.Answered[FreshHTTP2])
		// Besides the fresh ones: 2 pinned, 2 for kept HTTP/2, and as many kept
		// HTTP/1.1 connections as were ever busy at once. Each request ends before the
		// next one is due here, so that is 1.
		if got := connections.Load() - fresh; got != 5 {
			t.Errorf("%d connections in addition to the %d fresh ones, want 5", got, fresh)
		}
	})
}

// A reset, a closed connection and an error status each fail exactly one request: nothing is sent again.
func TestFailuresAreCountedAndNotRetried(t *testing.T) {
	reset := func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(http.ErrAbortHandler) // HTTP/2: a reset of the stream
		}
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // the close is a reset
		}
		_ = conn.Close()
	}
	tests := []struct {
		name    string
		fail    http.HandlerFunc
		reasons []string
	}{
		{"reset", reset, []string{"connection reset", "connection closed", "INTERNAL_ERROR", "pinned connection lost"}},
		{"cut in the body", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "6")
			_, _ = io.WriteString(w, `"bl`)
			panic(http.ErrAbortHandler)
		}, []string{"connection closed", "INTERNAL_ERROR", "pinned connection lost"}},
		{
			"status", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
			[]string{"HTTP status 503"},
		},
		{
			"an unknown color", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `"pink"`) },
			[]string{"not a known color"},
		},
		{
			"not a JSON string", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `blue`) },
			[]string{"not a known color"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var asked, failed atomic.Int64
			c := serveTCP(t, func(w http.ResponseWriter, r *http.Request) {
				if asked.Add(1)%10 == 0 {
					failed.Add(1)
					tt.fail(w, r)
					return
				}
				_, _ = io.WriteString(w, `"blue"`)
			})
			totals, _ := drive(t, c, 500)
			if int64(totals.Sent) != asked.Load() {
				t.Errorf("sent %d requests, the server got %d", totals.Sent, asked.Load())
			}
			if held := totals.Reasons[ErrPinnedLost.Error()]; int64(totals.Failed-held) != failed.Load() {
				t.Errorf("%d requests failed, %d of them held back; the server failed %d: %v", totals.Failed, held,
					failed.Load(), totals.Reasons)
			}
			for reason := range totals.Reasons {
				if !containsAny(reason, tt.reasons) {
					t.Errorf("unexpected reason %q", reason)
				}
			}
		})
	}
}

func containsAny(text string, parts []string) bool {
	for _, part := range parts {
		if strings.Contains(text, part) {
			return true
		}
	}
	return false
}

// Each result contains the time when its connection was opened, so that a fault of a connection differs from one of a
// request.
func TestResultsNameTheirConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := serve(t, blue)
		dial := c.Dial
		c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			time.Sleep(time.Millisecond) // so that the opening times of the pinned connections differ
			return dial(ctx, network, address)
		}
		client, err := Start(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		await.True(t, "the end of 200 requests", func() bool { return client.Window(0, 200).Complete() })
		totals, _ := client.Stop()
		results := client.Results()
		if len(results) != totals.Sent+totals.Reasons[ErrPinnedLost.Error()] {
			t.Fatalf("%d results of %d requests", len(results), totals.Sent)
		}
		pinned := map[time.Time]bool{}
		for i, r := range results {
			switch r.Kind {
			case FreshHTTP1, FreshHTTP2:
				if r.Opened.Before(r.Due) || r.Opened.After(r.Due.Add(r.Latency)) {
					t.Errorf("request %d lasted from %v for %v; its own connection is of %v", i, r.Due, r.Latency, r.Opened)
				}
			case PinnedHTTP1, PinnedHTTP2:
				pinned[r.Opened] = true
			case KeptHTTP1, KeptHTTP2:
				if r.Opened.IsZero() {
					t.Errorf("request %d (%s) went over no connection", i, r.Kind)
				}
			}
		}
		if len(pinned) != 2 {
			t.Errorf("pinned requests went over %d connections, want 2", len(pinned))
		}
	})
}

func TestLostPinnedConnectionsAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			if asked.Add(1) > 100 {
				w.Header().Set("Connection", "close") // GOAWAY for HTTP/2
			}
			_, _ = io.WriteString(w, `"blue"`)
		})
		_, pinned := drive(t, c, 400)
		for _, p := range pinned {
			if p.Lost == nil {
				t.Errorf("%s: not reported as lost", p.Kind)
			}
		}
	})
}

func TestProbe(t *testing.T) {
	c := serveTCP(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `"yellow"`) })
	color, err := Probe(t.Context(), c)
	if err != nil || color != "yellow" {
		t.Errorf("color %q, %v", color, err)
	}
	nobody := config(netip.AddrPortFrom(loopback.Address(), 80).String())
	if _, err := Probe(t.Context(), nobody); Reason(err, 0) != "connection refused" {
		t.Errorf("error = %v", err)
	}
	if _, err := Start(t.Context(), nobody); err == nil || errors.Is(err, ErrOverload) {
		t.Errorf("start without a server: %v", err)
	}
}
