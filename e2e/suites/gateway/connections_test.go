package gateway

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/kube"
	"github.com/kedify/argo-rollouts-plugin/e2e/stats"
)

// askFor is how long a step is measured.
const askFor = 20 * time.Second

// What a change may cost a UDPRoute, where nothing is sent again: now and then
// datagrams stay without an answer while Envoy takes other weights or endpoints.
// They are at most this far from a change that was asked for or seen accepted, and
// there are at most so many for each.
const (
	nearChange     = 3 * time.Second
	nearChangeMost = 5
)

// asker is a Pod that asks one port of the Gateway again and again.
type asker struct {
	// protocol is tcp, tls or udp, and begins the kind of its route.
	protocol string
	port     int
	// rate is the number of connections, or datagrams from a fresh port, per
	// second.
	rate int
	// stray is set where the client asks for a name that no route has: nothing
	// may ever answer it.
	stray bool

	seen *kube.Latest[route]
}

func askers() []asker {
	return []asker{
		{protocol: "tcp", port: 9000, rate: 50, seen: new(kube.Latest[route])},
		{protocol: "tls", port: 8443, rate: 50, seen: new(kube.Latest[route])},
		// Envoy keeps a session for each port that a datagram came from until a
		// minute has passed, and has no more than 1024 of them for a route.
		{protocol: "udp", port: 5300, rate: 14, seen: new(kube.Latest[route])},
		{protocol: "tls", port: 8443, rate: 1, stray: true},
	}
}

// pod is the name of its Pod.
func (a asker) pod() string {
	if a.stray {
		return "ask-stray"
	}
	return "ask-" + a.protocol
}

// manifest is its Pod.
func (a asker) manifest() string {
	name := "echo.example.com"
	if a.stray {
		name = "other.example.com"
	}
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  terminationGracePeriodSeconds: 1
  containers:
    - name: ask
      image: argoproj/rollouts-demo:blue
      args: [ask, --protocol=%s, "--address=connections.envoy-gateway-system.svc.cluster.local:%d", --server-name=%s, --rate=%d]
---
`, a.pod(), a.protocol, a.port, name, a.rate)
}

// testConnections drives a TCPRoute, a TLSRoute and a UDPRoute by one Rollout,
// through one canary to its end and through another that is given up.
func testConnections(t *testing.T, w world) { //nolint:thelper // a subtest: its own lines tell how far it came
	w.apply(t, "connections", "gateway", "services", "routes", "rollout")
	w.explain(t, "rollout,tcproute,tlsroute,udproute")
	ctx, cancel := context.WithCancel(t.Context())
	var watches sync.WaitGroup
	t.Cleanup(func() { cancel(); watches.Wait() })
	var object kube.Latest[kube.Rollout]
	watches.Go(func() { kube.Watch(ctx, w.runner, &object, "kubectl", "get", "rollout", "echo", "-w", "-o", "json") })
	all := askers()
	for _, a := range all {
		if !a.stray {
			watches.Go(func() {
				kube.Watch(ctx, w.runner, a.seen, "kubectl", "get", a.protocol+"route", "echo", "-w", "-o", "json")
			})
		}
	}
	healthy := func() {
		t.Helper()
		await(t, "the Rollout to be Healthy", patience, func() bool { return object.Get().Healthy() }, func() string { return object.Get().String() })
	}
	healthy()
	w.routesReach(t, all, 0)
	var changes []time.Time
	w.ask(t, all, &changes)
	reach := func(weight int) {
		t.Helper()
		w.routesReach(t, all, weight)
		changes = append(changes, time.Now())
	}
	w.answered(t, all, "blue", 1)

	w.do(t, "kubectl", "argo", "rollouts", "set", "image", "echo", "echo=argoproj/rollouts-demo:green")
	for _, weight := range []int{20, 60} {
		reach(weight)
		w.answered(t, all, "green", float64(weight)/100)
		await(t, "the Rollout to pause", patience, func() bool { return object.Get().Paused() }, func() string { return object.Get().String() })
		w.do(t, "kubectl", "argo", "rollouts", "promote", "echo")
		changes = append(changes, time.Now())
	}
	reach(0)
	healthy()
	w.answered(t, all, "green", 1)

	w.do(t, "kubectl", "argo", "rollouts", "set", "image", "echo", "echo=argoproj/rollouts-demo:yellow")
	reach(20)
	w.answered(t, all, "yellow", 0.2)
	w.do(t, "kubectl", "argo", "rollouts", "abort", "echo")
	changes = append(changes, time.Now())
	reach(0)
	w.answered(t, all, "green", 1)
}

// routesReach waits until every route has the weight for the canary, has its
// mark only while there is one, and was taken by the implementation.
func (w world) routesReach(t *testing.T, all []asker, weight int) {
	t.Helper()
	for _, a := range all {
		if a.stray {
			continue
		}
		await(t, fmt.Sprintf("weights %d/%d of the %s route, accepted", 100-weight, weight, a.protocol), patience, func() bool {
			seen := a.seen.Get()
			weights, found := seen.weights("echo-stable", "echo-canary")
			_, label := seen.Metadata.Labels[inProgress]
			return found && weights == [2]int{100 - weight, weight} && label == (weight > 0) && seen.accepted()
		}, func() string { return a.seen.Get().String() })
	}
}

// ask starts the askers' Pods once the Gateway's proxy can answer them, and
// checks at the end of the test that every question was answered, but for what
// the changes cost.
func (w world) ask(t *testing.T, all []asker, changes *[]time.Time) {
	t.Helper()
	await(t, "the Gateway to be programmed", patience, func() bool {
		out, err := w.try(t.Context(), "kubectl", "get", "gateway", "connections", "-o", `jsonpath={.status.conditions[?(@.type=="Programmed")].status}`)
		return err == nil && out == "True"
	}, func() string { return "it is not" })
	var manifests strings.Builder
	for _, a := range all {
		manifests.WriteString(a.manifest())
	}
	w.applyText(t, manifests.String())
	t.Cleanup(func() {
		for _, a := range all {
			w.judgeAll(t, a, *changes)
		}
	})
	for _, a := range all {
		await(t, "answers to "+a.pod(), patience, func() bool {
			out, err := w.try(t.Context(), "kubectl", "logs", a.pod())
			return err == nil && out != ""
		}, func() string { return "nothing" })
	}
}

// answer is one line of an asker's log.
type answer struct {
	due  time.Time
	text string
}

// answers reads an asker's log.
func (w world) answers(t *testing.T, a asker) []answer {
	t.Helper()
	out, err := w.try(context.WithoutCancel(t.Context()), "kubectl", "logs", a.pod())
	if err != nil {
		t.Fatal(err)
	}
	var read []answer
	for line := range strings.Lines(out) {
		at, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		milliseconds, err := strconv.ParseInt(at, 10, 64)
		if err != nil {
			t.Fatalf("%s logged %q: %v", a.pod(), line, err)
		}
		read = append(read, answer{due: time.UnixMilli(milliseconds), text: text})
	}
	return read
}

// answered checks the color's share of the answers over each protocol, from now
// on and for askFor.
func (w world) answered(t *testing.T, all []asker, color string, share float64) {
	t.Helper()
	from := time.Now().Add(settleEnd)
	until := from.Add(askFor)
	await(t, "the measurement to end", askFor+2*settleEnd, func() bool { return time.Now().After(until.Add(settle)) }, func() string { return "it goes on" })
	for _, a := range all {
		if a.stray {
			continue
		}
		var split stats.Split
		for _, got := range w.answers(t, a) {
			if got.due.Before(from) || got.due.After(until) {
				continue
			}
			split.Total++
			if got.text == color {
				split.Hits++
			}
		}
		t.Logf("%s: %s: asked %.0f %%, measured %.2f %% of %d (%.1f σ)", a.protocol, color, share*100, split.Share()*100, split.Total, split.Sigmas(share))
		if split.Total < a.rate*int(askFor.Seconds())*3/4 || stats.DefaultRule().JudgeFresh(split, share) != stats.Agrees {
			t.Errorf("%s: %s answered %d of %d, asked %.0f %%", a.protocol, color, split.Hits, split.Total, share*100)
		}
	}
}

// judgeAll checks all that an asker has seen: a color every time, or for a name
// that no route has never one.
func (w world) judgeAll(t *testing.T, a asker, changes []time.Time) {
	t.Helper()
	all := w.answers(t, a)
	failed, lost := 0, 0
	for _, got := range all {
		if !strings.HasPrefix(got.text, "error: ") {
			continue
		}
		failed++
		if a.stray {
			continue
		}
		if a.protocol == "udp" && slices.ContainsFunc(changes, func(at time.Time) bool { return got.due.Sub(at).Abs() <= nearChange }) {
			lost++
			continue
		}
		t.Errorf("%s at %s: %s", a.protocol, got.due, got.text)
	}
	t.Logf("%s: %d questions, %d without an answer, %d of them near a change", a.pod(), len(all), failed, lost)
	switch {
	case len(all) == 0:
		t.Errorf("%s has asked nothing", a.pod())
	case a.stray && failed != len(all):
		t.Errorf("%d of %d connections for a name without a route were answered", len(all)-failed, len(all))
	case lost > nearChangeMost*len(changes):
		t.Errorf("%s: %d of %d without an answer in %d changes of the weight", a.protocol, lost, len(all), len(changes))
	}
}

// applyText applies manifests that are no file of the repository, and removes
// the objects when the test ends.
func (w world) applyText(t *testing.T, manifests string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "manifests.yaml")
	if err := os.WriteFile(file, []byte(manifests), 0o600); err != nil {
		t.Fatal(err)
	}
	w.applyFiles(t, file)
}
