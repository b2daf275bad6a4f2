package server

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
)

// Health serves the probes of the kubelet, and answers all other requests on its port with 503. The zero value is not
// usable; call NewHealth.
type Health struct {
	service string
	mux     *http.ServeMux

	mu      sync.Mutex
	ready   bool
	waiting func() []string // returns the reasons why the process isn't ready
}

// retryAfter is the Retry-After of these responses, in seconds.
const retryAfter = "1"

// NewHealth returns a Health that is alive and not ready. service is the name of the Service that selects the process.
// waiting is called at each readiness probe; its result, the reasons why the process isn't ready, is in the response.
func NewHealth(service string, waiting func() []string) *Health {
	h := &Health{service: service, mux: http.NewServeMux(), waiting: waiting}
	h.mux.HandleFunc("GET /livez", h.livez)
	h.mux.HandleFunc("GET /readyz", h.readyz)
	h.mux.HandleFunc("/", h.other)
	return h
}

// SetReady makes the readiness probe succeed.
func (h *Health) SetReady() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ready = true
}

// SetNotReady makes the readiness probe fail for a reason.
func (h *Health) SetNotReady(reason string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ready = false
	h.waiting = func() []string { return []string{reason} }
}

// ServeHTTP answers /livez with 200 as long as the process runs. It answers /readyz with 200 if the process is ready,
// else with 503 and the reasons. A request with any other path was sent here to be queued until its target starts. This
// port queues no requests, so the response is 503 with Retry-After. A request for another Host than the process itself
// gets the same response for every path: the /livez of an application belongs to the application.
func (h *Health) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h.isOwn(r.Host) {
		h.mux.ServeHTTP(w, r)
	} else {
		h.other(w, r)
	}
}

// isOwn reports whether a Host (RFC 9110, section 7.2) is that of the process: an address, as in probes of the kubelet,
// localhost, or the name of its Service.
func (h *Health) isOwn(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.Trim(host, "[]")
	}
	if _, err := netip.ParseAddr(name); err == nil || name == "" {
		return true
	}
	first, _, _ := strings.Cut(strings.ToLower(name), ".")
	return first == h.service || first == "localhost"
}

func (h *Health) livez(w http.ResponseWriter, _ *http.Request) {
	writePlain(w, http.StatusOK, "ok")
}

func (h *Health) readyz(w http.ResponseWriter, _ *http.Request) {
	h.mu.Lock()
	ready, waiting := h.ready, h.waiting
	h.mu.Unlock()
	if ready {
		writePlain(w, http.StatusOK, "ok")
		return
	}
	writePlain(w, http.StatusServiceUnavailable, "not ready, waiting for:\n"+strings.Join(waiting(), "\n"))
}

func (h *Health) other(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Retry-After", retryAfter)
	writePlain(w, http.StatusServiceUnavailable, "no endpoint of the requested service is ready")
}

// writePlain responds with plain text. It ignores the error of a closed connection.
func writePlain(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_, _ = fmt.Fprintln(w, text)
}
