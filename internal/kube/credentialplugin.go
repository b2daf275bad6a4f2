package kube

import (
	"fmt"
	"net/http"
	"time"
)

// credentialGrace is how long a request can continue after its context has ended, before RoundTrip returns without it.
const credentialGrace = 500 * time.Millisecond

// boundedTransport ends a request with its context even if the credential plugin of the kubeconfig hangs. client-go
// runs the plugin without a context (plugin/pkg/client/auth/exec), so a plugin that hangs would block the request and
// its caller forever. Without a plugin a request waits only for the network, and that wait ends with the context.
type boundedTransport struct {
	next   http.RoundTripper
	plugin string
}

// result is the result of a request.
type result struct {
	response *http.Response
	err      error
}

// RoundTrip implements http.RoundTripper.
func (p boundedTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	results := make(chan result, 1)
	go func() {
		response, err := p.next.RoundTrip(request) //nolint:bodyclose // the receiver of the result closes it
		results <- result{response, err}
	}()
	select {
	case r := <-results:
		return r.response, r.err
	case <-request.Context().Done():
	}
	select {
	case r := <-results:
		return r.response, r.err
	case <-time.After(credentialGrace):
	}
	go discard(results)
	return nil, fmt.Errorf("credential plugin %q of the kubeconfig has not responded: %w",
		p.plugin, request.Context().Err())
}

// discard closes the response to a request that was abandoned.
func discard(results <-chan result) {
	if late := <-results; late.err == nil {
		_ = late.response.Body.Close() // the body is not read
	}
}

// WrappedRoundTripper returns the wrapped transport for client-go.
func (p boundedTransport) WrappedRoundTripper() http.RoundTripper { return p.next }
