package xds

import (
	"bytes"
	"math/rand/v2"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
)

// TestPackedBodiesAreReadAsTheyWere packs random bytes that share random pieces with their pattern.
func TestPackedBodiesAreReadAsTheyWere(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 8))
	text := func(length int) []byte {
		out := make([]byte, length)
		for i := range out {
			out[i] = "ab"[random.IntN(2)]
		}
		return out
	}
	for range 2000 {
		known := pattern(text(random.IntN(300)))
		var body []byte
		for range random.IntN(6) {
			body = append(body, text(random.IntN(40))...)
			if len(known) > 0 {
				from := random.IntN(len(known))
				body = append(body, known[from:from+random.IntN(len(known)-from+1)]...)
			}
		}
		if got := known.unpack(known.pack(body)); !bytes.Equal(got, body) {
			t.Fatalf("with the pattern %q: %q is read as %q", known, body, got)
		}
	}
}

// TestResourcesShareWhatTheySay wants of scopes that differ in names no more than half to be kept, and the
// same to be sent as without others.
func TestResourcesShareWhatTheySay(t *testing.T) {
	t.Parallel()
	desired := manyApplications(t, 20)
	scopes := desired[resourcev3.ScopedRouteType]
	for _, message := range scopes {
		scope, is := message.(*routev3.ScopedRouteConfiguration)
		if !is {
			t.Fatalf("a scope is a %T", message)
		}
		scope.RouteConfiguration.RequestHeadersToRemove = manyNames(50)
	}
	w, err := new(snapshot).replace(desired)
	if err != nil {
		t.Fatal(err)
	}
	kept, whole := 0, 0
	for name, res := range w.resources[scopeKind].all() {
		alone, err := newResource(scopeKind, name, scopes[name])
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(res.message(), alone.body) || !res.is(alone) {
			t.Errorf("scope %s is another one", name)
		}
		kept, whole = kept+len(res.body), whole+len(alone.body)
	}
	if t.Logf("%d of %d bytes are kept", kept, whole); 2*kept > whole {
		t.Errorf("%d of %d bytes are kept, at most half are allowed", kept, whole)
	}
}
