package ingest

import (
	"context"
	"errors"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

const (
	// rereadPause is the pause after each object that is read again, so that a tenant that changes the size of its oldest
	// objects causes at most 50 requests a second. maxRereadRound is the number of objects of a namespace that are read
	// before those of other namespaces.
	rereadPause    = 20 * time.Millisecond
	maxRereadRound = 16
)

// errNotRead means that an object was not found, or in another version than the watch has delivered.
var errNotRead = errors.New("another version was read: the watch has not delivered it yet")

// rereader reads objects of one kind again of which only stubs were kept, once they are within the bound of their
// namespace. It sends one request at a time.
type rereader struct {
	listWatch func(model.Key) cache.ListerWatcherWithContext // of one object
	stores    []*store[*httpv1alpha1.HTTPScaledObject]
	changed   chan struct{} // has one element if a stub may have to be read
	report    func(ctx context.Context, key model.Key, err error)
}

// wake makes the rereader look for stubs to read. It never blocks.
func (r *rereader) wake() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// run reads stubs until ctx ends. While reads fail, the pauses grow.
func (r *rereader) run(ctx context.Context) {
	pauses := newBackoff(maxFailedPause)
	for {
		wanted := r.wanted()
		if len(wanted) == 0 {
			select {
			case <-ctx.Done():
				return
			case <-r.changed:
				continue
			}
		}
		isOneRead := false
		for _, stub := range wanted {
			err := r.read(ctx, stub)
			if err != nil && ctx.Err() == nil && !errors.Is(err, errNotRead) {
				r.report(ctx, keyOf(stub), err)
			}
			isOneRead = isOneRead || err == nil
			if !kube.Sleep(ctx, rereadPause) {
				return
			}
		}
		if isOneRead {
			pauses = newBackoff(maxFailedPause)
		} else if !kube.Sleep(ctx, pauses.Step()) {
			return
		}
	}
}

// wanted returns the stubs to read next: some of each namespace, the oldest of all namespaces first.
func (r *rereader) wanted() []*httpv1alpha1.HTTPScaledObject {
	var namespaces [][]*httpv1alpha1.HTTPScaledObject
	for _, s := range r.stores {
		s.mu.Lock()
		namespaces = append(namespaces, s.budget.missing(maxRereadRound)...)
		s.mu.Unlock()
	}
	var wanted []*httpv1alpha1.HTTPScaledObject
	for i := range maxRereadRound {
		for _, stubs := range namespaces {
			if i < len(stubs) {
				wanted = append(wanted, stubs[i])
			}
		}
	}
	return wanted
}

// read reads the object of a stub and stores it.
func (r *rereader) read(ctx context.Context, stub *httpv1alpha1.HTTPScaledObject) error {
	ctx, cancel := context.WithTimeout(ctx, listDeadline)
	defer cancel()
	list, err := r.listWatch(keyOf(stub)).ListWithContext(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	objects, err := meta.ExtractList(list)
	if err != nil {
		return err
	}
	isRestored := slices.ContainsFunc(objects, func(item runtime.Object) bool {
		object, ok := item.(metav1.Object)
		return ok && object.GetUID() == stub.UID && object.GetResourceVersion() == stub.ResourceVersion &&
			slices.ContainsFunc(r.stores, func(s *store[*httpv1alpha1.HTTPScaledObject]) bool {
				return s.restore(keyOf(stub), stub, object)
			})
	})
	if !isRestored && slices.ContainsFunc(r.stores, func(s *store[*httpv1alpha1.HTTPScaledObject]) bool {
		current, exists := s.get(keyOf(stub))
		return exists && current == stub
	}) {
		return errNotRead
	}
	return nil
}

// watchStubs sets up the rereader of all stores of a kind.
func (l *Loop) watchStubs(
	resource string, stores []*store[*httpv1alpha1.HTTPScaledObject],
	listWatch func(model.Key) cache.ListerWatcherWithContext,
) {
	r := &rereader{
		listWatch: listWatch, stores: stores, changed: make(chan struct{}, 1),
		report: func(ctx context.Context, key model.Key, err error) {
			l.metrics.watchErrors.WithLabelValues(resource).Inc()
			l.logger.WarnContext(ctx, "an object within the bounds of its namespace was not read, retrying",
				"resource", resource, "object", key, "error", err)
		},
	}
	for _, s := range stores {
		s.notify = func() {
			l.wake()
			r.wake()
		}
	}
	l.rereaders = append(l.rereaders, r)
}
