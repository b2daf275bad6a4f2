package session

import (
	"bytes"
	"math/rand/v2"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"

	"github.com/kedify/argo-rollouts-plugin/test/kit/envoyresources"
)

// TestDictionaryRoundTrip compresses random bytes that share random texts with their dictionary.
func TestDictionaryRoundTrip(t *testing.T) {
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
		dict := dictionary(text(random.IntN(300)))
		var body []byte
		for range random.IntN(6) {
			body = append(body, text(random.IntN(40))...)
			if len(dict) > 0 {
				from := random.IntN(len(dict))
				body = append(body, dict[from:from+random.IntN(len(dict)-from+1)]...)
			}
		}
		if got := dict.decompress(nil, dict.compress(body)); !bytes.Equal(got, body) {
			t.Fatalf("with the dictionary %q: %q is decompressed to %q", dict, body, got)
		}
	}
}

// TestSnapshotCompressesScopes requires that scopes that differ in names are stored in at most half of their size, and
// are sent unchanged.
func TestSnapshotCompressesScopes(t *testing.T) {
	t.Parallel()
	desired := envoyresources.Applications(t, 20)
	scopes := desired[resourcev3.ScopedRouteType]
	for _, message := range scopes {
		scope, ok := message.(*routev3.ScopedRouteConfiguration)
		if !ok {
			t.Fatalf("a scope is a %T", message)
		}
		scope.RouteConfiguration.RequestHeadersToRemove = envoyresources.Names(50)
	}
	w, err := new(Snapshot).Replace(desired)
	if err != nil {
		t.Fatal(err)
	}
	stored, total := 0, 0
	for name, res := range w.resources[ScopeKind].all() {
		alone, err := newResource(ScopeKind, name, scopes[name])
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(res.appendMessage(nil), alone.body) || !res.equals(alone) {
			t.Errorf("scope %s differs", name)
		}
		stored, total = stored+len(res.body), total+len(alone.body)
	}
	if t.Logf("%d of %d bytes are stored", stored, total); 2*stored > total {
		t.Errorf("%d of %d bytes are stored, want at most half", stored, total)
	}
}
