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
	// ackWait is how long the write of a status waits for the ACKs that are missing. Most proxies answer within
	// milliseconds, so a change and all of its ACKs are one write.
	ackWait = 100 * time.Millisecond
	// writesBurst and writesInterval limit the writes to one object: writesBurst at once, then one per writesInterval.
	writesBurst    = 5
	writesInterval = time.Second
	// backgroundBurst and backgroundInterval limit the writes to all objects that aren't in a canary.
	backgroundBurst    = 32
	backgroundInterval = 100 * time.Millisecond / backgroundBurst
	// retryFirst and retryLast bound the delay before a failed write is repeated; it doubles in between. The delay of
	// an object in a canary is at most retryCanary: once the API server is available again, a Rollout waits for the
	// report.
	retryFirst  = 250 * time.Millisecond
	retryLast   = 30 * time.Second
	retryCanary = 2 * time.Second
	// parallelWrites is the number of objects that are written in parallel. A slow write delays only its own worker.
	parallelWrites = 16
	// writeDeadline bounds one request.
	writeDeadline = 10 * time.Second
)

// leadership is the state of this replica from its election until it loses the Lease.
type leadership struct {
	*writer

	queue   workqueue.TypedDelayingInterface[model.Key]
	retries workqueue.TypedRateLimiter[model.Key]
	// background contains the objects that wait for their turn: those that aren't in a canary and whose write is due.
	background workqueue.TypedInterface[model.Key]
	shares     *shares

	mu      sync.Mutex // held by plan
	records map[model.Key]*record

	weights weights
}

// turn is the permission to write the status of an object that isn't in a canary.
type turn int

const (
	noTurn turn = iota
	awaitsTurn
	hasTurn
)

// record is the state of one object. It belongs to the worker that processes the object.
type record struct {
	uid types.UID
	// status is the last status that the object had or that was written to it, when the object had resourceVersion. It
	// is nil until one is known.
	resourceVersion string
	status          *httpv1alpha1.HTTPScaledObjectStatus
	// outdatedSince is since when the status differs from the computed one, zero while it doesn't.
	outdatedSince time.Time
	// notBefore is the earliest time to repeat a failed write.
	notBefore time.Time
	// nextWrite is the theoretical arrival time of the GCRA that limits the writes to this object, and nextEvent that of
	// the one that limits the Events about its conditions.
	nextWrite, nextEvent time.Time
	// acks are the ACKs at the last plan, and incompleteSince is since when not every Ready proxy has acknowledged the
	// object, zero if all have or if none can. They and turn are guarded by the lock of the leadership.
	acks            Acks
	incompleteSince time.Time
	turn            turn
}

// setAcks stores the ACKs of a plan. isExpected is false if no proxy can acknowledge the object.
func (r *record) setAcks(acks Acks, isExpected bool, now time.Time) {
	r.acks = acks
	switch {
	case !isExpected || !acks.isIncomplete():
		r.incompleteSince = time.Time{}
	case r.incompleteSince.IsZero():
		r.incompleteSince = now
	}
}

// newLeadership returns a leadership with an empty queue.
func newLeadership(w *writer) *leadership {
	isCanary := func(key model.Key) bool {
		object, _ := w.find(key)
		return object.isCanary()
	}
	order := &canariesFirst{isCanary: isCanary}
	return &leadership{
		writer: w, records: map[model.Key]*record{}, shares: newShares(parallelWrites, isCanary),
		background: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[model.Key]{Queue: new(fairQueue)}),
		queue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[model.Key]{
			Queue: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[model.Key]{Queue: order}),
		}),
		retries: workqueue.NewTypedItemExponentialFailureRateLimiter[model.Key](retryFirst, retryLast),
	}
}

// work reconciles queued objects until the queue is shut down. After ctx has ended it only drains the queue.
func (l *leadership) work(ctx context.Context) {
	for {
		key, isShutDown := l.queue.Get()
		if isShutDown {
			return
		}
		if ctx.Err() == nil {
			l.reconcile(ctx, key)
		}
		l.queue.Done(key)
	}
}

// giveTurns lets the objects in the background write their statuses until ctx ends, at the rate of the background
// writes: by the GCRA (ITU-T I.371), with the time of the last turn as its theoretical arrival time. An object that has
// its status by then uses no turn.
func (l *leadership) giveTurns(ctx context.Context) {
	var last time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Until(last.Add(backgroundInterval))):
		}
		key, isShutDown := l.background.Get()
		if isShutDown {
			return
		}
		if l.giveTurn(key) {
			last = latest(last, time.Now().Add(-backgroundBurst*backgroundInterval)).Add(backgroundInterval)
		}
		l.background.Done(key)
	}
}

// giveTurn lets an object write its status. It returns false if the object needs no turn any more.
func (l *leadership) giveTurn(key model.Key) bool {
	l.mu.Lock()
	rec := l.records[key]
	isNeeded := rec != nil && rec.turn == awaitsTurn
	if isNeeded {
		rec.turn = hasTurn
	}
	l.mu.Unlock()
	if isNeeded {
		l.queue.Add(key)
	}
	return isNeeded
}

// recordOf returns the record of an object: a new one for a new UID, and nil after the object was deleted. The caller
// holds the lock.
func (l *leadership) recordOf(key model.Key, object *httpv1alpha1.HTTPScaledObject) *record {
	rec := l.records[key]
	if rec != nil && object != nil && rec.uid == object.UID {
		return rec
	}
	if rec != nil {
		l.retries.Forget(key)
		delete(l.records, key)
	}
	if object == nil {
		return nil
	}
	rec = &record{uid: object.UID}
	l.records[key] = rec
	return rec
}

// reconcile writes the status of one object if that is due, and queues the object again for when it is.
func (l *leadership) reconcile(ctx context.Context, key model.Key) {
	object, proxies := l.find(key)
	rec, status := l.plan(key, object, proxies)
	if status == nil {
		l.queueAll(l.shares.pass(key.Namespace))
		return
	}
	defer l.endWrite(key)
	err := l.write(ctx, "status", func(ctx context.Context) error {
		return l.Client.ApplyStatus(ctx, object.object,
			*status)
	})
	if err != nil {
		rec.notBefore = l.retryLater(ctx, key, object, err)
		return
	}
	before := object.object.Status.Conditions
	if rec.status != nil {
		before = rec.status.Conditions // A change of the object can arrive before the status that was written earlier.
	}
	for _, kind := range eventConditions() {
		previous, current := meta.FindStatusCondition(before, kind), meta.FindStatusCondition(status.Conditions, kind)
		event := conditionEvent(object.object, previous, current, l.Replica)
		if event != nil && rec.permitsEvent(time.Now()) {
			l.createEvent(ctx, event)
		}
	}
	l.retries.Forget(key)
	rec.markWritten(object.object, status)
	l.finishWeight(key, object, status.DataPlane)
}

// endWrite ends the part of an object in the shares of its namespace, and queues objects that have waited for one.
func (l *leadership) endWrite(key model.Key) { l.queueAll(l.shares.leave(key)) }

// queueAll queues objects.
func (l *leadership) queueAll(keys []model.Key) {
	for _, key := range keys {
		l.queue.Add(key)
	}
}

// retryLater queues an object again after a failed write, and returns for when.
func (l *leadership) retryLater(ctx context.Context, key model.Key, object tracked, err error) time.Time {
	isFirst := l.retries.NumRequeues(key) == 0
	delay := l.retries.When(key)
	if object.isCanary() {
		delay = min(delay, retryCanary)
	}
	if !isFirst || !errors.Is(err, ErrGone) { // The watch event of the deletion is usually on its way.
		l.Logger.WarnContext(ctx, "cannot write the status; trying again", "namespace", key.Namespace,
			"httpScaledObject", key.Name, "after", delay, "error", err)
	}
	l.queue.AddAfter(key, delay)
	return time.Now().Add(delay)
}

// plan returns the status to write now, nil if there is none. Only one worker plans at a time, so many changed objects
// use at most one processor.
func (l *leadership) plan(
	key model.Key, object tracked, proxies []model.Proxy,
) (rec *record, status *httpv1alpha1.HTTPScaledObjectStatus) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if rec = l.recordOf(key, object.object); rec == nil {
		return nil, nil
	}
	now := time.Now()
	rec.setAcks(l.acks(key, object, proxies), object.isPublished(), now)
	l.recordAcks(key, object, proxies, now)
	if status = l.changedStatus(rec, object, now); status == nil {
		rec.turn = noTurn
		return rec, nil
	}
	if due := rec.dueTime(object, now); due.After(now) {
		l.queue.AddAfter(key, due.Sub(now))
		return rec, nil
	}
	if !object.isCanary() && rec.turn != hasTurn {
		rec.turn = awaitsTurn
		l.background.Add(key)
		return rec, nil
	}
	if !l.shares.enter(key) {
		return rec, nil // It is queued again when another write of its namespace ends.
	}
	rec.turn = noTurn
	rec.nextWrite = latest(rec.nextWrite, now).Add(writesInterval)
	return rec, status
}

// markWritten records that an object has the computed status.
func (r *record) markWritten(
	object *httpv1alpha1.HTTPScaledObject, status *httpv1alpha1.HTTPScaledObjectStatus,
) {
	r.resourceVersion, r.status = object.ResourceVersion, status
	r.outdatedSince, r.notBefore = time.Time{}, time.Time{}
}

// changedStatus computes the status of an object, and returns nil if the object has it already.
func (l *leadership) changedStatus(rec *record, object tracked, now time.Time) *httpv1alpha1.HTTPScaledObjectStatus {
	base := &object.object.Status
	if rec.status != nil && rec.resourceVersion == object.object.ResourceVersion {
		base = rec.status // The watch has not delivered the last write yet.
	}
	current := *object.object
	current.Status = *base
	computed := Compute(&current, object.outcome, rec.acks, l.Replica, now)
	if apiequality.Semantic.DeepEqual(*base, computed) {
		rec.markWritten(object.object, base)
		return nil
	}
	if rec.outdatedSince.IsZero() {
		rec.outdatedSince = now
	}
	return &computed
}

// dueTime returns when the status of an object can be written: immediately, unless ACKs are missing, the limit for the
// object is reached, or the last write failed.
func (r *record) dueTime(object tracked, now time.Time) time.Time {
	due := r.outdatedSince
	isInvalid := len(object.outcome.Problems) > 0 || object.outcome.Failure != ""
	if !isInvalid && (r.acks.isIncomplete() || r.acks.Rejection != "") {
		due = due.Add(ackWait)
	}
	if allowed := r.nextWrite.Add(-(writesBurst - 1) * writesInterval); allowed.After(now) {
		due = allowed
	}
	// The write may have failed before the canary began.
	if soon := now.Add(retryCanary); object.isCanary() && r.notBefore.After(soon) {
		r.notBefore = soon
	}
	return latest(due, r.notBefore)
}

// latest returns the last of times.
func latest(times ...time.Time) time.Time { return slices.MaxFunc(times, time.Time.Compare) }
