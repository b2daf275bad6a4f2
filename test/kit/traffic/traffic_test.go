package traffic

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// recordingTB is a test that records failures without failing.
type recordingTB struct {
	testing.TB

	failures []string
}

func (w *recordingTB) Errorf(format string, args ...any) {
	w.failures = append(w.failures, fmt.Sprintf(format, args...))
}

// serve starts a backend for HTTP/1.1 and HTTP/2 in clear text, and returns its address.
func serve(t *testing.T, app http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewUnstartedServer(app)
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

func TestFailedRequestsAreReported(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fault http.HandlerFunc // for every 7th request; "connection close" for all, so that it reaches the pinned connections
		want  []string         // substrings of the failures
	}{
		"no fault":     {answer("stable"), nil},
		"a share":      {answer("stable"), nil},
		"a share, off": {answer("canary"), []string{"were answered by canary, want 0 %"}},
		"an error": {func(w http.ResponseWriter,
			_ *http.Request,
		) {
			w.WriteHeader(http.StatusServiceUnavailable)
		}, []string{"HTTP status 503:"}},
		"a wrong app": {answer("other"), []string{"not a known color"}},
		"no answer": {func(http.ResponseWriter,
			*http.Request,
		) {
			panic(http.ErrAbortHandler)
		}, []string{"connection closed"}},
		"connection close": {closeConnection, []string{"pinned HTTP/1.1, lost", "pinned HTTP/2, lost"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var requests atomic.Int64
			address := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if requests.Add(1)%7 == 0 || name == "connection close" {
					test.fault(w, r)
					return
				}
				answer("stable")(w, r)
			})
			w := &recordingTB{TB: t}
			traffic := Start(w, address, "shop.example.com", 500, "stable", "canary")
			if strings.HasPrefix(name, "a share") {
				traffic.CheckShare("canary", 0)
			}
			await.True(t, "all kinds of connections were used", func() bool { return requests.Load() > 500 })
			traffic.Stop()
			failures := strings.Join(w.failures, "\n")
			if (failures == "") != (test.want == nil) {
				t.Errorf("the failures are %q, want %q", w.failures, test.want)
			}
			for _, want := range test.want {
				if !strings.Contains(failures, want) {
					t.Errorf("the failures are %q, want %q", w.failures, test.want)
				}
			}
		})
	}
}

// answer returns the handler of a backend with that name.
func answer(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintf(w, "%q", name) }
}

// closeConnection answers and closes the connection.
func closeConnection(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Connection", "close")
	answer("stable")(w, r)
}

func TestGetSendsOneRequest(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1); r.URL.Path == "/cut" {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("X-Host", r.Host+r.Header.Get("X-User"))
		http.NotFound(w, r)
	})
	got, err := Get(t.Context(), "http://"+address+"/", "shop.example.com:", http.Header{"X-User": {"me"}})
	if err != nil || got.Status != http.StatusNotFound || got.Header.Get("X-Host") != "shop.example.com:me" ||
		len(got.Body) == 0 {
		t.Errorf("the response is %+v, %v", got, err)
	}
	if _, err := Get(t.Context(), "http://"+address+"/cut", "", nil); err == nil || requests.Load() != 2 {
		t.Errorf("after two calls of Get the server received %d requests; the last one's error is %v", requests.Load(), err)
	}
}

func TestMetric(t *testing.T) {
	t.Parallel()
	page := []byte("# TYPE go_goroutines gauge\ngo_goroutines_x 1\ngo_goroutines 42\n")
	if got, err := Metric(page, "go_goroutines"); got != 42 || err != nil {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := Metric(page, "go_threads"); err == nil {
		t.Error("a missing metric is no error")
	}
}
