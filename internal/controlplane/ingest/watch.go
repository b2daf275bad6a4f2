package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

const (
	// listDeadline is the timeout of one list request.
	listDeadline = 30 * time.Second
	// minRetryPause is the first pause before a failed list or watch is retried. The pause doubles up to a maximum that
	// depends on the error, see retryPauses. Each pause is extended by up to two thirds, so that sources do not retry
	// simultaneously.
	minRetryPause = 75 * time.Millisecond
	retryJitter   = 2. / 3
	// maxRefusedPause applies while the API server is not running, or rejects a list without reading objects. Both cost
	// it almost nothing, and a recovered API server is noticed immediately. One that has just started may reject requests
	// with 403 until it has loaded its RBAC rules.
	maxRefusedPause = 300 * time.Millisecond
	// maxWatchPause applies to watches: with the extension it is 2 s. A watch costs the API server little, and without it
	// proxies have old endpoints, for example after the errors of a load balancer in front of the API server.
	maxWatchPause = 1200 * time.Millisecond
	// maxFailedPause applies to lists that fail for other reasons, such as 500, 503 and timeouts: with the extension it is
	// 30 s. Lists of all objects would keep an overloaded API server overloaded.
	maxFailedPause = 18 * time.Second
	// maxOptionalPause is the maximum pause of optional sources, which may be missing permanently, and maxForbiddenPause
	// their maximum pause while they are forbidden. There may be one for each object, and a permission is granted by a
	// person.
	maxOptionalPause  = 7500 * time.Millisecond
	maxForbiddenPause = 5 * time.Minute
	// stablePeriod is how long a watch has to be open until the pauses begin at minRetryPause again.
	stablePeriod = 30 * time.Second
	// minWatchInterval is the minimum time between the starts of two watches without a list in between.
	minWatchInterval = time.Second
	// watchRetryLimit is how long a failed watch is retried from the same version before a list. Some of its errors may
	// depend on the version.
	watchRetryLimit = 5 * time.Minute
	// resyncPeriod only has to be above zero, because Resync does nothing. Without a period, reflectors wait for a
	// process-wide channel, which stops the clock of testing/synctest.
	resyncPeriod = 24 * time.Hour
	// logInterval is the interval in which an unchanged failure is logged again.
	logInterval = time.Minute
)

// gate names what waits for the first list of a source. A later gate includes the earlier ones.
type gate int

const (
	gatePublication gate = iota // the first publication
	gateReport                  // the first complete report
	gateNone
)

// source lists and watches one kind, in one namespace or in all, into its store.
type source struct {
	gate         gate
	resource     string // plural name, for messages
	listWatch    cache.ListerWatcherWithContext
	object       runtime.Object // an empty object of the kind
	store        cache.ReflectorStore
	isListed     func() bool
	logger       *slog.Logger
	countFailure func() // counts a failure
	// fix is the fix for a forbidden request, "" for the default.
	fix string
	// isOptional is true if the source may be forbidden permanently. The failure is logged once and retried less
	// often.
	isOptional bool
	// isKindOptional is true if the CustomResourceDefinition of the kind may be missing. This is no failure, and retried
	// less often.
	isKindOptional bool
	// slots, if not nil, has an element for each list that is running. A full channel delays the next list.
	slots chan struct{}
	// notify, if not nil, is called when the error changes or disappears. It must not block.
	notify func()

	mu         sync.Mutex
	err        error     // of the last attempt, nil after a success
	openedAt   time.Time // of the last watch
	listFailed bool      // the last list failed
}

// run lists and watches until ctx ends. A failure is logged, counted, retained for Loop.Waiting and retried.
func (s *source) run(ctx context.Context) {
	listWatch := &cache.ListWatch{ListWithContextFunc: s.list, WatchFuncWithContext: s.watch}
	reflector := cache.NewReflectorWithOptions(listWatch, s.object, s.store, cache.ReflectorOptions{
		Name: s.resource, TypeDescription: s.resource, ResyncPeriod: resyncPeriod,
	})
	reflector.MaxInternalErrorRetryDuration = watchRetryLimit // of watches
	pauses := s.newRetryPauses()
	var logged time.Time
	for ctx.Err() == nil {
		err := reflector.ListAndWatchWithContext(ctx)
		if ctx.Err() != nil {
			return
		}
		isStable, listFailed := s.lastAttempt()
		if isStable {
			pauses = s.newRetryPauses()
		}
		next := pauses.watch
		if listFailed || s.isOptional && apierrors.IsForbidden(err) {
			next = pauses.afterList(err)
		}
		if err != nil {
			logged = s.reportFailure(ctx, err, logged)
		}
		select {
		case <-ctx.Done():
		case <-time.After(next.Step()):
		}
	}
}

// reportFailure stores, counts and logs the error of a list or watch. logged is when an error was last logged; the
// result is its next value.
func (s *source) reportFailure(ctx context.Context, err error, logged time.Time) time.Time {
	isMissing := s.isMissing(err)
	err = s.wrapError(err)
	isChanged := s.setError(err)
	if isMissing {
		if isChanged {
			s.logger.InfoContext(ctx, "not watched until its CustomResourceDefinition is installed", "resource", s.resource)
		}
		return logged
	}
	s.countFailure()
	now := time.Now()
	if !isChanged && (s.isOptional || now.Sub(logged) < logInterval) {
		return logged
	}
	s.logger.ErrorContext(ctx, "watch failed, retrying", "resource", s.resource, "error", err)
	return now
}

// isMissing reports whether an error means that an optional kind is not installed.
func (s *source) isMissing(err error) bool { return s.isKindOptional && apierrors.IsNotFound(err) }

// lastAttempt reports whether the last watch was open for stablePeriod, and whether the last list failed. Later calls
// return false until the next watch or list.
func (s *source) lastAttempt() (isStable, listFailed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	isStable, listFailed = !s.openedAt.IsZero() && time.Since(s.openedAt) >= stablePeriod, s.listFailed
	s.openedAt, s.listFailed = time.Time{}, false
	return isStable, listFailed
}

// setError stores the error of the last attempt, nil for a success, and reports whether it differs from the previous
// one.
func (s *source) setError(err error) bool {
	s.mu.Lock()
	isChanged := (err == nil) != (s.err == nil) || err != nil && err.Error() != s.err.Error()
	s.err = err
	s.mu.Unlock()
	if isChanged && s.notify != nil {
		s.notify()
	}
	return isChanged
}

// lastError returns the error of the last attempt, nil after a success.
func (s *source) lastError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// pending returns what the first list waits for, or "" if it has completed, is optional and forbidden, or if its kind is
// not installed.
func (s *source) pending() string {
	err := s.lastError()
	switch {
	case s.isListed(), s.isOptional && apierrors.IsForbidden(err), s.isMissing(err):
		return ""
	case err != nil:
		return err.Error()
	default:
		return "the first list of " + s.resource
	}
}

// wrapError adds the fix to errors that an operator can resolve.
func (s *source) wrapError(err error) error {
	resource := s.resource
	switch {
	case apierrors.IsForbidden(err) && s.fix != "":
		return fmt.Errorf("the ServiceAccount may not list and watch %s: %s: %w", resource, s.fix, err)
	case apierrors.IsNotFound(err):
		return fmt.Errorf("the API server has no resource %s: install its CustomResourceDefinition (kubectl apply -f "+
			"config/crd): %w", resource, err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("the ServiceAccount may not list and watch %s: apply config/interceptor, or name the allowed "+
			"namespaces with --namespaces: %w",
			resource, err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("the API server rejected the credentials for %s: check the ServiceAccount token or "+
			"--kubeconfig: %w", resource, err)
	default:
		return fmt.Errorf("%s: %w", resource, err)
	}
}

// list requests a full list within listDeadline, without the reflector's pages. The source may have pages of its own.
//
// The reflector's first list accepts any version (0), which a lagging API server may answer from an old cache. A
// restarted interceptor must not return to old weights, so list requests the newest version. Pages are disabled
// because after a first list with several pages the reflector always requests pages. A page of a given version has
// exactly that version. A list after an outage would then return old objects as long as etcd retains them.
func (s *source) list(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	if s.slots != nil {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case s.slots <- struct{}{}:
			defer func() { <-s.slots }()
		}
	}
	ctx, cancel := context.WithTimeout(ctx, listDeadline)
	defer cancel()
	options.Limit = 0
	if options.ResourceVersion == "0" {
		options.ResourceVersion = ""
	}
	list, err := s.listWatch.ListWithContext(ctx, options)
	if err == nil {
		s.setError(nil)
	}
	s.mu.Lock()
	s.listFailed = err != nil
	s.mu.Unlock()
	return list, err
}

// watch opens a watch. While the API server is unavailable or overloaded, it retries from the same version, so that an
// outage needs no new list.
func (s *source) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	if err := s.awaitWatchInterval(ctx); err != nil {
		return nil, err
	}
	pauses, started := s.newRetryPauses(), time.Now()
	for {
		opened, err := s.listWatch.WatchWithContext(ctx, options)
		if err == nil {
			s.setError(nil)
			s.mu.Lock()
			s.openedAt = time.Now()
			s.mu.Unlock()
			return opened, nil
		}
		isRefused := utilnet.IsConnectionRefused(err)
		if !isRefused && (!isTransient(err) || time.Since(started) > watchRetryLimit) {
			return nil, err
		}
		next := pauses.watch
		if isRefused {
			next = pauses.refused
		}
		if s.setError(s.wrapError(err)) {
			s.logger.WarnContext(ctx, "watch rejected, retrying", "resource", s.resource, "error", err)
		}
		s.countFailure()
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(next.Step()):
		}
	}
}

// awaitWatchInterval waits until minWatchInterval after the start of the last watch: the reflector opens the next one
// without a pause if a watch ends with an error.
func (s *source) awaitWatchInterval(ctx context.Context) error {
	s.mu.Lock()
	openedAt := s.openedAt
	s.mu.Unlock()
	if openedAt.IsZero() {
		return nil
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(minWatchInterval - time.Since(openedAt)):
		return nil
	}
}

// isTransient reports whether a watch can continue from the same version after an error: those of networks and load
// balancers, and 5xx and 429 of an API server.
func isTransient(err error) bool {
	if apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) { // such as after a restored backup
		return false
	}
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return true
	}
	code := answer.Status().Code
	return code >= http.StatusInternalServerError || code == http.StatusTooManyRequests
}

// retryPauses are the pauses before retries. Each kind grows separately.
type retryPauses struct{ watch, refused, failed, forbidden, missing *wait.Backoff }

// newRetryPauses returns the pauses of a source from the start.
func (s *source) newRetryPauses() retryPauses {
	if s.isOptional {
		return retryPauses{
			watch: newBackoff(maxOptionalPause), refused: newBackoff(maxOptionalPause), failed: newBackoff(maxFailedPause),
			forbidden: newBackoff(maxForbiddenPause), missing: newBackoff(maxOptionalPause),
		}
	}
	return retryPauses{
		watch: newBackoff(maxWatchPause), refused: newBackoff(maxRefusedPause), failed: newBackoff(maxFailedPause),
		forbidden: newBackoff(maxRefusedPause), missing: s.newMissingBackoff(),
	}
}

// newMissingBackoff returns the pauses while the kind is not installed.
func (s *source) newMissingBackoff() *wait.Backoff {
	if s.isKindOptional {
		return newBackoff(maxOptionalPause)
	}
	return newBackoff(maxRefusedPause)
}

// afterList returns the pauses after a failed list.
func (p retryPauses) afterList(err error) *wait.Backoff {
	switch {
	case apierrors.IsForbidden(err):
		return p.forbidden
	case apierrors.IsNotFound(err):
		return p.missing
	case utilnet.IsConnectionRefused(err), apierrors.IsUnauthorized(err), apierrors.IsResourceExpired(err):
		return p.refused
	default:
		return p.failed
	}
}

// newBackoff returns pauses that grow up to a limit.
func newBackoff(limit time.Duration) *wait.Backoff {
	return &wait.Backoff{Duration: minRetryPause, Factor: 2, Jitter: retryJitter, Cap: limit, Steps: math.MaxInt}
}
