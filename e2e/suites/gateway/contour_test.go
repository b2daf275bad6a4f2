package gateway

import (
	"strings"
	"testing"
)

// onContour adds to a guide run whether the proxy receives its routes from the Contour that writes the status. Both
// replicas configure proxies, and each collects changes on its own. Only the leader writes the status.
func onContour(run func(t *testing.T, w environment, p proxy)) func(t *testing.T, w environment, p proxy) {
	return func(t *testing.T, w environment, p proxy) { //nolint:thelper // a subtest
		run(t, w, p)
		kubectl := []string{"kubectl", "-n", namespaceOf(p.service)}
		leader := w.do(t, append(kubectl, "get", "lease", "leader-elect-"+p.service,
			"-o", "jsonpath={.spec.holderIdentity}")...)
		logs := w.do(t, append(kubectl, "logs", "deploy/contour-"+p.service, "--all-pods", "--prefix", "--tail=-1")...)
		servers := serversOf(logs)
		t.Logf("the status is written by %s, the proxy is configured by %s", leader, servers)
		if len(servers) == 0 {
			t.Error("no Contour has sent endpoints to the proxy")
		}
	}
}

// serversOf returns the Pods of Contour that have sent endpoints to a proxy, from their logs.
func serversOf(logs string) (pods []string) {
	seen := map[string]bool{}
	for line := range strings.Lines(logs) {
		pod, message, _ := strings.Cut(strings.TrimPrefix(line, "[pod/"), "/contour] ")
		if strings.Contains(message, "open watch") && !seen[pod] {
			seen[pod] = true
			pods = append(pods, pod)
		}
	}
	return pods
}

func TestServersOf(t *testing.T) {
	const logs = `[pod/contour-my-gateway-a/contour] time="" level=info msg="[linear cache] open watch 50 (delta: false)"
[pod/contour-my-gateway-b/contour] time="" level=info msg="performing delayed update" outstanding=1
[pod/contour-my-gateway-a/contour] time="" level=info msg="[linear cache] open watch 51 (delta: false)"
`
	if got := serversOf(logs); len(got) != 1 || got[0] != "contour-my-gateway-a" {
		t.Errorf("%q", got)
	}
}
