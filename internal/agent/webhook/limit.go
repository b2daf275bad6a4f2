package webhook

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/server"
)

const (
	// maxBody is the largest request in bytes. An update contains two versions of an object, and etcd stores none above
	// 1.5 MiB (https://etcd.io/docs/v3.6/dev-guide/limit/).
	maxBody = 4 << 20
	// maxReviews is the maximum number of requests that are read and answered at a time, and maxReviewsPerAddress that of
	// the requests of one address. Each can need several times maxBody.
	maxReviews, maxReviewsPerAddress = 4, 2
	// maxWaiting is the maximum number of requests of one address that wait for this.
	maxWaiting = 512
	// bodyTimeout limits the time in which a body arrives. waitTimeout limits the time before. Their sum is below the
	// timeoutSeconds of the webhook, so that the API server receives the reason.
	bodyTimeout, waitTimeout = 1500 * time.Millisecond, 3 * time.Second
)

// limit returns a handler that limits the memory of the requests for hook. It passes a request on after it has read the
// body. Any Pod can send requests, and the webhook must answer those of the API server nevertheless.
func limit(hook http.Handler) http.Handler {
	free := newSlots(maxReviews, maxReviewsPerAddress, maxWaiting)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength > maxBody {
			http.Error(w, "the request is too large", http.StatusRequestEntityTooLarge)
			return
		}
		from, _ := server.PeerAddress(r.RemoteAddr)
		release, err := acquire(r.Context(), free, from)
		if err != nil {
			http.Error(w, "too many requests at a time: "+err.Error(), http.StatusServiceUnavailable)
			return
		}
		defer release()
		body, status := read(w, r)
		if status != http.StatusOK {
			http.Error(w, "the request was not read: "+http.StatusText(status), status)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		hook.ServeHTTP(w, r)
	})
}

// acquire waits up to waitTimeout for a slot.
func acquire(ctx context.Context, free *slots, from netip.Addr) (release func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	return free.acquire(ctx, from)
}

// read reads the body of a request, and returns the status of the response if that fails.
func read(w http.ResponseWriter, r *http.Request) (body []byte, status int) {
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(bodyTimeout)) // An error means that the connection has ended.
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if _, isTooLarge := errors.AsType[*http.MaxBytesError](err); isTooLarge {
		return nil, http.StatusRequestEntityTooLarge
	}
	if err != nil {
		w.Header().Set("Connection", "close") // The rest of the body may follow.
		return nil, http.StatusRequestTimeout
	}
	_ = control.SetReadDeadline(time.Time{})
	return body, http.StatusOK
}
