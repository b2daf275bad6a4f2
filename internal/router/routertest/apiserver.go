// Package routertest holds what tests of routers share: an API server in memory.
package routertest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
)

// APIServer answers the Kubernetes REST API over real HTTP and JSON: for HTTPScaledObjects GET, list, watch and merge PATCH, with resource versions, conflicts and
// Status answers; for anything else GET of what a test puts there; and it takes events. A test that asks for more sees a 404.
type APIServer struct {
	server *httptest.Server // nil where there is no network between
	closed chan struct{}

	mu       sync.Mutex
	objects  map[string]*httpv1alpha1.HTTPScaledObject // by REST path
	others   map[string]any                            // objects of other kinds, by REST path
	events   []corev1.Event
	version  int
	history  []change      // of HTTPScaledObjects, oldest first
	changed  chan struct{} // closed at the next change
	requests []Request
	faults   []http.HandlerFunc
	held     bool             // whether watches tell nothing more
	unlisted http.HandlerFunc // answers list and watch, where set
}

// change is what a watch tells.
type change struct {
	version int
	event   metav1.WatchEvent
}

// Request is a request that the server was sent.
type Request struct {
	// Method is the HTTP method.
	Method string
	// Path is the URL's path.
	Path string
	// FieldManager is the query parameter of that name.
	FieldManager string
	// ContentType is the header of that name.
	ContentType string
	// UserAgent is the header of that name.
	UserAgent string
	// Body is the request's body.
	Body string
}

// NewAPIServer starts a server that holds objects. It ends with the test.
func NewAPIServer(tb testing.TB, objects ...*httpv1alpha1.HTTPScaledObject) *APIServer {
	tb.Helper()
	s := newAPIServer(objects)
	s.server = httptest.NewServer(http.HandlerFunc(s.serve))
	tb.Cleanup(func() {
		close(s.closed)
		s.server.Close()
	})
	return s
}

func newAPIServer(objects []*httpv1alpha1.HTTPScaledObject) *APIServer {
	s := &APIServer{
		closed:  make(chan struct{}),
		objects: map[string]*httpv1alpha1.HTTPScaledObject{}, others: map[string]any{}, changed: make(chan struct{}),
	}
	for _, object := range objects {
		s.Put(object)
	}
	return s
}

// Config is a client configuration for the server, without a limit on requests as package connect makes it.
func (s *APIServer) Config() *rest.Config {
	if s.server == nil {
		return &rest.Config{Host: "http://api.test", Transport: inMemory{s.serve}, QPS: -1}
	}
	return &rest.Config{Host: s.server.URL, QPS: -1}
}

// WriteKubeconfig writes a kubeconfig file for the server.
func (s *APIServer) WriteKubeconfig(tb testing.TB, file string) {
	tb.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["test"] = &clientcmdapi.Cluster{Server: s.server.URL}
	config.Contexts["test"] = &clientcmdapi.Context{Cluster: "test"}
	config.CurrentContext = "test"
	if err := clientcmd.WriteToFile(*config, filepath.Clean(file)); err != nil {
		tb.Fatal(err)
	}
}

// Put creates or replaces an object, as another writer would: with a new resource version.
func (s *APIServer) Put(object *httpv1alpha1.HTTPScaledObject) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(object)
}

func (s *APIServer) put(object *httpv1alpha1.HTTPScaledObject) {
	path := objectPath(object.Namespace, object.Name)
	kind := "ADDED"
	if s.objects[path] != nil {
		kind = "MODIFIED"
	}
	stored := object.DeepCopy()
	stored.TypeMeta = metav1.TypeMeta{APIVersion: httpv1alpha1.SchemeGroupVersion.String(), Kind: httpv1alpha1.Kind}
	s.objects[path] = stored
	s.record(kind, stored)
}

// record gives object the next resource version and tells watches about it.
func (s *APIServer) record(kind string, object *httpv1alpha1.HTTPScaledObject) {
	s.version++
	object.ResourceVersion = strconv.Itoa(s.version)
	s.history = append(s.history, change{s.version, metav1.WatchEvent{Type: kind, Object: runtime.RawExtension{Object: object.DeepCopy()}}})
	close(s.changed)
	s.changed = make(chan struct{})
}

// Report sets the data-plane report of an HTTPScaledObject, as an interceptor does.
func (s *APIServer) Report(namespace, name string, report *httpv1alpha1.DataPlaneStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	object := s.objects[objectPath(namespace, name)].DeepCopy()
	object.Status.DataPlane = report
	s.put(object)
}

// PutOther creates or replaces an object of another kind: what a GET of path answers. An http.HandlerFunc in its place answers itself.
func (s *APIServer) PutOther(path string, object any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.others[path] = object
}

// DeleteOther removes an object of another kind.
func (s *APIServer) DeleteOther(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.others, path)
}

// Events returns the events that were created so far.
func (s *APIServer) Events() []corev1.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.events)
}

// Object returns a copy of an object, or nil.
func (s *APIServer) Object(namespace, name string) *httpv1alpha1.HTTPScaledObject {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.objects[objectPath(namespace, name)].DeepCopy()
}

// Delete removes an object.
func (s *APIServer) Delete(namespace, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	path := objectPath(namespace, name)
	if gone := s.objects[path]; gone != nil {
		delete(s.objects, path)
		s.record("DELETED", gone)
	}
}

// Requests returns the requests of one method so far, those answered by a fault included.
func (s *APIServer) Requests(method string) []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.requests), func(r Request) bool { return r.Method != method })
}

// Expire ends every watch as the API server does when it has forgotten the events since then: with 410 Gone. New ones go on.
func (s *APIServer) Expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	status := apierrors.NewResourceExpired("too old resource version").Status()
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	s.version++
	s.history = []change{{s.version, metav1.WatchEvent{Type: "ERROR", Object: runtime.RawExtension{Object: &status}}}}
	close(s.changed)
	s.changed = make(chan struct{})
}

// HoldEvents keeps watches from telling anything more.
func (s *APIServer) HoldEvents() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = true
}

// Unlisted lets every further list and watch be answered by fault; nil lets the server answer again.
func (s *APIServer) Unlisted(fault http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unlisted = fault
}

// Fail lets the next requests for single HTTPScaledObjects be answered by faults, one each, in order. A fault that writes nothing lets the server answer
// after it.
func (s *APIServer) Fail(faults ...http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, faults...)
}

// Cut is a fault: the connection ends without an answer.
func Cut(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// Answer is a fault: an error as the API server words it.
func Answer(err *apierrors.StatusError) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { answer(w, err) }
}

func groupPath() string { return "/apis/" + httpv1alpha1.SchemeGroupVersion.String() }

func listPath() string { return groupPath() + "/" + httpv1alpha1.Resource }

func objectPath(namespace, name string) string {
	return fmt.Sprintf("/apis/%s/namespaces/%s/%s/%s", httpv1alpha1.SchemeGroupVersion, namespace, httpv1alpha1.Resource, name)
}

// serve records a request and lets the next fault or the API answer it.
func (s *APIServer) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has gone
	}
	s.mu.Lock()
	s.requests = append(s.requests, Request{
		Method: r.Method, Path: r.URL.Path, FieldManager: r.URL.Query().Get("fieldManager"),
		ContentType: r.Header.Get("Content-Type"), UserAgent: r.UserAgent(), Body: string(body),
	})
	var fault http.HandlerFunc
	switch {
	case r.URL.Path == listPath():
		fault = s.unlisted
	case strings.HasPrefix(r.URL.Path, groupPath()) && len(s.faults) > 0:
		fault, s.faults = s.faults[0], s.faults[1:]
	}
	s.mu.Unlock()
	if fault != nil {
		recorder := &noticing{ResponseWriter: w}
		if fault(recorder, r); recorder.wrote {
			return
		}
	}
	s.api(w, r, body)
}

// noticing notices whether a handler answered.
type noticing struct {
	http.ResponseWriter
	wrote bool
}

// Unwrap is for http.ResponseController.
func (n *noticing) Unwrap() http.ResponseWriter { return n.ResponseWriter }

// WriteHeader notices the answer and passes it on.
func (n *noticing) WriteHeader(code int) {
	n.wrote = true
	n.ResponseWriter.WriteHeader(code)
}

// api answers as a Kubernetes API server does.
func (s *APIServer) api(w http.ResponseWriter, r *http.Request, body []byte) {
	switch {
	case r.URL.Path == listPath() && r.URL.Query().Has("watch"):
		s.watch(w, r)
	case r.URL.Path == listPath():
		s.list(w)
	case strings.HasPrefix(r.URL.Path, groupPath()):
		s.single(w, r, body)
	default:
		s.other(w, r, body)
	}
}

// other answers for objects of other kinds.
func (s *APIServer) other(w http.ResponseWriter, r *http.Request, body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	object, found := s.others[r.URL.Path]
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
		s.events = append(s.events, event)
		respond(w, http.StatusCreated, event)
	default:
		answer(w, apierrors.NewNotFound(schema.GroupResource{}, r.URL.Path))
	}
}

// single answers for one HTTPScaledObject.
func (s *APIServer) single(w http.ResponseWriter, r *http.Request, body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	object, found := s.objects[r.URL.Path]
	name := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	resource := httpv1alpha1.SchemeGroupVersion.WithResource(httpv1alpha1.Resource).GroupResource()
	switch {
	case !found:
		answer(w, apierrors.NewNotFound(resource, name))
	case r.Method == http.MethodGet:
		respond(w, http.StatusOK, object)
	case r.Method != http.MethodPatch || r.Header.Get("Content-Type") != "application/merge-patch+json":
		answer(w, apierrors.NewMethodNotSupported(resource, r.Method))
	default:
		patched, err := patch(object, body)
		if err != nil {
			answer(w, apierrors.NewBadRequest(err.Error()))
			return
		}
		if patched.ResourceVersion != object.ResourceVersion {
			answer(w, apierrors.NewConflict(resource, name, errors.New("the object has been modified")))
			return
		}
		s.put(patched)
		respond(w, http.StatusOK, s.objects[r.URL.Path])
	}
}

func answer(w http.ResponseWriter, err *apierrors.StatusError) {
	status := err.Status()
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	if details := status.Details; details != nil && details.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(details.RetryAfterSeconds)))
	}
	respond(w, int(status.Code), status)
}

func respond(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(body); err != nil {
		panic(http.ErrAbortHandler) // the client has gone; this cuts its connection, as a server that dies does
	}
}
