package xds

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/kedify/argo-rollouts-plugin/test/kit"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// served is a server behind a real gRPC connection in memory.
type served struct {
	*Server
	tb   testing.TB
	conn *grpc.ClientConn
}

// testFleet is the fleet of all proxies of a served server.
const testFleet = "apps"

func serve(tb testing.TB, options Options) *served {
	tb.Helper()
	if options.Grace == 0 {
		options.Grace = DefaultGrace
	}
	s := &served{Server: NewServer(options), tb: tb}
	s.SetMembers(map[netip.Addr][]string{{}: {testFleet}}) // What is in memory has no address.
	listener := bufconn.Listen(1 << 16)
	server := grpc.NewServer(GRPCOptions()...)
	s.Register(server)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:///memory",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		tb.Fatal(err)
	}
	s.conn = conn
	tb.Cleanup(func() {
		if err := conn.Close(); err != nil {
			tb.Errorf("close connection: %v", err)
		}
		s.Close()
		server.GracefulStop()
		if err := <-done; err != nil {
			tb.Errorf("serve: %v", err)
		}
	})
	return s
}

// world publishes a world as scripts write it.
func (s *served) world(items string) {
	s.tb.Helper()
	if err := s.Publish(testFleet, desiredWorld(s.tb, items)); err != nil {
		s.tb.Fatal(err)
	}
}

// await waits until the streams satisfy the condition.
func (s *served) await(condition func([]StreamState) bool) {
	s.tb.Helper()
	await.Described(s.tb, "the state of the streams", func() bool { return s.look(condition) }, func() string {
		return fmt.Sprintf("there are %d streams", len(s.listed()))
	})
}

// look asks the condition about all streams.
func (s *served) look(condition func([]StreamState) bool) bool {
	var states []StreamState
	for _, st := range s.listed() {
		states = append(states, StreamState{stream: st})
	}
	return condition(states)
}

// versions are the versions of what is published of a type.
func (s *served) versions(typeURL string) map[string]string {
	k, _ := kindOf(typeURL)
	s.mu.Lock()
	f := s.fleet(testFleet)
	s.mu.Unlock()
	if current := f.current().snapshot; current != nil {
		return versionsOf(mapOf(current.resources[k]))
	}
	return map[string]string{}
}

// settled is a condition for WaitFor: the client holds exactly what is published.
func (s *served) settled(state kit.XDSState) bool {
	for k := range kind(kindCount) {
		want, got := s.versions(k.typeURL()), state.Versions[k.typeURL()]
		if len(want) != len(got) {
			return false
		}
		for name, version := range want {
			// In state of the world there is one version for a response.
			if held, has := got[name]; !has || state.Mode == kit.XDSDelta && held != version {
				return false
			}
		}
	}
	return len(state.Warming) == 0
}

// heldBack names what is held back on a stream, with its kind.
func (v StreamState) heldBack() []string {
	v.stream.mu.Lock()
	defer v.stream.mu.Unlock()
	var names []string
	for k := range kind(kindCount) {
		for _, name := range v.stream.session.heldBack(k) {
			names = append(names, k.String()+" "+name)
		}
	}
	return names
}

// known is what the server knows of a resource on a stream.
func (v StreamState) known(k kind, name string) known {
	v.stream.mu.Lock()
	defer v.stream.mu.Unlock()
	return v.stream.session.known(k, name)
}

// acked is a condition for await: every stream has ACKed what is published, of these types, and has
// nothing else.
func (s *served) acked(streams int, typeURLs ...string) func([]StreamState) bool {
	return func(states []StreamState) bool {
		if len(states) != streams {
			return false
		}
		for _, state := range states {
			for _, typeURL := range typeURLs {
				k, _ := kindOf(typeURL)
				acked := map[string]string{}
				state.stream.mu.Lock()
				for name, res := range state.stream.session.states(k) {
					if res.InSync {
						acked[name] = res.Acked
					}
				}
				state.stream.mu.Unlock()
				if !cmp.Equal(s.versions(typeURL), acked) {
					return false
				}
			}
		}
		return true
	}
}

func TestServerLeadsAProxyThroughACanary(t *testing.T) {
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
				s.world(items)
				// Routes are last to come, and clusters last to go.
				client.WaitFor(s.settled)
				s.await(s.acked(1, resourcev3.ClusterType, resourcev3.EndpointType, resourcev3.ListenerType))
			}
			state := client.State()
			if len(state.Broken) > 0 {
				t.Errorf("requests would have failed: %q", state.Broken)
			}
			if got := state.Delivered(resourcev3.ListenerType); got != 4 {
				t.Errorf("listeners were sent %d times, want 4: they came and went twice", got)
			}
		})
	}
}

func TestServerWaitsForItsFirstWorld(t *testing.T) {
	t.Parallel()
	for _, mode := range []kit.XDSMode{kit.XDSDelta, kit.XDSStateOfTheWorld} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			s := serve(t, Options{})
			client := kit.NewXDSClient(t, s.conn, mode)
			s.await(func(states []StreamState) bool { return len(states) == 1 })
			if state := client.State(); len(state.Deliveries) > 0 {
				t.Fatalf("answered before the first world: %+v", state.Deliveries)
			}
			s.world("")
			client.WaitFor(func(state kit.XDSState) bool {
				return state.Delivered(resourcev3.ClusterType) == 1 && state.Delivered(resourcev3.ListenerType) == 1
			})
		})
	}
}

func TestServerSendsAReconnectingProxyTheDifference(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{Grace: time.Millisecond})
	s.world("a b old listener:web web/1>a,old")
	client := kit.NewXDSClient(t, s.conn, kit.XDSDelta)
	client.WaitFor(s.settled)
	client.Disconnect()
	s.world("a b/2 listener:web web/2>a,b")
	before := len(client.State().Deliveries)
	client.Reconnect(s.conn)
	state := client.WaitFor(s.settled)
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
	// Whether the client still hears of the old endpoints depends on who is first.
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

func TestServerSendsOnlyWhatChanged(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{})
	names := manyNames(1000)
	items := strings.Join(names, " ") + " listener:web web>" + strings.Join(names, ",")
	s.world(items)
	client := kit.NewXDSClient(t, s.conn, kit.XDSDelta)
	client.WaitFor(s.settled)
	before := len(client.State().Deliveries)
	s.world(strings.Replace(items, "c7 ", "c7/1.2 ", 1))
	state := client.WaitFor(func(state kit.XDSState) bool { return len(state.Deliveries) > before })
	want := []kit.XDSDelivery{{TypeURL: resourcev3.EndpointType, Names: []string{"c7"}}}
	if diff := cmp.Diff(want, state.Deliveries[before:]); diff != "" {
		t.Errorf("deliveries differ (-want +got):\n%s", diff)
	}
}

func TestServerKnowsWhatAProxyRefuses(t *testing.T) {
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
			s.world("a listener:web web/1>a x>a")
			scopes := resourcev3.ScopedRouteType
			s.await(s.acked(2, resourcev3.ClusterType, resourcev3.EndpointType, resourcev3.ListenerType, scopes))
			first := s.Versions()(testFleet, scopes, "web")

			bad.Refuse(func(typeURL, name string) error {
				if typeURL == scopes && name == "web" {
					return errors.New("no such filter")
				}
				return nil
			})
			s.world("a listener:web web/2>a x/2>a")
			second := s.Versions()(testFleet, scopes, "web")
			good.WaitFor(hasRoutes("2"))
			refused := known{Sent: first, Acked: first, InSync: true, Nacked: second, Message: "no such filter"}
			s.await(func(states []StreamState) bool {
				// x is answered by both, whatever becomes of web.
				x := known{Sent: s.Versions()(testFleet, scopes, "x"), Acked: s.Versions()(testFleet, scopes, "x"), InSync: true}
				taken := known{Sent: second, Acked: second, InSync: true}
				seen, told := map[known]int{}, map[ResourceState]int{}
				var rejections []string
				for _, state := range states {
					for _, name := range []string{"web", "x"} {
						seen[state.known(scopeKind, name)]++
						told[state.Resource(scopes, name)]++
					}
					rejections = append(rejections, state.heldBack()...)
				}
				return cmp.Equal(seen, map[known]int{x: 2, taken: 1, refused: 1}) &&
					cmp.Equal(told, map[ResourceState]int{x.told(): 2, taken.told(): 1, refused.told(): 1}) && cmp.Equal(rejections, []string{"scope web"}) &&
					testutil.ToFloat64(metrics.heldBack[scopeKind]) == 1
			})
			if n := testutil.ToFloat64(metrics.nacks.WithLabelValues("scope")); n != 1 {
				t.Errorf("%v NACKs were counted, want 1", n)
			}
			if n := testutil.ToFloat64(metrics.streams); n != 2 {
				t.Errorf("%v streams were counted, want 2", n)
			}

			bad.Refuse(nil)
			s.world("a listener:web web/1>a x/2>a")
			all := s.acked(2, scopes)
			s.await(func(states []StreamState) bool {
				return all(states) && testutil.ToFloat64(metrics.heldBack[scopeKind]) == 0
			})
			if again := s.Versions()(testFleet, scopes, "web"); again != first {
				t.Errorf("the same content has version %s, and had %s", again, first)
			}
		})
	}
}

// TestServerRemembersWhatProxiesRefused wants a proxy that comes later to get first what no other one
// has refused, and then the rest alone.
func TestServerRemembersWhatProxiesRefused(t *testing.T) {
	t.Parallel()
	for _, mode := range []kit.XDSMode{kit.XDSDelta, kit.XDSStateOfTheWorld} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			s := serve(t, Options{})
			scopes := resourcev3.ScopedRouteType
			refuse := func(typeURL, name string) error {
				if typeURL == scopes && name == "bad" {
					return errors.New("no")
				}
				return nil
			}
			first := kit.NewXDSClient(t, s.conn, mode)
			first.Refuse(refuse)
			s.world("a listener:web x>a y>a")
			first.WaitFor(s.settled)
			s.world("a listener:web x>a y>a bad>a")
			s.await(func(states []StreamState) bool { return len(states[0].heldBack()) == 1 })

			second := kit.NewXDSClient(t, s.conn, mode)
			second.Refuse(refuse)
			s.await(func(states []StreamState) bool { return len(states) == 2 && len(states[1].heldBack()) == 1 })
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

			s.world("a listener:web x>a y>a bad/2>a")
			f := s.fleets[testFleet]
			if f.rejected.keep(f.current().snapshot); len(f.rejected.versions) != 0 {
				t.Errorf("%d versions are remembered that nobody publishes", len(f.rejected.versions))
			}
		})
	}
}

func TestServerIsNotHeldUpByAStalledProxy(t *testing.T) {
	t.Parallel()
	for _, mode := range []kit.XDSMode{kit.XDSDelta, kit.XDSStateOfTheWorld} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			s := serve(t, Options{})
			stalled, lively := kit.NewXDSClient(t, s.conn, mode), kit.NewXDSClient(t, s.conn, mode)
			names := manyNames(200)
			items := strings.Join(names, " ") + " listener:web web/0>" + strings.Join(names, ",")
			s.world(items)
			stalled.WaitFor(s.settled)
			lively.WaitFor(s.settled)
			stalled.Stall()
			const steps = 100
			for step := range steps {
				version := strings.Repeat("x", step+1)
				s.world(strings.Replace(items, "web/0", "web/"+version, 1))
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

// hasRoutes is a condition for WaitFor: the routes web came in this version.
func hasRoutes(version string) func(kit.XDSState) bool {
	return func(state kit.XDSState) bool {
		hosts := state.Scopes["web"].GetRouteConfiguration().GetVirtualHosts()
		return len(hosts) > 0 && hosts[0].GetRequestHeadersToRemove()[0] == version
	}
}
