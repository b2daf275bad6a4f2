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

// maxFaults is how many faults of the API server or the connection one call survives before it gives up. Conflicts are
// not counted: they say that others write, not that the server is in trouble, and end with the context's deadline at
// the latest.
const maxFaults = 3

const (
	// awayPause is the pause between two attempts while nothing listens at the API server's address, or what listens
	// has just started. Such an attempt costs nobody anything, and the one that gets through is at once; the
	// controller, given an error, would come back later each time.
	awayPause = 250 * time.Millisecond
	// startTime is how long an API server that was away may refuse what it will allow: it serves before it has read its
	// own rules.
	startTime = 3 * time.Second
)

// Retry calls attempt until it succeeds, fails for good, or ctx ends. After a conflict it waits 5 to 10 ms, at random,
// so that writers of one object get out of each other's way; after a fault 20 ms, then twice and four times that, or as
// long as the API server asks for (Retry-After) where that is longer. While the API server is away altogether or
// starts, which is not counted as a fault either, it waits awayPause.
func Retry(ctx context.Context, attempt func(context.Context) error) error {
	afterConflict := wait.Backoff{Duration: 5 * time.Millisecond, Jitter: 1}
	afterFault := wait.Backoff{Duration: 20 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: maxFaults}
	var away time.Time // when the API server was last found away
	for faults := 0; ; {
		err := attempt(ctx)
		var pause time.Duration
		switch {
		case apierrors.IsConflict(err):
			pause = afterConflict.Step()
		case utilnet.IsConnectionRefused(err) || isStarting(err):
			away, pause = time.Now(), awayPause
		case isRefusal(err) && time.Since(away) < startTime:
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

// isStarting says whether err is the answer of an API server that does not serve all paths yet: 503, and to come again
// after a time. It says 5 s, whenever it is ready (k8s.io/apiserver, notfoundhandler), and nobody else answers so.
func isStarting(err error) bool {
	_, comeAgain := apierrors.SuggestsClientDelay(err)
	return comeAgain && apierrors.IsServiceUnavailable(err)
}

// isRefusal says whether err is what an API server answers that doesn't know its users or its rules yet.
func isRefusal(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) }

// Sleep waits for pause or until ctx ends, and says whether it was the former.
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

// isFault says whether err is trouble of the API server or the way to it that may pass. What was asked can be asked
// again after it: a write that went through although its answer was lost is found done.
func isFault(err error) bool {
	var network net.Error
	return apierrors.IsTooManyRequests(err) || apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err) ||
		apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || apierrors.IsUnexpectedServerError(err) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &network)
}

// Passes says whether err may be gone at the next call, without anybody's doing.
func Passes(err error) bool {
	return err != nil && (errors.Is(err, context.DeadlineExceeded) || isFault(err) || apierrors.IsConflict(err))
}

// Remedies are what a user can do about the failures that differ from router to router.
type Remedies struct {
	// NotFound is for an object that does not exist.
	NotFound string
	// Forbidden is for a request that the controller's ServiceAccount may not make.
	Forbidden string
}

// Explain says for a failed read or write what it concerns, such as an object of a Rollout, and what to do about it. A
// nil err stays nil.
func Explain(concerns string, err error, remedies Remedies) error {
	var remedy string
	switch {
	case err == nil:
		return nil
	case apierrors.IsNotFound(err):
		remedy = remedies.NotFound
	case apierrors.IsForbidden(err):
		remedy = remedies.Forbidden
	case apierrors.IsUnauthorized(err):
		remedy = "the API server does not accept the controller's credentials: check its ServiceAccount token or " +
			"kubeconfig"
	case Passes(err):
		remedy = "the controller tries again at its next reconcile"
	default:
		return fmt.Errorf("%s: %w", concerns, err)
	}
	return fmt.Errorf("%s: %w: %s", concerns, err, remedy)
}
