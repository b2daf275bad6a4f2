package xds

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/kedify/argo-rollouts-plugin/internal/testkit"
)

// manyApplications is a world of n applications, each with a cluster, endpoints
// and a virtual host of its own.
func manyApplications(tb testing.TB, n int) map[string]map[string]proto.Message {
	tb.Helper()
	names := manyNames(n)
	desired := desiredWorld(tb, strings.Join(names, " ")+" listener:web")
	table := &routev3.RouteConfiguration{Name: "web"}
	for _, name := range names {
		table.VirtualHosts = append(table.VirtualHosts, hostMessage(name, "1", []string{name}))
	}
	desired[resourcev3.RouteType] = map[string]proto.Message{"web": table}
	return desired
}

// withHost puts another form of a virtual host into a world. The others stay the
// same pointers.
func withHost(tb testing.TB, desired map[string]map[string]proto.Message, host *routev3.VirtualHost) {
	tb.Helper()
	old, is := desired[resourcev3.RouteType]["web"].(*routev3.RouteConfiguration)
	if !is {
		tb.Fatal("the world has no routes")
	}
	hosts := slices.Clone(old.GetVirtualHosts())
	hosts[slices.IndexFunc(hosts, func(h *routev3.VirtualHost) bool { return h.GetName() == host.GetName() })] = host
	desired[resourcev3.RouteType]["web"] = &routev3.RouteConfiguration{Name: "web", VirtualHosts: hosts}
}

// withCanary adds a canary to the application c7.
func withCanary(tb testing.TB, desired map[string]map[string]proto.Message) {
	tb.Helper()
	desired[resourcev3.ClusterType]["canary"] = clusterMessage("canary", "1", clusterv3.Cluster_EDS)
	desired[resourcev3.EndpointType]["canary"] = endpointMessage("canary", "1")
	withHost(tb, desired, hostMessage("c7", "2", []string{"c7", "canary"}))
}

// TestOneOfAThousandSession wants a canary of one application among a thousand to
// put its own resources on the wire and nothing else.
func TestOneOfAThousandSession(t *testing.T) {
	t.Parallel()
	desired, now := manyApplications(t, 1000), time.Unix(0, 0)
	s, w := settledSession(t, desired)
	withCanary(t, desired)
	next, err := nextWorld(w, desired)
	if err != nil {
		t.Fatal(err)
	}
	sent := answerAll(t, s, s.publish(now, next))
	want := []string{"cluster [canary]", "endpoint [canary]", "route [web]"}
	if diff := cmp.Diff(want, sent); diff != "" {
		t.Errorf("sent for one canary (-want +got):\n%s", diff)
	}
	old, now2 := w.resources[routeKind]["web"].table, next.resources[routeKind]["web"].table
	if changed := now2.differences(old); !cmp.Equal(changed, []string{"c7"}) {
		t.Errorf("virtual hosts %q were made anew, want that of the application", changed)
	}
}

// TestOneOfAThousandOnTheWire is the same through gRPC.
func TestOneOfAThousandOnTheWire(t *testing.T) {
	t.Parallel()
	s := serve(t)
	desired := manyApplications(t, 1000)
	if err := s.Publish(desired); err != nil {
		t.Fatal(err)
	}
	client := testkit.NewXDSClient(t, s.conn, testkit.XDSDelta)
	all := s.acked(1, resourcev3.ClusterType, resourcev3.EndpointType, resourcev3.ListenerType, resourcev3.RouteType)
	s.awaitBook(all)
	before := len(client.State().Deliveries)
	withCanary(t, desired)
	if err := s.Publish(desired); err != nil {
		t.Fatal(err)
	}
	s.awaitBook(all)
	got := map[string][]string{}
	for _, d := range client.State().Deliveries[before:] {
		got[d.TypeURL] = append(got[d.TypeURL], d.Names...)
	}
	want := map[string][]string{
		resourcev3.ClusterType: {"canary"}, resourcev3.EndpointType: {"canary"}, resourcev3.RouteType: {"web"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("sent for one canary (-want +got):\n%s", diff)
	}
}

// settledSession is a delta session whose proxy has ACKed the whole world.
func settledSession(tb testing.TB, desired map[string]map[string]proto.Message) (*session, *world) {
	tb.Helper()
	w, err := nextWorld(nil, desired)
	if err != nil {
		tb.Fatal(err)
	}
	return settledOn(tb, w), w
}

// settledOn is settledSession for a world that is shared.
func settledOn(tb testing.TB, w *world) *session {
	tb.Helper()
	s, now := newSession(Delta, scriptGrace), time.Unix(0, 0)
	out := s.publish(now, w)
	for k := range kind(kindCount) {
		r := request{typeURL: k.typeURL()}
		if !k.wildcard() {
			r.subscribe = slices.Sorted(maps.Keys(w.resources[k]))
		}
		more, err := s.receive(now, r)
		if err != nil {
			tb.Fatal(err)
		}
		out.responses = append(out.responses, more.responses...)
	}
	answerAll(tb, s, out)
	return s
}

// answerAll has every response ACKed, subscribes to the endpoints of new clusters
// and returns what was sent.
func answerAll(tb testing.TB, s *session, out output) []string {
	tb.Helper()
	var sent []string
	for pending := out.responses; len(pending) > 0; pending = pending[1:] {
		r := pending[0]
		sent = append(sent, fmt.Sprintf("%s %v", r.kind, namesOf(r.resources)))
		requests := []request{{typeURL: r.kind.typeURL(), nonce: r.nonce}}
		if r.kind == clusterKind {
			follower := request{typeURL: endpointKind.typeURL()}
			for _, name := range namesOf(r.resources) {
				if s.subs[endpointKind].records[name] == nil {
					follower.subscribe = append(follower.subscribe, name)
				}
			}
			if s.subs[endpointKind].started && len(follower.subscribe) > 0 {
				requests = append(requests, follower)
			}
		}
		for _, request := range requests {
			more, err := s.receive(time.Unix(0, 0), request)
			if err != nil {
				tb.Fatal(err)
			}
			pending = append(pending, more.responses...)
		}
	}
	return sent
}

// BenchmarkPublish is a Publish in which one thing changed, all else being the
// same pointers, and what one stream makes of it.
func BenchmarkPublish(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		for name, change := range map[string]func(desired map[string]map[string]proto.Message, version string){
			"endpoints": func(desired map[string]map[string]proto.Message, version string) {
				desired[resourcev3.EndpointType]["c7"] = endpointMessage("c7", version)
			},
			"weight": func(desired map[string]map[string]proto.Message, version string) {
				withHost(b, desired, hostMessage("c7", version, []string{"c7"}))
			},
		} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				desired := manyApplications(b, n)
				s, w := settledSession(b, desired)
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					change(desired, strconv.Itoa(i))
					next, err := nextWorld(w, desired)
					if err != nil {
						b.Fatal(err)
					}
					w = next
					out := s.publish(time.Unix(0, 0), w)
					if len(out.responses) != 1 {
						b.Fatalf("%d responses", len(out.responses))
					}
					for _, r := range out.responses {
						r.resources[0].pack()
						if _, err := s.receive(time.Unix(0, 0), request{typeURL: r.kind.typeURL(), nonce: r.nonce}); err != nil {
							b.Fatal(err)
						}
					}
				}
			})
		}
	}
}

// BenchmarkStreamMemory is the heap that one more proxy costs, when it has ACKed
// everything.
func BenchmarkStreamMemory(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			desired := manyApplications(b, n)
			const streams = 5
			var before, after runtime.MemStats
			for b.Loop() {
				sessions := make([]*session, 0, streams)
				first, w := settledSession(b, desired)
				runtime.GC()
				runtime.ReadMemStats(&before)
				for range streams {
					sessions = append(sessions, settledOn(b, w))
				}
				runtime.GC()
				runtime.ReadMemStats(&after)
				b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/streams, "B/stream")
				runtime.KeepAlive(sessions)
				runtime.KeepAlive(first)
			}
		})
	}
}
