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
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/kedify/argo-rollouts-plugin/test/kit"
)

// manyApplications is what is desired of n applications, each with a cluster, endpoints and a scope of
// its own.
func manyApplications(tb testing.TB, n int) map[string]map[string]proto.Message {
	tb.Helper()
	names := manyNames(n)
	desired := desiredWorld(tb, strings.Join(names, " ")+" listener:web")
	desired[resourcev3.ScopedRouteType] = map[string]proto.Message{}
	for _, name := range names {
		desired[resourcev3.ScopedRouteType][name] = scopeMessage(name, "1", name)
	}
	return desired
}

// withCanary adds a canary to the application c7.
func withCanary(desired map[string]map[string]proto.Message) {
	desired[resourcev3.ClusterType]["canary"] = clusterMessage("canary", "1", clusterv3.Cluster_EDS)
	desired[resourcev3.EndpointType]["canary"] = endpointMessage("canary", "1")
	desired[resourcev3.ScopedRouteType]["c7"] = scopeMessage("c7", "2", "c7,canary")
}

// TestOneOfAThousandSession wants a canary of one application among a thousand to
// put its own resources on the wire and nothing else.
func TestOneOfAThousandSession(t *testing.T) {
	t.Parallel()
	desired, now := manyApplications(t, 1000), time.Unix(0, 0)
	s, w := settledSession(t, desired)
	withCanary(desired)
	next, err := w.replace(desired)
	if err != nil {
		t.Fatal(err)
	}
	sent := answerAll(t, s, s.publish(now, next))
	want := []string{"cluster [canary]", "endpoint [canary]", "scope [c7]"}
	if diff := cmp.Diff(want, sent); diff != "" {
		t.Errorf("sent for one canary (-want +got):\n%s", diff)
	}
}

// TestOneOfAThousandOnTheWire is the same through gRPC.
func TestOneOfAThousandOnTheWire(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{})
	desired := manyApplications(t, 1000)
	if err := s.Publish(testFleet, desired); err != nil {
		t.Fatal(err)
	}
	client := kit.NewXDSClient(t, s.conn, kit.XDSDelta)
	all := s.acked(1, resourcev3.ClusterType, resourcev3.EndpointType, resourcev3.ListenerType, resourcev3.ScopedRouteType)
	s.await(all)
	before := len(client.State().Deliveries)
	withCanary(desired)
	if err := s.Publish(testFleet, desired); err != nil {
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

// TestAJoiningProxyIsSentPieces wants no response but the first with scopes, and the lists of state of the
// world, to have more resources than one may have.
func TestAJoiningProxyIsSentPieces(t *testing.T) {
	t.Parallel()
	const clusters = 2*resourcesAtOnce + 100
	w, err := new(snapshot).replace(manyApplications(t, clusters))
	if err != nil {
		t.Fatal(err)
	}
	for mode, want := range map[Mode][]int{
		ModeDelta: {resourcesAtOnce, resourcesAtOnce, 100}, ModeStateOfTheWorld: {clusters},
	} {
		s, now := newSession(mode, scriptGrace, "salt", &rejections{}), time.Unix(0, 0)
		s.publish(now, w)
		out, err := s.receive(now, request{typeURL: resourcev3.ClusterType})
		if err != nil {
			t.Fatal(err)
		}
		var got []int
		for _, r := range out.responses {
			got = append(got, len(r.resources))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: resources of the responses (-want +got):\n%s", mode, diff)
		}
	}
}

// settledSession is a delta session whose proxy has ACKed the whole world.
func settledSession(tb testing.TB, desired map[string]map[string]proto.Message) (*session, *snapshot) {
	tb.Helper()
	w, err := new(snapshot).replace(desired)
	if err != nil {
		tb.Fatal(err)
	}
	return settledOn(tb, w), w
}

// settledOn is settledSession for a world that is shared.
func settledOn(tb testing.TB, w *snapshot) *session {
	tb.Helper()
	s, now := newSession(ModeDelta, scriptGrace, "salt", &rejections{}), time.Unix(0, 0)
	out := s.publish(now, w)
	for k := range kind(kindCount) {
		r := request{typeURL: k.typeURL()}
		if !k.traits().wildcard {
			r.subscribe = slices.Sorted(maps.Keys(mapOf(w.resources[k])))
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
				if !s.knows(endpointKind, name) {
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

// TestApplyDeltaIsPublishOfTheDelta wants the same world, versions included, from a
// difference and from the whole.
func TestApplyDeltaIsPublishOfTheDelta(t *testing.T) {
	t.Parallel()
	desired := manyApplications(t, 20)
	first, err := new(snapshot).replace(desired)
	if err != nil {
		t.Fatal(err)
	}
	withCanary(desired)
	whole, err := first.replace(desired)
	if err != nil {
		t.Fatal(err)
	}
	applied, err := first.apply(Delta{Changed: map[string]map[string]proto.Message{
		resourcev3.ClusterType:     {"canary": clusterMessage("canary", "1", clusterv3.Cluster_EDS)},
		resourcev3.EndpointType:    {"canary": endpointMessage("canary", "1")},
		resourcev3.ScopedRouteType: {"c7": scopeMessage("c7", "2", "c7,canary")},
	}})
	if err != nil {
		t.Fatal(err)
	}
	back, err := whole.apply(Delta{
		Changed: map[string]map[string]proto.Message{resourcev3.ScopedRouteType: {"c7": scopeMessage("c7", "1", "c7")}},
		Removed: map[string][]string{resourcev3.ClusterType: {"canary"}, resourcev3.EndpointType: {"canary"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for k := range kind(kindCount) {
		if diff := cmp.Diff(versionsOf(mapOf(whole.resources[k])), versionsOf(mapOf(applied.resources[k]))); diff != "" {
			t.Errorf("the %ss differ (-Publish +ApplyDelta):\n%s", k, diff)
		}
		if diff := cmp.Diff(versionsOf(mapOf(first.resources[k])), versionsOf(mapOf(back.resources[k]))); diff != "" {
			t.Errorf("the %ss that came back differ (-before +after):\n%s", k, diff)
		}
	}
}

func TestApplyDeltaRefusesContradictions(t *testing.T) {
	t.Parallel()
	good, err := new(snapshot).replace(manyApplications(t, 3))
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		delta Delta
		want  string
	}{
		"a cluster that a scope needs goes": {
			Delta{Removed: map[string][]string{resourcev3.ClusterType: {"c1"}}}, `scope "c1": no cluster "c1"`,
		},
		"the endpoints of a cluster go": {
			Delta{Removed: map[string][]string{resourcev3.EndpointType: {"c1"}}}, `cluster "c1": no cluster load assignment "c1"`,
		},
		"a scope names a cluster that is missing": {
			Delta{Changed: map[string]map[string]proto.Message{
				resourcev3.ScopedRouteType: {"c1": scopeMessage("c1", "2", "nowhere")},
			}}, `scope "c1": no cluster "nowhere"`,
		},
		"a cluster that isn't there goes": {Delta{Removed: map[string][]string{resourcev3.ClusterType: {"c9"}}}, `"c9" is removed and wasn't there`},
		"a type that is not served":       {Delta{Removed: map[string][]string{resourcev3.RuntimeType: {"c9"}}}, "is not served"},
	} {
		if _, err := good.apply(test.delta); !errors.Is(err, ErrInconsistent) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: the error is %v, want one that says %s", name, err, test.want)
		}
	}
}

// BenchmarkApplyDelta is one change among many resources, and what one stream makes of
// it.
func BenchmarkApplyDelta(b *testing.B) {
	for _, n := range []int{10, 1000, 10_000} {
		for name, change := range map[string]func(version string) (typeURL, name string, message proto.Message){
			"endpoints": func(version string) (string, string, proto.Message) {
				return resourcev3.EndpointType, "c7", endpointMessage("c7", version)
			},
			"weight": func(version string) (string, string, proto.Message) {
				return resourcev3.ScopedRouteType, "c7", scopeMessage("c7", version, "c7")
			},
		} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				s, w := settledSession(b, manyApplications(b, n))
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					typeURL, name, message := change(strconv.Itoa(i))
					next, err := w.apply(Delta{Changed: map[string]map[string]proto.Message{typeURL: {name: message}}})
					if err != nil {
						b.Fatal(err)
					}
					w = next
					out := s.publish(time.Unix(0, 0), w)
					if len(out.responses) != 1 {
						b.Fatalf("%d responses", len(out.responses))
					}
					for _, r := range out.responses {
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
