package session

import (
	"fmt"
	"strings"
	"testing"
	"time"

	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"

	"github.com/kedify/argo-rollouts-plugin/test/kit/envoyresources"
)

// TestSessionLimitsNameBytes subscribes to names that are within the limit of a single name.
func TestSessionLimitsNameBytes(t *testing.T) {
	t.Parallel()
	s := New(ModeDelta, 0, "", new(Rejections).Of("proxy"))
	r := Request{TypeURL: resourcev3.EndpointType}
	subscribe := func(from, count int) int {
		r.Subscribe = nil
		for i := range count {
			r.Subscribe = append(r.Subscribe, fmt.Sprintf("%01000d", from+i))
		}
		return s.updateSubscription(EndpointKind, r, false)
	}
	const most = nameBytesLimit / 1000
	if refused := subscribe(0, most) + subscribe(0, most); refused > 0 {
		t.Fatalf("%d names of 1000 bytes, twice: %d were refused", most, refused)
	}
	r.Unsubscribe = []string{fmt.Sprintf("%01000d", 0)}
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
