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

// list sends the HTTPScaledObjects of a collection.
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

// errTestFailed means that a test in a JSON patch failed.
var errTestFailed = errors.New("testing path failed")

// patch applies a JSON patch (RFC 6902) to the annotations of a copy of object. It supports the operations that routers
// send: test, add and remove.
func patch(object *httpv1alpha1.HTTPScaledObject, body []byte) (*httpv1alpha1.HTTPScaledObject, error) {
	var operations []struct {
		Op, Path string
		Value    any
	}
	if err := json.Unmarshal(body, &operations); err != nil {
		return nil, err
	}
	patched := object.DeepCopy()
	for _, operation := range operations {
		name, isAnnotation := strings.CutPrefix(operation.Path, "/metadata/annotations/")
		name = strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
		live, exists := patched.Annotations[name]
		text, _ := operation.Value.(string)
		switch {
		case !isAnnotation && operation.Path != "/metadata/annotations":
			return nil, fmt.Errorf("unexpected path %q: routers patch annotations only", operation.Path)
		case !isAnnotation && operation.Op == "test" && operation.Value == nil && patched.Annotations == nil:
		case !isAnnotation && operation.Op == "add":
			patched.Annotations = map[string]string{}
		case isAnnotation && patched.Annotations == nil:
			return nil, fmt.Errorf("%w: no parent of %q", errTestFailed, operation.Path)
		case isAnnotation && operation.Op == "test" && exists == (operation.Value != nil) && live == text:
		case operation.Op == "test":
			return nil, errTestFailed
		case isAnnotation && operation.Op == "add":
			patched.Annotations[name] = text
		case isAnnotation && operation.Op == "remove" && exists:
			delete(patched.Annotations, name)
		default:
			return nil, fmt.Errorf("unexpected operation %q at %q", operation.Op, operation.Path)
		}
	}
	if len(patched.Annotations) == 0 {
		patched.Annotations = nil // as in the API server
	}
	return patched, nil
}

func respondError(w http.ResponseWriter, err *apierrors.StatusError) {
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
		panic(http.ErrAbortHandler) // the client has disconnected; this closes the connection, like a crashing server
	}
}
