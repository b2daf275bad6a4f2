package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/kedify/argo-rollouts-plugin/bench/internal/bareserver"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/model/affinity"
	"github.com/kedify/argo-rollouts-plugin/test/kit/envoyproc"
	"github.com/kedify/argo-rollouts-plugin/test/kit/process"
)

// proxy is an Envoy with its discovery server.
type proxy struct {
	server *bareserver.Server
	envoy  *envoyproc.Envoy
	at     process.Folder
}

// proxies are the Envoys that the benchmark compares:
//
//   - ours has the configuration of kedify-proxy, with applications that may be at zero
//   - unqueued has the same configuration without the queue
//   - sticky is ours with a sticky canary, and session is ours with session affinity, both by a cookie
//   - plain and control have one plain route table
type proxies struct{ ours, unqueued, sticky, session, plain, control proxy }

// all returns all proxies, started or not.
func (p *proxies) all() []*proxy {
	return []*proxy{&p.ours, &p.unqueued, &p.sticky, &p.session, &p.plain, &p.control}
}

// startProxies starts all of them. After an error the result contains the running ones.
func startProxies(ctx context.Context, chosen options, folder string, behind app) (all proxies, err error) {
	byCookie, err := affinity.Parse("cookie: {}")
	if err != nil {
		return proxies{}, err
	}
	unqueued := translate.DefaultOptions()
	unqueued.AccessLog = false
	queued := func(socket string) translate.Options {
		options := unqueued
		// No server listens on these addresses: the applications have endpoints, so there are no calls. Each proxy needs a
		// name of its own, because abstract sockets are shared by the processes of a machine.
		options.Hold = translate.Hold{Checks: behind.at, Socket: translate.DefaultHoldSocket + "-bench-request-" + socket}
		return options
	}
	none := affinity.Key{}
	for _, start := range []struct {
		proxy               *proxy
		options             translate.Options
		stickiness, session affinity.Key
		isPlain             bool
	}{
		{&all.ours, queued("ours"), none, none, false},
		{&all.unqueued, unqueued, none, none, false},
		{&all.sticky, queued("sticky"), byCookie, none, false},
		{&all.session, queued("session"), none, byCookie, false},
		{&all.plain, unqueued, none, none, true},
		{&all.control, unqueued, none, none, true},
	} {
		served, err := start.options.Envoy(configOf(chosen.hosts, behind.at, start.stickiness, start.session))
		if err == nil && start.isPlain {
			served, err = plainTable(served)
		}
		if err != nil {
			return all, err
		}
		if err := start.proxy.start(ctx, chosen, folder, served); err != nil {
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
	result := line{Kind: kind}
	turns := []struct {
		proxy *proxy
		cost  *[]float64
	}{
		{&p.ours, &result.ours},
		{&p.unqueued, &result.unqueued},
		{&p.sticky, &result.sticky},
		{&p.session, &result.session},
		{&p.plain, &result.plain},
		{&p.control, &result.control},
	}
	loads := make([]*load, len(turns))
	for i, turn := range turns {
		address := turn.proxy.server.Proxy.String()
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
			cost, err := turns[i].proxy.block(loads[i], chosen.requests)
			if err != nil {
				return line{}, err
			}
			if round >= warmUp {
				*turns[i].cost = append(*turns[i].cost, cost)
			}
		}
	}
	return result, ctx.Err()
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
