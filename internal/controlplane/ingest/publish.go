package ingest

import (
	"context"
	"maps"
	"slices"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	httpv1beta1 "github.com/kedify/argo-rollouts-plugin/api/http/v1beta1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve/certificates"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve/interceptorroute"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/model/affinity"
	"github.com/kedify/argo-rollouts-plugin/internal/model/managedroute"
	"github.com/kedify/argo-rollouts-plugin/internal/model/split"
	"github.com/kedify/argo-rollouts-plugin/internal/server"
)

// changes are the changes that a pass takes from the stores.
type changes struct {
	// routing contains the changes that affect routing.
	routing        resolve.Change
	affectsRouting bool
	// secrets are the Secrets that may have changed.
	secrets map[model.Key]*certificates.Secret
	// scaledObjects are all changed HTTPScaledObjects. The object is nil for a deleted one.
	scaledObjects map[model.Key]objectChange[*httpv1alpha1.HTTPScaledObject]
	// viewers are the HTTPScaledObjects with a possible change of their waiting page or of the error in their
	// settings of Envoy.
	viewers []model.Key
	// invalidFleets are the changed Services of proxies with invalid settings.
	invalidFleets []*resolve.Service
}

// takeChanges takes the changes from the stores that routing depends on, and updates the object metrics.
func (l *Loop) takeChanges() changes {
	var batch changes
	batch.scaledObjects, batch.routing.ScaledObjects = l.takeObjects()
	_, batch.routing.Services = takeAll(l.services)
	for _, service := range batch.routing.Services {
		if service != nil && service.Fleet.Problem() != "" {
			batch.invalidFleets = append(batch.invalidFleets, service)
		}
	}
	_, batch.routing.EndpointSlices = takeAll(l.slices)
	batch.secrets = l.secrets.take()
	var withSettings []model.Key
	batch.routing.EnvoySettings, withSettings = l.takeSettings()
	batch.viewers, batch.routing.ConfigMaps = l.takePages()
	batch.viewers = append(batch.viewers, withSettings...)
	routing := batch.routing
	batch.affectsRouting = len(routing.ScaledObjects)+len(routing.Services)+len(routing.EndpointSlices)+
		len(batch.secrets)+len(routing.EnvoySettings)+len(routing.ConfigMaps) > 0
	l.metrics.objects.WithLabelValues(httpv1alpha1.Resource).Set(float64(countAll(l.scaledObjects)))
	l.metrics.objects.WithLabelValues(httpv1beta1.Resource).Set(float64(countAll(l.interceptorRoutes)))
	l.metrics.objects.WithLabelValues("services").Set(float64(countAll(l.services)))
	l.metrics.objects.WithLabelValues("endpointslices").Set(float64(countAll(l.slices)))
	return batch
}

// takeAll takes the changes from all stores of one kind. routing contains those that affect routing, with the zero
// value for deleted objects.
func takeAll[T any](stores []*store[T]) (changed map[model.Key]objectChange[T], routing map[model.Key]T) {
	changed, routing = map[model.Key]objectChange[T]{}, map[model.Key]T{}
	for _, s := range stores {
		for name, change := range s.take() {
			changed[name] = change
			if change.affectsRouting {
				routing[name] = change.object
			}
		}
	}
	return changed, routing
}

// countAll returns the number of objects in all stores of one kind.
func countAll[T any](stores []*store[T]) int {
	count := 0
	for _, s := range stores {
		s.mu.Lock()
		count += len(s.objects)
		s.mu.Unlock()
	}
	return count
}

// fullChange returns all objects as a change.
func (l *Loop) fullChange() resolve.Change {
	bodies := l.allBodies()
	addKeys(l.resolvedBodies, bodies)
	return resolve.Change{
		ScaledObjects: l.mergeObjects(), Services: merge(l.services), EndpointSlices: merge(l.slices),
		EnvoySettings: l.envoySettings.active, ConfigMaps: bodies,
	}
}

// trackedObject is the state of an HTTPScaledObject that is retained between passes.
type trackedObject struct {
	object *httpv1alpha1.HTTPScaledObject
	// problems, warnings and writtenAt are as in Outcome.
	problems, warnings []model.Problem
	writtenAt          string
	// published are the published Routes of the object.
	published []model.Route
}

// setProblems sets the problems and the warnings.
func (t *trackedObject) setProblems(all []model.Problem) {
	t.problems, t.warnings = nil, nil
	for _, problem := range all {
		if problem.IsWarning {
			t.warnings = append(t.warnings, problem)
		} else {
			t.problems = append(t.problems, problem)
		}
	}
}

// publishChanges publishes the changes in all fleets and returns the objects with any change.
func (l *Loop) publishChanges(ctx context.Context, batch changes) map[model.Key]Object {
	isFirst := l.resolver == nil
	if l.quarantine.release(batch, l.uidOf); l.quarantine.isFallback {
		l.reset()
	}
	outcome, withCertificate, err := l.publishIncremental(batch)
	if err != nil && ctx.Err() != nil {
		l.reset()
		return nil // The publisher is shutting down too.
	}
	var changed map[model.Key]Object
	if err != nil {
		known := maps.Clone(l.quarantine.objects)
		changed, err = l.publishBestEffort(ctx, batch)
		l.quarantine.isFallback = len(known) > 0 && haveSameKeys(known, l.quarantine.objects)
	} else {
		changed = l.updateChanged(ctx, batch, outcome, withCertificate)
		l.quarantine.forget()
	}
	if err != nil {
		return changed
	}
	l.metrics.lastSucceeded.SetToCurrentTime()
	if isFirst && !l.isSeeded() {
		routes := 0
		for _, tracked := range l.objects {
			routes += len(tracked.published)
		}
		l.logger.InfoContext(ctx, "seeded", "httpScaledObjects", len(l.objects), "routes", routes)
		close(l.seeded)
	}
	return changed
}

// haveSameKeys reports whether two maps have the same keys.
func haveSameKeys[K comparable, V any](one, other map[K]V) bool {
	return maps.EqualFunc(one, other, func(V, V) bool { return true })
}

// updateChanged returns the changed objects after a pass without errors.
func (l *Loop) updateChanged(
	ctx context.Context, batch changes, outcome resolve.Outcome, withCertificate map[model.Key]struct{},
) map[model.Key]Object {
	updated := map[model.Key]model.Config{}
	for _, update := range outcome.Updates {
		for key, config := range update.Objects {
			if len(config.Routes) > 0 { // otherwise the object may have moved to another fleet
				updated[key] = config
			}
		}
	}
	return l.updateObjects(ctx, affectedObjects(batch, outcome, withCertificate), batch.scaledObjects, l.resolver,
		func(key model.Key, tracked *trackedObject) (model.Config, error) {
			failure := l.quarantine.objects[key]
			if problems, isResolved := outcome.Problems[key]; isResolved && failure == nil {
				tracked.setProblems(problems)
			}
			if config, isNew := updated[key]; isNew {
				return config, failure // Reuse the Config of the translation to save a map.
			}
			return l.resolver.Published(key), failure
		})
}

// affectedObjects returns the objects with a possible change in their Object.
func affectedObjects(
	batch changes, outcome resolve.Outcome, withCertificate map[model.Key]struct{},
) map[model.Key]struct{} {
	keys := make(map[model.Key]struct{}, len(outcome.Affected))
	addKeys(keys, outcome.Affected)
	addKeys(keys, withCertificate)
	addKeys(keys, batch.scaledObjects)
	for _, key := range batch.viewers {
		keys[key] = struct{}{}
	}
	return keys
}

// updateObjects updates the tracked state of the given objects and returns it. scaledObjects are those that changed.
// update sets the remaining state of one object; it returns the published Config, and the error if the current
// version could not be published. An object that panics is added to the quarantine.
func (l *Loop) updateObjects(
	ctx context.Context, keys map[model.Key]struct{},
	scaledObjects map[model.Key]objectChange[*httpv1alpha1.HTTPScaledObject],
	resolver *resolve.Resolver, update func(model.Key, *trackedObject) (model.Config, error),
) map[model.Key]Object {
	objects := make(map[model.Key]Object, len(keys))
	for key := range keys {
		tracked := trackedObject{}
		if before := l.objects[key]; before != nil {
			tracked = *before
		}
		change, isChanged := scaledObjects[key]
		if isChanged {
			tracked.object, tracked.writtenAt = change.object, change.routingVersion
		}
		err := server.Recovered(func() error {
			if isChanged && tracked.object != nil {
				resolver.ReplaceObject(tracked.object)
			}
			published, failed := update(key, &tracked)
			objects[key] = l.updateObject(key, tracked, published, failed, resolver)
			return nil
		})
		if err != nil {
			l.addToQuarantine(ctx, stagePublish, key, err)
			objects[key] = Object{ScaledObject: tracked.object, Outcome: Outcome{Failure: err.Error()}}
		}
	}
	return objects
}

// updateObject stores the tracked state of an object and returns it. published is its published Config, and failed the
// error if the current version could not be published.
func (l *Loop) updateObject(
	key model.Key, tracked trackedObject, published model.Config, failed error, resolver *resolve.Resolver,
) Object {
	tracked.published = published.Routes
	if tracked.object == nil {
		l.track(key, trackedObject{})
		return Object{}
	}
	l.track(key, tracked)
	page, state := l.pageOf(tracked.object)
	failure := ""
	if failed != nil {
		failure = failed.Error()
	}
	var first model.Route // the fields that Outcome reports are equal in all Routes of an object
	if len(tracked.published) > 0 {
		first = tracked.published[0]
	}
	return Object{
		ScaledObject: tracked.object, Superseded: l.supersededBy(tracked.object), Fleet: l.fleetOf(tracked),
		Published: published, Page: page,
		Outcome: Outcome{
			Problems: tracked.problems, Warnings: tracked.warnings, Served: len(tracked.published) > 0, Failure: failure,
			WeightedBackends: weightedBackendsOf(tracked), ManagedRoutes: managedroute.Format(first.Managed),
			Stickiness: affinity.Format(first.Stickiness), SessionAffinity: affinity.Format(first.Affinity),
			StableHashes: readyHashes(resolver.Service(stableServiceOf(tracked))), Page: state, WrittenAt: tracked.writtenAt,
			TLS:           l.certificates.State(key, hostsField(tracked.object)),
			EnvoySettings: l.envoySettings.errorFor(key.Namespace),
		},
	}
}

// hostsField returns the field with the hosts of an object.
func hostsField(object *httpv1alpha1.HTTPScaledObject) string {
	if interceptorroute.IsConverted(object) {
		return "spec.rules"
	}
	return "spec.hosts"
}

// weightedBackendsOf returns the published traffic split, "" if all requests go to the object's own Service.
func weightedBackendsOf(tracked trackedObject) string {
	if len(tracked.published) == 0 {
		return ""
	}
	backends := tracked.published[0].Backends
	if len(backends) == 1 && backends[0].Service.Name == tracked.object.Spec.ScaleTargetRef.Service {
		return ""
	}
	entries := make([]split.Backend, 0, len(backends))
	for _, backend := range backends {
		entries = append(entries, split.Backend{Service: backend.Service.Name, Weight: backend.Weight})
	}
	text := split.Format(entries)
	if annotation := tracked.object.Annotations[httpv1alpha1.AnnotationWeightedBackends]; annotation == text {
		return annotation // This is the common case: both share one string.
	}
	return text
}

// stableServiceOf returns the Service that receives all requests outside of a canary.
func stableServiceOf(tracked trackedObject) model.Key {
	if len(tracked.published) > 0 {
		return tracked.published[0].Backends[0].Service
	}
	return model.Key{Namespace: tracked.object.Namespace, Name: tracked.object.Spec.ScaleTargetRef.Service}
}

// track stores the state of an object, or removes it if the object is deleted, and updates the metrics.
func (l *Loop) track(key model.Key, tracked trackedObject) {
	before := l.objects[key]
	if before == nil {
		before = &trackedObject{}
	}
	l.metrics.problems.Add(float64(len(tracked.problems) - len(before.problems)))
	l.metrics.routes.Add(float64(len(tracked.published) - len(before.published)))
	l.trackViewer(key, before, &tracked)
	if l.objects[key] = &tracked; tracked.object == nil {
		delete(l.objects, key)
	}
}

// publishedRoutes returns the published Routes of all existing objects.
func (l *Loop) publishedRoutes() []model.Route {
	var routes []model.Route
	for _, tracked := range l.objects {
		routes = append(routes, tracked.published...)
	}
	slices.SortFunc(routes, model.CompareRoutes)
	return routes
}
