package verified

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/coldstart"
)

const (
	// rolloutPath is the API path of the Rollout.
	rolloutPath = "/apis/argoproj.io/v1alpha1/namespaces/" + coldstart.Namespace + "/rollouts/web"
	// firstPod is the number of the address of the first version's Pods, after those of interceptors.
	firstPod = 50
	// interval is the pause between two passes of a loop.
	interval = 100 * time.Millisecond
)

// rollout is the part of the Rollout that is read.
type rollout struct {
	Metadata struct{ Generation int64 }
	Status   map[string]any
}

// rollout reads the Rollout. After an error it is empty.
func (e *environment) rollout(ctx context.Context) (read rollout) {
	_ = apiserver.Get(ctx, e.Admin, rolloutPath, &read)
	return read
}

// podOf returns the answer of the Pods of a version.
func podOf(version string) string { return "version-" + version }

// pods serve requests for the Pods of each version. All Pods of one version have one address.
type pods struct {
	addresses []netip.Addr
	versions  map[string]int // by the hash of the Pod template
}

// newPods starts the servers of two versions.
func newPods(t *testing.T) *pods {
	t.Helper()
	p := &pods{versions: map[string]int{}}
	for version := range 2 {
		address := coldstart.ReplicaAddress(firstPod + version)
		listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp",
			netip.AddrPortFrom(address, coldstart.AppPort).String())
		if err != nil {
			t.Fatal(err)
		}
		var protocols http.Protocols
		protocols.SetHTTP1(true)
		protocols.SetUnencryptedHTTP2(true)
		server := &http.Server{
			ReadHeaderTimeout: time.Minute, Protocols: &protocols,
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				_, _ = fmt.Fprintf(w, "%q", podOf(strconv.Itoa(version+1)))
			}),
		}
		go func() { _ = server.Serve(listener) }() // It returns after Close.
		t.Cleanup(func() { _ = server.Close() })
		p.addresses = append(p.addresses, address)
	}
	return p
}

// mirror writes an EndpointSlice for each Endpoints of the ClusterSimulator until ctx ends, as the API server's
// controller does. Versions are numbered in the order in which they appear.
func (e *environment) mirror(ctx context.Context, p *pods) {
	written := map[string]string{}
	for ctx.Err() == nil {
		for app := range 2 {
			if name, pod := coldstart.AppName(app), e.firstPod(ctx, app); pod != written[name] && p.write(ctx, e, name, pod) {
				written[name] = pod
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(interval):
		}
	}
}

// firstPod returns the name of the first Pod in the Endpoints of an app, or an empty text.
func (e *environment) firstPod(ctx context.Context, app int) string {
	var endpoints struct {
		Subsets []struct {
			Addresses []struct{ TargetRef struct{ Name string } }
		}
	}
	path := "/api/v1/namespaces/" + coldstart.Namespace + "/endpoints/" + coldstart.AppName(app)
	if apiserver.Get(ctx, e.Admin, path, &endpoints) != nil || len(endpoints.Subsets) == 0 {
		return ""
	}
	return endpoints.Subsets[0].Addresses[0].TargetRef.Name
}

// write writes the EndpointSlice of a Service with one Pod, and reports whether it is written.
func (p *pods) write(ctx context.Context, e *environment, service, pod string) bool {
	hash := strings.Split(pod+"--", "-")[1] // web-HASH-00000
	if _, isKnown := p.versions[hash]; !isKnown && hash != "" {
		p.versions[hash] = min(len(p.versions), len(p.addresses)-1)
	}
	endpoints := []any{}
	if hash != "" {
		endpoints = append(endpoints, map[string]any{
			"addresses": []string{p.addresses[p.versions[hash]].String()}, "conditions": map[string]any{"ready": true},
			"targetRef": map[string]any{"kind": "Pod", "name": pod},
		})
	}
	return apiserver.Patch(ctx, e.Admin, "/apis/discovery.k8s.io/v1/namespaces/"+coldstart.Namespace+"/endpointslices/"+
		service, "test", map[string]any{"endpoints": endpoints}) == nil
}

// checker compares the steps of the Rollout with the routes of Envoy until it ends.
type checker struct {
	t      *testing.T
	cancel context.CancelFunc
	done   sync.WaitGroup
	mu     sync.Mutex
	seen   map[string]bool // steps with weights
}

// allowed returns the weights of the canary that Envoy may route at a step of the Rollout, and whether the new version
// may be the stable one.
func allowed(step string, isPromoted bool) []int {
	if isPromoted {
		return []int{100, 0}
	}
	return map[string][]int{
		"0": {0, 20}, "1": {20}, "2": {20, 50}, "3": {50}, "4": {50, 80}, "5": {80}, "6": {80, 100},
	}[step]
}

// check starts a checker for the update to a new version.
func (e *environment) check() *checker {
	ctx, cancel := context.WithCancel(e.t.Context())
	c := &checker{t: e.t, cancel: cancel, seen: map[string]bool{}}
	e.t.Cleanup(cancel)
	c.done.Go(func() {
		for ctx.Err() == nil {
			c.compare(ctx, e)
			select {
			case <-ctx.Done():
			case <-time.After(interval):
			}
		}
	})
	return c
}

// compare compares once. The Rollout may change while the routes are read, so it is read before and after them.
func (c *checker) compare(ctx context.Context, e *environment) {
	state := func() (step string, isPromoted bool) {
		status := e.rollout(ctx).Status
		return fmt.Sprint(status["currentStepIndex"]), status["stableRS"] == status["currentPodHash"]
	}
	step, isPromoted := state()
	weight, err := e.routedWeight(ctx)
	if after, isPromotedAfter := state(); err != nil || after != step || isPromotedAfter != isPromoted {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if isPromoted && len(c.seen) == 0 { // before the controller has seen the new version
		return
	}
	c.seen[fmt.Sprint(step, " ", weight)] = true
	if !slices.Contains(allowed(step, isPromoted), weight) {
		c.t.Errorf("the Rollout is at step %s, promoted: %v, and Envoy routes %d %% to the canary, want one of %v",
			step, isPromoted, weight, allowed(step, isPromoted))
	}
}

// end waits until the checker has seen the weight of every pause and that of the promoted version, and ends it.
func (c *checker) end() {
	c.t.Helper()
	seen := func() []string {
		c.mu.Lock()
		defer c.mu.Unlock()
		return slices.Sorted(maps.Keys(c.seen))
	}
	await.Described(c.t, "all steps with their weights", func() bool {
		names := seen()
		return !slices.ContainsFunc([]string{"1 20", "2 20", "3 50", "4 50", "5 80", "6 80", "6 0"}, func(want string) bool {
			return !slices.Contains(names, want)
		})
	}, func() string { return fmt.Sprint(seen()) })
	c.cancel()
	c.done.Wait()
	c.t.Logf("steps and weights: %v", seen())
}

// awaitEndpoint waits until Envoy has the Pods of a version as the endpoint of the stable Service. After a promotion, the
// controller reports Healthy before it switches the selector of this Service and sets the canary's weight to 0.
func (e *environment) awaitEndpoint(version int) {
	e.t.Helper()
	stable := coldstart.AppName(0)
	want := fmt.Sprintf("%s/%s/%s::%s:", coldstart.Namespace, stable, stable, coldstart.ReplicaAddress(firstPod+version-1))
	clusters := ""
	await.Described(e.t, "an endpoint "+want, func() bool {
		text, err := e.Envoy.Admin(e.t.Context(), "/clusters")
		clusters = string(text)
		return err == nil && strings.Contains(clusters, want)
	}, func() string { return clusters })
}

// routedWeight returns the weight of the canary in Envoy's routes, in percent.
func (e *environment) routedWeight(ctx context.Context) (int, error) {
	text, err := e.Envoy.Admin(ctx, "/config_dump")
	if err != nil {
		return 0, err
	}
	var dump any
	if err := json.Unmarshal(text, &dump); err != nil {
		return 0, err
	}
	canary, total := weightsIn(dump)
	if total == 0 {
		return 0, nil
	}
	return int(100 * canary / total), nil
}

// weightsIn adds up the weights of the canary, and of all clusters of the Rollout, in the routes of a dump. The name of a
// cluster contains the HTTPScaledObject and the Service.
func weightsIn(value any) (canary, total float64) {
	add := func(name string, weight float64) {
		service, isOfRollout := strings.CutPrefix(name, coldstart.Namespace+"/"+coldstart.AppName(0)+"/")
		if !isOfRollout {
			return
		}
		if total += weight; service == coldstart.AppName(1) {
			canary += weight
		}
	}
	switch typed := value.(type) {
	case map[string]any:
		if route, isRoute := typed["route"].(map[string]any); isRoute {
			if cluster, isSingle := route["cluster"].(string); isSingle {
				add(cluster, 1)
			}
		}
		if name, isCluster := typed["name"].(string); isCluster {
			if weight, isWeighted := typed["weight"].(float64); isWeighted {
				add(name, weight)
			}
		}
		for _, part := range typed {
			more, of := weightsIn(part)
			canary, total = canary+more, total+of
		}
	case []any:
		for _, part := range typed {
			more, of := weightsIn(part)
			canary, total = canary+more, total+of
		}
	}
	return canary, total
}
