package routertest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
)

// list answers the HTTPScaledObjects of a collection.
func (s *APIServer) list(w http.ResponseWriter, path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := httpv1alpha1.HTTPScaledObjectList{
		TypeMeta: metav1.TypeMeta{APIVersion: httpv1alpha1.SchemeGroupVersion.String(), Kind: httpv1alpha1.Kind + "List"},
		ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(s.version)},
		Items:    []httpv1alpha1.HTTPScaledObject{},
	}
	for _, object := range s.objects {
		if path == listPath() || path == namespacePath(object.Namespace) {
			list.Items = append(list.Items, *object)
		}
	}
	respond(w, http.StatusOK, list)
}

// errTestFailed says that a JSON patch does not go with the object, as that a test in it failed.
var errTestFailed = errors.New("testing path failed")

// patch applies a JSON patch (RFC 6902) to the annotations of a copy of object: test, add and remove, which is what routers send.
func patch(object *httpv1alpha1.HTTPScaledObject, body []byte) (*httpv1alpha1.HTTPScaledObject, error) {
	var operations []struct {
		Op, Path string
		Value    any
	}
	if err := json.Unmarshal(body, &operations); err != nil {
		return nil, err
	}
	patched := object.DeepCopy()
	for _, one := range operations {
		name, isOne := strings.CutPrefix(one.Path, "/metadata/annotations/")
		name = strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
		live, there := patched.Annotations[name]
		text, _ := one.Value.(string)
		switch {
		case !isOne && one.Path != "/metadata/annotations":
			return nil, fmt.Errorf("the path %q is none of a router's business", one.Path)
		case !isOne && one.Op == "test" && one.Value == nil && patched.Annotations == nil:
		case !isOne && one.Op == "add":
			patched.Annotations = map[string]string{}
		case isOne && patched.Annotations == nil:
			return nil, fmt.Errorf("%w: there is nothing at the parent of %q", errTestFailed, one.Path)
		case isOne && one.Op == "test" && there == (one.Value != nil) && live == text:
		case one.Op == "test":
			return nil, errTestFailed
		case isOne && one.Op == "add":
			patched.Annotations[name] = text
		case isOne && one.Op == "remove" && there:
			delete(patched.Annotations, name)
		default:
			return nil, fmt.Errorf("operation %q at %q", one.Op, one.Path)
		}
	}
	if len(patched.Annotations) == 0 {
		patched.Annotations = nil // as the API server has it
	}
	return patched, nil
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
