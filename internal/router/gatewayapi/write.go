package gatewayapi

import (
	"context"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/router/gatewayapi/route"
)

const (
	// stagingTimeout is how long a staged change of managed rules waits for the Gateways to accept it.
	stagingTimeout = time.Second
	// proxyGracePeriod is the time for the proxies to apply it after that: Envoy Gateway 1.9.1 needed up to 44 ms on a
	// busy machine.
	proxyGracePeriod = 500 * time.Millisecond
)

// write writes content to the route that was read. If staged is not nil, it writes that first.
func (t *target) write(ctx context.Context, read *object, staged, content map[string]any) error {
	if staged == nil {
		return t.client.update(ctx, t.kind, read, content)
	}
	if err := t.client.update(ctx, t.kind, read, staged); err != nil {
		return err
	}
	t.log.InfoContext(ctx, "staging managed route change with a rule that matches no request", "rollout", t.rollout,
		"route", t.String())
	live, err := t.awaitProxies(ctx)
	if err != nil {
		return err
	}
	intent, err := t.completeIntent(ctx)
	if err != nil {
		return err
	}
	content, report, err := t.apply(ctx, live, &intent)
	if err != nil || !report.Changed {
		return err
	}
	return t.client.update(ctx, t.kind, live, content)
}

// awaitProxies waits until the Gateways have accepted the route, up to stagingTimeout, and then until their proxies
// have applied it. Without it, Envoy Gateway answered some of the first and last requests of a header route with 503.
// It returns the live route.
func (t *target) awaitProxies(ctx context.Context) (*object, error) {
	live, err := t.GetLive(ctx)
	if err != nil {
		return nil, err
	}
	_, _, err = t.client.caches[t.kind].Await(ctx, t.name, live, stagingTimeout, t.GetLive, func(o *object) bool {
		accepted, _ := route.Accepted(o.content)
		return accepted
	})
	if err != nil {
		return nil, err
	}
	if !kube.Sleep(ctx, proxyGracePeriod) {
		return nil, ctx.Err()
	}
	return t.GetLive(ctx)
}
