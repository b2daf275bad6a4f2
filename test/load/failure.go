package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"syscall"
	"time"
)

// The failures of requests that are not errors of other packages.
var (
	// ErrOverload is a fault of this client: too many requests are in flight, or the request would start after its
	// timeout. Nothing was sent.
	ErrOverload = errors.New("client overload: not sent")
	// ErrPinnedLost means that a pinned connection is closed. Nothing was sent.
	ErrPinnedLost = errors.New("pinned connection lost")
	// ErrAnswer means a status 200 with a body that is not one of the valid colors.
	ErrAnswer = errors.New("not a known color")
)

// StatusError is a status other than 200.
type StatusError int

// Error implements error.
func (s StatusError) Error() string { return "HTTP status " + strconv.Itoa(int(s)) }

// responseError means a response with a status other than 200. It wraps a StatusError.
type responseError struct {
	status StatusError
	// reason is the header X-Kedify-Reason, and server the header Server: which proxy has answered, and why.
	reason, server, body string
}

// Error implements error.
func (e responseError) Error() string {
	return fmt.Sprintf("%v, server %q, X-Kedify-Reason %q, body %.120q", e.status, e.server, e.reason, e.body)
}

// Unwrap returns the status.
func (e responseError) Unwrap() error { return e.status }

// classify returns the color of a response, or why the response is a failure.
func classify(a answer, known map[string]bool) (color string, err error) {
	if a.status != 200 {
		return "", responseError{StatusError(a.status), a.reason, a.server, a.body}
	}
	color, err = strconv.Unquote(a.body)
	if err != nil || len(known) > 0 && !known[color] {
		return "", fmt.Errorf("%w: %.40q", ErrAnswer, a.body)
	}
	return color, nil
}

// Unanswered reports whether a request failed only because of time: no response until its deadline, or the client was
// too busy to send it.
func Unanswered(err error) bool {
	var network net.Error
	return errors.Is(err, ErrOverload) || errors.Is(err, context.DeadlineExceeded) ||
		errors.As(err, &network) && network.Timeout()
}

// Explain returns the Reason of a failed request. For a response it adds which proxy has answered, why, and the start of
// the body.
func Explain(err error, timeout time.Duration) string {
	if response := (responseError{}); errors.As(err, &response) {
		return response.Error()
	}
	return Reason(err, timeout)
}

// Reason returns a short text that is equal for all requests that failed in the same way, so that they can be counted.
func Reason(err error, timeout time.Duration) string {
	var status StatusError
	switch {
	case errors.As(err, &status):
		return status.Error()
	case errors.Is(err, ErrOverload), errors.Is(err, ErrPinnedLost), errors.Is(err, ErrAnswer):
		return err.Error()
	case Unanswered(err):
		return fmt.Sprintf("no answer within %s", timeout)
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "connection reset"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "connection closed without a full answer"
	default:
		return err.Error()
	}
}
