package routertest

import (
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Unlisted makes fault answer all further lists and watches of all namespaces; nil ends that.
func (f *server) Unlisted(fault http.HandlerFunc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.unlisted = fault
}

// Fail makes faults answer the next requests for single objects of the server's kinds, one each, in order. If a fault
// writes nothing, the server answers.
func (f *server) Fail(faults ...http.HandlerFunc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults = append(f.faults, faults...)
}

// Hang is a fault without a response, until the client disconnects or the test ends.
func (f *server) Hang(_ http.ResponseWriter, r *http.Request) {
	select {
	case <-f.closed:
	case <-r.Context().Done():
	}
}

// PassingFaults returns faults after which a call succeeds, by name and time. They are for Fail, before a call that
// reads an object and then writes it.
func PassingFaults() map[string][]http.HandlerFunc {
	table := map[string][]http.HandlerFunc{}
	for name, fault := range map[string]http.HandlerFunc{
		"a cut connection":     CloseConnection,
		"too many requests":    RespondError(apierrors.NewTooManyRequestsError("slow down")),
		"an internal error":    RespondError(apierrors.NewInternalError(errors.New("etcd has no leader"))),
		"service unavailable":  RespondError(apierrors.NewServiceUnavailable("starting")),
		"a timeout in the API": RespondError(apierrors.NewTimeoutError("etcd is slow", 0)),
		"a conflict":           RespondError(apierrors.NewConflict(schema.GroupResource{}, "web", errors.New("modified"))),
	} {
		table[name+" at the read"] = []http.HandlerFunc{fault}
		table[name+" at the write"] = []http.HandlerFunc{Pass, fault}
	}
	return table
}

// Pass lets the server answer; it is for a Fail of a later request.
func Pass(http.ResponseWriter, *http.Request) {}

// CloseConnection is a fault that closes the connection without a response.
func CloseConnection(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// RespondError is a fault that sends an error of the API server.
func RespondError(err *apierrors.StatusError) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { respondError(w, err) }
}

// recordingWriter records whether a handler has sent a response.
type recordingWriter struct {
	http.ResponseWriter
	wrote bool
}

// Unwrap returns the underlying writer, for http.ResponseController.
func (n *recordingWriter) Unwrap() http.ResponseWriter { return n.ResponseWriter }

// WriteHeader records the response and sends it.
func (n *recordingWriter) WriteHeader(code int) {
	n.wrote = true
	n.ResponseWriter.WriteHeader(code)
}
