package ingest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/observation"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// fleetOf is the fleet that serves an object.
func (l *Loop) fleetOf(is known) model.Fleet {
	if len(is.inForce) > 0 {
		return is.inForce[0].Fleet
	}
	return l.resolve.FleetOf(is.object)
}

// advance resolves, translates and publishes a change; everything when nothing is remembered. What is
// remembered is of no use after an error, but for looking up Services. certified are the objects of
// which something may be new about their certificates.
func (l *Loop) advance(found found) (outcome resolve.Outcome, certified map[model.Key]struct{}, failed error) {
	change := found.change
	isFirst := l.resolver == nil
	if isFirst {
		l.resolver = resolve.NewResolver(l.resolve, l.inForce())
		change = l.everything()
		l.certificates.ForgetHosts()
	}
	outcome = l.resolver.Update(change)
	certified = l.certificates.Update(outcome.Updates, found.secrets)
	concerned := map[model.Fleet]struct{}{}
	addKeys(concerned, outcome.Updates)
	addKeys(concerned, outcome.Proxies)
	if isFirst {
		addKeys(concerned, l.fleets)
	}
	areOthers := isFirst || len(outcome.Proxies) > 0
	if areOthers {
		l.proxies = l.withProxies(outcome.Proxies, isFirst)
	}
	for _, fleet := range slices.Sorted(maps.Keys(concerned)) {
		if err := l.advanceFleet(fleet, outcome.Updates[fleet]); err != nil {
			failed = errors.Join(failed, fmt.Errorf("fleet %s: %w", fleet, err))
		}
	}
	if areOthers {
		l.publisher.Assign(l.proxies)
	}
	return outcome, certified, failed
}

// addKeys adds the keys of a map to a set.
func addKeys[K comparable, V any](keys map[K]struct{}, of map[K]V) {
	for key := range of {
		keys[key] = struct{}{}
	}
}

// withProxies returns the proxies of all fleets, with those of the fleets that changed; isAll says
// that there are no others.
func (l *Loop) withProxies(changed map[model.Fleet][]model.Proxy, isAll bool) map[model.Fleet][]model.Proxy {
	proxies := map[model.Fleet][]model.Proxy{}
	if !isAll {
		maps.Copy(proxies, l.proxies)
	}
	for fleet, own := range changed {
		if proxies[fleet] = own; len(own) == 0 {
			delete(proxies, fleet)
		}
	}
	return proxies
}

// advanceFleet translates and publishes what is new in one fleet: all of it when nothing is remembered
// of it. A fleet that has neither objects nor proxies any more is forgotten.
func (l *Loop) advanceFleet(fleet model.Fleet, update model.Update) error {
	translator := l.fleets[fleet]
	isWhole := translator == nil
	if isWhole {
		var err error
		if translator, err = translate.NewTranslator(l.translate); err != nil {
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
		l.index.put(fleet, update.Hosts, isWhole)
	}
	if translator.IsEmpty() && len(l.proxies[fleet]) == 0 {
		delete(l.fleets, fleet)
		l.publisher.Retire(fleet)
	}
	return nil
}

// forget has the next pass begin anew. It returns what knows the Services until then.
func (l *Loop) forget() *resolve.Resolver {
	resolver := l.resolver
	l.resolver = nil
	for fleet := range l.fleets {
		l.fleets[fleet] = nil
	}
	return resolver
}

// salvage publishes as much as it can of the whole world, after an error that is a bug. The next pass
// begins anew. The error says what could not be published.
func (l *Loop) salvage(ctx context.Context, found found) (map[model.Key]observation.Object, error) {
	resolver := l.forget()
	world := resolve.World{
		ScaledObjects:  slices.Collect(maps.Values(merge(l.scaledObjects))),
		Services:       slices.Collect(maps.Values(merge(l.services))),
		EndpointSlices: slices.Collect(maps.Values(merge(l.slices))),
		Tunings:        l.tuned.inForce,
		Options:        l.resolve,
		InForce:        model.Config{Routes: l.inForce()},
	}
	world.InForce.Services = world.Endpoints(world.InForce.Routes)
	config, mistakes := resolve.Build(world)
	inForce, failures := l.salvageFleets(ctx, config, world.InForce)
	problems := map[model.Key][]model.Problem{}
	for _, mistake := range mistakes {
		problems[mistake.On] = append(problems[mistake.On], mistake)
	}
	keys := make(map[model.Key]struct{}, len(l.objects))
	addKeys(keys, l.objects)
	addKeys(keys, found.scaledObjects)
	told := l.tell(keys, found.scaledObjects, resolver, func(key model.Key, is *known) (model.Config, error) {
		is.problems = problems[key]
		is.inForce = inForce[key].Routes
		if is.object == nil {
			return model.Config{}, nil
		}
		return inForce[key], errors.Join(failures.ofFleet[l.fleetOf(*is)], failures.ofObject[key])
	})
	return told, errors.Join(slices.Collect(maps.Values(failures.ofFleet))...)
}

// failures say what could not be published, and why.
type failures struct {
	ofFleet  map[model.Fleet]error
	ofObject map[model.Key]error
}

// salvageFleets publishes as much as it can of config, fleet by fleet. It returns what is in force
// then, by object. before is what was.
func (l *Loop) salvageFleets(
	ctx context.Context, config, before model.Config,
) (inForce map[model.Key]model.Config, failed failures) {
	failed = failures{map[model.Fleet]error{}, map[model.Key]error{}}
	asked, had := model.ByFleet(config), model.ByFleet(before)
	fleets := map[model.Fleet]struct{}{}
	addKeys(fleets, asked)
	addKeys(fleets, l.proxies)
	addKeys(fleets, l.fleets)
	inForce = map[model.Key]model.Config{}
	for _, fleet := range slices.Sorted(maps.Keys(fleets)) {
		config := asked[fleet]
		config.Certificates = l.certificates.OfFleet(fleet)
		resources, published, blamed, err := translateAll(l.translate.Envoy, config, had[fleet])
		for key, failure := range blamed {
			l.fail(ctx, "translate", failure, "fleet", fleet, "httpScaledObject", key)
			failed.ofObject[key] = failure
		}
		if err != nil {
			l.fail(ctx, "translate", err, "fleet", fleet)
		} else if err = l.publisher.Publish(fleet, translate.Update{Changed: resources}, true); err != nil {
			l.fail(ctx, "publish", err, "fleet", fleet)
			published = had[fleet]
		} else {
			l.fleets[fleet] = nil
			l.index.put(fleet, byHost(published.Routes), true)
		}
		failed.ofFleet[fleet] = err
		maps.Copy(inForce, byObject(published))
	}
	return inForce, failed
}
