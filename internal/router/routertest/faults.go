package routertest

import (
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Unlisted lets every further list and watch of all namespaces be answered by fault; nil lets the server answer again.
func (f *frame) Unlisted(fault http.HandlerFunc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.unlisted = fault
}

// Fail lets the next requests for single objects of the kinds that the server is for be answered by faults, one each, in order. A fault that writes nothing
// lets the server answer after it.
func (f *frame) Fail(faults ...http.HandlerFunc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults = append(f.faults, faults...)
}

// Cut is a fault: the connection ends without an answer.
func Cut(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// Answer is a fault: an error as the API server words it.
func Answer(err *apierrors.StatusError) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { answer(w, err) }
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
