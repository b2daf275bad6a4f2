package ingest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/server"
)

// fleetOf returns the fleet that serves an object.
func (l *Loop) fleetOf(tracked trackedObject) model.Fleet {
	if len(tracked.published) > 0 {
		return tracked.published[0].Fleet
	}
	return l.resolve.FleetOf(tracked.object)
}

// publishIncremental resolves, translates and publishes a change, or all objects if there is no state of a previous
// pass. After an error the retained state is only valid for looking up Services. withCertificate are the objects with
// a possible change of their certificate state.
func (l *Loop) publishIncremental(
	batch changes,
) (outcome resolve.Outcome, withCertificate map[model.Key]struct{}, failed error) {
	isFirst := l.resolver == nil
	if err := server.Recovered(func() error {
		outcome, withCertificate = l.resolveChanges(batch)
		return nil
	}); err != nil {
		return outcome, nil, fmt.Errorf("%s: %w", stageResolve, err)
	}
	affected := map[model.Fleet]struct{}{}
	addKeys(affected, outcome.Updates)
	addKeys(affected, outcome.Proxies)
	if isFirst {
		addKeys(affected, l.fleets)
	}
	proxiesChanged := isFirst || len(outcome.Proxies) > 0
	if proxiesChanged {
		l.proxies = l.mergeProxies(outcome.Proxies, isFirst)
	}
	if l.quarantine.isFallback {
		affected, failed = nil, errQuarantine
	}
	for _, fleet := range slices.Sorted(maps.Keys(affected)) {
		if err := server.Recovered(func() error { return l.publishFleet(fleet, outcome.Updates[fleet]) }); err != nil {
			failed = errors.Join(failed, fmt.Errorf("fleet %s: %w", fleet, err))
		}
	}
	if proxiesChanged {
		l.publisher.Assign(l.proxies)
	}
	return outcome, withCertificate, failed
}

// resolveChanges resolves a change, or all objects if there is no state of a previous pass.
func (l *Loop) resolveChanges(batch changes) (outcome resolve.Outcome, withCertificate map[model.Key]struct{}) {
	change := batch.routing
	if l.resolver == nil {
		l.resolver = resolve.NewResolver(l.resolve, l.publishedRoutes())
		change = l.fullChange()
		l.certificates.ResetHosts()
	}
	if change.Frozen = l.quarantine.freeze(); l.quarantine.isFallback {
		for key := range l.quarantine.objects {
			delete(change.ScaledObjects, key)
		}
	}
	outcome = l.resolver.Update(change)
	return outcome, l.certificates.Update(outcome.Updates, batch.secrets)
}

// addKeys adds the keys of a map to a set.
func addKeys[K comparable, V any](keys map[K]struct{}, from map[K]V) {
	for key := range from {
		keys[key] = struct{}{}
	}
}

// mergeProxies returns the proxies of all fleets with those of the changed fleets replaced. If isAll is true, there
// are no other fleets.
func (l *Loop) mergeProxies(changed map[model.Fleet][]model.Proxy, isAll bool) map[model.Fleet][]model.Proxy {
	proxies := map[model.Fleet][]model.Proxy{}
	if !isAll {
		maps.Copy(proxies, l.proxies)
	}
	for fleet, members := range changed {
		if proxies[fleet] = members; members == nil {
			delete(proxies, fleet)
		}
	}
	return proxies
}

// publishFleet translates and publishes an update of one fleet, or the whole fleet if there is no state of a previous
// pass. It removes a fleet that has neither objects nor proxies.
func (l *Loop) publishFleet(fleet model.Fleet, update model.Update) error {
	translator := l.fleets[fleet]
	isWhole := translator == nil
	if isWhole {
		var err error
		if translator, err = l.newTranslator(); err != nil {
			return err
		}
	}
	if isWhole || !update.IsEmpty() {
		translated, err := translator.Update(update)
		if err != nil {
			return err
		}
		if err = l.publisher.Publish(fleet, translated, isWhole); err != nil {
			return err
		}
		l.fleets[fleet] = translator
	}
	if translator.IsEmpty() && len(l.proxies[fleet]) == 0 {
		delete(l.fleets, fleet)
		l.publisher.Retire(fleet)
	}
	return nil
}

// reset discards the state of previous passes, so that the next pass rebuilds everything. It returns the old
// resolver, which can still look up Services.
func (l *Loop) reset() *resolve.Resolver {
	resolver := l.resolver
	l.resolver = nil
	clear(l.quarantine.frozen)
	for fleet := range l.fleets {
		l.fleets[fleet] = nil
	}
	return resolver
}

// publishBestEffort publishes as much as possible of the full configuration after an error, which is a bug. The next
// pass rebuilds everything. The returned error lists what could not be published.
func (l *Loop) publishBestEffort(ctx context.Context, batch changes) (map[model.Key]Object, error) {
	resolver := l.reset()
	inputs := resolve.Inputs{
		ScaledObjects:  slices.Collect(maps.Values(l.mergeObjects())),
		Services:       slices.Collect(maps.Values(merge(l.services))),
		EndpointSlices: slices.Collect(maps.Values(merge(l.slices))),
		EnvoySettings:  l.envoySettings.active,
		ConfigMaps:     l.allBodies(),
		Options:        l.resolve,
		Published:      model.Config{Routes: l.publishedRoutes()},
	}
	inputs.Published.Services = inputs.Endpoints(inputs.Published.Routes)
	config, all, err := l.resolveAll(ctx, inputs)
	if err != nil {
		l.reportFailure(ctx, stageResolve, err)
		config = inputs.Published
	}
	l.proxies = inputs.Proxies()
	published, failures := l.publishFleetsBestEffort(ctx, config, inputs.Published)
	l.publisher.Assign(l.proxies)
	problems := map[model.Key][]model.Problem{}
	for _, problem := range all {
		problems[problem.On] = append(problems[problem.On], problem)
	}
	keys := make(map[model.Key]struct{}, len(l.objects))
	addKeys(keys, l.objects)
	addKeys(keys, batch.scaledObjects)
	objects := l.updateObjects(ctx, keys, batch.scaledObjects, resolver,
		func(key model.Key, tracked *trackedObject) (model.Config, error) {
			tracked.setProblems(problems[key])
			tracked.published = published[key].Routes
			if tracked.object == nil {
				return model.Config{}, nil
			}
			return published[key], errors.Join(failures.fleets[l.fleetOf(*tracked)], failures.objects[key])
		})
	return objects, errors.Join(slices.Collect(maps.Values(failures.fleets))...)
}

// failures are the publication errors by fleet and by object.
type failures struct {
	fleets  map[model.Fleet]error
	objects map[model.Key]error
}

// publishFleetsBestEffort publishes as much as possible of config, fleet by fleet. before is the published Config. It
// returns the Config that is published afterwards, by object.
func (l *Loop) publishFleetsBestEffort(
	ctx context.Context, config, before model.Config,
) (published map[model.Key]model.Config, failed failures) {
	failed = failures{fleets: map[model.Fleet]error{}}
	desired, previous := model.ByFleet(config), model.ByFleet(before)
	fleets := map[model.Fleet]struct{}{}
	addKeys(fleets, desired)
	addKeys(fleets, l.proxies)
	addKeys(fleets, l.fleets)
	published = map[model.Key]model.Config{}
	for _, fleet := range slices.Sorted(maps.Keys(fleets)) {
		config := desired[fleet]
		config.Certificates = l.certificates.ForFleet(fleet)
		quarantined := l.quarantinedIn(previous[fleet], config)
		resources, applied, failedObjects, err := translateAll(l.translateSafely, config, previous[fleet], quarantined)
		for key, failure := range failedObjects {
			if quarantined[key] == nil {
				l.addToQuarantine(ctx, stageTranslate, key, failure)
			}
		}
		if err != nil {
			l.reportFailure(ctx, stageTranslate, err, "fleet", fleet)
		} else if err = l.publishAll(fleet, resources); err != nil {
			l.reportFailure(ctx, stagePublish, err, "fleet", fleet)
			applied = previous[fleet]
		} else {
			l.fleets[fleet] = nil
		}
		failed.fleets[fleet] = err
		maps.Copy(published, configByObject(applied))
	}
	failed.objects = l.quarantine.objects
	l.quarantine.forget()
	return published, failed
}

// quarantinedIn returns the objects in quarantine that have Routes in a Config.
func (l *Loop) quarantinedIn(configs ...model.Config) map[model.Key]error {
	quarantined := map[model.Key]error{}
	for _, config := range configs {
		for _, route := range config.Routes {
			if failure := l.quarantine.objects[route.Owner]; failure != nil {
				quarantined[route.Owner] = failure
			}
		}
	}
	return quarantined
}

// translateSafely translates a Config. A panic is an error.
func (l *Loop) translateSafely(config model.Config) (resources translate.Resources, err error) {
	err = server.Recovered(func() error {
		resources, err = l.envoy(config)
		return err
	})
	return resources, err
}

// publishAll publishes all resources of a fleet. A panic is an error.
func (l *Loop) publishAll(fleet model.Fleet, resources translate.Resources) error {
	return server.Recovered(func() error {
		return l.publisher.Publish(fleet, translate.Update{Changed: resources}, true)
	})
}
