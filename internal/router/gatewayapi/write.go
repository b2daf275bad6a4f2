package gatewayapi

import (
	"context"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/router/gatewayapi/route"
)

const (
	// betweenWait is how long managed rules that come or go wait for the word of the Gateways.
	betweenWait = time.Second
	// betweenGrace is how long the proxies may then need to follow it: Envoy Gateway 1.9.1 was seen to
	// need 44 ms on a machine with little to spare.
	betweenGrace = 500 * time.Millisecond
)

// write writes content into the route that was read, after between, which is nil where content can be written at once.
func (t *target) write(ctx context.Context, read *object, between, content map[string]any) error {
	if between == nil {
		return t.client.put(ctx, t.kind, read, content)
	}
	if err := t.client.put(ctx, t.kind, read, between); err != nil {
		return err
	}
	t.log.InfoContext(ctx, "managed rules come or go for nobody at first", "rollout", t.rollout, "route", t.String())
	written, err := t.awaitProxies(ctx)
	if err != nil {
		return err
	}
	asked, err := t.intent(ctx)
	if err != nil {
		return err
	}
	content, report, err := t.apply(ctx, written, &asked)
	if err != nil || !report.Changed {
		return err
	}
	return t.client.put(ctx, t.kind, written, content)
}

// awaitProxies waits until the Gateways have accepted the route, for a second at most, and then until their proxies follow it. Without it the first requests of a
// header route, and its last ones, were answered with 503 by Envoy Gateway now and then. It returns the route as it is then.
func (t *target) awaitProxies(ctx context.Context) (*object, error) {
	written, err := t.Read(ctx)
	if err != nil {
		return nil, err
	}
	_, _, err = t.client.caches[t.kind].Await(ctx, t.name, written, betweenWait, t.Read, func(o *object) bool {
		accepted, _ := route.Accepted(o.content)
		return accepted
	})
	if err != nil {
		return nil, err
	}
	if !kube.Sleep(ctx, betweenGrace) {
		return nil, ctx.Err()
	}
	return t.Read(ctx)
}
