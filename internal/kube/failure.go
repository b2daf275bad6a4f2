package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
)

// maxFaults is the number of faults of the API server or the connection after which Retry returns the error. Conflicts
// don't count: they mean that other clients write, and end with the deadline of the context at the latest.
const maxFaults = 3

const (
	// awayPause is the pause between two attempts while nothing listens at the address of the API server, or the API
	// server is starting. Such attempts are cheap, and they succeed soon after the start. With an error the controller
	// would back off for longer each time.
	awayPause = 250 * time.Millisecond
	// startTime is how long an API server that has just started may reject allowed requests: it serves before it has
	// read its RBAC rules.
	startTime = 3 * time.Second
)

// Retry calls attempt until it succeeds, fails permanently, or ctx ends. After a conflict it waits 5 to 10 ms, at
// random, so that the writers of one object separate. After a fault it waits 20 ms, then 40 and 80 ms, or the
// Retry-After of the API server if that is longer. While the API server is unreachable or starting, it waits awayPause;
// that doesn't count as a fault.
func Retry(ctx context.Context, attempt func(context.Context) error) error {
	afterConflict := wait.Backoff{Duration: 5 * time.Millisecond, Jitter: 1}
	afterFault := wait.Backoff{Duration: 20 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: maxFaults}
	var away time.Time // when the API server was last unreachable or starting
	for faults := 0; ; {
		err := attempt(ctx)
		var pause time.Duration
		switch {
		case apierrors.IsConflict(err):
			pause = afterConflict.Step()
		case utilnet.IsConnectionRefused(err) || isStarting(err):
			away, pause = time.Now(), awayPause
		case isDenied(err) && time.Since(away) < startTime:
			pause = awayPause
		case isFault(err) && faults < maxFaults:
			faults++
			seconds, _ := apierrors.SuggestsClientDelay(err)
			pause = max(afterFault.Step(), time.Duration(seconds)*time.Second)
		default:
			return err
		}
		if !Sleep(ctx, pause) {
			return err
		}
	}
}

// isStarting reports whether err is the response of an API server that doesn't serve all paths yet: 503 with
// Retry-After, which is 5 s however soon it is ready (k8s.io/apiserver, notfoundhandler). No other component responds
// like that.
func isStarting(err error) bool {
	_, comeAgain := apierrors.SuggestsClientDelay(err)
	return comeAgain && apierrors.IsServiceUnavailable(err)
}

// isDenied reports whether err is the response of an API server that hasn't read its users or RBAC rules yet.
func isDenied(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) }

// Sleep waits for pause or until ctx ends. It returns false if ctx ended.
func Sleep(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// isFault reports whether err is a transient failure of the API server or the connection. The request can be repeated:
// a repeated write whose first response was lost changes nothing.
func isFault(err error) bool {
	var network net.Error
	return apierrors.IsTooManyRequests(err) || apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err) ||
		apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || apierrors.IsUnexpectedServerError(err) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &network)
}

// IsTransient reports whether err may be gone at the next call without a change by a user.
func IsTransient(err error) bool {
	return err != nil && (errors.Is(err, context.DeadlineExceeded) || isFault(err) || apierrors.IsConflict(err))
}

// Fixes are the fixes for failures that differ between routers.
type Fixes struct {
	// NotFound is the fix for an object that doesn't exist.
	NotFound string
	// Forbidden is the fix for a missing permission of the controller's ServiceAccount.
	Forbidden string
}

// Explain adds the subject of a failed request, such as an object of a Rollout, and the fix to err. It returns nil for
// nil.
func Explain(subject string, err error, fixes Fixes) error {
	var fix string
	switch {
	case err == nil:
		return nil
	case apierrors.IsNotFound(err):
		fix = fixes.NotFound
	case apierrors.IsForbidden(err):
		fix = fixes.Forbidden
	case apierrors.IsUnauthorized(err):
		fix = "the API server does not accept the controller's credentials: check its ServiceAccount token or " +
			"kubeconfig"
	case IsTransient(err):
		fix = "the controller tries again at its next reconcile"
	default:
		return fmt.Errorf("%s: %w", subject, err)
	}
	return fmt.Errorf("%s: %w: %s", subject, err, fix)
}
