package autowire

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/inside"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/load"
)

// killed is how long requests may fail after the backends were reverted because all proxies were killed. Measured from
// the kill it was 0.24 and 0.63 s with an agent that keeps a connection to each proxy. It was 1.8 s without, when the
// agent depended on the kubelet and the EndpointSlices.
const killed = time.Second

// TestProxies removes some or all proxies, in every possible way, under load. If the removal is requested, the backends
// are restored before it starts, and no request is lost. Otherwise the test prints how long requests failed.
func TestProxies(t *testing.T) {
	w, node := launchToKill(t)
	step := func(name, backend string, inTime bool, change func()) {
		t.Helper()
		w.step(t, name, backend, inTime, 0, change)
	}
	step("a ScaledObject comes, and a proxy", proxied, eventually, func() { w.applyScaledObject(t) })
	step("scaled out to three", proxied, immediately, func() { w.replicas(t, 3) })
	step("scaled in to one", proxied, immediately, func() { w.replicas(t, 1) })
	step("scaled out to two", proxied, immediately, func() { w.replicas(t, 2) })
	step("one of two is evicted", proxied, immediately, func() { w.evict(t) })
	for _, end := range []struct {
		name  string
		gap   time.Duration
		begin func()
	}{
		{"scaled to zero", 0, func() { w.Do(t, "scale", "deployment/kedify-proxy", "--replicas=0") }},
		// The garbage collector deletes the Pods within 0.1 s and may be faster than the agent. Traefik lost 4 requests,
		// because it sends nothing to terminating Pods that still serve.
		{"the Deployment is deleted", gap, func() { w.Do(t, "delete", "deployment", "kedify-proxy", "--wait=false") }},
		{"all Pods are deleted", gap, func() { w.Do(t, "delete", "pod", "-l", "app=kedify-proxy", "--wait=false") }},
		{"kill -9 of all", killed, func() { w.kill(t, node, 2) }},
	} {
		w.repeatVoid(t, func() (isVoid bool) {
			isVoid = w.step(t, end.name, direct, eventually, end.gap, end.begin)
			step("two are there again", proxied, eventually, func() {
				w.Do(t, "wait", "deployment/kedify-proxy", "--for=create")
				w.replicas(t, 2)
			})
			return isVoid
		})
	}
}

// launchToKill is launch with access to the node's processes.
func launchToKill(t *testing.T) (*environment, *inside.Cluster) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("this test needs root, to kill processes of the cluster: run make as root")
	}
	w := launch(t)
	node, err := inside.Open(w.Node)
	if err != nil {
		t.Fatal(err)
	}
	return w, node
}

// replicas sets the number of proxies and waits until there are exactly that many.
func (w *environment) replicas(t *testing.T, n int) {
	t.Helper()
	w.Do(t, "scale", "deployment/kedify-proxy", "--replicas="+strconv.Itoa(n))
	w.Do(t, "rollout", "status", "deployment/kedify-proxy")
	w.until(t, "the number of proxies", strconv.Itoa(n), func() string { return strconv.Itoa(len(w.proxies(t))) })
}

// proxies returns the names of the proxies' Pods, including terminating ones.
func (w *environment) proxies(t *testing.T) []string {
	t.Helper()
	return strings.Fields(w.Do(t, "get", "pods", "-l", "app=kedify-proxy", "-o", "jsonpath={.items[*].metadata.name}"))
}

// evict evicts a proxy through the API, like a drain of its node, and waits for its end.
func (w *environment) evict(t *testing.T) {
	t.Helper()
	name := w.proxies(t)[0]
	file := filepath.Join(t.TempDir(), "eviction.json")
	text := `{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "` + name +
		`", "namespace": "` + namespace + `"}}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	w.Do(t, "create", "--raw", "/api/v1/namespaces/"+namespace+"/pods/"+name+"/eviction", "-f", file)
	w.Do(t, "wait", "pod/"+name, "--for=delete")
	w.Do(t, "rollout", "status", "deployment/kedify-proxy")
}

// kill kills the Envoys of n proxies.
func (w *environment) kill(t *testing.T, node *inside.Cluster, n int) {
	t.Helper()
	names := w.proxies(t)[:n]
	running, err := node.Find("envoy")
	if err != nil {
		t.Fatal(err)
	}
	ctx := await.Context(t)
	victims := slices.DeleteFunc(running, func(process inside.Process) bool {
		pod, err := process.Pod()
		return err != nil || !slices.Contains(names, pod) // Envoys of the Gateway, and processes that have ended
	})
	if len(victims) != n {
		t.Fatalf("%d processes of %v", len(victims), names)
	}
	for _, victim := range victims {
		if _, _, err := victim.Kill(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

// outage returns the longest series of failed requests, and the time from a moment to the first failure.
func (w *environment) outage(results []load.Result, after time.Time) string {
	var since, first time.Time
	var longest time.Duration
	for _, result := range results {
		switch {
		case result.Err == nil:
			since = time.Time{}
			continue
		case since.IsZero():
			since = result.Due
		}
		if first.IsZero() {
			first = result.Due
		}
		longest = max(longest, result.Due.Sub(since)+time.Second/time.Duration(w.rate))
	}
	if longest == 0 {
		return "none in a row"
	}
	return fmt.Sprintf("%.2f s in a row, the first after %.1f s", longest.Seconds(), first.Sub(after).Seconds())
}

// describeFailures returns the distinct errors of failed requests, how often each occurred, when the first and the last
// of them were due after a moment, and how long the slowest of them took.
func describeFailures(results []load.Result, after time.Time) string {
	type kind struct {
		count       int
		first, last time.Time
		slowest     time.Duration
	}
	kinds := map[string]*kind{}
	for _, result := range results {
		if result.Err == nil {
			continue
		}
		found := kinds[result.Err.Error()]
		if found == nil {
			found = &kind{first: result.Due}
			kinds[result.Err.Error()] = found
		}
		found.count, found.last, found.slowest = found.count+1, result.Due, max(found.slowest, result.Latency)
	}
	const most = 10
	var texts []string
	for _, text := range slices.Sorted(maps.Keys(kinds)) {
		if len(texts) == most {
			return strings.Join(texts, "; ") + fmt.Sprintf("; and %d more", len(kinds)-most)
		}
		k := kinds[text]
		texts = append(texts, fmt.Sprintf("%d × %s, due after %.1f to %.1f s, the slowest took %.1f s", k.count, text,
			k.first.Sub(after).Seconds(), k.last.Sub(after).Seconds(), k.slowest.Seconds()))
	}
	return strings.Join(texts, "; ")
}
