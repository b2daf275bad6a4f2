package routertest

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
)

// list answers every HTTPScaledObject.
func (s *APIServer) list(w http.ResponseWriter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := httpv1alpha1.HTTPScaledObjectList{
		TypeMeta: metav1.TypeMeta{APIVersion: httpv1alpha1.SchemeGroupVersion.String(), Kind: httpv1alpha1.Kind + "List"},
		ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(s.version)},
		Items:    []httpv1alpha1.HTTPScaledObject{},
	}
	for _, object := range s.objects {
		list.Items = append(list.Items, *object)
	}
	respond(w, http.StatusOK, list)
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
