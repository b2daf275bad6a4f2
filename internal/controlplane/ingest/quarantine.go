package ingest

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/server"
)

const (
	// quarantineLogPause is the time between two log messages about the same failure of an object.
	quarantineLogPause = time.Minute
	// An object that fails for the first time is tried again after the next change. From the second failure on there is
	// a pause before, which doubles from minQuarantinePause to maxQuarantinePause. After twice the last one without a
	// failure it counts as the first one again. Each try that fails costs a publication of all fleets.
	minQuarantinePause = time.Second
	maxQuarantinePause = time.Minute
)

// errQuarantine means that objects are in quarantine, so that the fleets are published as a whole.
var errQuarantine = errors.New("objects are in quarantine")

// quarantine contains the objects whose current version fails, because of a bug, and their errors. They keep their last
// good Routes, and are not tried again before something in their namespace changes: the objects themselves, or a
// Service, an EndpointSlice, a Secret or settings that they refer to. An object that fails again has to wait in addition.
//
// The resolver freezes them, so that changes of other objects are published alone.
type quarantine struct {
	objects  map[model.Key]error
	logged   map[model.Key]loggedFailure
	failures map[model.Key]*failureCount
	// frozen are the objects that the resolver has frozen.
	frozen map[model.Key]struct{}
	// isFallback is true if the objects fail even with their last good Routes, such as because of an endpoint. Then each
	// pass publishes all fleets as far as possible.
	isFallback bool
}

// loggedFailure is the last logged failure of an object.
type loggedFailure struct {
	text string
	at   time.Time
}

// failureCount counts the failures of an object.
type failureCount struct {
	count int
	// last is the time of the last failure, and notBefore the earliest time of the next try.
	last, notBefore time.Time
	// isChanged is true if something has changed since the last failure.
	isChanged bool
}

func newQuarantine() *quarantine {
	return &quarantine{
		objects: map[model.Key]error{}, logged: map[model.Key]loggedFailure{}, failures: map[model.Key]*failureCount{},
		frozen: map[model.Key]struct{}{},
	}
}

// isEmpty reports whether no object is in quarantine.
func (q *quarantine) isEmpty() bool { return len(q.objects) == 0 }

// release removes the objects to be tried again after changes, and deleted ones, even if there is another object of the
// name already. uidOf returns the UID of an object before the changes.
func (q *quarantine) release(batch changes, uidOf func(model.Key) types.UID) {
	if q.isEmpty() {
		return
	}
	namespaces := map[string]struct{}{}
	addNamespaces(namespaces, batch.routing.ScaledObjects)
	addNamespaces(namespaces, batch.routing.Services)
	addNamespaces(namespaces, batch.routing.EndpointSlices)
	addNamespaces(namespaces, batch.secrets)
	addNamespaces(namespaces, batch.routing.ConfigMaps)
	addKeys(namespaces, batch.routing.EnvoySettings)
	_, isAll := namespaces[""] // settings of all namespaces
	now := time.Now()
	for key := range q.objects {
		failure := q.failures[key]
		_, isChanged := namespaces[key.Namespace]
		failure.isChanged = failure.isChanged || isChanged || isAll
		object, isUpdated := batch.routing.ScaledObjects[key]
		isDeleted := isUpdated && (object == nil || object.UID != uidOf(key))
		if isDeleted || failure.isChanged && !now.Before(failure.notBefore) {
			delete(q.objects, key)
			q.isFallback = false
		}
	}
}

// add adds an object with its failure.
func (q *quarantine) add(key model.Key, err error) {
	now, failure := time.Now(), q.failures[key]
	if failure == nil || now.Sub(failure.last) > 2*maxQuarantinePause {
		failure = &failureCount{}
		q.failures[key] = failure
	}
	q.objects[key] = err
	failure.count++
	failure.last, failure.notBefore, failure.isChanged = now, now.Add(quarantinePause(failure.count)), false
}

// quarantinePause returns the pause after a number of failures.
func quarantinePause(failures int) time.Duration {
	if failures < 2 {
		return 0
	}
	pause := minQuarantinePause
	for i := 2; i < failures && pause < maxQuarantinePause; i++ {
		pause *= 2
	}
	return min(pause, maxQuarantinePause)
}

// nextTry returns when the first changed object can be tried again, and false if there is none.
func (q *quarantine) nextTry() (next time.Time, exists bool) {
	for key := range q.objects {
		failure := q.failures[key]
		if failure.isChanged && (!exists || failure.notBefore.Before(next)) {
			next, exists = failure.notBefore, true
		}
	}
	return next, exists
}

// isDue reports whether a changed object can be tried again.
func (q *quarantine) isDue() bool {
	next, exists := q.nextTry()
	return exists && !time.Now().Before(next)
}

// freeze returns the objects that the resolver has to freeze or to release. After reset these are all.
func (q *quarantine) freeze() map[model.Key]bool {
	changed := map[model.Key]bool{}
	for key := range q.objects {
		if _, isFrozen := q.frozen[key]; !isFrozen {
			q.frozen[key], changed[key] = struct{}{}, true
		}
	}
	for key := range q.frozen {
		if q.objects[key] == nil {
			delete(q.frozen, key)
			changed[key] = false
		}
	}
	return changed
}

// addNamespaces adds the namespaces of the keys of a map to a set.
func addNamespaces[V any](namespaces map[string]struct{}, from map[model.Key]V) {
	for key := range from {
		namespaces[key.Namespace] = struct{}{}
	}
}

// levelOf returns the level at which a failure of an object is logged: repetitions have level debug.
func (q *quarantine) levelOf(key model.Key, failure error) slog.Level {
	now, last := time.Now(), q.logged[key]
	if last.text == failure.Error() && now.Sub(last.at) < quarantineLogPause {
		return slog.LevelDebug
	}
	q.logged[key] = loggedFailure{failure.Error(), now}
	return slog.LevelError
}

// forget forgets what was logged about objects that have left the quarantine, and failures that count no longer.
func (q *quarantine) forget() {
	for key := range q.logged {
		if q.objects[key] == nil {
			delete(q.logged, key)
		}
	}
	for key, failure := range q.failures {
		if q.objects[key] == nil && time.Since(failure.last) > 2*maxQuarantinePause {
			delete(q.failures, key)
		}
	}
}

// addToQuarantine adds an object whose current version fails at a stage.
func (l *Loop) addToQuarantine(ctx context.Context, stage string, key model.Key, failure error) {
	l.quarantine.add(key, failure)
	l.reportFailureAt(ctx, l.quarantine.levelOf(key, failure), stage, failure, "httpScaledObject", key)
}

// resolveAll resolves all objects that are not in quarantine. An object that panics is added to it. An error means that
// no single object panics.
func (l *Loop) resolveAll(ctx context.Context, inputs resolve.Inputs) (model.Config, []model.Problem, error) {
	all := inputs.ScaledObjects
	build := func() (config model.Config, problems []model.Problem, err error) {
		err = server.Recovered(func() error {
			config, problems = resolve.Build(inputs)
			return nil
		})
		return config, problems, err
	}
	inputs.ScaledObjects = l.withoutQuarantined(all)
	config, problems, err := build()
	if err == nil {
		return config, problems, nil
	}
	for _, object := range inputs.ScaledObjects {
		inputs.ScaledObjects = []*httpv1alpha1.HTTPScaledObject{object}
		if _, _, failure := build(); failure != nil {
			l.addToQuarantine(ctx, stageResolve, keyOf(object), failure)
		}
	}
	inputs.ScaledObjects = l.withoutQuarantined(all)
	return build()
}

// withoutQuarantined returns the objects that are not in quarantine.
func (l *Loop) withoutQuarantined(objects []*httpv1alpha1.HTTPScaledObject) []*httpv1alpha1.HTTPScaledObject {
	rest := make([]*httpv1alpha1.HTTPScaledObject, 0, len(objects))
	for _, object := range objects {
		if l.quarantine.objects[keyOf(object)] == nil {
			rest = append(rest, object)
		}
	}
	return rest
}

// uidOf returns the UID of the tracked version of an object, "" if there is none.
func (l *Loop) uidOf(key model.Key) types.UID {
	if before := l.objects[key]; before != nil {
		return before.object.UID
	}
	return ""
}

// keyOf returns the namespace and name of an object.
func keyOf(object *httpv1alpha1.HTTPScaledObject) model.Key {
	return model.Key{Namespace: object.Namespace, Name: object.Name}
}
