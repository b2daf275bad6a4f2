package status

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

const (
	// settle is how long a status waits for proxies that have not answered yet. They mostly do within
	// milliseconds, so that a change and all of its ACKs are one write.
	settle = 100 * time.Millisecond
	// writesBurst and writesInterval bound the writes to one object: so many at once, then one per
	// interval.
	writesBurst    = 5
	writesInterval = time.Second
	// backgroundBurst and backgroundInterval bound the writes to all objects that share no requests between
	// Services.
	backgroundBurst    = 32
	backgroundInterval = 100 * time.Millisecond / backgroundBurst
	// retryFirst and retryLast bound the time after which a failed write is repeated; it doubles in
	// between. A canary does not wait longer than retryCanary: once the API server is back, a rollout
	// waits for its report.
	retryFirst  = 250 * time.Millisecond
	retryLast   = 30 * time.Second
	retryCanary = 2 * time.Second
	// parallelWrites is how many objects are written at a time. One that is slow holds one of them.
	parallelWrites = 16
	// writeDeadline bounds one request.
	writeDeadline = 10 * time.Second
)

// term is the time for which this replica is elected.
type term struct {
	*writer

	queue   workqueue.TypedDelayingInterface[model.Key]
	retries workqueue.TypedRateLimiter[model.Key]

	mu      sync.Mutex // held by plan
	records map[model.Key]*record
	// next is the last slot that an object has, the theoretical arrival time of a GCRA (ITU-T I.371).
	next time.Time
}

// record is what is known and was done about one object. It belongs to the worker that has the object.
type record struct {
	uid types.UID
	// status is what the object had, or was given since, when it had resourceVersion; nil when nothing is
	// known.
	resourceVersion string
	status          *httpv1alpha1.HTTPScaledObjectStatus
	// waiting is since when the status is not what it should be, zero when it is.
	waiting time.Time
	// notBefore is when a write that failed may be repeated, and slot when it is the turn of an object
	// that nobody waits for; zero when it has none yet.
	notBefore, slot time.Time
	// nextWrite is the theoretical arrival time of the GCRA that bounds the writes.
	nextWrite time.Time
	// taken is what the proxies had taken at the last plan; it is guarded by the term's lock.
	taken Taken
}

// newTerm returns a term in which nothing was done yet.
func newTerm(w *writer) *term {
	order := &canariesFirst{isCanary: func(key model.Key) bool {
		each, _ := w.find(key)
		return each.isCanary()
	}}
	return &term{
		writer: w, records: map[model.Key]*record{},
		queue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[model.Key]{
			Queue: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[model.Key]{Queue: order}),
		}),
		retries: workqueue.NewTypedItemExponentialFailureRateLimiter[model.Key](retryFirst, retryLast),
	}
}

// work looks at objects until the queue is shut down. What is left then is not looked at.
func (t *term) work(ctx context.Context) {
	for {
		key, isOver := t.queue.Get()
		if isOver {
			return
		}
		if ctx.Err() == nil {
			t.look(ctx, key)
		}
		t.queue.Done(key)
	}
}

// record returns that of an object, a new one when it is another object than before. It forgets the
// object when it is gone. The caller holds the lock.
func (t *term) record(key model.Key, object *httpv1alpha1.HTTPScaledObject) *record {
	is := t.records[key]
	if is != nil && object != nil && is.uid == object.UID {
		return is
	}
	if is != nil {
		t.giveBack(is, time.Now())
		t.retries.Forget(key)
		delete(t.records, key)
	}
	if object == nil {
		return nil
	}
	is = &record{uid: object.UID}
	t.records[key] = is
	return is
}

// look brings the status of one object up to date if that is due, and otherwise comes back when it is.
func (t *term) look(ctx context.Context, key model.Key) {
	each, proxies := t.find(key)
	is, status := t.plan(key, each, proxies)
	if status == nil {
		return
	}
	err := t.write(ctx, "status", func(ctx context.Context) error { return t.Client.ApplyStatus(ctx, each.object, *status) })
	if err != nil {
		is.notBefore = t.postpone(ctx, key, each, err)
		return
	}
	before := each.object.Status.Conditions
	if is.status != nil {
		before = is.status.Conditions // A change of the object may overtake the status that was written before it.
	}
	for _, kind := range ownersConditions() {
		was, became := meta.FindStatusCondition(before, kind), meta.FindStatusCondition(status.Conditions, kind)
		if event := eventFor(each.object, was, became, t.Replica); event != nil {
			t.createEvent(ctx, event)
		}
	}
	t.retries.Forget(key)
	is.settled(each.object, status)
}

// postpone comes back to an object whose status could not be written, and returns when.
func (t *term) postpone(ctx context.Context, key model.Key, each tracked, err error) time.Time {
	isFirst := t.retries.NumRequeues(key) == 0
	delay := t.retries.When(key)
	if each.isCanary() {
		delay = min(delay, retryCanary)
	}
	if !isFirst || !errors.Is(err, ErrGone) { // The news of one that is gone is on its way.
		t.Logger.WarnContext(ctx, "cannot write the status; trying again", "namespace", key.Namespace,
			"httpScaledObject", key.Name, "after", delay, "error", err)
	}
	t.queue.AddAfter(key, delay)
	return time.Now().Add(delay)
}

// plan returns the status that an object is to be given now, nil when none is. Plans are made one at a
// time, so that many objects of which something is new take one processor at most.
func (t *term) plan(key model.Key, each tracked, proxies []model.Proxy) (is *record, status *httpv1alpha1.HTTPScaledObjectStatus) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if is = t.record(key, each.object); is == nil {
		return nil, nil
	}
	is.taken = t.taken(key, each, proxies)
	now := time.Now()
	if status = t.consider(is, each, now); status == nil {
		return is, nil
	}
	if at := t.due(is, each, now); at.After(now) {
		t.queue.AddAfter(key, at.Sub(now))
		return is, nil
	}
	is.nextWrite = latest(is.nextWrite, now).Add(writesInterval)
	return is, status
}

// settled notes that an object has the status that it should have.
func (r *record) settled(
	object *httpv1alpha1.HTTPScaledObject, status *httpv1alpha1.HTTPScaledObjectStatus,
) {
	r.resourceVersion, r.status = object.ResourceVersion, status
	r.waiting, r.notBefore, r.slot = time.Time{}, time.Time{}, time.Time{}
}

// consider compares an object's status with what it should be, and returns that when it is another one.
func (t *term) consider(is *record, each tracked, now time.Time) *httpv1alpha1.HTTPScaledObjectStatus {
	base := &each.object.Status
	if is.status != nil && is.resourceVersion == each.object.ResourceVersion {
		base = is.status // What was written since is not in the object yet.
	}
	current := *each.object
	current.Status = *base
	computed := Compute(&current, each.seen, is.taken, t.Replica, now)
	if apiequality.Semantic.DeepEqual(*base, computed) {
		t.giveBack(is, now)
		is.settled(each.object, base)
		return nil
	}
	if is.waiting.IsZero() {
		is.waiting = now
	}
	return &computed
}

// due returns when a status may be written: at once when there is no answer of a proxy to wait for, but
// not more often than allowed.
func (t *term) due(is *record, each tracked, now time.Time) time.Time {
	at := is.waiting
	isWrong := len(each.seen.Problems) > 0 || each.seen.Failure != ""
	if !isWrong && (is.taken.isUnacked() || is.taken.Refusal != "") {
		at = at.Add(settle)
	}
	if allowed := is.nextWrite.Add(-(writesBurst - 1) * writesInterval); allowed.After(now) {
		at = allowed
	}
	switch soon := now.Add(retryCanary); {
	case each.isCanary():
		t.giveBack(is, now)
		if is.notBefore.After(soon) { // It failed before it became a canary.
			is.notBefore = soon
		}
	case !at.After(now) && is.slot.IsZero():
		t.next = latest(t.next, now.Add(-backgroundBurst*backgroundInterval)).Add(backgroundInterval)
		is.slot = t.next
	}
	return latest(at, is.notBefore, is.slot)
}

// giveBack takes an object's slot, which others may have if it is not over. The caller holds the lock.
func (t *term) giveBack(is *record, now time.Time) {
	if is.slot.After(now) {
		t.next = t.next.Add(-backgroundInterval)
	}
	is.slot = time.Time{}
}

// latest is the last of some times.
func latest(times ...time.Time) time.Time { return slices.MaxFunc(times, time.Time.Compare) }
