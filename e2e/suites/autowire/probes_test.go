package autowire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/invariant"
	"github.com/kedify/argo-rollouts-plugin/test/load"
)

const (
	// stays is how long the app must stay at zero.
	stays = 30 * time.Second
	// every is the pause between two rounds of probes.
	every = 250 * time.Millisecond
	// probePath is the path on which the proxy answers health checks of the app.
	probePath = "/healthz"
)

// probe is a health check of a load balancer through a front.
type probe struct{ address, host, path, agent string }

// TestProbes sends health checks of load balancers all the time, for the app's host on the path that the proxy answers,
// and for an unknown host, through the Ingress controller and the Gateway. Each gets a response. The app scales to zero
// nevertheless and stays there, and a request wakes it.
func TestProbes(t *testing.T) {
	w := launch(t)
	w.Do(t, "create", "ingress", "probes", "--default-backend=rollouts-demo-stable:80")
	w.step(t, "a ScaledObject comes, and a proxy", proxied, eventually, 0, func() {
		w.applyScaledObject(t, "minReplicaCount: 2", "minReplicaCount: 0\n  cooldownPeriod: 10",
			"trafficAutowire: ingress", "trafficAutowire: "+allKinds()+
				"\n        healthcheckPath: "+probePath+"\n        healthcheckResponse: static")
	})
	w.until(t, "the Ingress for probes is wired", proxied, func() string {
		return w.Do(t, "get", "ingress/probes", "-o", "jsonpath={.spec.defaultBackend.service.name}")
	})
	replicas := func() string { return w.Do(t, "get", "rollout/rollouts-demo", "-o", "jsonpath={.spec.replicas}") }
	began := time.Now()
	stop := w.probe(t)
	w.until(t, "the app is at zero", "0", replicas)
	t.Logf("the app is at zero after %.0f s", time.Since(began).Seconds())
	//testbounds:allow how long the app must stay at zero
	<-time.After(stays)
	if got := replicas(); got != "0" {
		t.Errorf("probes have woken the app: %s replicas", got)
	}
	asked, failed := stop()
	t.Logf("%d of %d probes failed: %v", len(failed), asked, errors.Join(failed...))
	if len(failed) > 0 {
		invariant.Broken(t, invariant.FailedRequests, "%d of %d probes", len(failed), asked)
	}
	waking := w.load(fronts()[0])
	if color, err := load.Probe(t.Context(), waking); err != nil || color != "blue" {
		t.Errorf("a request that is to wake the app: %q, %v", color, err)
	}
}

// probe sends health checks until stop is called. stop returns the number of checks and the errors of the failed ones.
func (w *environment) probe(t *testing.T) (stop func() (asked int, failed []error)) {
	t.Helper()
	var all []probe
	for _, agent := range []string{"ELB-HealthChecker/2.0", "GoogleHC/1.0", "kube-probe/1.34"} {
		for _, front := range fronts() {
			all = append(all, probe{w.Addresses[front.name], host, probePath, agent})
		}
		all = append(all, probe{w.Addresses[fronts()[0].name], "10.20.30.40", "/", agent})
	}
	client := &http.Client{Timeout: await.Patience(), Transport: new(http.Transport)}
	ctx, cancel := context.WithCancel(t.Context())
	var lock sync.Mutex
	var asked int
	var failed []error
	var running sync.WaitGroup
	for _, p := range all {
		running.Go(func() {
			ticks := time.NewTicker(every)
			defer ticks.Stop()
			for ctx.Err() == nil {
				err := p.ask(context.WithoutCancel(ctx), client)
				lock.Lock()
				asked++
				if err != nil {
					failed = append(failed, err)
				}
				lock.Unlock()
				select {
				case <-ctx.Done():
				case <-ticks.C:
				}
			}
		})
	}
	return func() (int, []error) {
		cancel()
		running.Wait()
		client.CloseIdleConnections()
		return asked, failed
	}
}

// ask sends a probe. The response must come from the proxy.
func (p probe) ask(ctx context.Context, client *http.Client) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.address+p.path, http.NoBody)
	if err != nil {
		return err
	}
	request.Host = p.host
	request.Header.Set("User-Agent", p.agent)
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("%s asks for %s: %w", p.agent, p.host, err)
	}
	_, err = io.Copy(io.Discard, response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return err
	}
	if by := response.Header.Get("X-Kedify-Reason"); response.StatusCode != http.StatusOK || by != "probe" {
		return fmt.Errorf("%s asks for %s: status %d, by %q", p.agent, p.host, response.StatusCode, by)
	}
	return nil
}
