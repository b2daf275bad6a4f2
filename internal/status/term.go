package status

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/ir"
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

	queue   workqueue.TypedDelayingInterface[ir.Key]
	retries workqueue.TypedRateLimiter[ir.Key]

	mu      sync.Mutex // held by plan
	records map[ir.Key]*record
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
	// counted is what the gauges count.
	counted Taken
}

// newTerm returns a term in which nothing was done yet.
func newTerm(w *writer, queue workqueue.TypedDelayingInterface[ir.Key]) *term {
	return &term{
		writer: w, queue: queue, records: map[ir.Key]*record{},
		retries: workqueue.NewTypedItemExponentialFailureRateLimiter[ir.Key](retryFirst, retryLast),
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
func (t *term) record(key ir.Key, object *httpv1alpha1.HTTPScaledObject) *record {
	is := t.records[key]
	if is != nil && object != nil && is.uid == object.UID {
		return is
	}
	if is != nil {
		t.giveBack(is, t.now())
		t.metrics.count(is.counted, Taken{})
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
func (t *term) look(ctx context.Context, key ir.Key) {
	each, proxies := t.find(key)
	is, status, before := t.plan(key, each, proxies)
	if status == nil {
		return
	}
	if err := t.bringUpToDate(ctx, each.object, *status, before); err != nil {
		isFirst := t.retries.NumRequeues(key) == 0
		delay := t.retries.When(key)
		if each.isCanary() {
			delay = min(delay, retryCanary)
		}
		if !isFirst || !errors.Is(err, ErrGone) { // The news of one that is gone is on its way.
			t.logger.WarnContext(ctx, "cannot write the status; trying again", "namespace", key.Namespace,
				"httpScaledObject", key.Name, "after", delay, "error", err)
		}
		is.notBefore = t.now().Add(delay)
		t.queue.AddAfter(key, delay)
		return
	}
	t.retries.Forget(key)
	is.settled(each.object, status)
}

// plan returns the status that an object is to be given now, nil when none is, and the conditions that
// it was last known to have. Plans are made one at a time, so that many objects of which something is
// new take one processor at most.
func (t *term) plan(
	key ir.Key, each tracked, proxies []ir.Proxy,
) (is *record, status *httpv1alpha1.HTTPScaledObjectStatus, before []metav1.Condition) {
	t.mu.Lock()
	defer t.mu.Unlock()
	is = t.record(key, each.object)
	if is == nil {
		return nil, nil, nil
	}
	taken := t.taken(key, each.fleet, Publication{Digest: each.digest, AsDesired: each.asDesired}, proxies)
	t.metrics.count(is.counted, taken)
	is.counted = taken
	now := t.now()
	status, before = t.consider(is, each, taken, now)
	if status == nil {
		return is, nil, nil
	}
	if at := t.due(is, each, taken, now); at.After(now) {
		t.queue.AddAfter(key, at.Sub(now))
		return is, nil, nil
	}
	is.nextWrite = latest(is.nextWrite, now).Add(writesInterval)
	return is, status, before
}

// settled notes that an object has the status that it should have.
func (r *record) settled(
	object *httpv1alpha1.HTTPScaledObject, status *httpv1alpha1.HTTPScaledObjectStatus,
) {
	r.resourceVersion, r.status = object.ResourceVersion, status
	r.waiting, r.notBefore, r.slot = time.Time{}, time.Time{}, time.Time{}
}

// consider compares an object's status with what it should be. It returns that when it is another one,
// and the conditions that the object was last known to have.
func (t *term) consider(
	is *record, each tracked, taken Taken, now time.Time,
) (status *httpv1alpha1.HTTPScaledObjectStatus, before []metav1.Condition) {
	object := each.object
	base := &object.Status
	if is.status != nil && is.resourceVersion == object.ResourceVersion {
		base = is.status // What was written since is not in object yet.
	}
	current := *object
	current.Status = *base
	computed := Compute(&current, each.seen, taken, t.instance, now)
	if apiequality.Semantic.DeepEqual(*base, computed) {
		t.giveBack(is, now)
		is.settled(object, base)
		return nil, nil
	}
	if is.waiting.IsZero() {
		is.waiting = now
	}
	before = base.Conditions
	if is.status != nil {
		before = is.status.Conditions // A change of the object may overtake the status that was written before it.
	}
	return &computed, before
}

// due returns when a status may be written: at once when there is no answer of a proxy to wait for, but
// not more often than allowed.
func (t *term) due(is *record, each tracked, taken Taken, now time.Time) time.Time {
	at := is.waiting
	isWrong := len(each.seen.Problems) > 0 || each.seen.Failure != ""
	if !isWrong && (taken.isUnacked() || taken.Refusal != "") {
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

// bringUpToDate writes one object's status, and tells of it by Events if that is worth some. before
// are the conditions that it had.
func (t *term) bringUpToDate(
	ctx context.Context, object *httpv1alpha1.HTTPScaledObject, status httpv1alpha1.HTTPScaledObjectStatus,
	before []metav1.Condition,
) error {
	err := t.write(ctx, "status", func(ctx context.Context) error {
		return t.client.ApplyStatus(ctx, object, status)
	})
	if err != nil {
		return err
	}
	for _, of := range []string{
		httpv1alpha1.ConditionAccepted, httpv1alpha1.ConditionScalingMetricAccepted, httpv1alpha1.ConditionWaitingPageAccepted,
		httpv1alpha1.ConditionTLSReady, httpv1alpha1.ConditionEnvoySettingsAccepted,
	} {
		var was metav1.Condition
		if found := meta.FindStatusCondition(before, of); found != nil {
			was = *found
		}
		if is := meta.FindStatusCondition(status.Conditions, of); is != nil {
			t.tell(ctx, object, eventFor(object, was, *is, t.instance, t.now()))
		}
	}
	return nil
}

// tell creates an Event, unless it is nil.
func (t *term) tell(ctx context.Context, object *httpv1alpha1.HTTPScaledObject, event *eventsv1.Event) {
	if event == nil {
		return
	}
	err := t.write(ctx, "event", func(ctx context.Context) error { return t.client.CreateEvent(ctx, event) })
	if err != nil {
		// The condition says the same and stays, so nothing is lost that would be worth another try.
		t.logger.WarnContext(ctx, "cannot create the event", "namespace", object.Namespace,
			"httpScaledObject", object.Name, "error", err)
	}
}

// write makes one request within its deadline and counts it.
func (t *term) write(ctx context.Context, kind string, request func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, writeDeadline)
	defer cancel()
	err := request(ctx)
	result := "ok"
	if err != nil {
		result = "error"
	}
	t.metrics.writes.WithLabelValues(kind, result).Inc()
	return err
}
