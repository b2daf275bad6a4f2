package main

import (
	_ "embed" // for the page
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

//go:embed page.html
var page []byte

const (
	// healthPath answers whether the app is ready.
	healthPath = "/healthz"
	// countPath answers the number of requests for the colour, including mirrored ones, whose answers are dropped.
	countPath = "/requests"
)

// settings configure the app's answers.
type settings struct {
	color string
	// path is the path that returns the colour.
	path string
	// errorRate is the percentage of requests for the colour that get a 500.
	errorRate float64
	// latency is the delay of a request for the colour.
	latency time.Duration
}

// app is the HTTP side of the sample.
type app struct {
	settings

	routes  http.ServeMux
	leaving atomic.Bool
	asked   atomic.Int64
}

// newApp returns an app that is ready at once.
func newApp(s settings) *app {
	a := &app{settings: s}
	a.routes.HandleFunc("GET "+s.path, a.answerColor)
	a.routes.HandleFunc("GET "+healthPath, a.answerHealth)
	a.routes.HandleFunc("GET "+countPath, a.answerCount)
	a.routes.HandleFunc("GET /{$}", answerPage)
	return a
}

// drain turns readiness off. From then on every answer asks the client to close its connection: a proxy that still
// holds one opens the next elsewhere.
func (a *app) drain() { a.leaving.Store(true) }

// ServeHTTP implements http.Handler.
func (a *app) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if a.leaving.Load() {
		// The header closes the connection after this answer. http.Server.SetKeepAlivesEnabled(false) would also close
		// idle connections, on which a request may just be in flight.
		w.Header().Set("Connection", "close")
	}
	a.routes.ServeHTTP(w, r)
}

// answerColor answers with the colour as a JSON string, without a line end.
func (a *app) answerColor(w http.ResponseWriter, r *http.Request) {
	a.asked.Add(1)
	if a.latency > 0 {
		timer := time.NewTimer(a.latency)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
			return
		}
	}
	head := w.Header()
	head.Set("Content-Type", "text/plain; charset=utf-8")
	head.Set("Cache-Control", "no-store")
	if a.errorRate > 0 && rand.Float64()*100 < a.errorRate { //nolint:gosec // not security-relevant
		w.WriteHeader(http.StatusInternalServerError)
	}
	_, _ = w.Write(strconv.AppendQuote(nil, a.color)) // the client may have disconnected
}

// answerHealth answers with the readiness.
func (a *app) answerHealth(w http.ResponseWriter, _ *http.Request) {
	if a.leaving.Load() {
		http.Error(w, "shutting down", http.StatusServiceUnavailable)
		return
	}
	_, _ = w.Write([]byte("ok\n")) // the client may have disconnected
}

// answerCount answers with the number of requests for the colour.
func (a *app) answerCount(w http.ResponseWriter, _ *http.Request) {
	_, _ = fmt.Fprintln(w, a.asked.Load()) // the client may have disconnected
}

// answerPage answers with the page that visualizes the answers.
func answerPage(w http.ResponseWriter, _ *http.Request) {
	head := w.Header()
	head.Set("Content-Type", "text/html; charset=utf-8")
	head.Set("Cache-Control", "no-cache")
	_, _ = w.Write(page) // the client may have disconnected
}
