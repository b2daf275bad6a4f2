// Package routertest contains what the tests of routers share: API servers, faults of these servers, and a Rollout.
package routertest

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
)

// APIServer serves the Kubernetes REST API over HTTP and JSON: for HTTPScaledObjects GET, list, watch and JSON PATCH,
// with resource versions, conflicts and Status responses; for other kinds GET of objects that a test adds; and it
// accepts Events. Other requests get a 404.
type APIServer struct {
	*server

	objects map[string]*httpv1alpha1.HTTPScaledObject // by REST path; guarded by server.mu
}

// NewAPIServer starts a server with these objects. It ends with the test.
func NewAPIServer(tb testing.TB, objects ...*httpv1alpha1.HTTPScaledObject) *APIServer {
	tb.Helper()
	s := NewInMemory(tb, objects...)
	s.listen()
	return s
}

// NewInMemory returns a server without a network connection, for tests that control time (testing/synctest): a
// goroutine that waits for the network stops the fake clock.
func NewInMemory(tb testing.TB, objects ...*httpv1alpha1.HTTPScaledObject) *APIServer {
	tb.Helper()
	s := &APIServer{objects: map[string]*httpv1alpha1.HTTPScaledObject{}}
	s.server = newServer(tb, s)
	for _, object := range objects {
		s.Put(object)
	}
	return s
}

// Put creates or replaces an object like another writer, with a new resource version.
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
	s.record(kind, httpv1alpha1.Resource, stored)
}

// Report sets the data-plane report of an HTTPScaledObject, like an interceptor.
func (s *APIServer) Report(namespace, name string, report *httpv1alpha1.DataPlaneStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	object := s.objects[objectPath(namespace, name)].DeepCopy()
	object.Status.DataPlane = report
	s.put(object)
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
		s.record("DELETED", httpv1alpha1.Resource, gone)
	}
}

// Requests returns the requests of one method so far, including those answered by a fault.
func (s *APIServer) Requests(method string) []Request {
	return s.requestsWhere(func(r Request) bool { return r.Method == method })
}

func groupPath() string { return "/apis/" + httpv1alpha1.SchemeGroupVersion.String() }

func listPath() string { return groupPath() + "/" + httpv1alpha1.Resource }

func objectPath(namespace, name string) string {
	return fmt.Sprintf("/apis/%s/namespaces/%s/%s/%s", httpv1alpha1.SchemeGroupVersion, namespace, httpv1alpha1.Resource,
		name)
}

// namespacePath is the path to list the HTTPScaledObjects of a namespace.
func namespacePath(namespace string) string {
	return groupPath() + "/namespaces/" + namespace + "/" + httpv1alpha1.Resource
}

// isCollection reports whether path is that of all HTTPScaledObjects, or of all in a namespace.
func (*APIServer) isCollection(path string) bool {
	return strings.HasPrefix(path, groupPath()) && strings.HasSuffix(path, "/"+httpv1alpha1.Resource)
}

// isObject reports whether path is that of one HTTPScaledObject, or of another object in their group.
func (*APIServer) isObject(path string) bool { return strings.HasPrefix(path, groupPath()) }

// handle answers like a Kubernetes API server.
func (s *APIServer) handle(w http.ResponseWriter, r *http.Request, body []byte) {
	switch {
	case r.URL.Path == listPath() && r.URL.Query().Has("watch"):
		s.watch(w, r, httpv1alpha1.Resource)
	case s.isCollection(r.URL.Path):
		s.list(w, r.URL.Path)
	case s.isObject(r.URL.Path):
		s.serveObject(w, r, body)
	default:
		s.handleOther(w, r, body)
	}
}

// serveObject answers requests for one HTTPScaledObject.
func (s *APIServer) serveObject(w http.ResponseWriter, r *http.Request, body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	object, ok := s.objects[r.URL.Path]
	name := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	resource := httpv1alpha1.SchemeGroupVersion.WithResource(httpv1alpha1.Resource).GroupResource()
	switch {
	case !ok:
		respondError(w, apierrors.NewNotFound(resource, name))
	case r.Method == http.MethodGet:
		respond(w, http.StatusOK, object)
	case r.Method != http.MethodPatch || r.Header.Get("Content-Type") != "application/json-patch+json":
		respondError(w, apierrors.NewMethodNotSupported(resource, r.Method))
	default:
		patched, err := patch(object, body)
		if errors.Is(err, errTestFailed) {
			respondError(w, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "",
				err.Error(), 0, false))
			return
		}
		if err != nil {
			respondError(w, apierrors.NewBadRequest(err.Error()))
			return
		}
		s.put(patched)
		respond(w, http.StatusOK, s.objects[r.URL.Path])
	}
}
