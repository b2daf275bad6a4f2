package ingest

import (
	"context"
	"fmt"
	"log/slog"
	"math"
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
	// listDeadline bounds one list request, or one page of it.
	listDeadline = 30 * time.Second
	// retryFirst and retryLast bound the pause before a failed list or watch is tried again; it doubles in between. The reflector's own pause grows to a
	// minute, in which a healed API server would go unnoticed. One that has just started may refuse once more, with 403, until it has read its own rules.
	// Each is up to two thirds longer, so that several sources do not try in step.
	retryFirst  = 75 * time.Millisecond
	retryLast   = 300 * time.Millisecond
	retryJitter = 2. / 3
	// retryOptional is retryLast for what can be missing for good, so that it costs the API server little.
	retryOptional = 7500 * time.Millisecond
	// resyncPeriod only has to be above zero, since Resync does nothing: without a period, reflectors wait for a channel of the whole process, with which
	// the clock of testing/synctest does not go on.
	resyncPeriod = 24 * time.Hour
	// remindEvery is the time after which an unchanged failure is logged again.
	remindEvery = time.Minute
)

// need says what waits until a source was listed. What comes later waits for what comes first, too.
type need int

const (
	toPublish need = iota // the first publication
	toReport              // the first complete report
	toNothing
)

// source lists and watches one kind in one namespace, or in all, into its store.
type source struct {
	needed   need
	resource string // plural name, for messages
	lists    cache.ListerWatcherWithContext
	object   runtime.Object // an empty object of the kind
	store    cache.ReflectorStore
	isListed func() bool
	logger   *slog.Logger
	failed   func() // counts a failure
	// remedy is what to do when the API server refuses, "" for what helps with most kinds.
	remedy string
	// isOptional says that it may be refused for good: it is logged once, and tried again less often.
	isOptional bool
	// troubled, if it is not nil, is called when there is trouble of another kind than before, or none any more. It must not block.
	troubled func()

	mu      sync.Mutex
	trouble error // why the last attempt failed, nil when it did not
}

// run lists and watches until ctx ends. It never gives up: a failure is logged, counted and kept for Loop.Waiting.
func (s *source) run(ctx context.Context) {
	lists := &cache.ListWatch{ListWithContextFunc: s.list, WatchFuncWithContext: s.watch}
	reflector := cache.NewReflectorWithOptions(lists, s.object, s.store, cache.ReflectorOptions{
		Name: s.resource, TypeDescription: s.resource, ResyncPeriod: resyncPeriod,
	})
	pause := s.newPause()
	var logged time.Time
	for ctx.Err() == nil {
		err := reflector.ListAndWatchWithContext(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			pause = s.newPause()
		} else {
			err = s.explain(err)
			changed := s.setTrouble(err)
			if now := time.Now(); changed || !s.isOptional && now.Sub(logged) >= remindEvery {
				logged = now
				s.logger.ErrorContext(ctx, "cannot watch; trying again", "resource", s.resource, "error", err)
			}
			s.failed()
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause.Step()):
		}
	}
}

// setTrouble keeps why the source does not work, nil for that it does, and says whether that is news.
func (s *source) setTrouble(err error) bool {
	s.mu.Lock()
	news := (err == nil) != (s.trouble == nil) || err != nil && err.Error() != s.trouble.Error()
	s.trouble = err
	s.mu.Unlock()
	if news && s.troubled != nil {
		s.troubled()
	}
	return news
}

// lastTrouble is why the source does not work, nil when it does.
func (s *source) lastTrouble() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.trouble
}

// waiting says what is missing for a complete list, or "" when there was one, or there may be none.
func (s *source) waiting() string {
	trouble := s.lastTrouble()
	switch {
	case s.isListed(), s.isOptional && apierrors.IsForbidden(trouble):
		return ""
	case trouble != nil:
		return trouble.Error()
	default:
		return "the first list of " + s.resource
	}
}

// explain adds the remedy to the failures that an operator can heal.
func (s *source) explain(err error) error {
	resource := s.resource
	switch {
	case apierrors.IsForbidden(err) && s.remedy != "":
		return fmt.Errorf("the ServiceAccount may not list and watch %s; %s: %w", resource, s.remedy, err)
	case apierrors.IsNotFound(err):
		return fmt.Errorf("the API server does not know %s: install its CustomResourceDefinition (kubectl apply -f config/crd): %w", resource, err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("the ServiceAccount may not list and watch %s: apply config/interceptor, or name the allowed namespaces with --namespaces: %w",
			resource, err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("the API server does not accept the credentials for %s: check the ServiceAccount token or --kubeconfig: %w", resource, err)
	default:
		return fmt.Errorf("%s: %w", resource, err)
	}
}

// list lists within listDeadline, everything at once.
//
// The reflector's first list takes "any version" (0), which a lagging API server may answer from the past; a restarted interceptor must not go back to
// weights that are no longer asked for, so the newest version is demanded. And it is never divided into pages: after a first list of several pages the
// reflector asks for pages ever after, and a page of a given version is by the API's rules of exactly that version, so that a list after an outage would
// bring back the old objects for as long as etcd has them.
func (s *source) list(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	ctx, cancel := context.WithTimeout(ctx, listDeadline)
	defer cancel()
	options.Limit = 0
	if options.ResourceVersion == "0" {
		options.ResourceVersion = ""
	}
	list, err := s.lists.ListWithContext(ctx, options)
	if err == nil {
		s.setTrouble(nil)
	}
	return list, err
}

// watch opens a watch. While the API server is away or sheds load it tries again from the same version, so that an outage costs no new list.
func (s *source) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	pause := s.newPause()
	for {
		opened, err := s.lists.WatchWithContext(ctx, options)
		if err == nil {
			s.setTrouble(nil)
			return opened, nil
		}
		if !utilnet.IsConnectionRefused(err) && !apierrors.IsTooManyRequests(err) {
			return nil, err
		}
		if s.setTrouble(s.explain(err)) {
			s.logger.WarnContext(ctx, "watch refused; trying again", "resource", s.resource, "error", err)
		}
		s.failed()
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pause.Step()):
		}
	}
}

// newPause returns the pauses between attempts.
func (s *source) newPause() *wait.Backoff {
	last := retryLast
	if s.isOptional {
		last = retryOptional
	}
	return &wait.Backoff{Duration: retryFirst, Factor: 2, Jitter: retryJitter, Cap: last, Steps: math.MaxInt}
}
