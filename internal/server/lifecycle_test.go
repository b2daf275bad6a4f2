package server_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/server"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// service is the name of the Service that selects the process.
const service = "interceptor-proxy"

// get requests path from h as the kubelet does, and returns the status code, the header Retry-After and the body.
func get(ctx context.Context, h http.Handler, method, path string) (code int, retryAfter, body string) {
	recorder := httptest.NewRecorder()
	h.ServeHTTP(recorder, httptest.NewRequestWithContext(ctx, method, "http://10.0.0.7:8080"+path, http.NoBody))
	return recorder.Code, recorder.Header().Get("Retry-After"), recorder.Body.String()
}

func TestHealth(t *testing.T) {
	health := server.NewHealth(service, func() []string {
		return []string{
			"the first list of services",
			"httpscaledobjects: install the CRD",
		}
	})
	steps := []struct {
		name         string
		before       func()
		method, path string
		code         int
		retryAfter   string
		wantMessage  string
	}{
		{"alive from the start", func() {}, http.MethodGet, "/livez", 200, "", "ok"},
		{
			"not ready before the seed, with the reason", func() {}, http.MethodGet, "/readyz", 503, "",
			"install the CRD",
		},
		{"ready", health.SetReady, http.MethodGet, "/readyz", 200, "", "ok"},
		{
			"a request for an application gets Retry-After", func() {}, http.MethodPost, "/shop/cart", 503, "1",
			"no endpoint",
		},
		{
			"not ready during shutdown", func() { health.SetNotReady("shutting down") }, http.MethodGet, "/readyz", 503,
			"",
			"shutting down",
		},
		{"but alive", func() {}, http.MethodGet, "/livez", 200, "", "ok"},
	}
	for _, step := range steps {
		step.before()
		code, retryAfter, body := get(t.Context(), health, step.method, step.path)
		if code != step.code || retryAfter != step.retryAfter || !strings.Contains(body, step.wantMessage) {
			t.Errorf("%s: %s %s = %d, Retry-After %q, %q; want %d, %q, something with %q",
				step.name, step.method, step.path, code, retryAfter, body, step.code, step.retryAfter, step.wantMessage)
		}
	}
}

// TestApplicationHasItsOwnHealth: /livez and /readyz of an application belong to the application.
func TestApplicationHasItsOwnHealth(t *testing.T) {
	health := server.NewHealth(service, func() []string { return nil })
	health.SetReady()
	for host, want := range map[string]int{
		"10.0.0.7:8080": 200, "10.0.0.7": 200, "[fd00::7]:8080": 200, "[fd00::7]": 200, "localhost:8080": 200, "": 200,
		"interceptor-proxy": 200, "interceptor-proxy.keda:8080": 200, "Interceptor-Proxy.keda.svc.cluster.local.": 200,
		"shop.test": 503, "shop.test:8080": 503, "shop.interceptor-proxy": 503, "interceptor-proxy-of-shop.test": 503,
		"10.0.0.7.test": 503,
	} {
		for _, path := range []string{"/livez", "/readyz"} {
			request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody)
			request.Host = host
			recorder := httptest.NewRecorder()
			health.ServeHTTP(recorder, request)
			if recorder.Code != want {
				t.Errorf("%s of Host %q = %d, want %d", path, host, recorder.Code, want)
			}
		}
	}
}

func TestListenErrorNamesPortAndFix(t *testing.T) {
	taken, err := server.Listen(t.Context(), "xDS", "127.0.0.1:0", "--xds-address")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	_, err = server.Listen(t.Context(), "xDS", taken.Addr().String(), "--xds-address")
	if _, ok := errors.AsType[*server.ListenError](err); !ok {
		t.Fatalf("Listen on a port in use = %v, want a ListenError", err)
	}
	for _, part := range []string{taken.Addr().String(), "xDS", "--xds-address", "end the process that uses the port"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not mention %q", err, part)
		}
	}
}

func TestServeHTTPAnswersActiveRequests(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	listener, err := server.Listen(ctx, "test", "127.0.0.1:0", "--test")
	if err != nil {
		t.Fatal(err)
	}
	arrived := make(chan struct{})
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(arrived)
		<-ctx.Done() // The response comes after the server began to stop.
		_, _ = io.WriteString(w, "done")
	})
	stopped := make(chan error, 1)
	go func() { stopped <- server.ServeHTTP(ctx, listener, handler, slog.New(slog.DiscardHandler)) }()
	go func() {
		<-arrived
		cancel()
	}()
	if body := fetch(t, listener.Addr()); body != "done" {
		t.Errorf("the active request was answered with %q", body)
	}
	if err := <-stopped; err != nil {
		t.Errorf("ServeHTTP = %v", err)
	}
}

// fetch requests / from address over a new connection.
func fetch(t *testing.T, address net.Addr) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address.String()+"/", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DisableKeepAlives: true}
	response, err := (&http.Client{Transport: transport, Timeout: await.Patience()}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

var errBroken = errors.New("broken")

func TestRun(t *testing.T) {
	shutdown := server.Shutdown{Delay: 3 * time.Second, Deadline: 10 * time.Second}
	until := func(after time.Duration, err error) func(context.Context) error {
		return func(context.Context) error {
			time.Sleep(after) // The clock is synctest's.
			return err
		}
	}
	afterStop := func(takes time.Duration) func(context.Context) error {
		return func(ctx context.Context) error {
			<-ctx.Done()
			time.Sleep(takes) // The clock is synctest's.
			return nil
		}
	}
	tests := []struct {
		name        string
		parts       []server.Component
		want        error
		wantMessage string
		duration    time.Duration // from the start; the signal comes after one minute
	}{
		{
			name:     "a signal is answered in two phases",
			parts:    []server.Component{{"xds", afterStop(2 * time.Second)}, {"metrics", afterStop(0)}},
			duration: time.Minute + 5*time.Second,
		},
		{
			name:  "a part that does not stop is named",
			parts: []server.Component{{"xds", afterStop(11 * time.Second)}, {"metrics", afterStop(0)}},
			want:  server.ErrDeadline, wantMessage: "xds:",
			duration: time.Minute + 13*time.Second,
		},
		{
			name:  "a failure ends the others without delay",
			parts: []server.Component{{"xds", afterStop(time.Second)}, {"metrics", until(5*time.Second, errBroken)}},
			want:  errBroken, wantMessage: "metrics:",
			duration: 6 * time.Second,
		},
		{
			name:        "a part that just returns is a failure",
			parts:       []server.Component{{"xds", afterStop(0)}, {"loop", until(time.Second, nil)}},
			wantMessage: "loop: ended unexpectedly",
			duration:    time.Second,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				health := server.NewHealth(service, func() []string { return nil })
				health.SetReady()
				var readyInDelay int
				time.AfterFunc(time.Minute+time.Second,
					func() { readyInDelay, _, _ = get(t.Context(), health, http.MethodGet, "/readyz") })
				began := time.Now()
				err := server.Run(ctx, health, shutdown, slog.New(slog.DiscardHandler), test.parts...)
				if duration := time.Since(began); duration != test.duration {
					t.Errorf("took %v, want %v", duration, test.duration)
				}
				wantFailure := test.want != nil || test.wantMessage != ""
				if (err != nil) != wantFailure || test.want != nil && !errors.Is(err, test.want) || wantFailure &&
					!strings.Contains(err.Error(), test.wantMessage) {
					t.Errorf("Run = %v, want %v with %q", err, test.want, test.wantMessage)
				}
				time.Sleep(2 * time.Minute) // Past everything that is still to come; the clock is synctest's.
				synctest.Wait()
				if readyInDelay != http.StatusServiceUnavailable {
					t.Errorf("/readyz after the signal = %d, want 503", readyInDelay)
				}
			})
		})
	}
}
