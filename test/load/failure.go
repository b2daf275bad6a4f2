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

// The ways in which a request fails that no other package has a name for.
var (
	// ErrOverload is this client's own fault: too many requests are in flight
	// for another one, or it would begin after its timeout. Nothing was sent.
	ErrOverload = errors.New("client overload: not sent")
	// ErrPinnedLost says that a pinned connection is gone. Nothing was sent.
	ErrPinnedLost = errors.New("pinned connection lost")
	// ErrAnswer is a 200 whose body isn't one of the known colours.
	ErrAnswer = errors.New("not a known color")
)

// StatusError is an answer other than 200.
type StatusError int

// Error implements error.
func (s StatusError) Error() string { return "HTTP status " + strconv.Itoa(int(s)) }

// classify says what is wrong with an answer, and which colour it names.
func classify(a answer, known map[string]bool) (color string, err error) {
	if a.status != 200 {
		return "", StatusError(a.status)
	}
	color, err = strconv.Unquote(a.body)
	if err != nil || len(known) > 0 && !known[color] {
		return "", fmt.Errorf("%w: %.40q", ErrAnswer, a.body)
	}
	return color, nil
}

// Unanswered says whether a request failed for want of time alone: no answer came
// by its deadline, or this client was too busy to send it.
func Unanswered(err error) bool {
	var network net.Error
	return errors.Is(err, ErrOverload) || errors.Is(err, context.DeadlineExceeded) ||
		errors.As(err, &network) && network.Timeout()
}

// Reason puts an error into a few words that are the same for every request
// that failed the same way, so that they can be counted.
func Reason(err error, timeout time.Duration) string {
	switch {
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
