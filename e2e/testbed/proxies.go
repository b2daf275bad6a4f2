package testbed

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// proxiesPath is the API path of the Pods of the proxies.
const proxiesPath = "/api/v1/namespaces/" + Namespace + "/pods?labelSelector=app%3Dkedify-proxy"

// pods is the part of a PodList that the test reads.
type pods struct {
	Items []pod `json:"items"`
}

// pod is the part of a Pod that the test reads.
type pod struct {
	Metadata struct {
		Name                       string     `json:"name"`
		DeletionTimestamp          *time.Time `json:"deletionTimestamp"`
		DeletionGracePeriodSeconds int        `json:"deletionGracePeriodSeconds"`
	} `json:"metadata"`
	Status struct {
		PodIP      string `json:"podIP"`
		Conditions []struct {
			Type   string `json:"type"`
			Status string `json:"status"`
		} `json:"conditions"`
	} `json:"status"`
}

// isReady reports whether the Pod is Ready and does not terminate.
func (p pod) isReady() bool {
	for _, condition := range p.Status.Conditions {
		if condition.Type == "Ready" {
			return condition.Status == "True" && p.Metadata.DeletionTimestamp == nil
		}
	}
	return false
}

// deleted returns when the deletion of the Pod was requested, rounded down to seconds; zero if it was not.
func (p pod) deleted() time.Time {
	if p.Metadata.DeletionTimestamp == nil {
		return time.Time{}
	}
	return p.Metadata.DeletionTimestamp.Add(-time.Duration(p.Metadata.DeletionGracePeriodSeconds) * time.Second)
}

// findProxies reads the Pods of the proxies into Proxies.
func (b *Testbed) findProxies(t *testing.T) {
	t.Helper()
	var list pods
	err := Repeat(t.Context(), "the list of proxies", func() error {
		list = pods{}
		return b.Get(t.Context(), proxiesPath, &list)
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range list.Items {
		if pod.Metadata.DeletionTimestamp != nil {
			continue
		}
		ip, err := netip.ParseAddr(pod.Status.PodIP)
		if err != nil {
			t.Fatalf("the address of pod %s: %v", pod.Metadata.Name, err)
		}
		b.Proxies = append(b.Proxies, Proxy{
			Name: pod.Metadata.Name, HTTP: netip.AddrPortFrom(ip, 8080),
		})
	}
	slices.SortFunc(b.Proxies, func(x, y Proxy) int { return strings.Compare(x.Name, y.Name) })
	if len(b.Proxies) != 2 {
		t.Fatalf("%d proxies, want 2", len(b.Proxies))
	}
}

// listPause is the time between two lists of the proxies.
const listPause = 100 * time.Millisecond

// proxyWatcher records the routes of every proxy, also of those that are created later. It stops to record a proxy when
// that terminates: the interceptor then no longer counts it.
type proxyWatcher struct {
	testbed *Testbed
	running sync.WaitGroup
	// ends end the recordings, by the names of the proxies.
	ends map[string]context.CancelFunc
}

// run lists the proxies until ctx ends.
func (w *proxyWatcher) run(ctx context.Context) {
	defer w.running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ticks := time.NewTicker(listPause)
	defer ticks.Stop()
	for ctx.Err() == nil {
		var list pods
		if w.testbed.Get(ctx, proxiesPath, &list) == nil {
			w.update(ctx, list.Items)
		}
		select {
		case <-ctx.Done():
		case <-ticks.C:
		}
	}
}

// update starts and ends recordings according to a list of Pods.
func (w *proxyWatcher) update(ctx context.Context, list []pod) {
	ready, present := 0, map[string]bool{}
	for _, pod := range list {
		name := pod.Metadata.Name
		if pod.Metadata.DeletionTimestamp != nil {
			w.end(name, pod.deleted())
			continue
		}
		present[name] = true
		if !pod.isReady() {
			continue
		}
		ready++
		if _, watched := w.ends[name]; !watched {
			watch, cancel := context.WithCancel(ctx)
			w.ends[name] = cancel
			w.running.Go(func() { w.testbed.watchEnvoy(watch, Proxy{Name: name}) })
		}
	}
	for name := range w.ends {
		if !present[name] { // it was deleted between two lists
			w.end(name, time.Now().Add(-time.Second))
		}
	}
	w.testbed.Record.setReadyProxies(ready)
}

// end ends the recording of a proxy that has been terminating since a moment.
func (w *proxyWatcher) end(name string, since time.Time) {
	end, watched := w.ends[name]
	if !watched {
		return
	}
	end()
	delete(w.ends, name)
	w.testbed.Record.endEnvoy(name, since)
}

// proxies returns the number of proxies that have to have each weight.
func (b *Testbed) proxies() int {
	if !b.follows {
		return len(b.Proxies)
	}
	return b.Record.Now().ReadyProxies
}

// AwaitProxies waits until exactly this number of proxies is Ready, none terminates, and each of them runs a weight.
func (b *Testbed) AwaitProxies(ctx context.Context, n, weight int) error {
	_, err := b.Await(ctx, fmt.Sprintf("%d proxies with weight %d", n, weight), func() bool {
		return b.proxies() == n && b.Record.Now().HasWeight(weight, n)
	})
	return err
}
