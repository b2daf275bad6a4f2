package dashboard

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/dashboard/view"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/server"
)

const (
	// readAge is how old a Workload becomes before it is read again, and readPause is the time between two reads, which
	// limits the load of the API server however many objects are shown.
	readAge, readPause = 2 * time.Second, 50 * time.Millisecond
	// readTimeout limits one read.
	readTimeout = 5 * time.Second
)

// workloads reads the Workloads of the objects that are shown, one after the other. It is safe for concurrent use.
type workloads struct {
	reader func(context.Context, view.Source) view.Workload
	read   chan model.Key // receives an object when its Workload was read
	wake   chan struct{}

	mu    sync.Mutex
	shown map[model.Key]*workload
}

// workload is the Workload of one object.
type workload struct {
	source view.Source
	last   view.Workload
	isRead bool
	next   time.Time // when it is read again
}

// newWorkloads returns workloads without objects. They remain empty if reader is nil.
func newWorkloads(reader func(context.Context, view.Source) view.Workload) *workloads {
	return &workloads{
		reader: reader, read: make(chan model.Key), wake: make(chan struct{}, 1), shown: map[model.Key]*workload{},
	}
}

// show adds an object, which is read as soon as setSource was called.
func (w *workloads) show(key model.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.shown[key] == nil {
		w.shown[key] = &workload{}
	}
}

// keep removes all other objects.
func (w *workloads) keep(keys map[model.Key]struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.shown, func(key model.Key, _ *workload) bool {
		_, isKept := keys[key]
		return !isKept
	})
}

// setSource sets the Source of an object that is shown.
func (w *workloads) setSource(key model.Key, source view.Source) {
	w.mu.Lock()
	defer w.mu.Unlock()
	one := w.shown[key]
	if one == nil {
		return
	}
	isNew := one.source.Object == nil
	if one.source = source; isNew {
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
}

// of returns the last Workload of an object, and whether it was read or never is.
func (w *workloads) of(key model.Key) (view.Workload, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.reader == nil {
		return view.Workload{}, true
	}
	if one := w.shown[key]; one != nil && one.isRead {
		return one.last, true
	}
	return view.Workload{Notes: []string{"The workload was not read yet."}}, false
}

// run reads Workloads until ctx ends.
func (w *workloads) run(ctx context.Context) {
	if w.reader == nil {
		return
	}
	for {
		pause := w.readOldest(ctx)
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
		case <-time.After(pause):
		}
	}
}

// readOldest reads the Workload that is due for the longest time, and returns the time until the next read.
func (w *workloads) readOldest(ctx context.Context) time.Duration {
	w.mu.Lock()
	var oldest *workload
	var key model.Key
	for next, one := range w.shown {
		if one.source.Object != nil && (oldest == nil || one.next.Before(oldest.next)) {
			oldest, key = one, next
		}
	}
	now := time.Now()
	if oldest == nil || oldest.next.After(now) {
		w.mu.Unlock()
		return readAge / 4
	}
	oldest.next = now.Add(readAge)
	source := oldest.source
	w.mu.Unlock()
	reading, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	var result view.Workload
	if err := server.Recovered(func() error {
		result = w.reader(reading, source)
		return nil
	}); err != nil {
		result.Notes = []string{"The workload is not shown because of a bug in the interceptor: please report it."}
	}
	w.mu.Lock()
	oldest.last, oldest.isRead = result, true
	w.mu.Unlock()
	select {
	case w.read <- key:
	case <-ctx.Done():
	}
	return readPause
}
