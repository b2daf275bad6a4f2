package routertest

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// isCollection reports whether path is that of all routes of a kind: /apis/GROUP/VERSION/RESOURCE.
func (*RoutesServer) isCollection(path string) bool {
	return strings.HasPrefix(path, "/apis/"+routesGroup) && strings.Count(path, "/") == 4
}

// isObject reports whether path is that of one route.
func (*RoutesServer) isObject(path string) bool {
	parts := partsOf(path)
	return len(parts) == 7 && parts[1] == routesGroup
}

// partsOf returns the segments of a path: apis, group, version, namespaces, namespace, resource, name.
func partsOf(path string) []string { return strings.Split(strings.TrimPrefix(path, "/"), "/") }

// handle answers like a Kubernetes API server.
func (s *RoutesServer) handle(w http.ResponseWriter, r *http.Request, body []byte) {
	parts := partsOf(r.URL.Path)
	served := s.serves(element(parts, 2))
	switch {
	case s.isObject(r.URL.Path) && served:
		s.serveObject(w, r, parts, body)
	case s.isCollection(r.URL.Path) && served && r.URL.Query().Has("watch"):
		s.watch(w, r, parts[3])
	case s.isCollection(r.URL.Path) && served:
		s.list(w, r, parts[3], "")
	case len(parts) == 6 && parts[1] == routesGroup && served:
		s.list(w, r, parts[5], parts[4])
	case element(parts, 1) == routesGroup && len(parts) > 3:
		http.NotFound(w, r) // without a Status, as for a path that is not served
	default:
		s.handleOther(w, r, body)
	}
}

// serves reports whether routes are served in a version.
func (s *RoutesServer) serves(version string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, served := s.others["/apis/"+routesGroup+"/"+version]
	return served
}

// element returns the element at an index, or "".
func element(parts []string, at int) string {
	if at < len(parts) {
		return parts[at]
	}
	return ""
}

// serveObject answers requests for one route.
func (s *RoutesServer) serveObject(w http.ResponseWriter, r *http.Request, parts []string, body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	resource := schema.GroupResource{Group: routesGroup, Resource: parts[5]}
	object, exists := s.objects[routeKey(parts[5], parts[4], parts[6])]
	switch {
	case !exists:
		respondError(w, apierrors.NewNotFound(resource, parts[6]))
	case r.Method == http.MethodGet:
		respond(w, http.StatusOK, object)
	case r.Method != http.MethodPut:
		respondError(w, apierrors.NewMethodNotSupported(resource, r.Method))
	default:
		written := new(unstructured.Unstructured)
		if err := written.UnmarshalJSON(body); err != nil {
			respondError(w, apierrors.NewBadRequest(err.Error()))
			return
		}
		if written.GetResourceVersion() != object.GetResourceVersion() {
			respondError(w, apierrors.NewConflict(resource, parts[6], errors.New("the object has been modified")))
			return
		}
		if err := s.pruneSessions(written, r.URL.Query().Get("fieldValidation")); err != nil {
			respondError(w, err)
			return
		}
		written.Object["status"] = object.Object["status"] // a PUT of the object does not change the subresource
		s.put(written)
		respond(w, http.StatusOK, written)
	}
}

// pruneSessions removes the sessions of rules if the stored kinds have none. With strict validation that is an error.
func (s *RoutesServer) pruneSessions(written *unstructured.Unstructured, validation string) *apierrors.StatusError {
	rules, _, _ := unstructured.NestedSlice(written.Object, "spec", "rules")
	for i, value := range rules {
		rule, _ := value.(map[string]any)
		if _, has := rule["sessionPersistence"]; !has || s.hasSessions {
			continue
		}
		if validation == "Strict" {
			return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: strict decoding error: "+
				"unknown field %q", written.GetKind(), "v1", written.GetKind(), fmt.Sprintf("spec.rules[%d].sessionPersistence", i)))
		}
		delete(rule, "sessionPersistence")
	}
	if len(rules) > 0 {
		written.Object["spec"].(map[string]any)["rules"] = rules
	}
	return nil
}

// list sends the routes of a kind, of one namespace or all.
func (s *RoutesServer) list(w http.ResponseWriter, r *http.Request, resource, namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	selector, err := labels.Parse(r.URL.Query().Get("labelSelector"))
	if err != nil {
		respondError(w, apierrors.NewBadRequest(err.Error()))
		return
	}
	items := []any{}
	for key, object := range s.objects {
		if strings.HasPrefix(key, "/"+resource+"/") && (namespace == "" || object.GetNamespace() == namespace) &&
			selector.Matches(labels.Set(object.GetLabels())) {
			items = append(items, object)
		}
	}
	respond(w, http.StatusOK, map[string]any{
		"metadata": map[string]any{"resourceVersion": strconv.Itoa(s.version)},
		"items":    items,
	})
}
