package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/memhttp"
)

func TestAnswers(t *testing.T) {
	tests := []struct {
		name, method, path string
		settings           settings
		leaving            bool
		status             int
		body               string
	}{
		{
			name: "the colour is a JSON string", method: http.MethodGet, path: "/color", settings: settings{color: "blue"},
			status: 200, body: `"blue"`,
		},
		{
			name: "a query changes nothing", method: http.MethodGet, path: "/color?1", settings: settings{color: "yellow"},
			status: 200, body: `"yellow"`,
		},
		{
			name: "an error still names the colour", method: http.MethodGet, path: "/color",
			settings: settings{color: "red", errorRate: 100}, status: 500, body: `"red"`,
		},
		{name: "ready", method: http.MethodGet, path: "/healthz", status: 200, body: "ok\n"},
		{
			name: "not ready while stopping", method: http.MethodGet, path: "/healthz", leaving: true, status: 503,
			body: "shutting down\n",
		},
		{
			name: "still answering while stopping", method: http.MethodGet, path: "/color", settings: settings{color: "blue"},
			leaving: true, status: 200, body: `"blue"`,
		},
		{name: "nothing else", method: http.MethodGet, path: "/colour", status: 404, body: "404 page not found\n"},
		{name: "read only", method: http.MethodPost, path: "/color", status: 405, body: "Method Not Allowed\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.settings.path = "/color"
			a := newApp(tt.settings)
			if tt.leaving {
				a.drain()
			}
			answer := httptest.NewRecorder()
			a.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), tt.method, tt.path, http.NoBody))
			if answer.Code != tt.status || answer.Body.String() != tt.body {
				t.Errorf("%s %s = %d %q, want %d %q", tt.method, tt.path, answer.Code, answer.Body, tt.status, tt.body)
			}
			if closes := answer.Header().Get("Connection") == "close"; closes != tt.leaving {
				t.Errorf("Connection: close = %v, want %v", closes, tt.leaving)
			}
		})
	}
}

func TestPageStandsAlone(t *testing.T) {
	answer := httptest.NewRecorder()
	newApp(settings{color: "blue", path: "/color"}).ServeHTTP(answer,
		httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody))
	if got := answer.Header().Get("Content-Type"); got != "text/html; charset=utf-8" {
		t.Errorf("Content-Type = %q", got)
	}
	for _, outside := range []string{"http://", "https://", "src=", "@import", "url("} {
		if strings.Contains(answer.Body.String(), outside) {
			t.Errorf("the page loads external resources: it contains %q", outside)
		}
	}
}

func TestLatencyDelaysTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		newApp(settings{color: "blue", path: "/color", latency: 3 * time.Second}).
			ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/color", http.NoBody))
		if waited := time.Since(begin); waited != 3*time.Second {
			t.Errorf("answered after %s, want 3s", waited)
		}
	})
}

func TestFlagsAndEnvironment(t *testing.T) {
	tests := []struct {
		name string
		args []string
		env  map[string]string
		want settings
		bad  string
	}{
		{name: "defaults", want: settings{color: "blue", path: "/color"}},
		{
			name: "environment", env: map[string]string{"COLOR": "green", "ERROR_RATE": "5", "LATENCY": "0.25"},
			want: settings{color: "green", path: "/color", errorRate: 5, latency: 250 * time.Millisecond},
		},
		{
			name: "a flag wins", args: []string{"--color=red"}, env: map[string]string{"COLOR": "green"},
			want: settings{color: "red", path: "/color"},
		},
		{
			name: "another path", env: map[string]string{"COLOR_PATH": "/reviews/0"},
			want: settings{color: "blue", path: "/reviews/0"},
		},
		{name: "a pattern is no path", env: map[string]string{"COLOR_PATH": "/{x}"}, bad: "color path"},
		{name: "a path that is taken", env: map[string]string{"COLOR_PATH": "/healthz"}, bad: "color path"},
		{name: "not a number", env: map[string]string{"LATENCY": "slow"}, bad: "environment variable LATENCY"},
		{name: "an argument that is no flag", args: []string{"ask", "--color=red"}, bad: `argument "ask"`},
		{name: "not a percentage", args: []string{"--error-rate=101"}, bad: "percentage from 0 to 100"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o, err := parse(tt.args, func(key string) string { return tt.env[key] }, io.Discard)
			if tt.bad != "" {
				if err == nil || !strings.Contains(err.Error(), tt.bad) {
					t.Fatalf("error = %v, want one with %q", err, tt.bad)
				}
				return
			}
			if err != nil || o.app != tt.want {
				t.Errorf("settings = %+v, %v, want %+v", o.app, err, tt.want)
			}
		})
	}
}

// serving receives the address that the app logs once its port is open.
type serving struct {
	slog.Handler

	once    sync.Once
	address chan string
}

func (s *serving) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "address" {
			s.once.Do(func() { s.address <- a.Value.String() })
		}
		return true
	})
	return nil
}

func TestStopsOnSIGTERM(t *testing.T) {
	ctx, terminate := context.WithCancel(t.Context())
	log := &serving{Handler: slog.DiscardHandler, address: make(chan string, 1)}
	ended := make(chan error, 1)
	go func() {
		args := []string{"--listen-addr=127.0.0.1:0", "--termination-delay=1ms"}
		ended <- run(ctx, args, func(string) string { return "" }, io.Discard, slog.New(enabled{log}))
	}()
	address := <-log.address
	if _, closes := get(t, "http://"+address+"/color", new(http.Transport)); closes {
		t.Error("an answer before SIGTERM asks for a close")
	}
	terminate()
	if err := await.Receive(t, "the end", ended); err != nil {
		t.Fatal(err)
	}
}

// TestStopsOnlyAfterTheTerminationDelay sends requests to the app until the end of the delay. The clock is synctest's.
func TestStopsOnlyAfterTheTerminationDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const delay = 10 * time.Second
		app := newApp(settings{color: "blue", path: "/color"})
		server := newServer(app)
		transport := &http.Transport{DialContext: memhttp.Serve(t, server)}
		ended := make(chan error, 1)
		go func() { ended <- drain(t.Context(), server, app, delay) }()
		synctest.Wait()
		time.Sleep(delay - 1)
		if body, closes := get(t, "http://app/color", transport); body != `"blue"` || !closes {
			t.Errorf("before the end of the delay the answer is %s; does it ask for a close: %v", body, closes)
		}
		select {
		case err := <-ended:
			t.Fatalf("the app has stopped before the end of the delay: %v", err)
		default:
		}
		time.Sleep(time.Nanosecond)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// enabled makes every level reach the handler.
type enabled struct{ slog.Handler }

func (enabled) Enabled(context.Context, slog.Level) bool { return true }

// get sends one request on a connection of its own and reports whether the answer asks for a close.
func get(t *testing.T, url string, transport *http.Transport) (body string, closes bool) {
	t.Helper()
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(answer.Body)
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return string(text), answer.Close
}

// A proxy may open a connection in advance, and send a request over it as long as it keeps it.
func TestAnUnusedConnectionStaysOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNoContent)
		}))
		client, err := memhttp.Serve(t, server)(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if _, err := io.WriteString(client, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		response, err := http.ReadResponse(bufio.NewReader(client), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusNoContent {
			t.Errorf("status %s", response.Status)
		}
	})
}
