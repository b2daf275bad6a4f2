package status_test

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/status"
)

// ask requests Acks of a handler.
func ask(t *testing.T, handler http.Handler, method, tag, prefer string) *http.Response {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), method, status.AcksPath, http.NoBody)
	request.Header.Set("If-None-Match", tag)
	request.Header.Set("Prefer", prefer)
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, request)
	return recorder.Result()
}

func TestAcksAreServed(t *testing.T) {
	s := newStage(t)
	s.canary(20)
	handler := s.reporting.Handler()
	s.proxies.confirm("10.0.0.1:1")
	first := ask(t, handler, http.MethodGet, "", "wait=9")
	defer func() { _ = first.Body.Close() }()
	var got status.Acks
	if err := json.NewDecoder(first.Body).Decode(&got); err != nil || first.Header.Get("Content-Type") != "application/json" {
		t.Fatalf("not JSON: %v, %v", err, first.Header)
	}
	if len(got.Objects) != 2 || len(got.Proxies) != 1 || got.Replica != "interceptor-0" || got.Proxies[0].Behind != nil {
		t.Errorf("acks %+v", got)
	}
	tag := first.Header.Get("Etag")
	for _, test := range []struct {
		name, method, tag, prefer string
		code                      int
	}{
		{"the same again", http.MethodGet, tag, "", http.StatusNotModified},
		{"a wish that means nothing", http.MethodGet, tag, "wait=x", http.StatusNotModified},
		{"something else was known", http.MethodGet, `"old"`, "respond-async, wait=1", http.StatusOK},
		{"no body wanted", http.MethodHead, "", "", http.StatusOK},
		{"a change", http.MethodPost, "", "", http.StatusMethodNotAllowed},
	} {
		response := ask(t, handler, test.method, test.tag, test.prefer)
		_ = response.Body.Close()
		if response.StatusCode != test.code {
			t.Errorf("%s: %s, want %d", test.name, response.Status, test.code)
		}
	}
	changed := make(chan int)
	go func() {
		response := ask(t, handler, http.MethodGet, tag, "wait=1")
		_ = response.Body.Close()
		changed <- response.StatusCode
	}()
	s.canary(50)
	if code := <-changed; code != http.StatusOK {
		t.Errorf("after a change the answer is %d", code)
	}
}

// adminSlice is the EndpointSlice of replicas at addresses, by name.
func adminSlice(t *testing.T, replicas map[string]string) []*discoveryv1.EndpointSlice {
	t.Helper()
	var slices []*discoveryv1.EndpointSlice
	name := status.AcksPort
	for replica, address := range replicas {
		host, text, err := net.SplitHostPort(address)
		if err != nil {
			t.Fatal(err)
		}
		number, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		port := int32(number)
		slices = append(slices, &discoveryv1.EndpointSlice{
			AddressType: discoveryv1.AddressTypeIPv4,
			Ports:       []discoveryv1.EndpointPort{{Name: &name, Port: &port}},
			Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{host}, TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: replica}}},
		})
	}
	return slices
}

func TestOtherReplicas(t *testing.T) {
	slices := adminSlice(t, map[string]string{"interceptor-0": "10.0.0.1:9090", "interceptor-1": "10.0.0.2:9090", "interceptor-2": "10.0.0.3:9091"})
	both := adminSlice(t, map[string]string{"interceptor-1": "[fd00::2]:9090"})
	metrics := "metrics"
	both = append(both, adminSlice(t, map[string]string{"interceptor-7": "10.0.0.7:2223"})...)
	both[1].Ports[0].Name = &metrics
	got := status.OtherReplicas(append(slices, both...), "interceptor-0")
	want := []status.Replica{{Name: "interceptor-1", Address: "10.0.0.2:9090"}, {Name: "interceptor-2", Address: "10.0.0.3:9091"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("replicas (-want +got):\n%s", diff)
	}
}

// waitFor waits until the report of shop is as wanted.
func (s *stage) waitFor(t *testing.T, want string) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for {
		s.mu.Lock()
		news := s.news
		s.mu.Unlock()
		got, _ := s.acked()
		if got == want {
			return
		}
		select {
		case <-news:
		case <-deadline:
			t.Fatalf("the report is %q, want %q", got, want)
		}
	}
}

// TestReplicasAreMerged has one proxy connected to each of two replicas.
func TestReplicasAreMerged(t *testing.T) {
	tests := []struct {
		name   string
		answer func(other http.Handler) http.Handler
		want   string
	}{
		{"the other replica answers", func(other http.Handler) http.Handler { return other }, "2/2 true"},
		{"it is too old to know", func(http.Handler) http.Handler { return http.NotFoundHandler() }, "2/1 false"},
		{"it answers nonsense", func(http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{")) })
		}, "2/1 false"},
		{"it sends us elsewhere", func(http.Handler) http.Handler { return http.RedirectHandler("/elsewhere", http.StatusFound) }, "2/1 false"},
		{"it never ends", func(http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				for line := strings.Repeat(" ", 1<<20); r.Context().Err() == nil; {
					if _, err := w.Write([]byte(line)); err != nil {
						return
					}
				}
			})
		}, "2/1 false"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := newStage(t)
			defer s.lead(t)()
			other := newStage(t)
			other.reporting = newReporting(t, other.server, other.proxies, "interceptor-1")
			other.canary(20)
			other.proxies.confirm("10.0.0.2:1")
			server := httptest.NewServer(test.answer(other.reporting.Handler()))
			defer server.Close()
			s.replicas = adminSlice(t, map[string]string{"interceptor-0": "127.0.0.1:1", "interceptor-1": server.Listener.Addr().String()})
			s.canary(20)
			s.proxies.confirm("10.0.0.1:1")
			s.waitFor(t, test.want)
		})
	}
}
