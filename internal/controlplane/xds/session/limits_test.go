package session

import (
	"fmt"
	"strings"
	"testing"
	"time"

	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"

	"github.com/kedify/argo-rollouts-plugin/test/kit/envoyresources"
)

// longName returns a name of 1000 bytes.
func longName(i int) string { return fmt.Sprintf("%01000d", i) }

// publishLong publishes endpoints with long names to a new session.
func publishLong(t *testing.T, count int) *Session {
	t.Helper()
	names := make([]string, 0, count)
	for i := range count {
		names = append(names, longName(i))
	}
	snapshot, err := new(Snapshot).Replace(envoyresources.Parse(t, strings.Join(names, " ")))
	if err != nil {
		t.Fatal(err)
	}
	s := New(ModeDelta, 0, "", new(Rejections).Of("proxy"))
	s.Publish(time.Unix(0, 0), snapshot)
	return s
}

// TestSessionLimitsNameBytes subscribes to published names that are within the limit of a single name.
func TestSessionLimitsNameBytes(t *testing.T) {
	t.Parallel()
	const most = nameBytesLimit / 1000
	s := publishLong(t, most+10)
	r := Request{TypeURL: resourcev3.EndpointType}
	subscribe := func(from, count int) int {
		r.Subscribe = nil
		for i := range count {
			r.Subscribe = append(r.Subscribe, longName(from+i))
		}
		return s.updateSubscription(EndpointKind, r, false)
	}
	if refused := subscribe(0, most) + subscribe(0, most); refused > 0 {
		t.Fatalf("%d names of 1000 bytes, twice: %d were refused", most, refused)
	}
	r.Unsubscribe = []string{longName(0)}
	if refused := subscribe(0, 0); refused > 0 {
		t.Fatalf("%d names were refused", refused)
	}
	r.Unsubscribe = nil
	if refused := subscribe(most, 1); refused > 0 {
		t.Error("one name instead of another was refused")
	}
	if refused := subscribe(most+1, 3) + subscribe(1, most); refused != 3 {
		t.Errorf("three more: %d were refused", refused)
	}
}

// TestSessionLimitsUnknownNames names resources that are not published: in a subscription, and as those that the proxy
// has. Published ones are still accepted.
func TestSessionLimitsUnknownNames(t *testing.T) {
	t.Parallel()
	const most = unknownBytesLimit / (1000 + unknownNameCost)
	s := publishLong(t, 1)
	subscribe := func(from, count int, unsubscribe ...string) int {
		r := Request{TypeURL: resourcev3.EndpointType, Unsubscribe: unsubscribe}
		for i := range count {
			r.Subscribe = append(r.Subscribe, longName(1+from+i))
		}
		return s.updateSubscription(EndpointKind, r, false)
	}
	if refused := subscribe(0, most); refused > 0 {
		t.Fatalf("%d of %d names were refused", refused, most)
	}
	initial := Request{TypeURL: resourcev3.ClusterType, InitialVersions: map[string]string{longName(most + 1): "1"}}
	if refused := subscribe(most, 1) + s.updateSubscription(ClusterKind, initial, false); refused != 2 {
		t.Errorf("%d of two more were refused", refused)
	}
	published := Request{TypeURL: resourcev3.EndpointType, Subscribe: []string{longName(0)}}
	if refused := s.updateSubscription(EndpointKind, published, false); refused > 0 {
		t.Error("a published name was refused")
	}
	if refused := subscribe(most, 1, longName(0), longName(1)); refused != 1 {
		t.Error("the limit is exceeded by a request that also removes names")
	}
	if refused := subscribe(most, 1) + subscribe(most+1, 1); refused != 1 {
		t.Errorf("%d of two names were refused after one was removed, want 1", refused)
	}
}

// TestFleetLimitsUnknownNames has many streams of a fleet. The names of a stream that ends make room for others.
func TestFleetLimitsUnknownNames(t *testing.T) {
	t.Parallel()
	all := new(UnknownNames)
	const each = unknownBytesLimit / (1000 + unknownNameCost)
	open := func() (*Session, int) {
		s := New(ModeDelta, 0, "", new(Rejections).Of("proxy"))
		s.CountUnknownNames(all)
		s.Publish(time.Unix(0, 0), new(Snapshot))
		r := Request{TypeURL: resourcev3.EndpointType}
		for i := range each {
			r.Subscribe = append(r.Subscribe, longName(i))
		}
		return s, s.Receive(time.Unix(0, 0), r).Refused
	}
	var sessions []*Session
	for range fleetUnknownLimit / unknownBytesLimit {
		s, refused := open()
		if refused > 0 {
			t.Fatalf("%d names of stream %d were refused", refused, len(sessions))
		}
		sessions = append(sessions, s)
	}
	last, refused := open()
	if refused < each-100 {
		t.Errorf("%d names of one more stream were refused", refused)
	}
	sessions[0].Close()
	next, refused := open()
	if refused > 0 {
		t.Errorf("%d names were refused after another stream has ended", refused)
	}
	for _, s := range append(sessions, last, next) {
		s.Close()
	}
	if left := all.bytes.Load(); left != 0 {
		t.Errorf("%d bytes count after all streams have ended", left)
	}
}

// TestSessionRefusesNames has a proxy subscribe to names above the limits next to others, in both modes: it receives
// the others, and a repeated request causes no response.
func TestSessionRefusesNames(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", MaxNameLength+1)
	for _, mode := range []Mode{ModeDelta, ModeStateOfTheWorld} {
		w, err := new(Snapshot).Replace(envoyresources.Parse(t, "a b listener:web web>a,b"))
		if err != nil {
			t.Fatal(err)
		}
		s, now := New(mode, scriptGrace, "salt", new(Rejections).Of("proxy")), time.Unix(0, 0)
		s.Publish(now, w)
		names := []string{long, "a", long + "y"}
		receive := func(r Request) Output {
			if r.TypeURL = EndpointKind.TypeURL(); mode == ModeDelta {
				r.Subscribe = names
			} else {
				r.Names = names
			}
			return s.Receive(now, r)
		}
		out := receive(Request{})
		if out.Refused != 2 || len(out.Responses) != 1 || len(out.Responses[0].Resources) != 1 {
			t.Fatalf("%s: %d names refused, responses %v; want 2, and a", mode, out.Refused, out.Responses)
		}
		names = names[:1]
		if mode == ModeStateOfTheWorld {
			names = []string{long, "a"}
		}
		if out = receive(Request{Nonce: out.Responses[0].Nonce}); out.Refused != 1 || len(out.Responses) > 0 {
			t.Errorf("%s: a repeated name: %d refused, responses %v; want 1, and none", mode, out.Refused, out.Responses)
		}
		s.Receive(now, Request{TypeURL: EndpointKind.TypeURL(), Unsubscribe: []string{long}, Names: []string{"a"}})
		if s.nameBytes != len("a") {
			t.Errorf("%s: the names have %d bytes", mode, s.nameBytes)
		}
	}
}
