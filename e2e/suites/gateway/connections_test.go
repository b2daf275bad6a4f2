package gateway

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/assert"
	"github.com/kedify/argo-rollouts-plugin/e2e/kube"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/invariant"
	"github.com/kedify/argo-rollouts-plugin/test/kit/stall"
	"github.com/kedify/argo-rollouts-plugin/test/load"
	"github.com/kedify/argo-rollouts-plugin/test/load/stats"
)

// measureTime is the duration of the measurement of a split, endMeasureTime that of the end of a canary.
const (
	measureTime    = 20 * time.Second
	endMeasureTime = 10 * time.Second
)

// connections is the run with the routes other than HTTPRoutes.
type connections struct {
	environment

	object  kube.Latest[kube.Rollout]
	routes  map[string]*kube.Latest[route] // by protocol
	clients []*testClient                  // one for each protocol
	// unrouted requests a server name without a route: it must never get a response.
	unrouted *testClient
	control  *control
	stalls   *stall.Detector
	// moved are the endpoint changes of the UDPRoute that the canaries cause by design.
	moved []endpointMove
}

func newConnections(w environment) *connections {
	const name = "echo.example.com"
	c := &connections{
		environment: w, routes: map[string]*kube.Latest[route]{},
		clients: []*testClient{
			{name: "ask-tcp", protocol: "tcp", port: 9000, rate: 50},
			{name: "ask-tls", protocol: "tls", port: 8443, rate: 25, serverName: name},
			// Envoy keeps a session for each source port for
			// one minute, at most 1024 of them for a route.
			{name: "ask-udp", protocol: "udp", port: 5300, rate: 14},
		},
		unrouted: &testClient{name: "ask-stray", protocol: "tls", port: 8443, rate: 1, serverName: "other.example.com"},
		control:  &control{client: &testClient{name: "ask-control", protocol: "udp", port: 5301, rate: 14}},
	}
	for _, a := range c.clients {
		c.routes[a.protocol] = new(kube.Latest[route])
	}
	return c
}

// testConnections drives a TCPRoute, a TLSRoute and a UDPRoute with one Rollout, through one promoted and one aborted
// canary.
func testConnections(t *testing.T, w environment, p proxy) { //nolint:thelper // a subtest
	c := newConnections(w)
	c.stalls = stall.Watch(t)
	c.install(t, p)
	c.answered(t, "blue", 1, endMeasureTime)

	c.do(t, "kubectl", "argo", "rollouts", "set", "image", "echo", "echo=argoproj/rollouts-demo:green")
	c.reach(t, 20)
	c.answered(t, "green", 0.2, measureTime)
	c.promote(t)
	c.reach(t, 60)
	c.answered(t, "green", 0.6, measureTime)
	// At 0/100 the stable Service's endpoints with 40 % are removed; at 100/0 the
	// canary's move to it.
	c.moves("the promotion", 0.4+1, func() {
		c.promote(t)
		c.reach(t, 0)
		c.healthy(t)
	})
	c.answered(t, "green", 1, endMeasureTime)

	c.do(t, "kubectl", "argo", "rollouts", "set", "image", "echo", "echo=argoproj/rollouts-demo:yellow")
	c.reach(t, 20)
	c.answered(t, "yellow", 0.2, measureTime)
	// The canary Service's endpoints with 20 % are removed.
	c.moves("the abort", 0.2, func() {
		c.do(t, "kubectl", "argo", "rollouts", "abort", "echo")
		c.reach(t, 0)
	})
	c.answered(t, "green", 1, endMeasureTime)
	c.control.stop(t)
}

// install applies all objects, waits until they respond, and starts the switches of the control. All of that lasts
// until the test ends.
func (c *connections) install(t *testing.T, p proxy) {
	t.Helper()
	c.apply(t, "connections", p.manifest, "services", "routes", "rollout")
	c.explainFailure(t, "rollout,tcproute,tlsroute,udproute")
	const listener = `{"name":"control","protocol":"UDP","port":5301,"allowedRoutes":{"kinds":[{"kind":"UDPRoute"}]}}`
	c.do(t, "kubectl", "patch", "gateway", "connections", "--type=json", "-p",
		`[{"op":"add","path":"/spec/listeners/-","value":`+listener+`}]`)
	c.applyFiles(t, filepath.Join("testdata", "control.yaml"))
	c.awaitCondition(t, "Ready", "pod/control-blue", "pod/control-green")
	c.watch(t)
	c.healthy(t)
	c.reach(t, 0)
	c.awaitCondition(t, "Programmed", "gateway/connections")
	// By its address: the clients set their own server names.
	address := c.do(t, "kubectl", "-n", "envoy-gateway-system", "get", "service", p.service, "-o",
		"jsonpath={.spec.clusterIP}")
	c.startClients(t, address, append([]*testClient{c.unrouted, c.control.client}, c.clients...), func() { c.checkAll(t) })
	c.control.start(t, c.environment)
}

// watch watches the objects until the test ends.
func (c *connections) watch(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var watches sync.WaitGroup
	t.Cleanup(func() { cancel(); watches.Wait() })
	watches.Go(func() { kube.Watch(ctx, c.runner, &c.object, "kubectl", "get", "rollout", "echo", "-w", "-o", "json") })
	for protocol, seen := range c.routes {
		watches.Go(func() {
			kube.Watch(ctx, c.runner, seen, "kubectl", "get", protocol+"route", "echo", "-w", "-o", "json")
		})
	}
}

func (c *connections) healthy(t *testing.T) {
	t.Helper()
	await.Described(t, "the Rollout to be Healthy", func() bool { return c.object.Get().Healthy() },
		func() string { return c.object.Get().String() })
}

func (c *connections) promote(t *testing.T) {
	t.Helper()
	await.Described(t, "the Rollout to pause", func() bool { return c.object.Get().Paused() },
		func() string { return c.object.Get().String() })
	c.do(t, "kubectl", "argo", "rollouts", "promote", "echo")
}

// reach waits until every route has the weight for the canary, is labeled exactly during the canary, and is accepted by
// the implementation.
func (c *connections) reach(t *testing.T, weight int) {
	t.Helper()
	for protocol, route := range c.routes {
		await.Described(t, fmt.Sprintf("weights %d/%d of the %s route, accepted", 100-weight, weight, protocol), func() bool {
			seen := route.Get()
			weights, ok := seen.weights("echo-stable", "echo-canary")
			return ok && weights == [2]int{100 - weight, weight} && seen.isAccepted() &&
				(weight > 0 && seen.isInProgress() || weight == 0 && seen.isNotInProgress())
		}, func() string { return route.Get().String() })
	}
}

// moves makes a change that moves the UDPRoute's endpoints that many times.
func (c *connections) moves(what string, times float64, change func()) {
	from := time.Now()
	change()
	c.moved = append(c.moved, endpointMove{what: what, from: from, until: time.Now().Add(usualUpdateDelay), times: times})
}

// answered checks the color's share of the responses over each protocol, for a time from now on. Third-party proxies
// may apply a route late: a wrong sample is repeated.
func (c *connections) answered(t *testing.T, color string, share float64, during time.Duration) {
	t.Helper()
	from := time.Now().Add(proxyUpdateDelay)
	for _, a := range c.clients {
		n := int(a.rate * during.Seconds())
		m := measured{sample: a.sample, isCurrent: func() bool { return true }}
		result, err := m.split(t, assert.Expectation{
			Color: color, Share: share, From: from, First: n, Second: n, Rule: stats.DefaultRule(),
			OnUnsure: logUnsure(t, a.protocol, share),
		})
		switch {
		case errors.Is(err, assert.ErrSplit):
			invariant.Broken(t, invariant.Split, "%s: %v", a.protocol, err)
		case err != nil:
			t.Fatal(err)
		}
		t.Logf("%s: %s: desired %.0f %%, measured %.2f %% of %d (%.1f σ); %s", a.protocol, color, share*100,
			result.Share()*100, result.Total, result.Sigmas(share), latencies(result.Window))
	}
}

// checkAll checks all results of the clients: every request has a response, except what a UDPRoute may lose. A name
// without a route has none.
func (c *connections) checkAll(t *testing.T) {
	t.Helper()
	for _, a := range append([]*testClient{c.unrouted, c.control.client}, c.clients...) {
		t.Log(a.summary())
		unanswered := 0
		for _, r := range a.all() {
			if r.Err == nil {
				continue
			}
			unanswered++
			if a.protocol != "udp" && a != c.unrouted {
				invariant.Broken(t, invariant.FailedRequests, "%s at %s: %v", a.name, r.Due.Format(time.StampMilli), r.Err)
			}
		}
		if a == c.unrouted && (unanswered == 0 || unanswered < len(a.all())) {
			t.Errorf("%d of %d connections for a name without a route were answered", len(a.all())-unanswered, len(a.all()))
		}
	}
	for _, a := range c.clients {
		if a.protocol == "udp" {
			udpLoss := newLoss(c.withoutStalls(t, a.all()), c.moved, c.control.countFollowed(t), len(c.control.switched))
			t.Log(udpLoss)
			if problem := udpLoss.problem(); problem != "" {
				invariant.Broken(t, invariant.FailedRequests, "%s: %s", problem, udpLoss)
			}
		}
	}
}

// withoutStalls returns the datagrams without those that were lost when nothing moved and the machine stalled:
// endpoints may have moved late then.
func (c *connections) withoutStalls(t *testing.T, all []load.Result) []load.Result {
	t.Helper()
	isVoid := func(r load.Result) bool {
		moving := slices.ContainsFunc(c.moved,
			func(m endpointMove) bool { return !r.Due.Before(m.from) && r.Due.Before(m.until) })
		return r.Err != nil && !moving && c.stalls.Largest(r.Due.Add(-usualUpdateDelay),
			r.Due.Add(usualUpdateDelay)) > stall.Limit
	}
	kept := slices.DeleteFunc(slices.Clone(all), isVoid)
	if void := len(all) - len(kept); void > 0 {
		t.Logf("void: %d datagrams were lost while the machine stalled", void)
	}
	return kept
}

// applyText applies manifests that are not files of the repository, and deletes the objects when the test ends.
func (w environment) applyText(t *testing.T, manifests string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "manifests.yaml")
	if err := os.WriteFile(file, []byte(manifests), 0o600); err != nil {
		t.Fatal(err)
	}
	w.applyFiles(t, file)
}
