package main

import (
	"context"
	_ "embed" // for the page
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/net/websocket"
)

//go:embed page.html
var page []byte

const (
	// healthPath answers whether the app is ready.
	healthPath = "/healthz"
	// countPath answers the number of requests for the colour, including mirrored ones, whose answers are dropped.
	countPath = "/requests"
	// slowPath answers slowly: see pace.
	slowPath = "/slow"
	// echoPath is a WebSocket that sends every message back.
	echoPath = "/echo"
)

// otherPaths are the paths that do not return the colour.
func otherPaths() []string { return []string{healthPath, countPath, slowPath, echoPath} }

// settings configure the app's answers.
type settings struct {
	color string
	// path is the path that returns the colour.
	path string
	// errorRate is the percentage of requests for the colour that get a 500.
	errorRate float64
	// latency is the delay of a request for the colour.
	latency time.Duration
	// workers is the number of requests for the colour that are answered at a time; 0 means no limit.
	workers int
}

// app is the HTTP side of the sample.
type app struct {
	settings

	routes  http.ServeMux
	leaving atomic.Bool
	asked   atomic.Int64
	// busy has an element for each worker that answers a request; nil without a limit.
	busy chan struct{}
}

// newApp returns an app that is ready at once.
func newApp(s settings) *app {
	a := &app{settings: s}
	if s.workers > 0 {
		a.busy = make(chan struct{}, s.workers)
	}
	a.routes.HandleFunc("GET "+s.path, a.answerColor)
	a.routes.HandleFunc("GET "+healthPath, a.answerHealth)
	a.routes.HandleFunc("GET "+countPath, a.answerCount)
	a.routes.HandleFunc("GET "+slowPath, a.answerSlowly)
	a.routes.Handle("GET "+echoPath, websocket.Server{Handler: a.echo})
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
	if isCall(r) {
		a.answerCall(w, r)
		return
	}
	a.routes.ServeHTTP(w, r)
}

// answerColor answers with the colour as a JSON string, without a line end.
func (a *app) answerColor(w http.ResponseWriter, r *http.Request) {
	a.asked.Add(1)
	if !a.work(r.Context()) {
		return
	}
	head := w.Header()
	head.Set("Content-Type", "text/plain; charset=utf-8")
	head.Set("Cache-Control", "no-store")
	if a.errorRate > 0 && rand.Float64()*100 < a.errorRate { //nolint:gosec // not security-relevant
		w.WriteHeader(http.StatusInternalServerError)
	}
	_, _ = w.Write(strconv.AppendQuote(nil, a.color)) // the client may have disconnected
}

// work waits for a worker, and for the latency. It returns false if ctx ends first.
func (a *app) work(ctx context.Context) bool {
	if a.busy != nil {
		select {
		case a.busy <- struct{}{}:
			defer func() { <-a.busy }()
		case <-ctx.Done():
			return false
		}
	}
	return wait(ctx, a.latency)
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
