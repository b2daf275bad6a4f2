package canary

import (
	"context"
	"errors"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/e2e/testbed"
	"github.com/kedify/argo-rollouts-plugin/test/kit/invariant"
)

const (
	// clientRate is the number of requests per second of the client that calls the proxies' Service.
	clientRate = 50
	// clientSample is the number of its requests in a measurement.
	clientSample = 300
)

// clients are two applications in a Pod of the cluster, of which neither uses an Ingress: one calls Service
// kedify-proxy with the host of the application, the other the Service of the stable side.
type clients struct {
	proxied *testbed.Load
	direct  *testbed.Caller
}

// startClients starts both.
func startClients(t *testing.T, b *testbed.Testbed) clients {
	t.Helper()
	k := testbed.Kubectl{Cluster: b.Cluster, Namespace: testbed.Namespace}
	pod := k.StartClientPod(t, b.Inside, "canary-client")
	proxied, err := b.StartLoadFrom(t.Context(), pod, k.ServiceAddress(t, "kedify-proxy"), clientRate)
	if err != nil {
		t.Fatal(err)
	}
	return clients{proxied, b.CallStable(t, pod, k.ServiceAddress(t, testbed.App+"-stable"))}
}

// check checks that the canary answers the client of the proxies by its weight, and the other client never.
func (c clients) check(ctx context.Context, t *testing.T, stable, canary string, weight int) {
	t.Helper()
	err := c.proxied.Split(ctx, canary, weight, clientSample)
	switch {
	case errors.Is(err, testbed.ErrSplit):
		invariant.Broken(t, invariant.Split, "a Pod that calls Service kedify-proxy: %v", err)
	case err != nil:
		t.Error(err)
	default:
		t.Logf("a Pod that calls Service kedify-proxy: %d requests or more agree with %d %%", clientSample, weight)
	}
	c.direct.Check(ctx, t, stable)
}

// stop checks that no request failed.
func (c clients) stop(t *testing.T, stable string) {
	t.Helper()
	c.direct.Check(t.Context(), t, stable)
	tally, overload := c.proxied.Stop(nil)
	if overload != nil {
		t.Error(overload)
	}
	t.Logf("a Pod that calls Service kedify-proxy: %d requests, %d failed", tally.Sent, tally.Failed)
	if tally.Failed > 0 || tally.Sent == 0 {
		invariant.Broken(t, invariant.FailedRequests, "a Pod that calls Service kedify-proxy: %d of %d: %v", tally.Failed,
			tally.Sent, tally.Reasons)
	}
}
