package traffic

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/inside"
	"github.com/kedify/argo-rollouts-plugin/e2e/kube"
	"github.com/kedify/argo-rollouts-plugin/e2e/testbed"
	"github.com/kedify/argo-rollouts-plugin/e2e/trace"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/invariant"
	"github.com/kedify/argo-rollouts-plugin/test/load"
	"github.com/kedify/argo-rollouts-plugin/test/load/stats"
)

const (
	// pods is the number of Pods of each version, and rollbackRate the number of requests per second: 25 for each Pod,
	// which can answer 80.
	pods, rollbackRate = 10, 250
	// someReady is how many of them are ready after the first.
	someReady = 5
	// holdOne is how long only one Pod is ready, holdSome how long someReady are.
	holdOne, holdSome = 10 * time.Second, 5 * time.Second
	// conditionType is the condition that makes a Pod of the first version ready: see rollback.yaml.
	conditionType = "traffic.test/ready"
	// lastWeight is the weight of the last step, which the controller requests when one Pod is available.
	lastWeight = 80
)

// rollback is the Rollout that goes back to a version of which few Pods are ready.
type rollback struct {
	app

	// hash is the hash of the version whose Pods become ready one after the other.
	hash string

	// ready are the names of the Pods that may be ready.
	ready []string

	mu      sync.Mutex
	opened  []sample // numbers of Pods that may be ready, from a time on
	weights []trace.Observation
}

// outcome is the result of one rollback.
type outcome struct {
	results []load.Result
	weights []trace.Observation
	// first and second are when the first Pod had its weight, and when the next Pods could become ready.
	first, second time.Time
	isOverloaded  bool
}

// compareRollbacks rolls back twice, with and without the limit of the weight, and logs both next to each other. No
// request may fail with it, and the weight must stay within what the ready Pods can carry.
func (s *suite) compareRollbacks(t *testing.T) {
	t.Helper()
	r := s.installRollback(t)
	limited := r.run(t, s, true)
	unlimited := r.run(t, s, false)
	logOutcomes(t, limited, unlimited)
	if failed := limited.failed(); failed > 0 {
		invariant.Broken(t, invariant.FailedRequests, "a rollback with a limited weight: %d of %d: %v", failed,
			len(limited.results), limited.reasons())
	}
	if limited.isOverloaded {
		t.Error(testbed.ErrOverload)
	}
}

// installRollback applies the Rollout and makes all of its Pods ready.
func (s *suite) installRollback(t *testing.T) *rollback {
	t.Helper()
	s.Do(t, "apply", "-f", "rollback.yaml")
	r := &rollback{app: app{s.Kubectl, "rollback", true, "rollback-stable"}}
	s.Do(t, "wait", "rollout/rollback", "--for=jsonpath={.status.currentPodHash}")
	r.hash = r.rollout(t).Status.CurrentPodHash
	r.open(t, pods)
	r.await(t, "healthy", kube.Rollout.Healthy)
	s.Do(t, "wait", "httpso/rollback", "--for=condition=Programmed")
	r.awaitBackend(t, "kedify-proxy")
	ctx, cancel := context.WithCancel(t.Context())
	followed := make(chan error, 1)
	key := inside.CustomResourceKey("http.keda.sh", "httpscaledobjects", namespace, "rollback")
	go func() { followed <- s.inside.Store().Follow(ctx, key, r.addWeight) }()
	t.Cleanup(func() {
		cancel()
		if err := <-followed; err != nil {
			t.Error(err)
		}
	})
	return r
}

// addWeight records a version of the HTTPScaledObject.
func (r *rollback) addWeight(version inside.Version) {
	var object kube.HTTPScaledObject
	if version.Value == nil || json.Unmarshal(version.Value, &object) != nil {
		return
	}
	text, _ := object.Weights()
	weight := trace.Pair{Stable: "rollback-stable", Canary: "rollback-canary"}.AnnotationWeight(text)
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.weights) == 0 || r.weights[len(r.weights)-1].Weight != weight {
		r.weights = append(r.weights, trace.Observation{Weight: weight, At: version.Seen})
	}
}

// weight returns the present weight.
func (r *rollback) weight() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.weights) == 0 {
		return 0
	}
	return r.weights[len(r.weights)-1].Weight
}

// open lets further Pods of the first version become ready, n in total, as soon as they run.
func (r *rollback) open(t *testing.T, n int) {
	t.Helper()
	var others []string
	await.Described(t, fmt.Sprintf("%d Pods of version %s", n, r.hash), func() bool {
		others = strings.Fields(r.Do(t, "get", "pods", "-l", "rollouts-pod-template-hash="+r.hash, "-o",
			`jsonpath={range .items[?(@.status.phase=="Running")]}{.metadata.name} {end}`))
		others = slices.DeleteFunc(others, func(name string) bool { return slices.Contains(r.ready, name) })
		return len(r.ready)+len(others) >= n
	}, func() string { return fmt.Sprint(r.ready, others) })
	others = others[:n-len(r.ready)]
	r.ready = append(r.ready, others...)
	r.mu.Lock()
	r.opened = append(r.opened, sample{time.Now(), n})
	r.mu.Unlock()
	for _, name := range others {
		r.Do(t, "patch", "pod", name, "--subresource=status", "--type=strategic", "-p",
			`{"status":{"conditions":[{"type":"`+conditionType+`","status":"True"}]}}`)
	}
}

// run replaces the first version by the second one, rolls back under load, and returns the result.
func (r *rollback) run(t *testing.T, s *suite, isLimited bool) (o outcome) {
	t.Helper()
	r.setLimit(t, isLimited)
	r.Do(t, "patch", "rollout/rollback", "--type=json", "-p",
		`[{"op":"remove","path":"/spec/template/spec/readinessGates"},`+
			`{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"argoproj/rollouts-demo:yellow"}]`)
	r.await(t, "observed", func(now kube.Rollout) bool { return now.Status.CurrentPodHash != r.hash })
	r.Argo(t, "promote", "rollback", "--full")
	r.await(t, "healthy", kube.Rollout.Healthy)
	r.Do(t, "wait", "pod", "-l", "rollouts-pod-template-hash="+r.hash, "--for=delete")
	r.ready = nil
	r.mu.Lock()
	r.opened, r.weights = nil, nil
	r.mu.Unlock()

	client, err := load.Start(t.Context(), s.loadOf(rollbackHost, rollbackRate))
	if err != nil {
		t.Fatal(err)
	}
	r.Argo(t, "undo", "rollback")
	r.open(t, 1)
	await.Described(t, "a weight for the first Pod", func() bool { return r.weight() > 0 },
		func() string { return strconv.Itoa(r.weight()) })
	o.first = time.Now()
	//testbounds:allow how long one Pod is ready
	<-time.After(holdOne)
	o.second = time.Now()
	r.open(t, someReady)
	//testbounds:allow how long some Pods are ready
	<-time.After(holdSome)
	r.open(t, pods)
	r.await(t, "healthy", kube.Rollout.Healthy)
	totals, _ := client.Stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	o.results, o.weights, o.isOverloaded = client.Results(), slices.Clone(r.weights), totals.Overloaded
	if isLimited {
		r.checkWeights(t)
	}
	return o
}

// setLimit sets the router's key limitWeightToReadyPods: false, or its default.
func (r *rollback) setLimit(t *testing.T, isLimited bool) {
	t.Helper()
	value := "false"
	if isLimited {
		value = "null" // removes the key (RFC 7396)
	}
	r.Do(t, "patch", "rollout/rollback", "--type=merge", "-p", `{"spec":{"strategy":{"canary":{"trafficRouting":{`+
		`"plugins":{"kedify/http":{"limitWeightToReadyPods":`+value+`}}}}}}}`)
}

// checkWeights checks that each written weight is at most the share of the Pods that could be ready by then. The caller
// holds the lock.
func (r *rollback) checkWeights(t *testing.T) {
	t.Helper()
	for _, weight := range r.weights {
		ready := 0
		for _, opened := range r.opened {
			if opened.at.Before(weight.At) {
				ready = opened.replicas
			}
		}
		if carried := 100 * ready / pods; weight.Weight < 0 || weight.Weight > carried {
			invariant.Broken(t, invariant.UnexpectedWeights, "weight %d while %d of %d Pods can be ready, at most %d",
				weight.Weight, ready, pods, carried)
		}
	}
}

// failed returns the number of failed requests.
func (o outcome) failed() (count int) {
	for _, result := range o.results {
		if result.Err != nil {
			count++
		}
	}
	return count
}

// reasons counts the failed requests by reason.
func (o outcome) reasons() map[string]int {
	reasons := map[string]int{}
	for _, result := range o.results {
		if result.Err != nil {
			reasons[load.Reason(result.Err, await.Patience())]++
		}
	}
	return reasons
}

// serverErrors returns the number of responses with a status of 500 or more.
func (o outcome) serverErrors() (count int) {
	for _, result := range o.results {
		if result.Status >= 500 {
			count++
		}
	}
	return count
}

// latencies returns the latencies of all requests, and of those that began while one Pod was ready.
func (o outcome) latencies() (all, one []time.Duration) {
	for _, result := range o.results {
		all = append(all, result.Latency)
		if result.Due.After(o.first) && result.Due.Before(o.second) {
			one = append(one, result.Latency)
		}
	}
	return all, one
}

// logOutcomes logs two rollbacks next to each other.
func logOutcomes(t *testing.T, limited, unlimited outcome) {
	t.Helper()
	const percentile = 0.99
	p99 := func(latencies []time.Duration) string {
		return fmt.Sprintf("%.3f s of %d", stats.Quantile(latencies, percentile).Seconds(), len(latencies))
	}
	var table strings.Builder
	fmt.Fprintf(&table, "%-58s%30s%30s", fmt.Sprintf("rollback to 1 of %d ready Pods, %d requests/s", pods, rollbackRate),
		"weight limited", "not limited")
	for _, line := range []struct {
		name  string
		value func(outcome) string
	}{
		{"written weights", func(o outcome) string {
			var weights []string
			for _, weight := range o.weights {
				weights = append(weights, strconv.Itoa(weight.Weight))
			}
			return strings.Join(weights, " ")
		}},
		{"failed of all requests", func(o outcome) string { return fmt.Sprintf("%d of %d", o.failed(), len(o.results)) }},
		{"responses with 5xx", func(o outcome) string { return strconv.Itoa(o.serverErrors()) }},
		{"p99 while one Pod is ready", func(o outcome) string {
			_, one := o.latencies()
			return p99(one)
		}},
		{"p99 of the whole rollback", func(o outcome) string {
			all, _ := o.latencies()
			return p99(all)
		}},
		{"slowest", func(o outcome) string {
			all, _ := o.latencies()
			return fmt.Sprintf("%.3f s", slices.Max(all).Seconds())
		}},
	} {
		fmt.Fprintf(&table, "\n%-58s%30s%30s", line.name, line.value(limited), line.value(unlimited))
	}
	t.Logf("\n%s", table.String())
	t.Logf("failed: %v, and without the limit %v", limited.reasons(), unlimited.reasons())
	if !slices.ContainsFunc(unlimited.weights, func(o trace.Observation) bool { return o.Weight == lastWeight }) {
		t.Errorf("without the limit the weights were %v, want %d among them", unlimited.weights, lastWeight)
	}
}
