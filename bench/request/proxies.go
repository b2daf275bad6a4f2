package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/kedify/argo-rollouts-plugin/bench/internal/bareserver"
	"github.com/kedify/argo-rollouts-plugin/bench/internal/process"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/model/affinity"
	"github.com/kedify/argo-rollouts-plugin/test/kit/envoyproc"
)

// proxy is an Envoy with its discovery server.
type proxy struct {
	server *bareserver.Server
	envoy  *envoyproc.Envoy
	at     process.Folder
}

// proxies are the compared ones:
//
//   - ours is configured as kedify-proxy is, with apps that may be at zero
//   - unheld is configured alike, but queues no request
//   - sticky is ours with a sticky canary, and session is ours with session affinity, both by a cookie
//   - plain and control have a plain table
type proxies struct{ ours, unheld, sticky, session, plain, control proxy }

// all returns all of them.
func (p *proxies) all() []*proxy {
	return []*proxy{&p.ours, &p.unheld, &p.sticky, &p.session, &p.plain, &p.control}
}

// startProxies starts all of them. After an error the result contains the running ones.
func startProxies(ctx context.Context, chosen options, folder string, behind app) (all proxies, err error) {
	byCookie, err := affinity.Parse("cookie: {}")
	if err != nil {
		return proxies{}, err
	}
	unheld := translate.DefaultOptions()
	unheld.AccessLog = false
	held := func(socket string) translate.Options {
		options := unheld
		// Nothing listens there: the apps are awake, so there are no calls. The proxies of a machine share its abstract
		// sockets.
		options.Hold = translate.Hold{Checks: behind.at, Socket: translate.DefaultHoldSocket + "-bench-request-" + socket}
		return options
	}
	none := affinity.Key{}
	for _, start := range []struct {
		of                  *proxy
		options             translate.Options
		stickiness, session affinity.Key
		isPlain             bool
	}{
		{&all.ours, held("ours"), none, none, false},
		{&all.unheld, unheld, none, none, false},
		{&all.sticky, held("sticky"), byCookie, none, false},
		{&all.session, held("session"), none, byCookie, false},
		{&all.plain, unheld, none, none, true},
		{&all.control, unheld, none, none, true},
	} {
		served, err := start.options.Envoy(configOf(chosen.hosts, behind.at, start.stickiness, start.session))
		if err == nil && start.isPlain {
			served, err = plainTable(served)
		}
		if err != nil {
			return all, err
		}
		if err := start.of.start(ctx, chosen, folder, served); err != nil {
			return all, err
		}
	}
	return all, nil
}

// start starts a proxy that receives the resources.
func (p *proxy) start(ctx context.Context, chosen options, folder string, resources translate.Resources) (err error) {
	if p.server, err = bareserver.Start(ctx); err != nil {
		return err
	}
	if err := p.server.SetForms(resources); err != nil {
		return err
	}
	configured := bareserver.Proxy{
		Binary: chosen.envoy, Repository: chosen.repo, Folder: folder, Discovery: p.server.Address,
	}
	if p.envoy, err = configured.Start(ctx); err != nil {
		return err
	}
	p.at, err = process.Find(p.envoy.PID())
	return err
}

// stop stops all that were started.
func (p *proxies) stop() error {
	var errs error
	for _, next := range p.all() {
		if next.envoy != nil {
			errs = errors.Join(errs, next.envoy.Kill())
		}
		if next.server != nil {
			next.server.Stop()
		}
	}
	return errs
}

// compare sends blocks of requests of one kind to the proxies in turn, starting each round with another one, and stores
// the cost of a request in each. The first two rounds warm up.
func (p *proxies) compare(ctx context.Context, kind kind, chosen options) (line, error) {
	const warmUp = 2
	found := line{Kind: kind}
	turns := []struct {
		of   *proxy
		cost *[]float64
	}{
		{&p.ours, &found.ours},
		{&p.unheld, &found.unheld},
		{&p.sticky, &found.sticky},
		{&p.session, &found.session},
		{&p.plain, &found.plain},
		{&p.control, &found.control},
	}
	loads := make([]*load, len(turns))
	for i, turn := range turns {
		address := turn.of.server.Proxy.String()
		var err error
		if loads[i], err = dial(ctx, address, kind, chosen.hosts); err != nil {
			return line{}, err
		}
		defer loads[i].close()
	}
	for round := range warmUp + chosen.blocks {
		for i := range turns {
			if round%2 == 1 {
				i = len(turns) - 1 - i // Each proxy follows each other one equally often.
			}
			i = (i + round) % len(turns)
			cost, err := turns[i].of.block(loads[i], chosen.requests)
			if err != nil {
				return line{}, err
			}
			if round >= warmUp {
				*turns[i].cost = append(*turns[i].cost, cost)
			}
		}
	}
	return found, ctx.Err()
}

// block returns the cost of a request in the proxy, in microseconds of processor time.
func (p *proxy) block(through *load, requests int) (float64, error) {
	before, err := p.at.CPU()
	if err != nil {
		return 0, err
	}
	if err := through.send(requests); err != nil {
		return 0, fmt.Errorf("requests: %w", err)
	}
	after, err := p.at.CPU()
	return (after - before) / float64(requests), err
}
