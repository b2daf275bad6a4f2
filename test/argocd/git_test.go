package argocd

import (
	"strings"
	"testing"
)

// TestRouteInGit changes the routing object in Git during a pause without a duration. Argo CD writes it with the
// weights in Git, and the router writes those of the canary again, long before the controller's resync.
func TestRouteInGit(t *testing.T) {
	t.Parallel()
	route, selectors := readRecipe(t, routeRecipe), readRecipe(t, selectorsRecipe)
	// As a sync option of the whole Application, it also replaces the Rollout, whose defaults are in no manifest: Argo CD
	// never finds it Synced.
	replaced := func(manifest string) string {
		return strings.Replace(manifest, "kind: HTTPScaledObject\nmetadata: {name: shop}",
			"kind: HTTPScaledObject\nmetadata: {name: shop, annotations: {argocd.argoproj.io/sync-options: Replace=true}}", 1)
	}
	for name, tt := range map[string]struct {
		router  router
		how     mode
		recipes []recipe
		edit    func(string) string
	}{
		"git-csa":         {gatewayAPI, clientSide, []recipe{route}, nil},
		"git-ssa":         {gatewayAPI, serverSide, []recipe{route, selectors}, nil},
		"git-ssd":         {gatewayAPI, serverSideDiff, []recipe{route, selectors}, nil},
		"git-hso-replace": {kedifyHTTP, clientSide, nil, replaced},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := start(t, name, tt.how, tt.router, tt.recipes, tt.edit, true)
			paused := c.pauses[0]
			c.phase("Paused", paused.step)
			c.awaitState(paused.state)
			c.synced()
			const host = "more.example.com"
			changed := strings.NewReplacer("[shop.example.com]", "[shop.example.com, "+host+"]",
				"- matches: [{path: {type: PathPrefix, value: /}}]",
				"- timeouts: {request: 5s}\n      matches: [{path: {type: PathPrefix, value: /}}]").Replace(c.object)
			if tt.edit != nil {
				changed = tt.edit(changed)
			}
			c.commit("another host", map[string]string{"routing.yaml": changed})
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
			live := c.live(c.api, c.resource)
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
