package session

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

	"github.com/kedify/argo-rollouts-plugin/test/kit/envoyresources"
)

// TestCanaryAmongManyApplications requires that for a canary of one application among a thousand only its own resources
// are sent.
func TestCanaryAmongManyApplications(t *testing.T) {
	t.Parallel()
	desired, now := envoyresources.Applications(t, 1000), time.Unix(0, 0)
	s, w := newSyncedSession(t, desired)
	envoyresources.AddCanary(desired)
	next, err := w.Replace(desired)
	if err != nil {
		t.Fatal(err)
	}
	sent := answerAll(t, s, s.Publish(now, next))
	want := []string{"cluster [canary]", "endpoint [canary]", "scope [c7]"}
	if diff := cmp.Diff(want, sent); diff != "" {
		t.Errorf("sent for one canary (-want +got):\n%s", diff)
	}
}

// TestResponsesHaveAtMostMaxResources requires that no response has more than maxResources, except the first one with
// scopes and the lists of state of the world.
func TestResponsesHaveAtMostMaxResources(t *testing.T) {
	t.Parallel()
	const clusters = 2*maxResources + 100
	w, err := new(Snapshot).Replace(envoyresources.Applications(t, clusters))
	if err != nil {
		t.Fatal(err)
	}
	for mode, want := range map[Mode][]int{
		ModeDelta: {maxResources, maxResources, 100}, ModeStateOfTheWorld: {clusters},
	} {
		s, now := New(mode, scriptGrace, "salt", new(Rejections).Of("proxy")), time.Unix(0, 0)
		s.Publish(now, w)
		out := s.Receive(now, Request{TypeURL: resourcev3.ClusterType})
		var got []int
		for _, r := range out.Responses {
			got = append(got, len(r.Resources))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: resources of the responses (-want +got):\n%s", mode, diff)
		}
	}
}

// newSyncedSession returns a delta session whose proxy has ACKed all resources.
func newSyncedSession(tb testing.TB, desired map[string]map[string]proto.Message) (*Session, *Snapshot) {
	tb.Helper()
	w, err := new(Snapshot).Replace(desired)
	if err != nil {
		tb.Fatal(err)
	}
	return syncedSession(tb, w), w
}

// syncedSession is newSyncedSession for a shared snapshot.
func syncedSession(tb testing.TB, w *Snapshot) *Session {
	tb.Helper()
	s, now := New(ModeDelta, scriptGrace, "salt", new(Rejections).Of("proxy")), time.Unix(0, 0)
	out := s.Publish(now, w)
	for k := range Kind(KindCount) {
		r := Request{TypeURL: k.TypeURL()}
		if !k.traits().wildcard {
			r.Subscribe = slices.Sorted(maps.Keys(mapOf(w.resources[k])))
		}
		out.Responses = append(out.Responses, s.Receive(now, r).Responses...)
	}
	answerAll(tb, s, out)
	return s
}

// answerAll has every response ACKed, subscribes to the endpoints of new clusters, and returns what was sent.
func answerAll(tb testing.TB, s *Session, out Output) []string {
	tb.Helper()
	var sent []string
	for pending := out.Responses; len(pending) > 0; pending = pending[1:] {
		r := pending[0]
		sent = append(sent, fmt.Sprintf("%s %v", r.Kind, namesOf(r.Resources)))
		requests := []Request{{TypeURL: r.Kind.TypeURL(), Nonce: r.Nonce}}
		if r.Kind == ClusterKind {
			next := Request{TypeURL: EndpointKind.TypeURL()}
			for _, name := range namesOf(r.Resources) {
				if !s.knows(EndpointKind, name) {
					next.Subscribe = append(next.Subscribe, name)
				}
			}
			if s.subs[EndpointKind].started && len(next.Subscribe) > 0 {
				requests = append(requests, next)
			}
		}
		for _, request := range requests {
			pending = append(pending, s.Receive(time.Unix(0, 0), request).Responses...)
		}
	}
	return sent
}

// TestApplyEqualsReplace requires the same snapshot, including versions, from a difference and from all resources.
func TestApplyEqualsReplace(t *testing.T) {
	t.Parallel()
	desired := envoyresources.Applications(t, 20)
	first, err := new(Snapshot).Replace(desired)
	if err != nil {
		t.Fatal(err)
	}
	envoyresources.AddCanary(desired)
	whole, err := first.Replace(desired)
	if err != nil {
		t.Fatal(err)
	}
	applied, err := first.Apply(envoyresources.Resources{
		resourcev3.ClusterType:     {"canary": envoyresources.Cluster("canary", "1", clusterv3.Cluster_EDS)},
		resourcev3.EndpointType:    {"canary": envoyresources.Endpoints("canary", "1")},
		resourcev3.ScopedRouteType: {"c7": envoyresources.Scope("c7", "2", "c7,canary")},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	back, err := whole.Apply(
		envoyresources.Resources{resourcev3.ScopedRouteType: {"c7": envoyresources.Scope("c7", "1", "c7")}},
		map[string][]string{resourcev3.ClusterType: {"canary"}, resourcev3.EndpointType: {"canary"}},
	)
	if err != nil {
		t.Fatal(err)
	}
	for k := range Kind(KindCount) {
		if diff := cmp.Diff(
			versionsOf(mapOf(whole.resources[k])), versionsOf(mapOf(applied.resources[k])),
		); diff != "" {
			t.Errorf("the %ss differ (-Publish +ApplyDelta):\n%s", k, diff)
		}
		if diff := cmp.Diff(versionsOf(mapOf(first.resources[k])), versionsOf(mapOf(back.resources[k]))); diff != "" {
			t.Errorf("the %ss that came back differ (-before +after):\n%s", k, diff)
		}
	}
}

func TestApplyRejectsInconsistentResources(t *testing.T) {
	t.Parallel()
	good, err := new(Snapshot).Replace(envoyresources.Applications(t, 3))
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		changed envoyresources.Resources
		removed map[string][]string
		want    string
	}{
		"a cluster that a scope needs goes": {
			nil, map[string][]string{resourcev3.ClusterType: {"c1"}}, `scope "c1": no cluster "c1"`,
		},
		"the endpoints of a cluster go": {
			nil, map[string][]string{resourcev3.EndpointType: {"c1"}}, `cluster "c1": no cluster load assignment "c1"`,
		},
		"a scope names a cluster that is missing": {
			envoyresources.Resources{
				resourcev3.ScopedRouteType: {"c1": envoyresources.Scope("c1", "2", "nowhere")},
			},
			nil,
			`scope "c1": no cluster "nowhere"`,
		},
		"a cluster that does not exist goes": {
			nil, map[string][]string{resourcev3.ClusterType: {"c9"}}, `"c9": removed but does not exist`,
		},
		"a type that is not served": {nil, map[string][]string{resourcev3.RuntimeType: {"c9"}}, "is not served"},
	} {
		if _, err := good.Apply(test.changed, test.removed); !errors.Is(err, ErrInconsistent) ||
			!strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: the error is %v, want one that says %s", name, err, test.want)
		}
	}
}

// TestJoiningBytes measures the heap of sessions that have subscribed to everything, and whose proxies have not answered.
func TestJoiningBytes(t *testing.T) { //nolint:paralleltest // it measures the heap
	w, err := new(Snapshot).Replace(envoyresources.Applications(t, 5000))
	if err != nil {
		t.Fatal(err)
	}
	heap := func() uint64 {
		var stats runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&stats)
		return stats.HeapAlloc
	}
	const streams = 10
	sessions := make([]*Session, 0, streams)
	names := slices.Collect(maps.Keys(mapOf(w.resources[EndpointKind])))
	before, now := heap(), time.Unix(0, 0)
	for range streams {
		s := New(ModeDelta, scriptGrace, "salt", new(Rejections).Of("proxy"))
		s.Publish(now, w)
		s.Receive(now, Request{TypeURL: ClusterKind.TypeURL()})
		s.Receive(now, Request{TypeURL: EndpointKind.TypeURL(), Subscribe: names})
		s.Receive(now, Request{TypeURL: ListenerKind.TypeURL()})
		s.Receive(now, Request{TypeURL: ScopeKind.TypeURL()})
		sessions = append(sessions, s)
	}
	each := int(heap()-before) / streams / w.Count()
	t.Logf("%d bytes for each resource, %d are reserved", each, JoiningBytes)
	if each > JoiningBytes {
		t.Errorf("%d bytes for each resource, and only %d are reserved", each, JoiningBytes)
	}
	runtime.KeepAlive(sessions)
	runtime.KeepAlive(w)
}

// BenchmarkApplyDelta measures one change among many resources, and its effect on one stream.
func BenchmarkApplyDelta(b *testing.B) {
	for _, n := range []int{10, 1000, 10_000} {
		for name, change := range map[string]func(version string) (typeURL, name string, message proto.Message){
			"endpoints": func(version string) (string, string, proto.Message) {
				return resourcev3.EndpointType, "c7", envoyresources.Endpoints("c7", version)
			},
			"weight": func(version string) (string, string, proto.Message) {
				return resourcev3.ScopedRouteType, "c7", envoyresources.Scope("c7", version, "c7")
			},
		} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				s, w := newSyncedSession(b, envoyresources.Applications(b, n))
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					typeURL, name, message := change(strconv.Itoa(i))
					next, err := w.Apply(envoyresources.Resources{typeURL: {name: message}}, nil)
					if err != nil {
						b.Fatal(err)
					}
					w = next
					out := s.Publish(time.Unix(0, 0), w)
					if len(out.Responses) != 1 {
						b.Fatalf("%d responses", len(out.Responses))
					}
					for _, r := range out.Responses {
						s.Receive(time.Unix(0, 0), Request{TypeURL: r.Kind.TypeURL(), Nonce: r.Nonce})
					}
				}
			})
		}
	}
}

// BenchmarkRemoveCluster measures the end of a canary among many resources: its cluster is removed.
func BenchmarkRemoveCluster(b *testing.B) {
	for _, n := range []int{10, 1000, 10_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			w, err := new(Snapshot).Replace(envoyresources.Applications(b, n))
			if err != nil {
				b.Fatal(err)
			}
			const canary = "canary"
			if w, err = w.Apply(envoyresources.Resources{
				resourcev3.ClusterType:  {canary: envoyresources.Cluster(canary, "1", clusterv3.Cluster_EDS)},
				resourcev3.EndpointType: {canary: envoyresources.Endpoints(canary, "1")},
			}, nil); err != nil {
				b.Fatal(err)
			}
			removed := map[string][]string{resourcev3.ClusterType: {canary}, resourcev3.EndpointType: {canary}}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := w.Apply(nil, removed); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkStreamMemory measures the heap of one more proxy that has ACKed everything.
func BenchmarkStreamMemory(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			desired := envoyresources.Applications(b, n)
			const streams = 5
			var before, after runtime.MemStats
			for b.Loop() {
				sessions := make([]*Session, 0, streams)
				first, w := newSyncedSession(b, desired)
				runtime.GC()
				runtime.ReadMemStats(&before)
				for range streams {
					sessions = append(sessions, syncedSession(b, w))
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
