package gatewayapi

import (
	"context"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/apiserver"
	"github.com/kedify/argo-rollouts-plugin/internal/router/gatewayapi/route"
)

const (
	// retireWait is how long managed rules that are retired wait for the word of the Gateways.
	retireWait = time.Second
	// retireGrace is how long the proxies may then need to follow it: Envoy Gateway 1.9.1 was seen to
	// need 44 ms on a machine with little to spare.
	retireGrace = 500 * time.Millisecond
)

// write writes content into the route that was read, after retired, which is nil where no rule has to be retired.
func (t *target) write(ctx context.Context, read *object, retired, content map[string]any) error {
	if retired == nil {
		return t.client.put(ctx, t.kind, read, content)
	}
	if err := t.client.put(ctx, t.kind, read, retired); err != nil {
		return err
	}
	t.log.InfoContext(ctx, "managed rules retired", "rollout", t.rollout, "route", t.String())
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

// awaitProxies lets managed rules that are about to go match no request any more, where a Gateway would otherwise lose requests under way to them: it waits until
// the Gateways have accepted the route, for a second at most, and then until their proxies follow it. Without it the last requests of a header route were
// answered with 503 by Envoy Gateway now and then. It returns the route as it is then.
func (t *target) awaitProxies(ctx context.Context) (*object, error) {
	written, err := t.Read(ctx)
	if err != nil {
		return nil, err
	}
	_, _, err = t.client.caches[t.kind].Await(ctx, t.name, written, retireWait, t.Read, func(o *object) bool {
		accepted, _ := route.Accepted(o.content)
		return accepted
	})
	if err != nil {
		return nil, err
	}
	if !apiserver.Sleep(ctx, retireGrace) {
		return nil, ctx.Err()
	}
	return t.Read(ctx)
}
