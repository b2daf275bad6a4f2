package gateway

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// checkPods waits until the stable side and the canary have so many Pods. The Pods of an earlier version, which remain
// for a while after a promotion, count as stable: only the first canary of a guide run has known numbers.
func (c *guideRun) checkPods(t *testing.T, stable, canary int) {
	t.Helper()
	await.Described(t, fmt.Sprintf("%d stable and %d canary Pods", stable, canary), func() bool {
		s, n := c.object.Get().Sides()
		return s == stable && n == canary
	}, c.state)
}

// checkSelectors waits until each Service selects the Pods of its side by the hash of the ReplicaSet: both Services the
// same ones if no canary runs, and different ones during a canary.
func (c *guideRun) checkSelectors(t *testing.T, isCanary bool) {
	t.Helper()
	var hashes [2]string
	await.Described(t, fmt.Sprintf("the selectors of the Services, in a canary: %t", isCanary), func() bool {
		for i, service := range []string{c.stable, c.canary} {
			hashes[i] = strings.TrimSpace(c.do(t, "kubectl", "get", "service", service, "-o",
				"jsonpath={.spec.selector.rollouts-pod-template-hash}"))
		}
		status := c.object.Get().Status
		return hashes == [2]string{status.StableRS, status.CurrentPodHash} && hashes[0] != "" &&
			(hashes[0] != hashes[1]) == isCanary
	}, func() string {
		return fmt.Sprintf("%s: %s, %s: %s; %s", c.stable, hashes[0], c.canary, hashes[1], c.state())
	})
}

// checkShown waits until the guide's command, which shows the Rollout, prints these lines.
func (c *guideRun) checkShown(t *testing.T, lines ...string) {
	t.Helper()
	var missing []string
	await.Described(t, "the lines that the guide shows", func() bool {
		out := c.do(t, "kubectl", "argo", "rollouts", "get", "rollout", c.rollout, "--no-color")
		printed := strings.Join(strings.Fields(out), " ")
		missing = nil
		for _, line := range lines {
			if !strings.Contains(printed, line) {
				missing = append(missing, line)
			}
		}
		return len(missing) == 0
	}, func() string { return fmt.Sprintf("missing: %q; %s", missing, c.state()) })
}
