package httpso

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

// maxFaults is how many faults of the API server or the connection one call survives before it gives up. Conflicts are not counted: they say that others
// write, not that the server is in trouble, and end with the context's deadline at the latest.
const maxFaults = 3

// awayPause is the pause between two attempts while nothing listens at the API server's address. Such an attempt costs nobody anything, and the one that
// gets through is at once; the controller, given an error, would come back later each time.
const awayPause = 250 * time.Millisecond

// retry calls attempt until it succeeds, fails for good, or ctx ends. After a conflict it waits 5 to 10 ms, at random, so that writers of one object get out
// of each other's way; after a fault 20 ms, then twice and four times that, or as long as the API server asks for (Retry-After) where that is longer. While
// the API server is away altogether, which is not counted as a fault either, it waits awayPause.
func retry(ctx context.Context, attempt func(context.Context) error) error {
	afterConflict := wait.Backoff{Duration: 5 * time.Millisecond, Jitter: 1}
	afterFault := wait.Backoff{Duration: 20 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: maxFaults}
	for faults := 0; ; {
		err := attempt(ctx)
		var pause time.Duration
		switch {
		case apierrors.IsConflict(err):
			pause = afterConflict.Step()
		case utilnet.IsConnectionRefused(err):
			pause = awayPause
		case isFault(err) && faults < maxFaults:
			faults++
			seconds, _ := apierrors.SuggestsClientDelay(err)
			pause = max(afterFault.Step(), time.Duration(seconds)*time.Second)
		default:
			return err
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return err
		case <-timer.C:
		}
	}
}

// isFault says whether err is trouble of the API server or the way to it that may pass. What was asked can be asked again after it: a write that went
// through although its answer was lost is found done.
func isFault(err error) bool {
	var network net.Error
	return apierrors.IsTooManyRequests(err) || apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err) ||
		apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || apierrors.IsUnexpectedServerError(err) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &network)
}

// passes says whether err may be gone at the next call, without anybody's doing.
func passes(err error) bool {
	return err != nil && (errors.Is(err, context.DeadlineExceeded) || isFault(err) || apierrors.IsConflict(err))
}

// explain says for a failed read or write which object it concerns and what to do about it. A nil err stays nil.
func explain(want intent, err error) error {
	var remedy string
	switch {
	case err == nil:
		return nil
	case apierrors.IsNotFound(err):
		remedy = fmt.Sprintf("create it (and install the CustomResourceDefinition httpscaledobjects.http.keda.sh if it is missing), or correct %s.%s",
			configField, objectKey)
	case apierrors.IsForbidden(err):
		remedy = "allow the controller's ServiceAccount to get and patch httpscaledobjects: apply the ClusterRole and ClusterRoleBinding argo-rollouts-kedify-http"
	case apierrors.IsUnauthorized(err):
		remedy = "the API server does not accept the controller's credentials: check its ServiceAccount token or kubeconfig"
	case passes(err):
		remedy = "the controller tries again at its next reconcile"
	default:
		return fmt.Errorf("HTTPScaledObject %q of rollout %q: %w", want.object, want.rollout, err)
	}
	return fmt.Errorf("HTTPScaledObject %q of rollout %q: %w: %s", want.object, want.rollout, err, remedy)
}
