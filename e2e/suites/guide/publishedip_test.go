package guide

import (
	"context"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/e2e/demo/guide"
	"github.com/kedify/argo-rollouts-plugin/e2e/demo/shell"
	"github.com/kedify/argo-rollouts-plugin/e2e/inside"
	"github.com/kedify/argo-rollouts-plugin/e2e/testbed"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/load"
)

// publishIP makes Traefik publish the IP address of its Service instead of a host name, until the test ends. It returns
// the address.
func (r *reader) publishIP(t *testing.T) string {
	t.Helper()
	k := testbed.Kubectl{Cluster: r.Cluster, Namespace: "traefik"}
	const deployment, hostname = "deployment/traefik", "ingressendpoint.hostname="
	ip := k.Do(t, "get", "service/traefik", "-o", "jsonpath={.spec.clusterIP}")
	args := k.Do(t, "get", deployment, "-o", "jsonpath={.spec.template.spec.containers[0].args}")
	before, after, ok := strings.Cut(args, hostname)
	_, after, closed := strings.Cut(after, `"`)
	if !ok || !closed {
		t.Fatalf("Traefik publishes no host name: %s", args)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), testbed.CommandTimeout())
		defer cancel()
		if _, err := r.Run(ctx, "kubectl", "-n", k.Namespace, "rollout", "undo", deployment); err != nil {
			t.Error(err)
		}
	})
	k.Do(t, "patch", deployment, "--type=json", "-p",
		`[{"op": "replace", "path": "/spec/template/spec/containers/0/args", "value": `+
			before+"ingressendpoint.ip="+ip+`"`+after+`}]`)
	k.Do(t, "rollout", "status", deployment)
	return ip
}

// askPublished sends 50 requests from the node to the address that the demo reads from the status of the Ingress, and
// returns the answers.
func (r *reader) askPublished(t *testing.T, ip string) map[string]int {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("this test needs root, to reach into the cluster: run make as root")
	}
	node, err := inside.Open(r.Node)
	if err != nil {
		t.Fatal(err)
	}
	demo := guide.Guide{Shell: shell.Shell{Runner: r.Cluster, Within: testbed.CommandTimeout()}}
	address, err := demo.IngressAddress(t.Context())
	if want := net.JoinHostPort(ip, "80"); err != nil || address != want {
		t.Fatalf("the address in the status of the Ingress is %q, want %q: %v", address, want, err)
	}
	answers := map[string]int{}
	for range 50 {
		color, err := load.Probe(t.Context(), load.Config{
			Address: address, Dial: node.DialContext, Host: guide.Host, Path: "/color", Timeout: await.Patience(),
			Colors: guide.Colors(),
		})
		if err != nil {
			t.Fatal(err)
		}
		answers[color]++
	}
	t.Logf("50 requests to %s, which the Ingress controller published: %v", address, answers)
	return answers
}
