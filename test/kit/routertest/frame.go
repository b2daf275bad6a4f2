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

// frame is what the servers of this package have in common: they record requests, let faults answer some of them, tell watches what changes, take events, and
// answer GET of what a test puts there.
type frame struct {
	api    api
	server *httptest.Server // nil where there is no network between
	closed chan struct{}    // closed when the test ends

	mu       sync.Mutex
	others   map[string]any // what else a GET finds, by path
	events   []corev1.Event
	version  int
	history  []change      // oldest first
	changed  chan struct{} // closed at the next change
	requests []Request
	faults   []http.HandlerFunc
	held     bool             // whether watches tell nothing more
	unlisted http.HandlerFunc // answers list and watch, where set
}

// api is what a server of this package serves beside what its frame does.
type api interface {
	// isCollection says whether path is that of all objects of a kind, in all namespaces.
	isCollection(path string) bool
	// isObject says whether path is that of one object. It is asked only about paths that are no collection's.
	isObject(path string) bool
	// handle answers a request whose body was read, and that no fault answered.
	handle(w http.ResponseWriter, r *http.Request, body []byte)
}

// Request is a request that the server was sent.
type Request struct {
	// Method is the HTTP method.
	Method string
	// Path is the URL's path.
	Path string
	// Watch says whether the request opens a watch.
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

// newFrame is the frame of a server of api, without a network between it and its clients. It ends with the test.
func newFrame(tb testing.TB, api api) *frame {
	tb.Helper()
	f := &frame{api: api, closed: make(chan struct{}), others: map[string]any{}, changed: make(chan struct{})}
	tb.Cleanup(func() {
		close(f.closed) // first: the network waits for the answers that have begun
		if f.server != nil {
			f.server.Close()
		}
	})
	return f
}

// listen puts a network between the server and its clients.
func (f *frame) listen() { f.server = httptest.NewServer(http.HandlerFunc(f.serve)) }

// Config is a client configuration for the server, without a limit on requests as package apiserver makes it.
func (f *frame) Config() *rest.Config {
	if f.server == nil {
		return &rest.Config{Host: "http://api.test", Transport: inMemory{f.serve}, QPS: -1}
	}
	return &rest.Config{Host: f.server.URL, QPS: -1}
}

// WriteKubeconfig writes a kubeconfig file for the server, which must have a network between it and its clients.
func (f *frame) WriteKubeconfig(tb testing.TB, file string) {
	tb.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["test"] = &clientcmdapi.Cluster{Server: f.server.URL}
	config.Contexts["test"] = &clientcmdapi.Context{Cluster: "test"}
	config.CurrentContext = "test"
	if err := clientcmd.WriteToFile(*config, filepath.Clean(file)); err != nil {
		tb.Fatal(err)
	}
}

// PutOther creates or replaces an object of another kind: what a GET of path answers. An http.HandlerFunc in its place answers itself.
func (f *frame) PutOther(path string, object any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.others[path] = object
}

// DeleteOther removes an object of another kind.
func (f *frame) DeleteOther(path string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.others, path)
}

// Events returns the events that were created so far.
func (f *frame) Events() []corev1.Event {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.events)
}

// requestsWhere are the requests so far that wanted says yes to, oldest first.
func (f *frame) requestsWhere(wanted func(Request) bool) []Request {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(f.requests), func(r Request) bool { return !wanted(r) })
}

// serve records a request and lets the next fault or the API answer it.
func (f *frame) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has gone
	}
	if fault := f.take(r, body); fault != nil {
		recorder := &noticing{ResponseWriter: w}
		if fault(recorder, r); recorder.wrote {
			return
		}
	}
	f.api.handle(w, r, body)
}

// take records a request and takes the fault that is to answer it, or nil.
func (f *frame) take(r *http.Request, body []byte) http.HandlerFunc {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests = append(f.requests, Request{
		Method: r.Method, Path: r.URL.Path, Watch: r.URL.Query().Has("watch"), FieldManager: r.URL.Query().Get("fieldManager"),
		ContentType: r.Header.Get("Content-Type"), UserAgent: r.UserAgent(), Body: string(body),
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

// other answers for objects of other kinds.
func (f *frame) other(w http.ResponseWriter, r *http.Request, body []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	object, found := f.others[r.URL.Path]
	if handler, ok := object.(http.HandlerFunc); ok {
		handler(w, r)
		return
	}
	switch event := (corev1.Event{}); {
	case r.Method == http.MethodGet && found:
		respond(w, http.StatusOK, object)
	case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/events"):
		if err := json.Unmarshal(body, &event); err != nil {
			answer(w, apierrors.NewBadRequest(err.Error()))
			return
		}
		f.events = append(f.events, event)
		respond(w, http.StatusCreated, event)
	default:
		answer(w, apierrors.NewNotFound(schema.GroupResource{}, r.URL.Path))
	}
}
