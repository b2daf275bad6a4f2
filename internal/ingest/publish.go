package ingest

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/ir"
	"github.com/kedify/argo-rollouts-plugin/internal/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/translate"
)

// core remembers what the last pass has made of the objects, so that the next one costs what has changed.
type core struct {
	resolver   *resolve.Resolver
	translator *translate.Translator
}

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
func takeAll[T metav1.Object](stores []*store[T]) (changed map[ir.Key]piece[T], mattering map[ir.Key]T) {
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
func countAll[T metav1.Object](stores []*store[T]) int {
	count := 0
	for _, s := range stores {
		count += s.count()
	}
	return count
}

// everything is the whole world as a change.
func (l *Loop) everything() resolve.Change {
	return resolve.Change{ScaledObjects: byKey(merge(l.scaledObjects)), Services: byKey(merge(l.services)), EndpointSlices: byKey(merge(l.slices))}
}

// byKey finds objects by their names.
func byKey[T metav1.Object](objects []T) map[ir.Key]T {
	named := make(map[ir.Key]T, len(objects))
	for _, object := range objects {
		named[nameOf(object)] = object
	}
	return named
}

// publish publishes what is new, and returns the objects of which anything is.
func (l *Loop) publish(ctx context.Context, found found) map[ir.Key]Object {
	isFirst := l.core == nil
	outcome, err := l.advance(found.change)
	if err != nil && ctx.Err() != nil {
		l.core = nil
		return nil // The publisher stops at the same time.
	}
	l.publication++
	var changed map[ir.Key]Object
	if err != nil {
		changed = l.salvage(ctx, found)
	} else {
		l.failure = nil
		changed = l.tell(l.concerned(found, outcome), found.scaledObjects, l.core.resolver.Service, func(key ir.Key, object *Object) {
			if problems, looked := outcome.Problems[key]; looked {
				object.Outcome.Problems, object.Outcome.Failure = problems, ""
			}
			if config, isNew := outcome.Update.Objects[key]; isNew {
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

// advance resolves, translates and publishes a change; everything when nothing is remembered. What is remembered is of no use after an error, but for looking
// up Services.
func (l *Loop) advance(change resolve.Change) (resolve.Outcome, error) {
	isFirst := l.core == nil
	if isFirst {
		translator, err := translate.NewTranslator(l.translate)
		l.core = &core{resolve.NewResolver(l.inForce()), translator}
		change = l.everything()
		if err != nil {
			l.core.resolver.Update(change)
			return resolve.Outcome{}, err
		}
	}
	outcome := l.core.resolver.Update(change)
	if !isFirst && outcome.Update.IsEmpty() {
		return outcome, nil
	}
	update, err := l.core.translator.Update(outcome.Update)
	switch {
	case err != nil:
		return outcome, err
	case isFirst:
		return outcome, l.publisher.Publish(update.Changed)
	default:
		return outcome, l.publisher.Amend(update)
	}
}

// salvage publishes as much as it can of the whole world, after an error that is a bug. The next pass begins anew.
func (l *Loop) salvage(ctx context.Context, found found) map[ir.Key]Object {
	services := l.core.resolver.Service
	l.core = nil
	inForce := l.inForce()
	world := resolve.World{ScaledObjects: merge(l.scaledObjects), Services: merge(l.services), EndpointSlices: merge(l.slices), InForce: inForce}
	config, mistakes := resolve.Build(world)
	resources, config, failures, err := translateAll(l.translate.Envoy, config, inForce)
	for key, failure := range failures {
		l.fail(ctx, "translate", failure, "httpScaledObject", key)
	}
	if err != nil {
		l.fail(ctx, "translate", err)
	} else if err = l.publisher.Publish(resources); err != nil {
		l.fail(ctx, "publish", err)
		config = inForce
	}
	l.failure = err
	problems := map[ir.Key][]ir.Problem{}
	for _, mistake := range mistakes {
		problems[mistake.On] = append(problems[mistake.On], mistake)
	}
	parts := byObject(config)
	keys := make(map[ir.Key]struct{}, len(l.objects))
	for key := range l.objects {
		keys[key] = struct{}{}
	}
	for key := range found.scaledObjects {
		keys[key] = struct{}{}
	}
	return l.tell(keys, found.scaledObjects, services, func(key ir.Key, object *Object) {
		object.InForce, object.Outcome.Problems, object.Outcome.Failure = parts[key], problems[key], ""
		if failed := errors.Join(err, failures[key]); failed != nil {
			object.Outcome.Failure = failed.Error()
		}
	})
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
func (l *Loop) concerned(found found, outcome resolve.Outcome) map[ir.Key]struct{} {
	keys := make(map[ir.Key]struct{}, len(outcome.Problems))
	for key := range outcome.Problems {
		keys[key] = struct{}{}
	}
	for key := range outcome.Update.Objects {
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
		for _, key := range l.users[ir.Key{Namespace: slice.Namespace, Name: slice.Labels[discoveryv1.LabelServiceName]}] {
			keys[key] = struct{}{}
		}
	}
	return keys
}

// tell brings what is known of objects up to date, and returns it. scaledObjects are those that changed, and renew changes the rest.
func (l *Loop) tell(
	keys map[ir.Key]struct{}, scaledObjects map[ir.Key]piece[*httpv1alpha1.HTTPScaledObject],
	services func(ir.Key) (*corev1.Service, []*discoveryv1.EndpointSlice), renew func(ir.Key, *Object),
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
			object.Outcome.Served = len(object.InForce.Routes) > 0
			object.Outcome.StableHashes = readyHashes(services(stableOf(object)))
		}
		l.put(key, object)
		told[key] = object
	}
	return told
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
