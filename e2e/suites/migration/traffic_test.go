package migration

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/provider"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/invariant"
	"github.com/kedify/argo-rollouts-plugin/test/load"
)

const (
	// rate is the number of requests per second.
	rate = 50
	// enough are the replicas that this rate needs, according to testdata/shop.yaml.
	enough = 3
	// sample is the number of requests after which it is clear which path they take.
	sample = 200
)

// traffic is a load, and the replicas of the application meanwhile.
type traffic struct {
	client   *load.Client
	replicas *replicas
	stop     context.CancelFunc
	watched  chan error
}

// startTraffic starts the load on the Ingress controller.
func (e *environment) startTraffic(t *testing.T) {
	t.Helper()
	client, err := load.Start(t.Context(), load.Config{
		Address: e.Addresses[provider.IngressAddress], Host: host, Path: "/color", Rate: rate,
		Timeout: await.Patience(), MaxInFlight: int(rate * await.Patience().Seconds()), Colors: []string{"blue"},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	e.traffic = &traffic{client: client, replicas: new(replicas), stop: stop, watched: make(chan error, 1)}
	go func() {
		e.traffic.watched <- e.Stream(ctx, e.traffic.replicas.read, "kubectl", "get", "-n", namespace, "deployment/shop",
			"--watch", "--no-headers", "-o", "custom-columns=READY:.status.readyReplicas")
	}()
}

// stopTraffic stops the load, of which no request may have failed.
func (e *environment) stopTraffic(t *testing.T) {
	t.Helper()
	totals, _ := e.traffic.client.Stop()
	select {
	case err := <-e.traffic.watched:
		t.Errorf("the replicas were not watched until the end: %v", err)
	default:
		e.traffic.stop()
		t.Logf("the watch of the replicas ends: %v", <-e.traffic.watched)
	}
	e.traffic = nil
	if totals.Failed > 0 || totals.Ended == 0 {
		invariant.Broken(t, invariant.FailedRequests, "%d of %d: %v", totals.Failed, totals.Ended, totals.Reasons)
	}
	t.Logf("%d of %d requests failed", totals.Failed, totals.Ended)
}

// replicas are the ready replicas of the application.
type replicas struct {
	mu          sync.Mutex
	now, lowest int
}

// read reads the output of kubectl, with one number per change.
func (r *replicas) read(out io.Reader) error {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		now, err := strconv.Atoi(strings.TrimSpace(lines.Text()))
		if err != nil {
			now = 0 // <none>
		}
		r.mu.Lock()
		r.now, r.lowest = now, min(r.lowest, now)
		r.mu.Unlock()
	}
	return lines.Err()
}

// mark starts to look for the lowest number, and returns the present one.
func (r *replicas) mark() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lowest = r.now
	return r.now
}

// minimum returns the lowest number since mark.
func (r *replicas) minimum() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lowest
}

// awaitReplicas waits until the application has the replicas that the load needs.
func (e *environment) awaitReplicas(t *testing.T) {
	t.Helper()
	await.Described(t, "enough replicas", func() bool { return e.traffic.replicas.mark() >= enough },
		func() string { return strconv.Itoa(e.traffic.replicas.mark()) })
}

// served are the numbers of requests that each path has received.
type served struct{ addOn, proxies int }

// served reads them. A product without Pods has received none.
func (e *environment) served(ctx context.Context) (served, error) {
	addOn, addOnErr := e.count(ctx, keda, "app.kubernetes.io/instance=interceptor", "2223/proxy/metrics",
		`(?m)^interceptor_request_count_total\{.*\} (\S+)$`)
	proxies, err := e.count(ctx, namespace, "app=kedify-proxy", "9901/proxy/stats/prometheus",
		`(?m)^envoy_cluster_upstream_rq_total\{.*shop.*\} (\S+)$`)
	return served{addOn, proxies}, errors.Join(addOnErr, err)
}

// count returns the sum of a metric of Pods, which a pattern matches.
func (e *environment) count(ctx context.Context, namespace, selector, path, pattern string) (int, error) {
	pods, err := e.Run(ctx, "kubectl", "get", "-n", namespace, "pods", "-l", selector, "-o",
		"jsonpath={.items[*].metadata.name}")
	sum := 0
	for pod := range strings.FieldsSeq(pods) {
		text, podErr := e.Run(ctx, "kubectl", "get", "--raw", "/api/v1/namespaces/"+namespace+"/pods/"+pod+":"+path)
		err = errors.Join(err, podErr)
		for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
			number, parseErr := strconv.ParseFloat(match[1], 64)
			sum, err = sum+int(number), errors.Join(err, parseErr)
		}
	}
	return sum, err
}

// awaitPath waits until all requests take one path: that of the proxies, or that of the add-on.
func (e *environment) awaitPath(t *testing.T, isProxies bool) {
	t.Helper()
	var grown served
	var requests int
	var err error
	await.Described(t, "all requests to take one path", func() bool {
		before, beforeErr := e.served(t.Context())
		began := e.traffic.client.Begun()
		await.True(t, "requests", func() bool { return e.traffic.client.Begun() >= began+sample })
		after, afterErr := e.served(t.Context())
		requests, err = e.traffic.client.Begun()-began, errors.Join(beforeErr, afterErr)
		grown = served{after.addOn - before.addOn, after.proxies - before.proxies}
		if err != nil {
			return false
		}
		if isProxies {
			return grown.addOn == 0 && grown.proxies >= sample
		}
		return grown.proxies == 0 && grown.addOn >= sample
	}, func() string { return fmt.Sprintf("of about %d requests %+v, %v", requests, grown, err) })
	t.Logf("of about %d requests: %+v", requests, grown)
}

// wake waits until the application has no Pod, and sends a request, which must be answered after a wait.
func (e *environment) wake(t *testing.T) {
	t.Helper()
	pods := ""
	await.Described(t, "zero replicas", func() bool {
		pods = e.Do(t, "get", "-n", namespace, "pods", "-l", "app=shop", "-o", "name")
		return pods == ""
	}, func() string { return pods })
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		"http://"+e.Addresses[provider.IngressAddress]+"/color", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Host = host
	client := &http.Client{Timeout: await.Patience()}
	defer client.CloseIdleConnections()
	began := time.Now()
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK || !strings.Contains(string(body), "blue") ||
		response.Header.Get("X-Keda-Http-Cold-Start") != "true" {
		t.Fatalf("the answer to the request that wakes is %s, %v, %q, %v", response.Status, response.Header, body, err)
	}
	t.Logf("a request to zero replicas was answered after %.1f s", time.Since(began).Seconds())
}

// report has the steps under load.
type report []struct {
	name                       string
	requests, failed, replicas int
	took                       time.Duration
}

// String returns a table.
func (r report) String() string {
	var text strings.Builder
	text.WriteString("| Step | Requests | Failed | Fewest replicas | Time |\n|---|---|---|---|---|\n")
	for _, row := range r {
		fmt.Fprintf(&text, "| %s | %d | %d | %d | %.0f s |\n", row.name, row.requests, row.failed, row.replicas,
			row.took.Seconds())
	}
	return text.String()
}

// step runs one step, under load if there is any: no request may fail, and the application keeps its replicas. After a
// failed step it skips the others.
func (e *environment) step(t *testing.T, name string, do func(t *testing.T)) {
	t.Helper()
	began := time.Now()
	if e.traffic == nil {
		if !t.Run(name, do) {
			t.FailNow()
		}
		t.Logf("%s: %.0f s", name, time.Since(began).Seconds())
		return
	}
	before := e.traffic.client.Totals()
	e.traffic.replicas.mark()
	passed := t.Run(name, do)
	after, lowest := e.traffic.client.Totals(), e.traffic.replicas.minimum()
	e.report = append(e.report, report{{
		name, after.Ended - before.Ended, after.Failed - before.Failed, lowest, time.Since(began),
	}}...)
	if after.Failed > before.Failed {
		invariant.Broken(t, invariant.FailedRequests, "%s: %d of %d: %v", name, after.Failed-before.Failed,
			after.Ended-before.Ended, after.Reasons)
	}
	if lowest < enough {
		t.Errorf("%s: the application had %d ready replicas, want at least %d", name, lowest, enough)
	}
	if !passed || t.Failed() {
		t.Fatalf("\n%s", e.report)
	}
}
