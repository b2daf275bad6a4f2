// Package routertest holds what tests of routers share: an API server in memory.
package routertest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
)

// APIServer answers the Kubernetes REST API for HTTPScaledObjects over real HTTP and JSON: GET and merge PATCH, with resource versions, conflicts and Status
// answers. It knows nothing else; a test that asks for more sees a 404.
type APIServer struct {
	server *httptest.Server

	mu       sync.Mutex
	objects  map[string]*httpv1alpha1.HTTPScaledObject // by REST path
	version  int
	requests []Request
	faults   []http.HandlerFunc
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
	s := &APIServer{objects: map[string]*httpv1alpha1.HTTPScaledObject{}}
	for _, object := range objects {
		s.Put(object)
	}
	s.server = httptest.NewServer(http.HandlerFunc(s.serve))
	tb.Cleanup(s.server.Close)
	return s
}

// Config is a client configuration for the server, with client-go's own defaults.
func (s *APIServer) Config() *rest.Config { return &rest.Config{Host: s.server.URL} }

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
	s.version++
	stored := object.DeepCopy()
	stored.TypeMeta = metav1.TypeMeta{APIVersion: httpv1alpha1.SchemeGroupVersion.String(), Kind: httpv1alpha1.Kind}
	stored.ResourceVersion = strconv.Itoa(s.version)
	s.objects[objectPath(object.Namespace, object.Name)] = stored
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
	delete(s.objects, objectPath(namespace, name))
}

// Requests returns the requests of one method so far, those answered by a fault included.
func (s *APIServer) Requests(method string) []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.requests), func(r Request) bool { return r.Method != method })
}

// Fail lets the next requests be answered by faults, one each, in order. A fault that writes nothing lets the server answer after it.
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
	if len(s.faults) > 0 {
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

// WriteHeader notices the answer and passes it on.
func (n *noticing) WriteHeader(code int) {
	n.wrote = true
	n.ResponseWriter.WriteHeader(code)
}

// api answers as a Kubernetes API server does.
func (s *APIServer) api(w http.ResponseWriter, r *http.Request, body []byte) {
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

// patch applies a JSON merge patch (RFC 7386) to a copy of object.
func patch(object *httpv1alpha1.HTTPScaledObject, body []byte) (*httpv1alpha1.HTTPScaledObject, error) {
	document, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	var target, changes map[string]any
	if err := errors.Join(json.Unmarshal(document, &target), json.Unmarshal(body, &changes)); err != nil {
		return nil, err
	}
	if document, err = json.Marshal(merge(target, changes)); err != nil {
		return nil, err
	}
	patched := new(httpv1alpha1.HTTPScaledObject)
	return patched, json.Unmarshal(document, patched)
}

// merge is the function MergePatch of RFC 7386, section 2, for a patch that is an object.
func merge(target, changes map[string]any) map[string]any {
	merged := maps.Clone(target)
	if merged == nil {
		merged = map[string]any{}
	}
	for key, change := range changes {
		switch change := change.(type) {
		case nil:
			delete(merged, key)
		case map[string]any:
			below, _ := merged[key].(map[string]any)
			merged[key] = merge(below, change)
		default:
			merged[key] = change
		}
	}
	return merged
}
