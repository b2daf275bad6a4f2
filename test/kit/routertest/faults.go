package routertest

import (
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
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

// Hang is a fault: nothing is answered before the client gives up or the test ends.
func (f *frame) Hang(_ http.ResponseWriter, r *http.Request) {
	select {
	case <-f.closed:
	case <-r.Context().Done():
	}
}

// PassingFaults are faults that a call survives, by what happens and when. Each is for Fail, before a call that reads an object and then writes it.
func PassingFaults() map[string][]http.HandlerFunc {
	table := map[string][]http.HandlerFunc{}
	for name, fault := range map[string]http.HandlerFunc{
		"a cut connection":     Cut,
		"too many requests":    Answer(apierrors.NewTooManyRequestsError("slow down")),
		"an internal error":    Answer(apierrors.NewInternalError(errors.New("etcd has no leader"))),
		"service unavailable":  Answer(apierrors.NewServiceUnavailable("starting")),
		"a timeout in the API": Answer(apierrors.NewTimeoutError("etcd is slow", 0)),
		"a conflict":           Answer(apierrors.NewConflict(schema.GroupResource{}, "web", errors.New("modified"))),
	} {
		table[name+" at the read"] = []http.HandlerFunc{fault}
		table[name+" at the write"] = []http.HandlerFunc{Pass, fault}
	}
	return table
}

// Pass is no fault, where Fail is given one for a later request: the server answers.
func Pass(http.ResponseWriter, *http.Request) {}

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
