package ingest

import (
	"context"
	"errors"
	"log/slog"
	"time"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/server"
)

// quarantineLogPause is the time between two log messages about the same failure of an object.
const quarantineLogPause = time.Minute

// errQuarantine means that objects are in quarantine, so that the fleets are published as a whole.
var errQuarantine = errors.New("objects are in quarantine")

// quarantine contains the objects whose current version fails, because of a bug, and their errors. They keep their last
// good Routes, and are not tried again before something in their namespace changes: the objects themselves, or a
// Service, an EndpointSlice, a Secret or settings that they refer to.
type quarantine struct {
	objects map[model.Key]error
	logged  map[model.Key]loggedFailure
}

// loggedFailure is the last logged failure of an object.
type loggedFailure struct {
	text string
	at   time.Time
}

func newQuarantine() quarantine {
	return quarantine{objects: map[model.Key]error{}, logged: map[model.Key]loggedFailure{}}
}

// isEmpty reports whether no object is in quarantine.
func (q quarantine) isEmpty() bool { return len(q.objects) == 0 }

// release removes the objects to be tried again after changes.
func (q quarantine) release(batch changes) {
	namespaces := map[string]struct{}{}
	addNamespaces(namespaces, batch.routing.ScaledObjects)
	addNamespaces(namespaces, batch.routing.Services)
	addNamespaces(namespaces, batch.routing.EndpointSlices)
	addNamespaces(namespaces, batch.secrets)
	addNamespaces(namespaces, batch.routing.ConfigMaps)
	addKeys(namespaces, batch.routing.EnvoySettings)
	_, isAll := namespaces[""] // settings of all namespaces
	for key := range q.objects {
		if _, isChanged := namespaces[key.Namespace]; isChanged || isAll {
			delete(q.objects, key)
		}
	}
}

// addNamespaces adds the namespaces of the keys of a map to a set.
func addNamespaces[V any](namespaces map[string]struct{}, from map[model.Key]V) {
	for key := range from {
		namespaces[key.Namespace] = struct{}{}
	}
}

// levelOf returns the level at which a failure of an object is logged: repetitions have level debug.
func (q quarantine) levelOf(key model.Key, failure error) slog.Level {
	now, last := time.Now(), q.logged[key]
	if last.text == failure.Error() && now.Sub(last.at) < quarantineLogPause {
		return slog.LevelDebug
	}
	q.logged[key] = loggedFailure{failure.Error(), now}
	return slog.LevelError
}

// forget forgets what was logged about objects that have left the quarantine.
func (q quarantine) forget() {
	for key := range q.logged {
		if q.objects[key] == nil {
			delete(q.logged, key)
		}
	}
}

// addToQuarantine adds an object whose current version fails at a stage.
func (l *Loop) addToQuarantine(ctx context.Context, stage string, key model.Key, failure error) {
	l.quarantine.objects[key] = failure
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

// keyOf returns the namespace and name of an object.
func keyOf(object *httpv1alpha1.HTTPScaledObject) model.Key {
	return model.Key{Namespace: object.Namespace, Name: object.Name}
}
