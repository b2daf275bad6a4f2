package status

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/ir"
)

const (
	// roundPace is the shortest time between two rounds.
	roundPace = 10 * time.Millisecond
	// settle is how long a status waits for proxies that have not answered yet. They mostly do within milliseconds, so that a change and all of its ACKs
	// are one write.
	settle = 100 * time.Millisecond
	// writesBurst and writesInterval bound the writes to one object: so many at once, then one per interval.
	writesBurst    = 5
	writesInterval = time.Second
	// calmWrites is how many objects that share no requests between Services are written in one round, and calmPace the time until the rest is looked at: a
	// proxy that comes changes the count in every object, and those in a canary must not wait for the others.
	calmWrites = 32
	calmPace   = 100 * time.Millisecond
	// retryAfter is the time after which a failed write is repeated. It is short, because a rollout waits for the report once the API server is back; a
	// refused connection costs nobody much, and no more than parallelWrites are on their way at a time.
	retryAfter = 500 * time.Millisecond
	// parallelWrites is how many objects are written at a time.
	parallelWrites = 8
	// writeDeadline bounds one request.
	writeDeadline = 10 * time.Second
)

// deed is what the writer knows and has done about one object.
type deed struct {
	// resourceVersion, seen and taken are what was last looked at. status is what the object had then or was given since; nil when nothing is known.
	resourceVersion string
	seen            Observation
	taken           Taken
	status          *httpv1alpha1.HTTPScaledObjectStatus
	// waiting is since when the status is not what it should be, zero when it is.
	waiting time.Time
	// notBefore is when a failed write may be repeated.
	notBefore time.Time
	// spent is the time until which the writes so far use up one writesInterval each.
	spent time.Time
}

// task is one status that is to be written.
type task struct {
	object *httpv1alpha1.HTTPScaledObject
	status httpv1alpha1.HTTPScaledObjectStatus
	before []metav1.Condition
	next   deed // what is known when it is done
}

// round brings every object up to date that has changed or whose time has come. It returns when to look again if nothing happens before, zero for never, and
// how long to pause in any case.
func (w *writer) round(ctx context.Context) (next time.Time, pause time.Duration) {
	began := w.now()
	acks, news := w.acks()
	batch, fleet := w.take(news, began)
	wanted := make(map[ir.Key]Part, len(batch))
	for key, each := range batch {
		if each.object != nil {
			wanted[key] = each.part
		}
		w.identify(key, each.object)
	}
	taken := Merge(fleet, wanted, acks)
	var due []task
	for key, each := range batch {
		w.metrics.count(w.counted[key], taken[key])
		delete(w.later, key)
		if each.object == nil {
			delete(w.counted, key)
			continue
		}
		w.counted[key] = taken[key]
		found, at := w.consider(each.object, each.seen, taken[key], began)
		switch {
		case at.IsZero():
		case at.After(began):
			w.later[key] = at
		default:
			due = append(due, found)
		}
	}
	pause = max(roundPace, idleShare*w.now().Sub(began))
	due, left := first(due)
	for _, each := range left {
		w.later[keyOf(each.object)] = began.Add(calmPace)
	}
	w.carryOut(ctx, due)
	for _, at := range w.later {
		next = earlier(next, at)
	}
	return next, pause
}

// identify forgets what was done about an object when it is gone, or another one has its name.
func (w *writer) identify(key ir.Key, object *httpv1alpha1.HTTPScaledObject) {
	if uid, known := w.known[key]; known && (object == nil || object.UID != uid) {
		delete(w.done, uid)
		delete(w.known, key)
	}
	if object != nil {
		w.known[key] = object.UID
	}
}

// keyOf is the identity of an object.
func keyOf(object *httpv1alpha1.HTTPScaledObject) ir.Key {
	return ir.Key{Namespace: object.Namespace, Name: object.Name}
}

// first returns the tasks for objects that share requests between Services, then those for the first few others; left are the rest.
func first(due []task) (chosen, left []task) {
	var calm []task
	for _, each := range due {
		if _, shares := each.object.Annotations[httpv1alpha1.AnnotationWeightedBackends]; shares {
			chosen = append(chosen, each)
		} else {
			calm = append(calm, each)
		}
	}
	few := min(len(calm), calmWrites)
	return append(chosen, calm[:few]...), calm[few:]
}

// consider compares one object's status with what it should be, and returns what to write and when. The zero time says that there is nothing to write.
func (w *writer) consider(object *httpv1alpha1.HTTPScaledObject, seen Observation, taken Taken, now time.Time) (task, time.Time) {
	last := w.done[object.UID]
	isKnown := last.status != nil && last.resourceVersion == object.ResourceVersion
	if isKnown && last.waiting.IsZero() && last.taken == taken && last.seen.equal(seen) {
		return task{}, time.Time{}
	}
	base := &object.Status
	if isKnown {
		base = last.status // What was written since is not in object yet.
	}
	current := *object
	current.Status = *base
	status := Compute(&current, seen, taken, w.instance, now)
	if apiequality.Semantic.DeepEqual(*base, status) {
		w.done[object.UID] = deed{resourceVersion: object.ResourceVersion, seen: seen, taken: taken, status: base, spent: last.spent}
		return task{}, time.Time{}
	}
	if last.waiting.IsZero() {
		last.waiting = now
	}
	w.done[object.UID] = last
	next := deed{resourceVersion: object.ResourceVersion, seen: seen, taken: taken, status: &status, spent: last.spent}
	before := base.Conditions
	if last.status != nil {
		before = last.status.Conditions // A change of the object may overtake the status that was written before it.
	}
	return task{object, status, before, next}, last.due(seen, taken)
}

// due returns when the status may be written: at once when there is no answer of a proxy to wait for, but not more often than allowed.
func (d deed) due(seen Observation, taken Taken) time.Time {
	at := d.waiting
	isRefused := len(seen.Problems) > 0 || seen.Failure != ""
	if !isRefused && (taken.Proxies.Acked < taken.Proxies.Ready || taken.Refusal != "") {
		at = at.Add(settle)
	}
	if allowed := d.spent.Add(-(writesBurst - 1) * writesInterval); allowed.After(at) {
		at = allowed
	}
	if d.notBefore.After(at) {
		at = d.notBefore
	}
	return at
}

// carryOut writes, and keeps what became of it. What fails is due again after retryAfter.
func (w *writer) carryOut(ctx context.Context, due []task) {
	var group errgroup.Group
	group.SetLimit(parallelWrites)
	var mu sync.Mutex // for done and later
	for _, each := range due {
		group.Go(func() error {
			w.carryOutOne(ctx, each, &mu)
			return nil
		})
	}
	_ = group.Wait() // None returns an error.
}

// carryOutOne is carryOut for one task. It holds mu while it uses what others use too.
func (w *writer) carryOutOne(ctx context.Context, each task, mu *sync.Mutex) {
	err := w.bringUpToDate(ctx, each)
	now := w.now()
	mu.Lock()
	defer mu.Unlock()
	if err != nil { // It was logged.
		failed := w.done[each.object.UID]
		failed.notBefore = now.Add(retryAfter)
		w.done[each.object.UID] = failed
		w.later[keyOf(each.object)] = failed.notBefore
		return
	}
	if each.next.spent.Before(now) {
		each.next.spent = now
	}
	each.next.spent = each.next.spent.Add(writesInterval)
	w.done[each.object.UID] = each.next
}

// bringUpToDate writes one object's status, and tells of it by an Event if that is worth one.
func (w *writer) bringUpToDate(ctx context.Context, due task) error {
	object := due.object
	err := w.write(ctx, "status", func(ctx context.Context) error { return w.client.ApplyStatus(ctx, object, due.status) })
	if errors.Is(err, ErrGone) {
		return nil
	}
	if err != nil {
		w.logger.WarnContext(ctx, "cannot write the status; trying again",
			"namespace", object.Namespace, "httpScaledObject", object.Name, "after", retryAfter, "error", err)
		return err
	}
	var was metav1.Condition
	if before := meta.FindStatusCondition(due.before, httpv1alpha1.ConditionAccepted); before != nil {
		was = *before
	}
	is := meta.FindStatusCondition(due.status.Conditions, httpv1alpha1.ConditionAccepted)
	if event := eventFor(object, was, *is, w.instance, w.now()); event != nil {
		if err := w.write(ctx, "event", func(ctx context.Context) error { return w.client.CreateEvent(ctx, event) }); err != nil {
			// The condition says the same and stays, so nothing is lost that would be worth another try.
			w.logger.WarnContext(ctx, "cannot create the event", "namespace", object.Namespace, "httpScaledObject", object.Name, "error", err)
		}
	}
	return nil
}

// write makes one request within its deadline and counts it.
func (w *writer) write(ctx context.Context, kind string, request func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, writeDeadline)
	defer cancel()
	err := request(ctx)
	result := "ok"
	if err != nil {
		result = "error"
	}
	w.metrics.writes.WithLabelValues(kind, result).Inc()
	return err
}

// earlier returns the earlier of two times, of which zero is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}
