package autowire

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/e2e/testbed"
	"github.com/kedify/argo-rollouts-plugin/test/load"
)

// kills is how often one of two proxies is killed while requests are retried.
const kills = 3

// TestRetries kills proxies under load, without and with the retries of docs/how-to/autowire-retries.md. With them no
// request fails if one proxy remains. If none remains, a request fails that has no attempt left before a proxy is ready
// again: an Ingress controller sends its attempts to the proxies even after the Ingress was restored.
func TestRetries(t *testing.T) {
	w, node := launchToKill(t)
	if ingress(t).addon == "traefik" {
		w.middlewares(t)
	}
	killOne := func() {
		before := w.restarts(t)
		w.kill(t, node, 1)
		w.awaitRestarts(t, before, 1)
	}
	w.step(t, "a ScaledObject comes, and a proxy", proxied, eventually, 0, func() { w.applyScaledObject(t) })
	w.step(t, "scaled out to two", proxied, immediately, 0, func() { w.replicas(t, 2) })
	// No proxy retries the requests to the killed one until it is ready again.
	w.repeatVoid(t, func() bool { return w.step(t, "kill -9 of one of two", proxied, immediately, gap, killOne) })
	w.step(t, "requests are retried", proxied, immediately, 0, func() { w.retry(t) })
	for range kills {
		w.step(t, "kill -9 of one of two, retried", proxied, immediately, 0, killOne)
	}
	w.repeatVoid(t, func() (isVoid bool) {
		if isVoid = w.step(t, "kill -9 of all, retried", direct, eventually, killed, func() { w.kill(t, node, 2) }); isVoid {
			w.step(t, "two are there again", proxied, eventually, 0, func() { w.replicas(t, 2) })
		}
		return isVoid
	})
}

// restarts returns the restart counts of the proxies' containers, by Pod.
func (w *environment) restarts(t *testing.T) map[string]string {
	t.Helper()
	states := map[string]string{}
	for line := range strings.Lines(w.Do(t, "get", "pods", "-l", "app=kedify-proxy", "-o",
		`jsonpath={range .items[*]}{.metadata.name} {.status.containerStatuses[0].restartCount} {.status.containerStatuses[0].ready}{"\n"}{end}`)) {
		if name, state, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			states[name] = state
		}
	}
	return states
}

// awaitRestarts waits until n proxies have restarted and all are ready.
func (w *environment) awaitRestarts(t *testing.T, before map[string]string, n int) {
	t.Helper()
	w.until(t, "killed proxies are ready again", "ready", func() string {
		others := 0
		for name, state := range w.restarts(t) {
			if !strings.HasSuffix(state, "true") {
				return name + " is not ready"
			}
			if state != before[name] {
				others++
			}
		}
		if others != n {
			return "no proxy was started again"
		}
		return "ready"
	})
}

// retry enables retries in both fronts, as documented in docs/how-to/autowire-retries.md.
func (w *environment) retry(t *testing.T) {
	t.Helper()
	commands := w.recipe(t, "sh "+ingress(t).addon+"-retries")
	w.runCommands(t, strings.ReplaceAll(commands, "shop-retry@kubernetescrd", middleware+"@file"))
	w.apply(t, strings.ReplaceAll(w.recipe(t, "yaml envoy-gateway-retries"), "name: shop", "name: rollouts-demo"))
	w.Do(t, "wait", "backendtrafficpolicy/rollouts-demo",
		`--for=jsonpath={.status.ancestors[0].conditions[?(@.type=="Accepted")].status}=True`)
}

// middleware is the name of the documented Middleware in Traefik's file provider.
const middleware = "retry"

// middlewares configures the documented Middleware in a file that Traefik reads at its start. The cluster has none of
// Traefik's CRDs.
func (w *environment) middlewares(t *testing.T) {
	t.Helper()
	var documented struct {
		Spec map[string]any `json:"spec"`
	}
	if err := yaml.Unmarshal([]byte(w.recipe(t, "yaml traefik-retries")), &documented); err != nil {
		t.Fatal(err)
	}
	text, err := yaml.Marshal(map[string]any{
		"http": map[string]any{"middlewares": map[string]any{middleware: documented.Spec}},
	})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "middlewares.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	w.Do(t, "create", "-n", "traefik", "configmap", "dynamic", "--from-file="+file)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), testbed.CommandTimeout())
		defer cancel()
		if _, err := w.Run(ctx, "kubectl", "delete", "-n", "traefik", "configmap", "dynamic"); err != nil {
			t.Error(err)
		}
	})
	w.restart(t, "traefik", "deployment/traefik")
	w.until(t, "the number of Traefik's Pods", "1", func() string {
		return strconv.Itoa(len(strings.Fields(w.Do(t, "get", "pods", "-n", "traefik", "-l", "app=traefik", "-o", "name"))))
	})
	// The Service still routes to the terminated Pod for a moment.
	answers := 0
	w.until(t, "answers in a row", "100", func() string {
		if _, err := load.Probe(t.Context(), w.load(fronts()[0])); err != nil {
			answers = 0
			return err.Error()
		}
		answers++
		return strconv.Itoa(answers)
	})
}
