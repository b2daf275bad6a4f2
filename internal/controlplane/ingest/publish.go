package ingest

import (
	"context"
	"slices"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/observation"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve/certificates"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/model/managedroute"
	"github.com/kedify/argo-rollouts-plugin/internal/model/split"
)

// found is what a pass finds new in the stores.
type found struct {
	// change is what matters to routing.
	change  resolve.Change
	matters bool
	// secrets are the Secrets of which something may be new.
	secrets map[model.Key]*certificates.Secret
	// scaledObjects are all HTTPScaledObjects that changed, without an object for one that is gone.
	scaledObjects map[model.Key]piece[*httpv1alpha1.HTTPScaledObject]
	// viewers are the HTTPScaledObjects whose waiting page may be another one, or what is wrong with their settings of Envoy.
	viewers []model.Key
}

// take returns what is new in the stores that routing depends on, and counts what is there.
func (l *Loop) take() found {
	var out found
	out.scaledObjects, out.change.ScaledObjects = takeAll(l.scaledObjects)
	_, out.change.Services = takeAll(l.services)
	_, out.change.EndpointSlices = takeAll(l.slices)
	out.secrets = l.secrets.take()
	var tuned []model.Key
	out.change.Tunings, tuned = l.takeSettings()
	out.matters = len(out.change.ScaledObjects)+len(out.change.Services)+len(out.change.EndpointSlices)+len(out.secrets)+len(out.change.Tunings) > 0
	out.viewers = append(l.takePages(), tuned...)
	l.metrics.objects.WithLabelValues(httpv1alpha1.Resource).Set(float64(countAll(l.scaledObjects)))
	l.metrics.objects.WithLabelValues("services").Set(float64(countAll(l.services)))
	l.metrics.objects.WithLabelValues("endpointslices").Set(float64(countAll(l.slices)))
	return out
}

// takeAll takes from all stores of one kind: what changed, and what of it matters. The zero value stands for what is gone.
func takeAll[T any](stores []*store[T]) (changed map[model.Key]piece[T], mattering map[model.Key]T) {
	changed, mattering = map[model.Key]piece[T]{}, map[model.Key]T{}
	for _, s := range stores {
		for name, piece := range s.take() {
			changed[name] = piece
			if piece.matters {
				mattering[name] = piece.object
			}
		}
	}
	return changed, mattering
}

// countAll counts the objects in all stores of one kind.
func countAll[T any](stores []*store[T]) int {
	count := 0
	for _, s := range stores {
		s.mu.Lock()
		count += len(s.objects)
		s.mu.Unlock()
	}
	return count
}

// everything is the whole world as a change.
func (l *Loop) everything() resolve.Change {
	return resolve.Change{
		ScaledObjects: merge(l.scaledObjects), Services: merge(l.services), EndpointSlices: merge(l.slices), Tunings: l.tuned.inForce,
	}
}

// known is what is remembered of an HTTPScaledObject from one pass to the next.
type known struct {
	object *httpv1alpha1.HTTPScaledObject
	// problems and writtenAt are as in observation.Outcome.
	problems  []model.Problem
	writtenAt string
	// inForce are the Routes that are published of it.
	inForce []model.Route
}

// publishAll publishes what is new in all fleets, and returns the objects of which anything is.
func (l *Loop) publishAll(ctx context.Context, found found) map[model.Key]observation.Object {
	isFirst := l.resolver == nil
	outcome, certified, err := l.advance(found)
	if err != nil && ctx.Err() != nil {
		l.forget()
		return nil // The publisher stops at the same time.
	}
	var changed map[model.Key]observation.Object
	if err != nil {
		changed, err = l.salvage(ctx, found)
	} else {
		changed = l.tellNew(found, outcome, certified)
	}
	if err != nil {
		return changed
	}
	l.metrics.lastSucceeded.SetToCurrentTime()
	if isFirst && !l.isSeeded() {
		routes := 0
		for _, is := range l.objects {
			routes += len(is.inForce)
		}
		l.logger.InfoContext(ctx, "seeded", "httpScaledObjects", len(l.objects), "routes", routes)
		close(l.seeded)
	}
	return changed
}

// tellNew returns the objects of which anything is new after a pass without errors.
func (l *Loop) tellNew(found found, outcome resolve.Outcome, certified map[model.Key]struct{}) map[model.Key]observation.Object {
	updated := map[model.Key]model.Config{}
	for _, update := range outcome.Updates {
		for key, config := range update.Objects {
			if len(config.Routes) > 0 { // otherwise it may have moved
				updated[key] = config
			}
		}
	}
	return l.tell(concerned(found, outcome, certified), found.scaledObjects, l.resolver, func(key model.Key, is *known) (model.Config, error) {
		if problems, looked := outcome.Problems[key]; looked {
			is.problems = problems
		}
		if config, isNew := updated[key]; isNew {
			return config, nil // which was made for the proxies; another one would be a map more
		}
		return l.resolver.InForce(key), nil
	})
}

// concerned are the objects of which anything may be new.
func concerned(found found, outcome resolve.Outcome, certified map[model.Key]struct{}) map[model.Key]struct{} {
	keys := make(map[model.Key]struct{}, len(outcome.Concerned))
	addKeys(keys, outcome.Concerned)
	addKeys(keys, certified)
	addKeys(keys, found.scaledObjects)
	for _, key := range found.viewers {
		keys[key] = struct{}{}
	}
	return keys
}

// tell brings what is known of objects up to date, and returns it. scaledObjects are those that changed, and renew changes the rest and returns what is in
// force of one, and why nothing newer could be published.
func (l *Loop) tell(
	keys map[model.Key]struct{}, scaledObjects map[model.Key]piece[*httpv1alpha1.HTTPScaledObject],
	resolver *resolve.Resolver, renew func(model.Key, *known) (model.Config, error),
) map[model.Key]observation.Object {
	told := make(map[model.Key]observation.Object, len(keys))
	for key := range keys {
		is := known{}
		if before := l.objects[key]; before != nil {
			is = *before
		}
		if piece, changed := scaledObjects[key]; changed {
			is.object, is.writtenAt = piece.object, piece.written
			if is.object != nil {
				resolver.Renew(is.object)
			}
		}
		inForce, failed := renew(key, &is)
		is.inForce = inForce.Routes
		if is.object == nil {
			l.put(key, known{})
			told[key] = observation.Object{}
			continue
		}
		l.put(key, is)
		page, state := l.pageOf(is.object)
		failure := ""
		if failed != nil {
			failure = failed.Error()
		}
		told[key] = observation.Object{
			ScaledObject: is.object, Fleet: l.fleetOf(is), InForce: inForce, Page: page,
			Outcome: observation.Outcome{
				Problems: is.problems, Served: len(is.inForce) > 0, Failure: failure, WeightedBackends: splitOf(is), ManagedRoutes: managedOf(is),
				StableHashes: readyHashes(resolver.Service(stableOf(is))), Page: state, WrittenAt: is.writtenAt, TLS: l.certificates.State(key),
				EnvoySettings: l.tuned.mistake(key.Namespace),
			},
		}
	}
	return told
}

// splitOf returns how requests are shared by what is in force, "" where an object's own Service gets
// all of them.
func splitOf(is known) string {
	if len(is.inForce) == 0 {
		return ""
	}
	backends := is.inForce[0].Backends
	if len(backends) == 1 && backends[0].Service.Name == is.object.Spec.ScaleTargetRef.Service {
		return ""
	}
	shares := make([]split.Backend, 0, len(backends))
	for _, backend := range backends {
		shares = append(shares, split.Backend{Service: backend.Service.Name, Weight: backend.Weight})
	}
	text := split.Format(shares)
	if own := is.object.Annotations[httpv1alpha1.AnnotationWeightedBackends]; own == text {
		return own // The usual case: the text is kept once.
	}
	return text
}

// managedOf returns the header and mirror routes of what is in force, "" where there are none.
func managedOf(is known) string {
	if len(is.inForce) == 0 {
		return ""
	}
	return managedroute.Format(is.inForce[0].Managed)
}

// stableOf returns the Service that an object's requests go to when no canary runs.
func stableOf(is known) model.Key {
	if len(is.inForce) > 0 {
		return is.inForce[0].Backends[0].Service
	}
	return model.Key{Namespace: is.object.Namespace, Name: is.object.Spec.ScaleTargetRef.Service}
}

// put keeps what is known of an object, nothing of one that is gone, and counts it.
func (l *Loop) put(key model.Key, is known) {
	before := l.objects[key]
	if before == nil {
		before = &known{}
	}
	l.metrics.problems.Add(float64(len(is.problems) - len(before.problems)))
	l.metrics.routes.Add(float64(len(is.inForce) - len(before.inForce)))
	if l.objects[key] = &is; is.object == nil {
		delete(l.objects, key)
	}
}

// inForce are the Routes that are published, as far as the objects that they come from are there.
func (l *Loop) inForce() []model.Route {
	var routes []model.Route
	for _, is := range l.objects {
		routes = append(routes, is.inForce...)
	}
	slices.SortFunc(routes, model.CompareRoutes)
	return routes
}
