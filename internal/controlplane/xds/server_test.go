package xds

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/xds/session"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
	"github.com/kedify/argo-rollouts-plugin/test/kit/envoyresources"
)

func TestServerRunsCanary(t *testing.T) {
	t.Parallel()
	for _, mode := range []kit.XDSMode{kit.XDSDelta, kit.XDSStateOfTheWorld} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			s := serve(t, Options{Grace: time.Millisecond})
			client := kit.NewXDSClient(t, s.conn, mode)
			for _, items := range []string{
				"stable listener:web web/0>stable",
				"stable canary listener:web web/20>stable,canary",
				"stable canary/1.2 listener:web web/20>stable,canary",
				"stable canary/2.2 listener:web web/50>stable,canary",
				"canary/2.2 listener:web web/100>canary",
				"stable/3 listener:web web/0>stable",
				"",
				"stable/3 listener:web web/0>stable",
				"",
			} {
				s.publishItems(items)
				// Scopes are added last, and clusters removed last.
				client.WaitFor(s.isSynced)
				s.await(s.acked(1, resourcev3.ClusterType, resourcev3.EndpointType, resourcev3.ListenerType))
			}
			state := client.State()
			if len(state.Broken) > 0 {
				t.Errorf("requests would have failed: %q", state.Broken)
			}
			if got := state.Delivered(resourcev3.ListenerType); got != 4 {
				t.Errorf("listeners were sent %d times, want 4: they were added and removed twice", got)
			}
		})
	}
}

func TestServerWaitsForFirstPublish(t *testing.T) {
	t.Parallel()
	for _, mode := range []kit.XDSMode{kit.XDSDelta, kit.XDSStateOfTheWorld} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			s := serve(t, Options{})
			client := kit.NewXDSClient(t, s.conn, mode)
			s.await(func(states []StreamState) bool { return len(states) == 1 })
			if state := client.State(); len(state.Deliveries) > 0 {
				t.Fatalf("responses before the first snapshot: %+v", state.Deliveries)
			}
			s.publishItems("")
			client.WaitFor(func(state kit.XDSState) bool {
				return state.Delivered(resourcev3.ClusterType) == 1 && state.Delivered(resourcev3.ListenerType) == 1
			})
		})
	}
}

func TestServerSendsDifferenceAfterReconnect(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{Grace: time.Millisecond})
	s.publishItems("a b old listener:web web/1>a,old")
	client := kit.NewXDSClient(t, s.conn, kit.XDSDelta)
	client.WaitFor(s.isSynced)
	client.Disconnect()
	s.publishItems("a b/2 listener:web web/2>a,b")
	before := len(client.State().Deliveries)
	client.Reconnect(s.conn)
	state := client.WaitFor(s.isSynced)
	sent := map[string][]string{}
	for _, d := range state.Deliveries[before:] {
		sent[d.TypeURL] = append(sent[d.TypeURL], d.Names...)
		for _, name := range d.Removed {
			sent[d.TypeURL] = append(sent[d.TypeURL], "-"+name)
		}
	}
	want := map[string][]string{
		resourcev3.ClusterType:     {"b", "-old"},
		resourcev3.EndpointType:    {"b", "-old"},
		resourcev3.ListenerType:    nil,
		resourcev3.ScopedRouteType: {"web"},
	}
	// Whether the removal of the old endpoints is sent depends on the order of messages.
	if i := slices.Index(sent[resourcev3.EndpointType], "-old"); i < 0 {
		want[resourcev3.EndpointType] = []string{"b"}
	}
	if diff := cmp.Diff(want, sent); diff != "" {
		t.Errorf("sent after the cut differs (-want +got):\n%s", diff)
	}
	if len(state.Broken) > 0 {
		t.Errorf("requests would have failed: %q", state.Broken)
	}
}

func TestServerSendsOnlyChanges(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{})
	names := envoyresources.Names(1000)
	items := strings.Join(names, " ") + " listener:web web>" + strings.Join(names, ",")
	s.publishItems(items)
	client := kit.NewXDSClient(t, s.conn, kit.XDSDelta)
	client.WaitFor(s.isSynced)
	before := len(client.State().Deliveries)
	s.publishItems(strings.Replace(items, "c7 ", "c7/1.2 ", 1))
	state := client.WaitFor(func(state kit.XDSState) bool { return len(state.Deliveries) > before })
	want := []kit.XDSDelivery{{TypeURL: resourcev3.EndpointType, Names: []string{"c7"}}}
	if diff := cmp.Diff(want, state.Deliveries[before:]); diff != "" {
		t.Errorf("deliveries differ (-want +got):\n%s", diff)
	}
}

func TestServerReportsRejections(t *testing.T) {
	t.Parallel()
	for _, mode := range []kit.XDSMode{kit.XDSDelta, kit.XDSStateOfTheWorld} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			registry := prometheus.NewRegistry()
			metrics, err := NewMetrics(registry)
			if err != nil {
				t.Fatal(err)
			}
			s := serve(t, Options{Metrics: metrics})
			good, bad := kit.NewXDSClient(t, s.conn, mode), kit.NewXDSClient(t, s.conn, mode)
			s.publishItems("a listener:web web/1>a x>a")
			scopes := resourcev3.ScopedRouteType
			s.await(s.acked(2, resourcev3.ClusterType, resourcev3.EndpointType, resourcev3.ListenerType, scopes))
			first := s.Versions()(testFleet, scopes, "web")

			bad.Reject(func(typeURL, name string) error {
				if typeURL == scopes && name == "web" {
					return errors.New("no such filter")
				}
				return nil
			})
			s.publishItems("a listener:web web/2>a x/2>a")
			second := s.Versions()(testFleet, scopes, "web")
			good.WaitFor(hasRoutes("2"))
			rejected := session.ResourceState{Acked: first, Nacked: second, Message: "no such filter"}
			s.await(func(states []StreamState) bool {
				// Both answer x, independently of web.
				x := session.ResourceState{Acked: s.Versions()(testFleet, scopes, "x")}
				accepted := session.ResourceState{Acked: second}
				got := map[session.ResourceState]int{}
				var heldBack []string
				for _, state := range states {
					for _, name := range []string{"web", "x"} {
						got[state.Resource(scopes, name)]++
					}
					heldBack = append(heldBack, state.rejected()...)
				}
				return cmp.Equal(got, map[session.ResourceState]int{x: 2, accepted: 1, rejected: 1}) &&
					cmp.Equal(heldBack, []string{"scope web"}) &&
					testutil.ToFloat64(metrics.heldBack[session.ScopeKind]) == 1
			})
			if n := testutil.ToFloat64(metrics.nacks.WithLabelValues("scope")); n != 1 {
				t.Errorf("%v NACKs were counted, want 1", n)
			}
			if n := testutil.ToFloat64(metrics.streams); n != 2 {
				t.Errorf("%v streams were counted, want 2", n)
			}

			bad.Reject(nil)
			s.publishItems("a listener:web web/1>a x/2>a")
			all := s.acked(2, scopes)
			s.await(func(states []StreamState) bool {
				return all(states) && testutil.ToFloat64(metrics.heldBack[session.ScopeKind]) == 0
			})
			if again := s.Versions()(testFleet, scopes, "web"); again != first {
				t.Errorf("the same content has version %s, and had %s", again, first)
			}
		})
	}
}

// TestServerIsolatesRejectedVersions requires that a new proxy first receives what no other proxy has rejected, and
// then each other resource alone.
func TestServerIsolatesRejectedVersions(t *testing.T) {
	t.Parallel()
	for _, mode := range []kit.XDSMode{kit.XDSDelta, kit.XDSStateOfTheWorld} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			s := serve(t, Options{})
			scopes := resourcev3.ScopedRouteType
			reject := func(typeURL, name string) error {
				if typeURL == scopes && name == "bad" {
					return errors.New("no")
				}
				return nil
			}
			first := kit.NewXDSClient(t, s.conn, mode)
			first.Reject(reject)
			s.publishItems("a listener:web x>a y>a")
			first.WaitFor(s.isSynced)
			s.publishItems("a listener:web x>a y>a bad>a")
			s.await(func(states []StreamState) bool { return len(states[0].rejected()) == 1 })

			second := kit.NewXDSClient(t, s.conn, mode)
			second.Reject(reject)
			s.await(func(states []StreamState) bool { return len(states) == 2 && len(states[1].rejected()) == 1 })
			var got [][]string
			for _, delivery := range second.State().Deliveries {
				if delivery.TypeURL == scopes {
					got = append(got, delivery.Names)
				}
			}
			want := [][]string{{"x", "y"}, {"bad"}}
			if mode == kit.XDSStateOfTheWorld {
				want[1] = []string{"bad", "x", "y"}
			}
			if diff := cmp.Diff(want, got[:min(len(got), len(want))]); diff != "" {
				t.Errorf("scopes that were sent (-want +got):\n%s", diff)
			}

			s.publishItems("a listener:web x>a y>a") // Of another version of bad, a NACK might arrive meanwhile.
			f := s.fleets[testFleet]
			if f.rejected.Retain(f.current().snapshot); f.rejected.Len() != 0 {
				t.Errorf("%d versions are stored that are not published", f.rejected.Len())
			}
		})
	}
}

func TestStalledProxyDelaysNoOther(t *testing.T) {
	t.Parallel()
	for _, mode := range []kit.XDSMode{kit.XDSDelta, kit.XDSStateOfTheWorld} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			s := serve(t, Options{})
			stalled, lively := kit.NewXDSClient(t, s.conn, mode), kit.NewXDSClient(t, s.conn, mode)
			names := envoyresources.Names(200)
			items := strings.Join(names, " ") + " listener:web web/0>" + strings.Join(names, ",")
			s.publishItems(items)
			stalled.WaitFor(s.isSynced)
			lively.WaitFor(s.isSynced)
			stalled.Stall()
			const steps = 100
			for step := range steps {
				version := strings.Repeat("x", step+1)
				s.publishItems(strings.Replace(items, "web/0", "web/"+version, 1))
				lively.WaitFor(hasRoutes(version))
			}
			before := stalled.State().Delivered(resourcev3.ScopedRouteType)
			stalled.Resume()
			state := stalled.WaitFor(hasRoutes(strings.Repeat("x", steps)))
			if got := state.Delivered(resourcev3.ScopedRouteType) - before; got >= steps/2 {
				t.Errorf("the stalled proxy got %d of %d versions, want the last and few others", got, steps)
			}
		})
	}
}

// hasRoutes is a condition for WaitFor: the client has this version of the scope web.
func hasRoutes(version string) func(kit.XDSState) bool {
	return func(state kit.XDSState) bool {
		hosts := state.Scopes["web"].GetRouteConfiguration().GetVirtualHosts()
		return len(hosts) > 0 && hosts[0].GetRequestHeadersToRemove()[0] == version
	}
}

// TestCanaryAmongManyApplicationsOverGRPC requires that for a canary of one application among a thousand only its own
// resources are sent.
func TestCanaryAmongManyApplicationsOverGRPC(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{})
	desired := envoyresources.Applications(t, 1000)
	if err := s.publish(desired); err != nil {
		t.Fatal(err)
	}
	client := kit.NewXDSClient(t, s.conn, kit.XDSDelta)
	all := s.acked(
		1, resourcev3.ClusterType, resourcev3.EndpointType, resourcev3.ListenerType, resourcev3.ScopedRouteType,
	)
	s.await(all)
	before := len(client.State().Deliveries)
	envoyresources.AddCanary(desired)
	if err := s.publish(desired); err != nil {
		t.Fatal(err)
	}
	s.await(all)
	got := map[string][]string{}
	for _, d := range client.State().Deliveries[before:] {
		got[d.TypeURL] = append(got[d.TypeURL], d.Names...)
	}
	want := map[string][]string{
		resourcev3.ClusterType: {"canary"}, resourcev3.EndpointType: {"canary"}, resourcev3.ScopedRouteType: {"c7"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("sent for one canary (-want +got):\n%s", diff)
	}
}

// TestServerKeepsClustersOfReconnectingProxy removes a cluster while the proxy is disconnected, in both modes of the
// protocol.
func TestServerKeepsClustersOfReconnectingProxy(t *testing.T) {
	t.Parallel()
	for _, mode := range []kit.XDSMode{kit.XDSDelta, kit.XDSStateOfTheWorld} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			s := serve(t, Options{Grace: time.Millisecond})
			s.publishItems("stable canary listener:web web/1>stable,canary")
			client := kit.NewXDSClient(t, s.conn, mode)
			client.WaitFor(s.isSynced)
			client.Disconnect()
			s.publishItems("stable listener:web web/2>stable")
			before := len(client.State().Deliveries)
			client.Reconnect(s.conn)
			state := client.WaitFor(s.isSynced)
			s.await(s.acked(
				1, resourcev3.ClusterType, resourcev3.EndpointType, resourcev3.ListenerType, resourcev3.ScopedRouteType,
			))
			if len(state.Broken) > 0 {
				t.Errorf("requests would have failed: %q", state.Broken)
			}
			order := []string{}
			for _, d := range state.Deliveries[before:] {
				isRemoved := slices.Contains(d.Removed, "canary") || mode == kit.XDSStateOfTheWorld
				if d.TypeURL == resourcev3.ScopedRouteType || d.TypeURL == resourcev3.ClusterType && isRemoved {
					order = append(order, d.TypeURL)
				}
			}
			if want := []string{resourcev3.ScopedRouteType, resourcev3.ClusterType}; !slices.Equal(order, want) {
				t.Errorf("sent after the cut: %q, want %q", order, want)
			}
		})
	}
}
