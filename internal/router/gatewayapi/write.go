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

// write writes content to the route. If staged is not nil, it writes that first.
func (t *target) write(ctx context.Context, staged, content map[string]any) error {
	if staged == nil {
		return t.update(ctx, content)
	}
	if _, err := t.put(ctx, staged); err != nil {
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
	return t.update(ctx, content)
}

// update writes the route. After the last Rollout on it has ended, it also releases the fields.
func (t *target) update(ctx context.Context, content map[string]any) error {
	stored, err := t.put(ctx, content)
	if err == nil {
		t.release(ctx, stored)
	}
	return err
}

// put writes content to the route and returns the stored route in JSON. If the API server does not know the Rollout's
// sessions, because the CustomResourceDefinition was replaced since its schema was read, or the schema may not be read,
// it rejects the write. Then put plans and writes the change without sessions, which is an error if weights rise.
func (t *target) put(ctx context.Context, content map[string]any) ([]byte, error) {
	if !t.intent.SplitsSessions() {
		return t.client.update(ctx, t.kind, t.name, content, dropUnknown)
	}
	stored, err := t.client.update(ctx, t.kind, t.name, content, rejectUnknown)
	if !isUnknownSession(err) {
		return stored, err
	}
	t.client.catalog.invalidate(t.kind)
	return t.putWithoutSessions(ctx)
}

// putWithoutSessions is put for a CustomResourceDefinition without sessions.
func (t *target) putWithoutSessions(ctx context.Context) ([]byte, error) {
	live, err := t.GetLive(ctx)
	if err != nil {
		return nil, err
	}
	intent, err := t.completeIntent(ctx)
	if err != nil {
		return nil, err
	}
	intent.HasSessions = false
	content, report, err := t.apply(ctx, live, &intent)
	if err != nil {
		return nil, err
	}
	t.log.WarnContext(ctx, "writing weights without the sessions", "rollout", t.rollout, "route", t.String(), "error",
		report.SessionError)
	if !report.Changed {
		return nil, nil
	}
	return t.client.update(ctx, t.kind, t.name, content, dropUnknown)
}

// release makes this router own no field of the route if no Rollout is active on it. document is the route in JSON; nil
// means the one in the API server, and so does a conflict, such as with a Gateway that reports the status. An error is
// only logged, because weights do not depend on it: the next plan tries again.
func (t *target) release(ctx context.Context, document []byte) {
	err := kube.Retry(ctx, func(ctx context.Context) (err error) {
		if document == nil {
			if document, err = t.client.read(ctx, t.kind, t.name); err != nil {
				return err
			}
		}
		current := document
		document = nil
		return t.client.release(ctx, t.kind, current)
	})
	if err != nil {
		t.log.WarnContext(ctx, "the router still owns fields of the route (metadata.managedFields)", "rollout", t.rollout,
			"route", t.String(), "error", err)
	}
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
