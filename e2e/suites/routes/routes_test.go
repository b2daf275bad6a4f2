package routes

import (
	"fmt"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/test/load"
	"github.com/kedify/argo-rollouts-plugin/test/load/stats"
)

const (
	// rate is the number of requests per second of all users, testerRate that of those with the header.
	rate, testerRate = 100, 25
	// testersAsked, mirrored and shared are the numbers of requests in the measurements of the three.
	testersAsked, mirrored, shared = 150, 2000, 2000
	// workerUpdateDelay is the time from when the Rollout reports a step as reached to the first measured request. A
	// proxy's workers apply a route one after the other, and Envoy Gateway's status does not report their state.
	workerUpdateDelay = 2 * time.Second
	// mostSigmas is the maximum deviation of a measured share, in standard deviations. With ten measured shares, chance
	// exceeds it in one of 1500 runs.
	mostSigmas = 4
)

// The indexes of the measured steps of objects.yaml.
const (
	pauseWithHeader = 2
	pauseWithMirror = 5
	pauseAtLast     = 9
)

// TestRoutes runs the same canary with both routers, one after the other on one cluster.
func TestRoutes(t *testing.T) {
	w := launch(t)
	t.Run("kedify", func(t *testing.T) {
		r := w.install(t, "routes-kedify", "kedify/http: {httpScaledObjectName: web}", "kedify.yaml")
		r.kedifyProxy(t)
		r.runCanary(t)
	})
	t.Run("gatewayAPI", func(t *testing.T) {
		r := w.install(t, "routes-gateway", "argoproj-labs/gatewayAPI: {httpRoute: web}", "gateway.yaml")
		r.envoyGateway(t)
		r.runCanary(t)
		r.control(t)
	})
}

// runCanary runs the canary of objects.yaml under load and measures at its steps. No request may fail.
func (r *run) runCanary(t *testing.T) {
	t.Helper()
	r.awaitAnswers(t)
	everybody := r.send(t, "everybody", rate, nil)
	testers := r.send(t, "role: qa", testerRate, map[string]string{"role": "qa"})
	r.Do(t, "patch", "rollout", "web", "--type=merge", "-p",
		`{"spec":{"template":{"metadata":{"annotations":{"version":"2"}}}}}`)

	r.awaitPause(t, pauseWithHeader)
	from := time.Now().Add(workerUpdateDelay)
	r.checkAll(t, "role: qa at weight 0", testers, from, testersAsked, canary)
	r.checkAll(t, "everybody else meanwhile", everybody, from, testersAsked, stable)
	r.promote(t)

	r.awaitPause(t, pauseWithMirror)
	r.checkCopies(t, everybody, testers)
	r.promote(t)

	r.experiment(t)
	r.checkShares(t, everybody, map[role]float64{stable: 0.65, canary: 0.20, "a": 0.10, "b": 0.05})

	r.awaitPause(t, pauseAtLast)
	r.promote(t)
	r.awaitHealthy(t)
	r.checkAll(t, "everybody afterwards", everybody, time.Now().Add(workerUpdateDelay), testersAsked, stable)
}

// checkAll checks that Pods of one role respond to all of n requests from a moment on.
func (r *run) checkAll(t *testing.T, what string, client *load.Client, from time.Time, n int, want role) {
	t.Helper()
	awaitMeasured(t, what, func() string {
		window := r.sample(t, client, from, n)
		from = time.Now()
		by := r.byRole(t, window)
		t.Logf("%s: %d of %d answers by the %s side: %v", what, by[want], window.Done-window.Failed, want, by)
		if window.Failed > 0 || by[want] != n {
			return fmt.Sprintf("%d failed, %v; all of %d are for the %s side", window.Failed, by, n, want)
		}
		return ""
	})
}

// checkCopies checks that the canary, which has no weight, received the mirrored share of the requests and that none of
// its responses reached a client.
func (r *run) checkCopies(t *testing.T, clients ...*load.Client) {
	t.Helper()
	const percentage = 0.20
	from := time.Now().Add(workerUpdateDelay)
	r.sample(t, clients[0], from, 1)
	asked := func() (copied, sent int) {
		for _, client := range clients {
			sent += client.Totals().OK
		}
		return r.countOf(t, canary), sent
	}
	awaitMeasured(t, "the mirror", func() string {
		copied, sent := asked()
		window := r.sample(t, clients[0], time.Now(), mirrored)
		copiedAfter, sentAfter := asked()
		split := stats.Split{Hits: copiedAfter - copied, Total: sentAfter - sent}
		t.Logf("mirror: desired 20 %%, copied %.1f %% of %d (%.1f σ, limit %d)", 100*split.Share(), split.Total,
			split.Sigmas(percentage), mostSigmas)
		if split.Sigmas(percentage) > mostSigmas {
			return fmt.Sprintf("%d of %d requests were copied, desired 20 %%", split.Hits, split.Total)
		}
		if by := r.byRole(t, window); window.Failed > 0 || by[stable] != mirrored {
			return fmt.Sprintf("%d of %d requests failed, and the rest was answered by %v; all are for the stable side",
				window.Failed, mirrored, by)
		}
		return ""
	})
}

// checkShares measures each role's share of the requests.
func (r *run) checkShares(t *testing.T, client *load.Client, asked map[role]float64) {
	t.Helper()
	awaitMeasured(t, "the experiment", func() string {
		window := r.sample(t, client, time.Now().Add(workerUpdateDelay), shared)
		by := r.byRole(t, window)
		problem := ""
		for _, name := range []role{stable, canary, "a", "b"} {
			split := stats.Split{Hits: by[name], Total: window.Done - window.Failed}
			off := split.Sigmas(asked[name])
			t.Logf("experiment, %s: desired %.0f %%, measured %.1f %% of %d (%.1f σ, limit %d)",
				name, 100*asked[name], 100*split.Share(), split.Total, off, mostSigmas)
			if off > mostSigmas {
				problem = fmt.Sprintf("%s answered %d of %d, asked %.0f %%", name, split.Hits, split.Total, 100*asked[name])
			}
		}
		if len(by) != len(asked) {
			problem = fmt.Sprintf("answers came from %v", by)
		}
		return problem
	})
}
