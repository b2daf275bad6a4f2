// Package routertest holds what tests of routers share: API servers, the faults that these can have, and a Rollout.
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

// APIServer answers the Kubernetes REST API over real HTTP and JSON: for HTTPScaledObjects GET, list, watch and JSON PATCH, with resource versions, conflicts and
// Status answers; for anything else GET of what a test puts there; and it takes events. A test that asks for more sees a 404.
type APIServer struct {
	*frame

	objects map[string]*httpv1alpha1.HTTPScaledObject // by REST path; guarded by frame.mu
}

// NewAPIServer starts a server that holds objects. It ends with the test.
func NewAPIServer(tb testing.TB, objects ...*httpv1alpha1.HTTPScaledObject) *APIServer {
	tb.Helper()
	s := NewInMemory(tb, objects...)
	s.listen()
	return s
}

// NewInMemory is a server without a network between it and its clients, for tests that control the time (testing/synctest): a goroutine that waits for the
// network keeps time from passing.
func NewInMemory(tb testing.TB, objects ...*httpv1alpha1.HTTPScaledObject) *APIServer {
	tb.Helper()
	s := &APIServer{objects: map[string]*httpv1alpha1.HTTPScaledObject{}}
	s.frame = newFrame(tb, s)
	for _, object := range objects {
		s.Put(object)
	}
	return s
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
	s.record(kind, httpv1alpha1.Resource, stored)
}

// Report sets the data-plane report of an HTTPScaledObject, as an interceptor does.
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

// Requests returns the requests of one method so far, those answered by a fault included.
func (s *APIServer) Requests(method string) []Request {
	return s.requestsWhere(func(r Request) bool { return r.Method == method })
}

func groupPath() string { return "/apis/" + httpv1alpha1.SchemeGroupVersion.String() }

func listPath() string { return groupPath() + "/" + httpv1alpha1.Resource }

func objectPath(namespace, name string) string {
	return fmt.Sprintf("/apis/%s/namespaces/%s/%s/%s", httpv1alpha1.SchemeGroupVersion, namespace, httpv1alpha1.Resource, name)
}

// namespacePath is where the HTTPScaledObjects of a namespace are listed.
func namespacePath(namespace string) string {
	return groupPath() + "/namespaces/" + namespace + "/" + httpv1alpha1.Resource
}

// isCollection says whether path is that of all HTTPScaledObjects, or of all of a namespace.
func (*APIServer) isCollection(path string) bool {
	return strings.HasPrefix(path, groupPath()) && strings.HasSuffix(path, "/"+httpv1alpha1.Resource)
}

// isObject says whether path is that of one HTTPScaledObject, or of anything else in their group.
func (*APIServer) isObject(path string) bool { return strings.HasPrefix(path, groupPath()) }

// handle answers as a Kubernetes API server does.
func (s *APIServer) handle(w http.ResponseWriter, r *http.Request, body []byte) {
	switch {
	case r.URL.Path == listPath() && r.URL.Query().Has("watch"):
		s.watch(w, r, httpv1alpha1.Resource)
	case s.isCollection(r.URL.Path):
		s.list(w, r.URL.Path)
	case s.isObject(r.URL.Path):
		s.single(w, r, body)
	default:
		s.other(w, r, body)
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
	case r.Method != http.MethodPatch || r.Header.Get("Content-Type") != "application/json-patch+json":
		answer(w, apierrors.NewMethodNotSupported(resource, r.Method))
	default:
		patched, err := patch(object, body)
		if errors.Is(err, errTestFailed) {
			answer(w, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false))
			return
		}
		if err != nil {
			answer(w, apierrors.NewBadRequest(err.Error()))
			return
		}
		s.put(patched)
		respond(w, http.StatusOK, s.objects[r.URL.Path])
	}
}
