package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/router"
)

// DriftAnnotation is the annotation of a Rollout that requests a reconcile, because another writer has changed an
// object of its canary. Its value is the time and the object.
const DriftAnnotation = "rollouts.kedify.io/object-changed"

const (
	// driftInterval is the time between two comparisons. An object that differs in two of them has been changed: one that
	// differs once may be in the middle of a call.
	driftInterval = time.Second
	// expectationLifetime is how long objects are compared after a SetWeight: several times the controller's resync. So a
	// Rollout that was deleted, or that another process handles now, is forgotten.
	expectationLifetime = time.Hour
	// uncachedPause is the time between two comparisons of an object that no watch keeps up to date.
	uncachedPause = time.Minute
	// firstDriftPause and maxDriftPause limit the requests for a Rollout while another writer reverts each write. The
	// pause doubles after each request, and starts again after driftMemory without one.
	firstDriftPause = 10 * time.Second
	maxDriftPause   = 5 * time.Minute
	driftMemory     = 10 * time.Minute
)

// drift notices that another writer has changed an object of a canary. In a pause without a duration, the controller
// calls its router only at its resync, every 15 minutes by default (--rollout-resync). So drift makes the controller
// reconcile the Rollout. It writes no weights itself: this process may not be the one that the leader calls any more.
type drift[O kube.State] struct {
	client *kube.Client
	log    *slog.Logger

	mu       sync.Mutex
	expected map[types.UID]*expectation[O]
	pauses   map[types.UID]driftPause
}

// expectation is what the last successful SetWeight of an active Rollout has written.
type expectation[O kube.State] struct {
	namespace, name string
	uid             types.UID
	targets         []Target[O]
	since           time.Time // of the SetWeight
	differs         bool      // in the last comparison
	next            time.Time // of the next comparison
}

// driftPause is the time between the requests for a Rollout.
type driftPause struct {
	last time.Time // of the last request
	wait time.Duration
}

func newDrift[O kube.State](client *kube.Client, log *slog.Logger) *drift[O] {
	return &drift[O]{
		client: client, log: log, expected: map[types.UID]*expectation[O]{}, pauses: map[types.UID]driftPause{},
	}
}

// forget ends the comparisons for a Rollout: its objects are about to change.
func (d *drift[O]) forget(rollout *v1alpha1.Rollout) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.expected, rollout.UID)
}

// expect begins the comparisons for the targets of an active request.
func (d *drift[O]) expect(request Request, targets []Target[O]) {
	rollout := request.Rollout
	d.mu.Lock()
	defer d.mu.Unlock()
	d.expected[rollout.UID] = &expectation[O]{
		namespace: rollout.Namespace, name: rollout.Name, uid: rollout.UID, targets: targets,
		since: time.Now(),
	}
}

// WatchObjects requests a reconcile of each Rollout whose objects another writer changes during its canary, until ctx
// ends. It compares the objects in the cache with what the last SetWeight has written.
func (r *Reconciler[O]) WatchObjects(ctx context.Context) {
	ticks := time.NewTicker(driftInterval)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticks.C:
			r.drift.compareAll(ctx, now)
		}
	}
}

// compareAll compares the objects of all Rollouts.
func (d *drift[O]) compareAll(ctx context.Context, now time.Time) {
	d.mu.Lock()
	maps.DeleteFunc(d.expected, func(_ types.UID, e *expectation[O]) bool {
		return now.Sub(e.since) > expectationLifetime
	})
	expected := maps.Clone(d.expected)
	maps.DeleteFunc(d.pauses, func(_ types.UID, p driftPause) bool { return now.Sub(p.last) > driftMemory })
	d.mu.Unlock()
	for _, e := range expected {
		if now.Before(e.next) {
			continue
		}
		object := d.difference(ctx, e, now)
		differed := e.differs
		e.differs = object != ""
		if differed && e.differs {
			d.request(ctx, e, object, now)
		}
	}
}

// difference returns the first object that is not as expected; empty if all are, or if none is known. A panic is
// logged: the process serves the calls of all Rollouts.
func (d *drift[O]) difference(ctx context.Context, e *expectation[O], now time.Time) string {
	defer func() {
		if cause := recover(); cause != nil {
			d.log.ErrorContext(ctx, "panic while comparing objects", "rollout", e.namespace+"/"+e.name,
				"panic", fmt.Sprint(cause), "stack", string(debug.Stack()))
			e.next = now.Add(expectationLifetime)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, router.CallTimeout)
	defer cancel()
	for _, t := range e.targets {
		object, cached, err := t.Get(ctx)
		if !cached {
			e.next = now.Add(uncachedPause)
		}
		if err == nil && t.CheckWritten(ctx, object) != nil {
			return t.String()
		}
	}
	return ""
}

// request requests a reconcile of a Rollout, unless one was requested recently or a call of the controller has begun.
func (d *drift[O]) request(ctx context.Context, e *expectation[O], object string, now time.Time) {
	d.mu.Lock()
	pause := d.pauses[e.uid]
	isDue := d.expected[e.uid] == e && now.Sub(pause.last) >= pause.wait
	if isDue {
		d.pauses[e.uid] = driftPause{now, min(max(2*pause.wait, firstDriftPause), maxDriftPause)}
	}
	d.mu.Unlock()
	if !isDue {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, router.CallTimeout)
	defer cancel()
	attributes := []any{"rollout", e.namespace + "/" + e.name, "object", object}
	if err := d.annotate(ctx, e, object, now); err != nil {
		d.log.WarnContext(ctx, "another writer has changed an object of a canary: the router corrects it at the next "+
			"reconcile of the Rollout, which could not be requested", append(attributes, "error", err,
			"fix", "allow the controller's ServiceAccount to patch rollouts of argoproj.io")...)
		return
	}
	d.log.InfoContext(ctx, "another writer has changed an object of a canary: requested a reconcile", attributes...)
}

// annotate writes DriftAnnotation. It fails if the Rollout is another one of the same name.
func (d *drift[O]) annotate(ctx context.Context, e *expectation[O], object string, now time.Time) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid":         e.uid,
		"annotations": map[string]string{DriftAnnotation: now.UTC().Format(time.RFC3339) + " " + object},
	}})
	if err != nil {
		return fmt.Errorf("patch of a Rollout: %w", err)
	}
	_, err = d.client.Do(ctx, kube.Request{
		Verb: http.MethodPatch, ContentType: string(types.MergePatchType), Body: patch,
		Path: []string{"apis", "argoproj.io", "v1alpha1", "namespaces", e.namespace, "rollouts", e.name},
	})
	return err
}
