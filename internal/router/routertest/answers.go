package routertest

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"sort"
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

// watch tells changes after the resource version that the request names, until either side goes away.
func (s *APIServer) watch(w http.ResponseWriter, r *http.Request) {
	after, err := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	if err != nil {
		answer(w, apierrors.NewBadRequest(err.Error()))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	flush, encoder := http.NewResponseController(w), json.NewEncoder(w)
	for {
		s.mu.Lock()
		changed := s.changed
		news := slices.Clone(s.history[sort.Search(len(s.history), func(i int) bool { return s.history[i].version > after }):])
		if s.held {
			news = nil
		}
		s.mu.Unlock()
		for _, change := range news {
			if err := encoder.Encode(change.event); err != nil {
				return
			}
			after = change.version
		}
		if err := flush.Flush(); err != nil {
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
