package ingest

import (
	"context"
	"slices"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/ir"
	"github.com/kedify/argo-rollouts-plugin/internal/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/split"
)

// found is what a pass finds new in the stores.
type found struct {
	// change is what matters to routing.
	change  resolve.Change
	matters bool
	// scaledObjects are all HTTPScaledObjects that changed, without an object for one that is gone.
	scaledObjects map[ir.Key]piece[*httpv1alpha1.HTTPScaledObject]
}

// take returns what is new in the stores that routing depends on, and counts what is there.
func (l *Loop) take() found {
	var out found
	out.scaledObjects, out.change.ScaledObjects = takeAll(l.scaledObjects)
	_, out.change.Services = takeAll(l.services)
	_, out.change.EndpointSlices = takeAll(l.slices)
	out.matters = len(out.change.ScaledObjects)+len(out.change.Services)+len(out.change.EndpointSlices) > 0
	l.metrics.objects.WithLabelValues(httpv1alpha1.Resource).Set(float64(countAll(l.scaledObjects)))
	l.metrics.objects.WithLabelValues("services").Set(float64(countAll(l.services)))
	l.metrics.objects.WithLabelValues("endpointslices").Set(float64(countAll(l.slices)))
	return out
}

// takeAll takes from all stores of one kind: what changed, and what of it matters. The zero value stands for what is gone.
func takeAll[T any](stores []*store[T]) (changed map[ir.Key]piece[T], mattering map[ir.Key]T) {
	changed, mattering = map[ir.Key]piece[T]{}, map[ir.Key]T{}
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
		count += s.count()
	}
	return count
}

// everything is the whole world as a change.
func (l *Loop) everything() resolve.Change {
	return resolve.Change{ScaledObjects: merge(l.scaledObjects), Services: merge(l.services), EndpointSlices: merge(l.slices)}
}

// publishAll publishes what is new in all fleets, and returns the objects of which anything is.
func (l *Loop) publishAll(ctx context.Context, found found) map[ir.Key]Object {
	isFirst := l.core == nil
	outcome, err := l.advance(found.change)
	if err != nil && ctx.Err() != nil {
		l.core = nil
		return nil // The publisher stops at the same time.
	}
	var changed map[ir.Key]Object
	if err != nil {
		changed = l.salvage(ctx, found)
	} else {
		l.failure = nil
		inForce := inForceOf(outcome.Updates)
		changed = l.tell(l.concerned(found, outcome.Problems, inForce), found.scaledObjects, l.core.resolver.Service, func(key ir.Key, object *Object) {
			if problems, looked := outcome.Problems[key]; looked {
				object.Outcome.Problems, object.Outcome.Failure = problems, ""
			}
			if config, isNew := inForce[key]; isNew {
				object.InForce = config
			}
		})
	}
	l.metrics.problems.Set(float64(l.problems))
	l.metrics.routes.Set(float64(l.routes))
	if l.failure != nil {
		return changed
	}
	l.metrics.lastSucceeded.SetToCurrentTime()
	if isFirst && !l.isSeeded() {
		l.logger.InfoContext(ctx, "seeded", "httpScaledObjects", len(l.objects), "routes", l.routes)
		close(l.seeded)
	}
	return changed
}

// retell returns the objects that changed in a way that does not matter to routing.
func (l *Loop) retell(found found) map[ir.Key]Object {
	keys := make(map[ir.Key]struct{}, len(found.scaledObjects))
	for key := range found.scaledObjects {
		keys[key] = struct{}{}
	}
	return l.tell(keys, found.scaledObjects, l.core.resolver.Service, func(ir.Key, *Object) {})
}

// concerned are the objects of which anything may be new.
func (l *Loop) concerned(
	found found, problems map[ir.Key][]ir.Problem, inForce map[ir.Key]ir.Config,
) map[ir.Key]struct{} {
	keys := make(map[ir.Key]struct{}, len(problems))
	for key := range problems {
		keys[key] = struct{}{}
	}
	for key := range inForce {
		keys[key] = struct{}{}
	}
	for key := range found.scaledObjects {
		keys[key] = struct{}{}
	}
	for service := range found.change.Services {
		for _, key := range l.users[service] {
			keys[key] = struct{}{}
		}
	}
	for _, slice := range found.change.EndpointSlices {
		if slice == nil {
			continue // What has gone without its Pods going elsewhere is in outcome.
		}
		for _, key := range l.users[slice.Service] {
			keys[key] = struct{}{}
		}
	}
	return keys
}

// tell brings what is known of objects up to date, and returns it. scaledObjects are those that changed, and renew changes the rest.
func (l *Loop) tell(
	keys map[ir.Key]struct{}, scaledObjects map[ir.Key]piece[*httpv1alpha1.HTTPScaledObject],
	services func(ir.Key) (*resolve.Service, []*resolve.EndpointSlice), renew func(ir.Key, *Object),
) map[ir.Key]Object {
	told := make(map[ir.Key]Object, len(keys))
	for key := range keys {
		object := l.objects[key]
		if piece, changed := scaledObjects[key]; changed {
			object.ScaledObject, object.Outcome.WrittenAt = piece.object, piece.written
		}
		renew(key, &object)
		if object.ScaledObject == nil {
			object = Object{}
		} else {
			object.Fleet = l.fleetOf(object)
			object.Outcome.Served = len(object.InForce.Routes) > 0
			object.Outcome.WeightedBackends = splitOf(object)
			object.Outcome.StableHashes = readyHashes(services(stableOf(object)))
		}
		l.put(key, object)
		told[key] = object
	}
	return told
}

// splitOf returns how requests are shared by what is in force, "" where an object's own Service gets
// all of them.
func splitOf(object Object) string {
	if len(object.InForce.Routes) == 0 {
		return ""
	}
	backends := object.InForce.Routes[0].Backends
	if len(backends) == 1 && backends[0].Service.Name == object.ScaledObject.Spec.ScaleTargetRef.Service {
		return ""
	}
	shares := make([]split.Backend, 0, len(backends))
	for _, backend := range backends {
		shares = append(shares, split.Backend{Service: backend.Service.Name, Weight: backend.Weight})
	}
	return split.Format(shares)
}

// stableOf returns the Service that an object's requests go to when no canary runs.
func stableOf(object Object) ir.Key {
	if len(object.InForce.Routes) > 0 {
		return object.InForce.Routes[0].Backends[0].Service
	}
	return ir.Key{Namespace: object.ScaledObject.Namespace, Name: object.ScaledObject.Spec.ScaleTargetRef.Service}
}

// put keeps what is known of an object, and keeps account of it.
func (l *Loop) put(key ir.Key, object Object) {
	before := l.objects[key]
	l.problems += len(object.Outcome.Problems) - len(before.Outcome.Problems)
	l.routes += len(object.InForce.Routes) - len(before.InForce.Routes)
	service, known := l.stable[key]
	if isSame := known && object.ScaledObject != nil && stableOf(object) == service; isSame {
		l.objects[key] = object
		return
	}
	if known {
		l.users[service] = slices.DeleteFunc(l.users[service], func(each ir.Key) bool { return each == key })
		if len(l.users[service]) == 0 {
			delete(l.users, service)
		}
	}
	if object.ScaledObject == nil {
		delete(l.objects, key)
		delete(l.stable, key)
		return
	}
	service = stableOf(object)
	l.objects[key], l.stable[key] = object, service
	l.users[service] = append(slices.Clip(l.users[service]), key)
}

// inForce is what is published, as far as the objects that it comes from are there.
func (l *Loop) inForce() ir.Config {
	parts := make([]ir.Config, 0, len(l.objects))
	for _, object := range l.objects {
		parts = append(parts, object.InForce)
	}
	return joined(parts)
}
