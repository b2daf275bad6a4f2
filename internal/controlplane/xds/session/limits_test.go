package session

import (
	"errors"
	"fmt"
	"testing"

	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
)

// TestSessionLimitsNameBytes subscribes to names that are within the limit of a single name.
func TestSessionLimitsNameBytes(t *testing.T) {
	t.Parallel()
	s := New(ModeDelta, 0, "", new(Rejections))
	r := Request{TypeURL: resourcev3.EndpointType}
	subscribe := func(from, count int) error {
		r.Subscribe = nil
		for i := range count {
			r.Subscribe = append(r.Subscribe, fmt.Sprintf("%01000d", from+i))
		}
		return s.updateSubscription(EndpointKind, r, false)
	}
	const most = nameBytesLimit / 1000
	if err := errors.Join(subscribe(0, most), subscribe(0, most)); err != nil {
		t.Fatalf("%d names of 1000 bytes, twice: %v", most, err)
	}
	r.Unsubscribe = []string{fmt.Sprintf("%01000d", 0)}
	if err := subscribe(0, 0); err != nil {
		t.Fatal(err)
	}
	r.Unsubscribe = nil
	if err := subscribe(most, 1); err != nil {
		t.Errorf("one name instead of another: %v", err)
	}
	if err := subscribe(most+1, 1); !errors.Is(err, errTooMuch) {
		t.Errorf("one more: %v, want %v", err, errTooMuch)
	}
}
