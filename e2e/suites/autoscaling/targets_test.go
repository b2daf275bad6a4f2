package autoscaling

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/inside"
	"github.com/kedify/argo-rollouts-plugin/e2e/provider"
	"github.com/kedify/argo-rollouts-plugin/e2e/testbed"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/invariant"
	"github.com/kedify/argo-rollouts-plugin/test/load"
)

const (
	// between is the time between two reads: the rows share the machine.
	between = time.Second
	// proxyPort is the port of the proxies' Service.
	proxyPort = ":8080"
	// canaryShare is the canary's share of the requests of each of two hosts.
	canaryShare = 0.2
	// deviations is the tolerance of a measured share in standard deviations, counted the relative tolerance of a rate.
	deviations, counted = 4, 0.15
)

// workload is one row: a target, its request rates and the expected number of replicas.
type workload struct {
	name string
	// kind is the display name of the target, resource its kubectl name.
	kind, resource string
	// objects are the expected HTTPScaledObjects with their Services.
	objects map[string]string
	// rates are the requests per second by host.
	rates    map[string]float64
	replicas int
	// isQueued is true if the target may have no replica: its first requests then wait for a Pod.
	isQueued bool
	// then is a further check under the same load; nil for none.
	then func(t *testing.T, r *row)
	// after is a further check when there are no requests any more.
	after func(t *testing.T, r *row)
}

// targets returns the rows. Each has its own namespace, and its manifest in testdata.
func targets() []workload {
	const rollout, scaled = "rollout/web", 3
	return []workload{
		{
			name: "two-hosts", kind: "Rollout, two triggers", resource: rollout,
			objects: map[string]string{"web": "web-stable", "web-second": "web-stable"},
			rates:   map[string]float64{"one.test": 17, "two.test": 8}, replicas: 4, then: sharesBothHosts,
		},
		{
			name: "workload-ref", kind: "Rollout, workloadRef", resource: rollout,
			objects: map[string]string{"web": "web-stable"},
			rates:   map[string]float64{"referenced.test": 12}, replicas: scaled,
		},
		{
			name: "blue-green", kind: "Rollout, blue-green", resource: rollout, objects: map[string]string{"web": "web-active"},
			rates: map[string]float64{"bluegreen.test": 12}, replicas: scaled, then: promotesBlueGreen,
		},
		{
			name: "deployment", kind: "Deployment", resource: "deployment/web", objects: map[string]string{"web": "web"},
			rates: map[string]float64{"deployment.test": 12}, replicas: scaled,
		},
		{
			name: "statefulset", kind: "StatefulSet", resource: "statefulset/web", objects: map[string]string{"web": "web"},
			rates: map[string]float64{"statefulset.test": 12}, replicas: scaled,
		},
		{
			name: "readme", kind: "Rollout, README's ScaledObject", resource: "rollout/myapp",
			objects: map[string]string{"myapp": "myapp-stable"},
			rates:   map[string]float64{"myapp.example.com": 12}, replicas: scaled, isQueued: true,
		},
		{
			name: "sample", kind: "Rollout, the sample's settings", resource: rollout,
			objects: map[string]string{"web": "web-stable"},
			rates:   map[string]float64{"sample.test": 12}, replicas: 2, after: restoresReplicas,
		},
	}
}

// TestTargets lets every kind of target follow its requests concurrently, with a stock KEDA and a real
// HorizontalPodAutoscaler, without a failed request.
func TestTargets(t *testing.T) {
	cluster, repo := testbed.Launch(t, provider.Spec{Addons: []string{testbed.KEDAAddon()}})
	node, err := inside.Open(cluster.Node)
	if err != nil {
		t.Fatal(err)
	}
	testbed.Kubectl{Cluster: cluster}.CheckKEDAVersion(t)
	var mu sync.Mutex
	var rows []*row
	t.Run("rows", func(t *testing.T) {
		for _, target := range targets() {
			t.Run(target.name, func(t *testing.T) {
				t.Parallel()
				r := &row{
					target: target, Kubectl: testbed.Kubectl{Cluster: cluster, Namespace: "scaled-" + target.name},
					node: node,
				}
				mu.Lock()
				rows = append(rows, r)
				mu.Unlock()
				r.run(t, repo)
			})
		}
	})
	t.Log("\n" + table(rows))
}

// row is a running target.
type row struct {
	testbed.Kubectl

	target  workload
	node    *inside.Cluster
	clients map[string]*load.Client
	// began is when the first request was sent.
	began time.Time
	// seen are the observed numbers of replicas in order, notes the other observations. sent and failed are numbers of
	// requests.
	seen         []int
	notes        []string
	sent, failed int
}

// table formats the observations, one line for each row.
func table(rows []*row) string {
	var text strings.Builder
	columns := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, "target\trequests/s\texpected replicas\tseen\tfailed requests\t")
	for _, r := range rows {
		var rates []string
		for _, host := range slices.Sorted(maps.Keys(r.target.rates)) {
			rates = append(rates, strconv.FormatFloat(r.target.rates[host], 'g', -1, 64))
		}
		fmt.Fprintf(columns, "%s\t%s\t%d\t%s\t%d of %d\t%s\n", r.target.kind, strings.Join(rates, " and "), r.target.replicas,
			strings.Trim(fmt.Sprint(r.seen), "[]"), r.failed, r.sent, strings.Join(r.notes, "; "))
	}
	_ = columns.Flush() // writes to memory
	return text.String()
}

// run applies the row's manifest, sends its requests, and checks the replicas.
func (r *row) run(t *testing.T, repo string) {
	t.Helper()
	r.CreateNamespace(t, r.Namespace)
	r.ExplainFailure(t, []string{"get", "scaledobject,httpso,hpa,pods,rollout,deployment,statefulset"},
		[]string{"describe", "scaledobject"},
		[]string{"describe", "hpa"}, []string{"get", "events"})
	r.Do(t, "apply", "-f", testbed.LimitRangeFile(repo))
	r.Do(t, "apply", "-k", filepath.Join(repo, "config", "kedify-proxy"))
	r.Do(t, "apply", "-f", filepath.Join(repo, "e2e", "suites", "autoscaling", "testdata", r.target.name+".yaml"))
	r.Do(t, "wait", "scaledobject", "--all", "--for=condition=Ready")
	r.Do(t, "rollout", "status", "deployment/kedify-proxy")
	for object, service := range r.target.objects {
		r.Do(t, "wait", "httpscaledobject/"+object, "--for=condition=Programmed")
		if got := r.Do(t, "get", "httpscaledobject/"+object, "-o",
			"jsonpath={.spec.scaleTargetRef.service}"); got != service {
			t.Errorf("HTTPScaledObject %s is for Service %q, want %q", object, got, service)
		}
	}
	r.checkMetric(t)
	if !r.target.isQueued {
		r.awaitReady(t)
	}
	r.send(t)
	r.awaitReplicas(t, func(replicas int) bool { return replicas == r.target.replicas })
	if r.target.then != nil {
		r.target.then(t, r)
	}
	r.stop(t)
	if r.target.after != nil {
		r.target.after(t, r)
	}
}

// awaitReady waits until the Pods of the target are ready and it answers.
func (r *row) awaitReady(t *testing.T) {
	t.Helper()
	if strings.HasPrefix(r.target.resource, "rollout/") {
		r.Do(t, "wait", r.target.resource, "--for=jsonpath={.status.phase}=Healthy")
	} else {
		r.Do(t, "rollout", "status", r.target.resource)
	}
	for host, rate := range r.target.rates {
		awaitAnswers(t, r.loadOf(t, host, rate))
	}
}

// checkMetric checks the columns of the guide, and KEDA's name of the trigger type in TRIGGERS.
func (r *row) checkMetric(t *testing.T) {
	t.Helper()
	printed := r.Do(t, "get", "scaledobject,httpso")
	var lines []string
	for line := range strings.Lines(printed) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	for _, header := range []string{
		"NAME SCALETARGETKIND SCALETARGETNAME MIN MAX READY ACTIVE FALLBACK PAUSED TRIGGERS AUTHENTICATIONS AGE",
		"NAME TARGETWORKLOAD TARGETSERVICE MINREPLICAS MAXREPLICAS AGE ACTIVE",
	} {
		if !slices.Contains(lines, header) {
			t.Errorf("there are no columns %q in\n%s", header, printed)
		}
	}
	if !strings.Contains(printed, " external-push") {
		t.Errorf("no trigger is of type external-push in\n%s", printed)
	}
}

// send starts the row's requests.
func (r *row) send(t *testing.T) {
	t.Helper()
	r.clients, r.began = map[string]*load.Client{}, time.Now()
	for host, rate := range r.target.rates {
		client, err := load.Start(t.Context(), r.loadOf(t, host, rate))
		if err != nil {
			t.Fatal(err)
		}
		r.clients[host] = client
	}
}

// loadOf returns the configuration of the requests for a host.
func (r *row) loadOf(t *testing.T, host string, rate float64) load.Config {
	t.Helper()
	address := r.Do(t, "get", "service/kedify-proxy", "-o", "jsonpath={.spec.clusterIP}") + proxyPort
	return load.Config{
		Address: address, Dial: r.node.DialContext, Host: host, Path: "/color", Rate: rate, Timeout: await.Patience(),
		MaxInFlight: inFlight(rate), Colors: []string{"blue", "yellow"},
	}
}

// stop stops the requests, of which none may have failed.
func (r *row) stop(t *testing.T) {
	t.Helper()
	for host, client := range r.clients {
		totals, _ := client.Stop()
		r.sent, r.failed = r.sent+totals.Sent, r.failed+totals.Failed
		if totals.Failed > 0 {
			invariant.Broken(t, invariant.FailedRequests, "%d of %d for %s: %v\n%s", totals.Failed,
				totals.Sent, host, totals.Reasons, failures(client, r.began))
		}
	}
}

// replicas returns the number of replicas in the spec of the target.
func (r *row) replicas(t *testing.T) int {
	t.Helper()
	replicas, err := strconv.Atoi(r.Do(t, "get", r.target.resource, "-o", "jsonpath={.spec.replicas}"))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(r.seen); n == 0 || r.seen[n-1] != replicas {
		r.seen = append(r.seen, replicas)
	}
	return replicas
}

// awaitReplicas waits for a number of replicas and checks that it stays.
func (r *row) awaitReplicas(t *testing.T, isExpected func(replicas int) bool) {
	t.Helper()
	began := time.Now()
	r.await(t, "the replicas", func() bool { return isExpected(r.replicas(t)) })
	r.notes = append(r.notes, fmt.Sprintf("after %.0f s", time.Since(began).Seconds()))
	//testbounds:allow the pause between two looks
	for stayed := time.Now(); time.Since(stayed) < rest; <-time.After(between) {
		if !isExpected(r.replicas(t)) {
			t.Fatalf("the replicas were %v, and did not stay", r.seen)
		}
	}
}

// await waits until isReached returns true. It polls slowly, because the rows share the machine.
func (r *row) await(t *testing.T, what string, isReached func() bool) {
	t.Helper()
	var looked time.Time
	await.Described(t, what, func() bool {
		if time.Since(looked) < between {
			return false
		}
		looked = time.Now()
		return isReached()
	}, func() string { return fmt.Sprintf("the replicas were %v", r.seen) })
}

// sharesBothHosts pauses a canary at 20 %. The canary gets that share of the requests of each host, and each trigger's
// metric contains the requests of both sides.
func sharesBothHosts(t *testing.T, r *row) {
	t.Helper()
	r.Argo(t, "set", "image", "web", "web=argoproj/rollouts-demo:yellow")
	r.Do(t, "wait", r.target.resource, "--for=jsonpath={.status.phase}=Paused")
	from := time.Now()
	near := func(replicas int) bool { return math.Abs(float64(replicas-r.target.replicas)) <= 1 }
	r.awaitReplicas(t, near)
	for i, host := range slices.Sorted(maps.Keys(r.target.rates)) {
		const enough = 250
		window, err := r.clients[host].Sample(t.Context(), from, enough)
		if err != nil {
			t.Fatal(err)
		}
		share := float64(window.Colors["yellow"]) / float64(window.Done)
		off := math.Sqrt(canaryShare * (1 - canaryShare) / float64(window.Done))
		if math.Abs(share-canaryShare) > deviations*off {
			t.Errorf("the canary has %.1f %% of %d requests for %s, want 20 %%", 100*share, window.Done, host)
		}
		metric, rate := r.metric(t, i), r.target.rates[host]
		if math.Abs(metric-rate) > counted*rate {
			t.Errorf("the metric of %s is %v, want the %v requests a second of both sides", host, metric, rate)
		}
		r.notes = append(r.notes, fmt.Sprintf("a canary at 20 %%: %.1f %% of %s, metric %.1f", 100*share, host, metric))
	}
}

// metric returns the value of a trigger that KEDA serves to the HorizontalPodAutoscaler.
func (r *row) metric(t *testing.T, trigger int) float64 {
	t.Helper()
	selector := url.QueryEscape("scaledobject.keda.sh/name=web")
	raw := r.Do(t, "get", "--raw",
		fmt.Sprintf("/apis/external.metrics.k8s.io/v1beta1/namespaces/%s/s%d-http-request-rate?labelSelector=%s",
			r.Namespace, trigger, selector))
	var list struct {
		Items []struct {
			Value string `json:"value"`
		} `json:"items"`
	}
	if err := json.Unmarshal([]byte(raw), &list); err != nil || len(list.Items) != 1 {
		t.Fatalf("the metric is %s, %v", raw, err)
	}
	text, isInThousandths := strings.CutSuffix(list.Items[0].Value, "m")
	value, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatalf("the metric is %s, %v", raw, err)
	}
	if isInThousandths {
		value /= 1000
	}
	return value
}

// promotesBlueGreen sets a new version under load and promotes it. Requests continue, and the replicas follow them.
func promotesBlueGreen(t *testing.T, r *row) {
	t.Helper()
	r.Argo(t, "set", "image", "web", "web=argoproj/rollouts-demo:yellow")
	r.Argo(t, "promote", "web", "--full")
	isYellow := func() bool {
		window := r.clients["bluegreen.test"].Recent(3 * time.Second)
		return window.Done > 0 && window.Colors["yellow"] == window.Done
	}
	r.await(t, "the new version to have all requests", isYellow)
	r.awaitReplicas(t, func(replicas int) bool { return math.Abs(float64(replicas-r.target.replicas)) <= 1 })
	r.notes = append(r.notes, "another version promoted")
}

// restoresReplicas deletes the ScaledObject: the Rollout gets its previous number of replicas.
func restoresReplicas(t *testing.T, r *row) {
	t.Helper()
	r.Do(t, "delete", "scaledobject/web")
	const before = 3
	r.await(t, fmt.Sprintf("%d replicas, as before the ScaledObject", before),
		func() bool { return r.replicas(t) == before })
	r.notes = append(r.notes, "restored when the ScaledObject goes")
}
