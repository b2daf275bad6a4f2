package claims

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// address is that of the victim's proxy.
var address = netip.MustParseAddr("10.0.0.7")

// harness has a Resolver, the Pods of an API server, and what was assigned last.
type harness struct {
	*Resolver

	pods        map[string]*corev1.Pod // by namespace/name
	err         error                  // of the API server
	reads       []string
	isConnected bool
	assigned    map[model.Fleet][]model.Proxy
	log         bytes.Buffer
}

// start runs a Resolver in a bubble of synctest.
func start(t *testing.T) *harness {
	t.Helper()
	h := &harness{pods: map[string]*corev1.Pod{}}
	h.Resolver = New(Options{
		Pod: func(ctx context.Context, key model.Key) (*corev1.Pod, error) {
			if _, hasDeadline := ctx.Deadline(); !hasDeadline {
				t.Error("a read without a deadline")
			}
			h.reads = append(h.reads, key.String())
			pod := h.pods[key.String()]
			switch {
			case h.err != nil:
				return nil, h.err
			case pod == nil:
				return nil, apierrors.NewNotFound(corev1.Resource("pods"), key.Name)
			}
			return pod, nil
		},
		IsConnected: func(netip.Addr) bool { return h.isConnected },
		Assign:      func(proxies map[model.Fleet][]model.Proxy) { h.assigned = proxies },
		Logger:      slog.New(slog.NewTextHandler(&h.log, nil)),
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- h.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return h
}

// connect connects a proxy with the address, and waits for the decision.
func (h *harness) connect() {
	h.Connecting(address)
	synctest.Wait()
	time.Sleep(time.Second) // of synctest's clock
}

// fleets returns the fleets that have the address.
func (h *harness) fleets() []string {
	fleets := []string{}
	for fleet, proxies := range h.assigned {
		if slices.ContainsFunc(proxies, func(p model.Proxy) bool { return slices.Contains(p.Addresses, address) }) {
			fleets = append(fleets, string(fleet))
		}
	}
	slices.Sort(fleets)
	return fleets
}

// podWith returns a Pod in a phase with addresses.
func podWith(phase corev1.PodPhase, addresses ...string) *corev1.Pod {
	pod := &corev1.Pod{Status: corev1.PodStatus{Phase: phase, PodIP: addresses[0]}}
	for _, at := range addresses {
		pod.Status.PodIPs = append(pod.Status.PodIPs, corev1.PodIP{IP: at})
	}
	return pod
}

// claimed returns the proxies of the victim's fleet, with the address, and those of others that claim it, too.
func claimed(others ...string) map[model.Fleet][]model.Proxy {
	second := netip.MustParseAddr("fd00::7")
	proxies := map[model.Fleet][]model.Proxy{"victim": {{Name: "proxy", Addresses: []netip.Addr{address, second}}}}
	for _, name := range others {
		proxies["evil"] = append(proxies["evil"], model.Proxy{Name: name, Addresses: []netip.Addr{address}})
	}
	return proxies
}

// TestAddressOfTwoFleets has two fleets that claim the address of a proxy that connects.
func TestAddressOfTwoFleets(t *testing.T) {
	t.Parallel()
	neither := []string{"evil", "victim"}
	running, ended := corev1.PodRunning, corev1.PodSucceeded
	for name, test := range map[string]struct {
		pods  map[string]*corev1.Pod
		names []string // of the forged endpoints
		err   error
		want  []string
		log   string
	}{
		"a Pod has it": {
			pods: map[string]*corev1.Pod{"victim/proxy": podWith(running, "10.0.0.7")}, want: []string{"victim"},
			log: `it belongs to fleet \"victim\"`,
		},
		"a dual-stack Pod has it": {
			pods: map[string]*corev1.Pod{"victim/proxy": podWith(running, "fd00::7", "10.0.0.7")}, want: []string{"victim"},
		},
		"the Pod is pending": {
			pods: map[string]*corev1.Pod{"victim/proxy": podWith(corev1.PodPending, "10.0.0.7")}, want: []string{"victim"},
		},
		"another Pod of the attackers": {
			pods: map[string]*corev1.Pod{
				"victim/proxy": podWith(running, "10.0.0.7"), "evil/pod": podWith(running, "10.0.0.8"),
			}, want: []string{"victim"},
		},
		"a Pod of the attackers that had it": {
			pods: map[string]*corev1.Pod{
				"victim/proxy": podWith(running, "10.0.0.7"), "evil/pod": podWith(ended, "10.0.0.7"),
			}, want: []string{"victim"},
		},
		"the attackers' Pod has it, the victim's is deleted": {
			pods: map[string]*corev1.Pod{"evil/pod": podWith(running, "10.0.0.7")}, want: []string{"evil"},
		},
		"the attackers' Pod has it, the victim's has ended": {
			pods: map[string]*corev1.Pod{
				"victim/proxy": podWith(ended, "10.0.0.7"), "evil/pod": podWith(running, "10.0.0.7"),
			}, want: []string{"evil"},
		},
		"a Pod of each, on the network of a node": {
			pods: map[string]*corev1.Pod{
				"victim/proxy": podWith(running, "10.0.0.7"), "evil/pod": podWith(running, "10.0.0.7"),
			}, want: neither, log: "not exactly one Pod",
		},
		"no Pod has it": {want: neither, log: "not exactly one Pod"},
		"very many forged names": {
			pods:  map[string]*corev1.Pod{"victim/proxy": podWith(running, "10.0.0.7")},
			names: slices.Repeat([]string{"pod"}, 1000), want: []string{"victim"},
		},
		"no permission": {
			err: apierrors.NewForbidden(corev1.Resource("pods"), "proxy", errors.New("no role")), want: neither,
			log: "bind ClusterRole kedify-http-interceptor-pods",
		},
		"no API server": {err: errors.New("connection refused"), want: neither, log: "connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := start(t)
				h.pods, h.err = test.pods, test.err
				if test.names == nil {
					test.names = []string{"pod"}
				}
				h.Assign(claimed(test.names...))
				synctest.Wait()
				if len(h.reads) > 0 {
					t.Errorf("read %v before the proxy has connected", h.reads)
				}
				h.connect()
				if diff := cmp.Diff(test.want, h.fleets()); diff != "" {
					t.Errorf("fleets (-want +got):\n%s", diff)
				}
				if len(h.reads) > maxNames+1 {
					t.Errorf("%d reads", len(h.reads))
				}
				if !strings.Contains(h.log.String(), test.log) || strings.Count(h.log.String(), "\n") != 1 {
					t.Errorf("log, want one line with %q:\n%s", test.log, h.log.String())
				}
			})
		})
	}
}

// TestClaimOfAConnectedProxy has a fleet that claims an address before the Pod with it is an endpoint of its own fleet.
// A later claim does not end the decision, nor does an outage of the API server.
func TestClaimOfAConnectedProxy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := start(t)
		expect := func(when string, want ...string) {
			t.Helper()
			synctest.Wait()
			time.Sleep(time.Second)
			if diff := cmp.Diff(want, h.fleets()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", when, diff)
			}
		}
		h.pods["victim/proxy"] = podWith(corev1.PodRunning, "10.0.0.7")
		early := claimed("pod")
		delete(early, "victim")
		h.Assign(early)
		h.isConnected = true
		expect("before its own endpoint exists", "evil")
		h.Assign(claimed("pod"))
		expect("then", "victim")
		h.err = errors.New("connection refused")
		h.Assign(claimed("pod", "other"))
		expect("during an outage", "victim")
		h.connect()
		expect("on a new connection", "victim")
		for _, proxy := range h.assigned["victim"] {
			if len(proxy.Addresses) != 2 {
				t.Errorf("the victim's proxy has %v", proxy.Addresses)
			}
		}
		other := claimed("pod")
		other["victim"][0].Name = "next"
		h.Assign(other)
		expect("when another Pod has the address", "evil", "victim")
		h.err, h.pods["victim/next"] = nil, podWith(corev1.PodRunning, "10.0.0.7")
		delete(h.pods, "victim/proxy")
		h.connect()
		expect("after the outage", "victim")
		h.Assign(claimed())
		expect("without other claims", "victim")
		if len(h.owners) > 0 {
			t.Errorf("%d decisions remain", len(h.owners))
		}
	})
}

// TestAddressOfOneFleet: nothing is read for an address that one fleet has, even for two of its proxies.
func TestAddressOfOneFleet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := start(t)
		proxies := claimed()
		proxies["victim"] = append(proxies["victim"], model.Proxy{Name: "old", Addresses: []netip.Addr{address}})
		h.isConnected = true
		h.Assign(proxies)
		h.connect()
		if diff := cmp.Diff([]string{"victim"}, h.fleets()); diff != "" || len(h.reads) > 0 {
			t.Errorf("%d reads, %s", len(h.reads), diff)
		}
	})
}
