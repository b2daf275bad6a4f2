package server

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
)

// Health answers the probes of a kubelet and the requests that nothing else of the process takes yet. The zero value is
// not usable; see NewHealth.
type Health struct {
	service string
	mux     *http.ServeMux

	mu      sync.Mutex
	ready   bool
	waiting func() []string // says what readiness waits for
}

// retryAfter is the Retry-After, in seconds, of requests that arrive while there is nothing to answer them.
const retryAfter = "1"

// NewHealth returns a Health that is alive but not ready. service is the name of the Service that the process is
// behind. waiting is asked at each probe what readiness waits for; its words go to the one who probes.
func NewHealth(service string, waiting func() []string) *Health {
	h := &Health{service: service, mux: http.NewServeMux(), waiting: waiting}
	h.mux.HandleFunc("GET /livez", h.livez)
	h.mux.HandleFunc("GET /readyz", h.readyz)
	h.mux.HandleFunc("/", h.other)
	return h
}

// SetReady says that the process serves what it is for.
func (h *Health) SetReady() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ready = true
}

// SetNotReady says that the process should get no new work, and why.
func (h *Health) SetNotReady(why string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ready = false
	h.waiting = func() []string { return []string{why} }
}

// ServeHTTP answers /livez with 200 as long as the process runs, and /readyz with 200 when it is ready, or 503 and what
// it waits for. Any other path is a request that was sent here to be held until its target has started: there is
// nothing that could hold it, so it gets a 503 that asks to come again. So is one for another Host than the process
// itself, whatever its path: an application's /livez is the application's.
func (h *Health) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h.isOwn(r.Host) {
		h.mux.ServeHTTP(w, r)
	} else {
		h.other(w, r)
	}
}

// isOwn says whether a Host (RFC 9110, section 7.2) is that of the process: an address, as in probes of a
// kubelet, localhost, or its Service's name.
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

// writePlain answers with one line of plain text. A client that has gone away is not worth a word.
func writePlain(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_, _ = fmt.Fprintln(w, text)
}
