package routertest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sort"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// isCollection says whether path is that of all routes of a kind: /apis/GROUP/VERSION/RESOURCE.
func isCollection(path string) bool {
	return strings.HasPrefix(path, "/apis/"+routesGroup) && strings.Count(path, "/") == 4
}

// serve records a request and lets the next fault or the API answer it.
func (s *RoutesServer) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has gone
	}
	s.mu.Lock()
	s.requests = append(s.requests, Request{
		Method: r.Method, Path: r.URL.Path, FieldManager: r.URL.Query().Get("fieldManager"),
		ContentType: r.Header.Get("Content-Type"), UserAgent: r.UserAgent(), Body: string(body),
	})
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/"), "/") // apis, group, version, namespaces, namespace, resource, name
	isRoute := len(parts) == 7 && parts[1] == routesGroup
	var fault http.HandlerFunc
	switch {
	case isCollection(r.URL.Path):
		fault = s.unlisted
	case isRoute && len(s.faults) > 0:
		fault, s.faults = s.faults[0], s.faults[1:]
	}
	_, versionServed := s.others[strings.Join([]string{"", "apis", routesGroup, element(parts, 2)}, "/")]
	s.mu.Unlock()
	if fault != nil {
		recorder := &noticing{ResponseWriter: w}
		if fault(recorder, r); recorder.wrote {
			return
		}
	}
	switch {
	case isRoute && versionServed:
		s.single(w, r, parts, body)
	case isCollection(r.URL.Path) && versionServed && r.URL.Query().Has("watch"):
		s.watch(w, r, parts[3])
	case isCollection(r.URL.Path) && versionServed:
		s.list(w, r, parts[3], "")
	case len(parts) == 6 && parts[1] == routesGroup && versionServed:
		s.list(w, r, parts[5], parts[4])
	case element(parts, 1) == routesGroup && len(parts) > 3:
		http.NotFound(w, r) // without a Status, as a path that nobody serves is answered
	default:
		s.other(w, r, body)
	}
}

// element is one of parts, or nothing.
func element(parts []string, at int) string {
	if at < len(parts) {
		return parts[at]
	}
	return ""
}

// single answers for one route.
func (s *RoutesServer) single(w http.ResponseWriter, r *http.Request, parts []string, body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	resource := schema.GroupResource{Group: routesGroup, Resource: parts[5]}
	object, found := s.objects[routeKey(parts[5], parts[4], parts[6])]
	switch {
	case !found:
		answer(w, apierrors.NewNotFound(resource, parts[6]))
	case r.Method == http.MethodGet:
		respond(w, http.StatusOK, object)
	case r.Method != http.MethodPut:
		answer(w, apierrors.NewMethodNotSupported(resource, r.Method))
	default:
		var written unstructured.Unstructured
		if err := written.UnmarshalJSON(body); err != nil {
			answer(w, apierrors.NewBadRequest(err.Error()))
			return
		}
		if written.GetResourceVersion() != (&unstructured.Unstructured{Object: object}).GetResourceVersion() {
			answer(w, apierrors.NewConflict(resource, parts[6], errors.New("the object has been modified")))
			return
		}
		written.Object["status"] = object["status"] // a PUT of the object leaves the subresource
		respond(w, http.StatusOK, s.put(written.Object))
	}
}

// list answers the routes of a kind, of one namespace or all.
func (s *RoutesServer) list(w http.ResponseWriter, r *http.Request, resource, namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	selector, err := labels.Parse(r.URL.Query().Get("labelSelector"))
	if err != nil {
		answer(w, apierrors.NewBadRequest(err.Error()))
		return
	}
	items := []any{}
	for key, object := range s.objects {
		route := unstructured.Unstructured{Object: object}
		if strings.HasPrefix(key, "/"+resource+"/") && (namespace == "" || route.GetNamespace() == namespace) && selector.Matches(labels.Set(route.GetLabels())) {
			items = append(items, object)
		}
	}
	respond(w, http.StatusOK, map[string]any{"metadata": map[string]any{"resourceVersion": strconv.Itoa(s.version)}, "items": items})
}

// watch tells changes of a kind after the resource version that the request names, until either side goes away.
func (s *RoutesServer) watch(w http.ResponseWriter, r *http.Request, resource string) {
	after, err := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	if err != nil {
		answer(w, apierrors.NewBadRequest(err.Error()))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	flush := http.NewResponseController(w)
	for {
		s.mu.Lock()
		changed := s.changed
		var text bytes.Buffer
		encoder := json.NewEncoder(&text)
		for _, change := range s.history[sort.Search(len(s.history), func(i int) bool { return s.history[i].version > after }):] {
			if after = change.version; change.resource == resource {
				err = errors.Join(err, encoder.Encode(change.event))
			}
		}
		s.mu.Unlock()
		if text.Len() > 0 {
			_, writeErr := w.Write(text.Bytes())
			err = errors.Join(err, writeErr)
		}
		if errors.Join(err, flush.Flush()) != nil {
			return
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		case <-s.closed:
			return
		}
	}
}

// other answers for everything else.
func (s *RoutesServer) other(w http.ResponseWriter, r *http.Request, body []byte) {
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
