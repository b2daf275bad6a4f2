package xds

import (
	"errors"
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

// TestAmendIsPublishOfTheDifference wants the same world, versions included, from a
// difference and from the whole.
func TestAmendIsPublishOfTheDifference(t *testing.T) {
	t.Parallel()
	desired := manyApplications(t, 20)
	first, err := nextWorld(nil, desired)
	if err != nil {
		t.Fatal(err)
	}
	withCanary(t, desired)
	whole, err := nextWorld(first, desired)
	if err != nil {
		t.Fatal(err)
	}
	for name, d := range map[string]Difference{
		"a virtual host": {Changed: map[string]map[string]proto.Message{
			resourcev3.ClusterType:     {"canary": clusterMessage("canary", "1", clusterv3.Cluster_EDS)},
			resourcev3.EndpointType:    {"canary": endpointMessage("canary", "1")},
			resourcev3.VirtualHostType: {"web/c7": hostMessage("c7", "2", []string{"c7", "canary"})},
		}},
		"a whole table": {Changed: map[string]map[string]proto.Message{
			resourcev3.ClusterType:  {"canary": clusterMessage("canary", "1", clusterv3.Cluster_EDS)},
			resourcev3.EndpointType: {"canary": endpointMessage("canary", "1")},
			resourcev3.RouteType:    desired[resourcev3.RouteType],
		}},
	} {
		amended, err := amendedWorld(first, d)
		if err != nil {
			t.Fatal(err)
		}
		for k := range kind(kindCount) {
			if diff := cmp.Diff(versionsOf(whole.resources[k]), versionsOf(amended.resources[k])); diff != "" {
				t.Errorf("%s: the %ss differ (-Publish +Amend):\n%s", name, k, diff)
			}
		}
		if amended.resources[routeKind]["web"].pack().String() != whole.resources[routeKind]["web"].pack().String() {
			t.Errorf("%s: another table travels", name)
		}
	}
	back, err := amendedWorld(whole, Difference{
		Changed: map[string]map[string]proto.Message{resourcev3.VirtualHostType: {"web/c7": hostMessage("c7", "1", []string{"c7"})}},
		Removed: map[string][]string{resourcev3.ClusterType: {"canary"}, resourcev3.EndpointType: {"canary"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for k := range kind(kindCount) {
		if diff := cmp.Diff(versionsOf(first.resources[k]), versionsOf(back.resources[k])); diff != "" {
			t.Errorf("the %ss that came back differ (-before +after):\n%s", k, diff)
		}
	}
}

func TestAmendRefusesContradictions(t *testing.T) {
	t.Parallel()
	good, err := nextWorld(nil, manyApplications(t, 3))
	if err != nil {
		t.Fatal(err)
	}
	hosts := func(name string, message proto.Message) Difference {
		return Difference{Changed: map[string]map[string]proto.Message{resourcev3.VirtualHostType: {name: message}}}
	}
	for name, test := range map[string]struct {
		difference Difference
		want       string
	}{
		"a cluster that a virtual host needs goes": {
			Difference{Removed: map[string][]string{resourcev3.ClusterType: {"c1"}}}, `route configuration "web": no cluster "c1"`,
		},
		"the endpoints of a cluster go": {
			Difference{Removed: map[string][]string{resourcev3.EndpointType: {"c1"}}}, `cluster "c1": no cluster load assignment "c1"`,
		},
		"a virtual host names a cluster that is missing": {
			hosts("web/c1", hostMessage("c1", "2", []string{"nowhere"})), `route configuration "web": no cluster "nowhere"`,
		},
		"a virtual host of a table that is missing": {hosts("else/c1", hostMessage("c1", "2", nil)), `"else", which isn't there`},
		"a virtual host under another name":         {hosts("web/c1", hostMessage("c2", "2", nil)), `"c2" is published as "c1"`},
		"a virtual host of no table":                {hosts("c1", hostMessage("c1", "2", nil)), `"c1" names no virtual host`},
		"a virtual host that is something else":     {hosts("web/c1", endpointMessage("c1", "1")), "which is no virtual host"},
		"a virtual host that isn't there goes": {
			Difference{Removed: map[string][]string{resourcev3.VirtualHostType: {"web/c9"}}}, `"c9" is removed and wasn't there`,
		},
		"a cluster that isn't there goes": {Difference{Removed: map[string][]string{resourcev3.ClusterType: {"c9"}}}, `"c9" is removed and wasn't there`},
		"a type that is not served":       {Difference{Removed: map[string][]string{resourcev3.SecretType: {"c9"}}}, "is not served"},
	} {
		if _, err := amendedWorld(good, test.difference); !errors.Is(err, ErrInconsistent) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: the error is %v, want one that says %s", name, err, test.want)
		}
	}
}

// BenchmarkAmend is one change among many resources, and what one stream makes of
// it.
func BenchmarkAmend(b *testing.B) {
	for _, n := range []int{10, 1000, 10_000} {
		for name, change := range map[string]func(version string) (typeURL, name string, message proto.Message){
			"endpoints": func(version string) (string, string, proto.Message) {
				return resourcev3.EndpointType, "c7", endpointMessage("c7", version)
			},
			"weight": func(version string) (string, string, proto.Message) {
				return resourcev3.VirtualHostType, "web/c7", hostMessage("c7", version, []string{"c7"})
			},
		} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				s, w := settledSession(b, manyApplications(b, n))
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					typeURL, name, message := change(strconv.Itoa(i))
					next, err := amendedWorld(w, Difference{Changed: map[string]map[string]proto.Message{typeURL: {name: message}}})
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
