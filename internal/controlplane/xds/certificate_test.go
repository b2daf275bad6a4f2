package xds

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestCertificatesAreFoundByName(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"the most specific host has it, whatever the spelling": `
			> world secret:*.test/1 secret:*.eu.test/2 secret:shop.test/3
			> secret +shop.test
			< secret 1: shop.test/3
			> secret ack 1
			> secret +SHOP.Test
			< secret 2: SHOP.Test/3
			> secret ack 2
			> secret +shop.test.
			< secret 3: shop.test./3
			> secret ack 3
			> secret +a.eu.test
			< secret 4: a.eu.test/2
			> secret ack 4
			> secret +a.b.test
			< secret 5: a.b.test/1`,
		"the wildcard of all takes what no other does": `
			> world secret:*/1
			> secret +a.test
			< secret 1: a.test/1`,
		"a name that is unknown is told to be absent, each time": `
			> world secret:*.test/1 secret:shop.test/1
			> secret +test +shop.example
			< secret 1: -shop.example -test
			> secret ack 1
			> secret -test -shop.example
			> secret +test
			< secret 2: -test`,
		"a known host without a certificate does not fall through to a wildcard": `
			> world a secret:*.test/1 shop.test>a
			> secret +shop.test
			< secret 1: -shop.test`,
		"a host that comes without a certificate takes that of the wildcard away": `
			> world a secret:*.test/1
			> secret +shop.test
			< secret 1: shop.test/1
			> secret ack 1
			> world a secret:*.test/1 shop.test>a
			< secret 2: -shop.test
			> secret ack 2
			> secret -shop.test
			> world a secret:*.test/1
			> secret +shop.test
			< secret 3: shop.test/1`,
		"a certificate that is rotated reaches every name of its host, one by one": `
			> world secret:*.test/1
			> secret +a.test
			< secret 1: a.test/1
			> secret ack 1
			> secret +b.test
			< secret 2: b.test/1
			> secret ack 2
			> world secret:*.test/2
			< secret 3: a.test/2
			> secret ack 3
			< secret 4: b.test/2
			> secret ack 4`,
		"one that is removed is gone, and comes back when it is asked for": `
			> world secret:shop.test/1
			> secret +shop.test
			< secret 1: shop.test/1
			> secret ack 1
			> world
			< secret 2: -shop.test
			> secret ack 2
			> secret -shop.test
			> world secret:shop.test/2
			> secret +shop.test
			< secret 3: shop.test/2`,
		"a refused one keeps the last good one and holds up no other": `
			> world secret:a.test/1 secret:b.test/1
			> secret +a.test
			< secret 1: a.test/1
			> secret ack 1
			> secret +b.test
			< secret 2: b.test/1
			> secret ack 2
			> world secret:a.test/2 secret:b.test/2
			< secret 3: a.test/2
			> secret nack 3 bad key
			< secret 4: b.test/2
			> secret ack 4
			> world secret:a.test/3 secret:b.test/2
			< secret 5: a.test/3
			> secret ack 5`,
		"a proxy that comes back is sent what differs": `
			> world secret:a.test/2 secret:b.test/1
			> secret +a.test +b.test +gone.test have secret:a.test/1 secret:b.test/1 secret:gone.test/1
			< secret 1: a.test/2
			< secret 2: -gone.test`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runScript(t, ModeDelta, text)
		})
	}
}

// TestStateOfTheWorldHasNoTLS leaves the listener out that would ask for certificates.
func TestStateOfTheWorldHasNoTLS(t *testing.T) {
	t.Parallel()
	runScript(t, ModeDelta, `
		> world listener:web demand:tls
		> listener *
		< listener 1: tls/1 web/1`)
	runScript(t, ModeStateOfTheWorld, `
		> world listener:web demand:tls
		> listener =
		< listener 1: web/1
		> listener ack 1
		> world listener:web/2 demand:tls/2
		< listener 2: web/2
		> listener ack 2`)
}

// TestNamesBelowAWildcardAreBounded has a client make up names. Envoy keeps each for good, unless it is told
// that there is no such certificate; the names of hosts are never taken back.
func TestNamesBelowAWildcardAreBounded(t *testing.T) {
	t.Parallel()
	w, err := new(snapshot).replace(desiredWorld(t, "secret:*.test secret:shop.test"))
	if err != nil {
		t.Fatal(err)
	}
	session := newSession(ModeDelta, scriptGrace, "salt", &rejections{})
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	session.publish(now, w)
	var sent, removed []string
	held := map[string]bool{}
	ask := func(name string) {
		t.Helper()
		requests := []request{{typeURL: secretKind.typeURL(), subscribe: []string{name}}}
		for len(requests) > 0 {
			out, err := session.receive(now, requests[0])
			if err != nil {
				t.Fatal(err)
			}
			requests = requests[1:]
			for _, r := range out.responses {
				for _, res := range r.resources {
					sent, held[res.name] = append(sent, res.name), true
				}
				removed = append(removed, r.removed...)
				for _, gone := range r.removed {
					delete(held, gone)
				}
				requests = append(requests, request{typeURL: secretKind.typeURL(), nonce: r.nonce, unsubscribe: r.removed})
			}
		}
	}
	ask("shop.test")
	for i := range guessesLimit + 3 {
		ask(fmt.Sprintf("made-up-%d.test", i))
	}
	if diff := cmp.Diff([]string{"made-up-0.test", "made-up-1.test", "made-up-2.test"}, removed); diff != "" {
		t.Errorf("taken back (-want +got):\n%s", diff)
	}
	ask("made-up-0.test")
	if last := sent[len(sent)-1]; last != "made-up-0.test" {
		t.Errorf("what is asked for again is not sent: the last was %s", last)
	}
	if !held["shop.test"] || len(held) != guessesLimit+1 || !strings.HasPrefix(removed[3], "made-up-3.") {
		t.Errorf("the proxy has %d names, that of the host among them: %t; taken back last: %s", len(held), held["shop.test"], removed[3])
	}
}
