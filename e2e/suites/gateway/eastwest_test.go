package gateway

import (
	"os"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/e2e/inside"
	"github.com/kedify/argo-rollouts-plugin/e2e/testbed"
)

// callStable starts to call the Service of the stable side from a Pod, past the Gateway.
func (c *guideRun) callStable(t *testing.T) *testbed.Caller {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("this test needs root, to reach into the cluster: run make as root")
	}
	node, err := inside.Open(c.cluster.Node)
	if err != nil {
		t.Fatal(err)
	}
	k := testbed.Kubectl{Cluster: c.cluster}
	pod := k.StartClientPod(t, node, c.rollout+"-client")
	config := c.target()
	config.Address, config.Dial, config.Host = k.ServiceAddress(t, c.stable), pod.DialContext, c.stable
	return testbed.StartCaller(t, "a Pod that calls "+c.stable, config,
		func() string { return c.object.Get().Status.StableRS })
}
