package routertest

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// server is the common part of the servers of this package: it records requests, lets faults answer some of them,
// serves watches, accepts Events, and serves GET of objects that a test adds.
type server struct {
	api    api
	server *httptest.Server // nil for an in-memory server
	closed chan struct{}    // closed when the test ends

	mu       sync.Mutex
	others   map[string]any // other objects for GET, by path
	events   []corev1.Event
	version  int
	history  []change      // oldest first
	changed  chan struct{} // closed at the next change
	requests []Request
	faults   []http.HandlerFunc
	held     bool             // watches send no more events
	unlisted http.HandlerFunc // answers list and watch if set
}

// api is the part that differs between the servers of this package.
type api interface {
	// isCollection reports whether path is that of all objects of a kind, in all namespaces.
	isCollection(path string) bool
	// isObject reports whether path is that of one object. It is called only if isCollection returns false.
	isObject(path string) bool
	// handle answers a request that no fault has answered; body is its body.
	handle(w http.ResponseWriter, r *http.Request, body []byte)
}

// Request is a request that the server received.
type Request struct {
	// Method is the HTTP method.
	Method string
	// Path is the URL's path.
	Path string
	// Watch is true if the request opens a watch.
	Watch bool
	// FieldManager is the query parameter of that name.
	FieldManager string
	// ContentType is the header of that name.
	ContentType string
	// UserAgent is the header of that name.
	UserAgent string
	// Body is the request's body.
	Body string
}

// newServer returns an in-memory server for api. It ends with the test.
func newServer(tb testing.TB, api api) *server {
	tb.Helper()
	f := &server{api: api, closed: make(chan struct{}), others: map[string]any{}, changed: make(chan struct{})}
	tb.Cleanup(func() {
		close(f.closed) // first: Close waits for running requests
		if f.server != nil {
			f.server.Close()
		}
	})
	return f
}

// listen makes the server listen on a TCP port.
func (f *server) listen() { f.server = httptest.NewServer(http.HandlerFunc(f.serve)) }

// Config returns a client configuration for the server, without a rate limit, as in package kube.
func (f *server) Config() *rest.Config {
	if f.server == nil {
		return &rest.Config{Host: "http://api.test", Transport: inMemory{f.serve}, QPS: -1}
	}
	return &rest.Config{Host: f.server.URL, QPS: -1}
}

// WriteKubeconfig writes a kubeconfig file for the server, which must listen on a port.
func (f *server) WriteKubeconfig(tb testing.TB, file string) {
	tb.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["test"] = &clientcmdapi.Cluster{Server: f.server.URL}
	config.Contexts["test"] = &clientcmdapi.Context{Cluster: "test"}
	config.CurrentContext = "test"
	if err := clientcmd.WriteToFile(*config, filepath.Clean(file)); err != nil {
		tb.Fatal(err)
	}
}

// PutOther creates or replaces an object of another kind, which GET of path returns. An http.HandlerFunc handles the
// request itself.
func (f *server) PutOther(path string, object any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.others[path] = object
}

// DeleteOther removes an object of another kind.
func (f *server) DeleteOther(path string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.others, path)
}

// Events returns the Events that were created so far.
func (f *server) Events() []corev1.Event {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.events)
}

// requestsWhere returns the matching requests so far, oldest first.
func (f *server) requestsWhere(matches func(Request) bool) []Request {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(f.requests), func(r Request) bool { return !matches(r) })
}

// serve records a request. The next fault or the API answers it.
func (f *server) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has disconnected
	}
	if fault := f.nextFault(r, body); fault != nil {
		recorder := &recordingWriter{ResponseWriter: w}
		if fault(recorder, r); recorder.wrote {
			return
		}
	}
	f.api.handle(w, r, body)
}

// nextFault records a request and returns the fault that answers it, or nil.
func (f *server) nextFault(r *http.Request, body []byte) http.HandlerFunc {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests = append(f.requests, Request{
		Method: r.Method, Path: r.URL.Path, Watch: r.URL.Query().Has("watch"),
		FieldManager: r.URL.Query().Get("fieldManager"),
		ContentType:  r.Header.Get("Content-Type"), UserAgent: r.UserAgent(), Body: string(body),
	})
	switch {
	case f.api.isCollection(r.URL.Path):
		return f.unlisted
	case f.api.isObject(r.URL.Path) && len(f.faults) > 0:
		fault := f.faults[0]
		f.faults = f.faults[1:]
		return fault
	default:
		return nil
	}
}

// handleOther answers requests for objects of other kinds.
func (f *server) handleOther(w http.ResponseWriter, r *http.Request, body []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	object, ok := f.others[r.URL.Path]
	if handler, isHandler := object.(http.HandlerFunc); isHandler {
		handler(w, r)
		return
	}
	switch event := (corev1.Event{}); {
	case r.Method == http.MethodGet && ok:
		respond(w, http.StatusOK, object)
	case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/events"):
		if err := json.Unmarshal(body, &event); err != nil {
			respondError(w, apierrors.NewBadRequest(err.Error()))
			return
		}
		f.events = append(f.events, event)
		respond(w, http.StatusCreated, event)
	default:
		respondError(w, apierrors.NewNotFound(schema.GroupResource{}, r.URL.Path))
	}
}
