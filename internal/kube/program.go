package kube

import (
	"fmt"
	"net/http"
	"time"
)

// programGrace is how long a request may go on after its context has ended, before it is left to itself.
const programGrace = 500 * time.Millisecond

// patient ends requests with their context that get their credentials from a program. client-go runs the program that a
// kubeconfig names without a context (plugin/pkg/client/auth/exec), so one that hangs would hold the request, and who
// waits for its answer, for good. Where no program is named, nothing but the network is waited for, which ends with the
// context.
type patient struct {
	next    http.RoundTripper
	program string
}

// reply is what came of a request.
type reply struct {
	response *http.Response
	err      error
}

// RoundTrip implements http.RoundTripper.
func (p patient) RoundTrip(request *http.Request) (*http.Response, error) {
	replies := make(chan reply, 1)
	go func() {
		response, err := p.next.RoundTrip(request) //nolint:bodyclose // whoever takes the reply closes it
		replies <- reply{response, err}
	}()
	select {
	case got := <-replies:
		return got.response, got.err
	case <-request.Context().Done():
	}
	select {
	case got := <-replies:
		return got.response, got.err
	case <-time.After(programGrace):
	}
	go discard(replies)
	return nil, fmt.Errorf("the program %q, which the kubeconfig names for credentials, has not answered: %w",
		p.program, request.Context().Err())
}

// discard closes the answer to a request that nobody waits for any more.
func discard(replies <-chan reply) {
	if late := <-replies; late.err == nil {
		_ = late.response.Body.Close() // nobody reads it
	}
}

// WrappedRoundTripper lets client-go find the transport below.
func (p patient) WrappedRoundTripper() http.RoundTripper { return p.next }
