package testbed

import (
	"context"
	"net"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/e2e/inside"
)

// ClientPod is a Pod from whose network a test sends requests, like an application in the cluster that calls Services.
type ClientPod struct {
	process inside.Process
}

// StartClientPod starts a Pod of the sample application, which no Service selects. It is deleted when the test ends.
func (k Kubectl) StartClientPod(t *testing.T, node *inside.Cluster, name string) ClientPod {
	t.Helper()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), CommandTimeout())
		defer cancel()
		command := k.command([]string{"delete", "pod", name, "--ignore-not-found", "--grace-period=1"})
		if _, err := k.Run(ctx, command...); err != nil {
			t.Error(err)
		}
	})
	k.Do(t, "run", name, "--image=argoproj/rollouts-demo:blue", "--restart=Never")
	k.Do(t, "wait", "pod/"+name, "--for=condition=Ready")
	process, err := node.FindInPod("rollouts-demo", name)
	if err != nil {
		t.Fatal(err)
	}
	return ClientPod{process}
}

// DialContext connects to a numeric address from the Pod, with the arguments of net.Dialer.DialContext.
func (p ClientPod) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return p.process.DialContext(ctx, network, address)
}

// ServiceAddress returns the address of the first port of a Service in the cluster.
func (k Kubectl) ServiceAddress(t *testing.T, service string) string {
	t.Helper()
	return k.Do(t, "get", "service/"+service, "-o", "jsonpath={.spec.clusterIP}:{.spec.ports[0].port}")
}
