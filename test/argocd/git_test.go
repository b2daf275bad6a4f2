package argocd

import (
	"strings"
	"testing"
)

// TestRouteInGit changes the routing object in Git during a pause without a duration. Argo CD writes it with the
// weights in Git, and the router writes those of the canary again, long before the controller's resync.
func TestRouteInGit(t *testing.T) {
	route, selectors := readRecipe(t, routeRecipe), readRecipe(t, selectorsRecipe)
	replace := recipe{}
	replace.SyncPolicy.SyncOptions = []string{"Replace=true"}
	for name, tt := range map[string]struct {
		router  router
		how     mode
		recipes []recipe
	}{
		"git-csa":         {gatewayAPI, clientSide, []recipe{route}},
		"git-ssa":         {gatewayAPI, serverSide, []recipe{route, selectors}},
		"git-ssd":         {gatewayAPI, serverSideDiff, []recipe{route, selectors}},
		"git-hso-replace": {kedifyHTTP, clientSide, []recipe{replace, selectors}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := start(t, name, tt.how, tt.router, tt.recipes, nil, true)
			paused := c.pauses[0]
			c.phase("Paused", paused.step)
			c.awaitState(paused.state)
			c.synced()
			const host = "more.example.com"
			c.commit("another host", map[string]string{
				"routing.yaml": strings.NewReplacer("[shop.example.com]", "[shop.example.com, "+host+"]",
					"- matches: [{path: {type: PathPrefix, value: /}}]",
					"- timeouts: {request: 5s}\n      matches: [{path: {type: PathPrefix, value: /}}]").Replace(c.object),
			})
			c.refresh()
			var reverted, healed write
			c.await("the canary's weights are written again", func() (bool, string) {
				reverted, healed = write{}, write{}
				for _, w := range c.sinceBegin() {
					switch isRouting := w.resource == c.resource; {
					case isRouting && w.writer == argoCD && !strings.Contains(w.state, paused.state):
						reverted, healed = w, write{}
					case isRouting && w.writer == rollouts && strings.Contains(w.state, paused.state) && !reverted.at.IsZero():
						healed = w
					}
				}
				return !healed.at.IsZero(), c.read().text()
			})
			c.phase("Paused", paused.step)
			c.synced()
			live := c.live(c.router.api, c.resource)
			isApplied := strings.Contains(live, host)
			if c.resource == gatewayAPI.resource {
				isApplied = isApplied && strings.Contains(live, `"timeouts":{"request":"5s"}`)
			}
			if !isApplied {
				t.Errorf("the change in Git is not applied: %s", live)
			}
			t.Logf("writers, %s, the weights were back after %.1f s:\n%s", name, healed.at.Sub(reverted.at).Seconds(),
				timeline(c.sinceBegin()))
		})
	}
}

