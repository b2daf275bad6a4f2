package session

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/test/kit/envoyresources"
)

func TestCertificateByServerName(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"the most specific host in any spelling": `
			> snapshot secret:*.test/1 secret:*.eu.test/2 secret:shop.test/3
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
		"the wildcard of all hosts is the last": `
			> snapshot secret:*/1
			> secret +a.test
			< secret 1: a.test/1`,
		"an unknown name is removed on each request": `
			> snapshot secret:*.test/1 secret:shop.test/1
			> secret +test +shop.example
			< secret 1: -shop.example -test
			> secret ack 1
			> secret -test -shop.example
			> secret +test
			< secret 2: -test`,
		"a known host without a certificate does not fall through to a wildcard": `
			> snapshot a secret:*.test/1 shop.test>a
			> secret +shop.test
			< secret 1: -shop.test`,
		"a new host without a certificate hides that of the wildcard": `
			> snapshot a secret:*.test/1
			> secret +shop.test
			< secret 1: shop.test/1
			> secret ack 1
			> snapshot a secret:*.test/1 shop.test>a
			< secret 2: -shop.test
			> secret ack 2
			> secret -shop.test
			> snapshot a secret:*.test/1
			> secret +shop.test
			< secret 3: shop.test/1`,
		"a rotated certificate is sent for every name of its host, one by one": `
			> snapshot secret:*.test/1
			> secret +a.test
			< secret 1: a.test/1
			> secret ack 1
			> secret +b.test
			< secret 2: b.test/1
			> secret ack 2
			> snapshot secret:*.test/2
			< secret 3: a.test/2
			> secret ack 3
			< secret 4: b.test/2
			> secret ack 4`,
		"a removed certificate is sent again when it exists": `
			> snapshot secret:shop.test/1
			> secret +shop.test
			< secret 1: shop.test/1
			> secret ack 1
			> snapshot
			< secret 2: -shop.test
			> secret ack 2
			> secret -shop.test
			> snapshot secret:shop.test/2
			> secret +shop.test
			< secret 3: shop.test/2`,
		"a rejected certificate keeps the last good one and delays no other": `
			> snapshot secret:a.test/1 secret:b.test/1
			> secret +a.test
			< secret 1: a.test/1
			> secret ack 1
			> secret +b.test
			< secret 2: b.test/1
			> secret ack 2
			> snapshot secret:a.test/2 secret:b.test/2
			< secret 3: a.test/2
			> secret nack 3 bad key
			< secret 4: b.test/2
			> secret ack 4
			> snapshot secret:a.test/3 secret:b.test/2
			< secret 5: a.test/3
			> secret ack 5`,
		"a reconnecting proxy receives the difference": `
			> snapshot secret:a.test/2 secret:b.test/1
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

// TestPlaintextStreamsReceiveNoCertificates has a stream without TLS: there is no certificate for any name, and a proxy
// that has some from an earlier stream keeps them as they are.
func TestPlaintextStreamsReceiveNoCertificates(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"a new proxy": `
			> plaintext
			> snapshot secret:shop.test/1 secret:*.test/1
			> secret +shop.test
			< secret 1: -shop.test
			> secret ack 1
			> snapshot secret:shop.test/2 secret:*.test/1
			> secret -shop.test
			> secret +shop.test +a.test
			< secret 2: -a.test -shop.test`,
		"a proxy that has certificates": `
			> plaintext
			> snapshot secret:shop.test/2
			> secret +shop.test +a.test have secret:shop.test/1
			< secret 1: -a.test
			> secret ack 1
			> snapshot secret:shop.test/3
			> snapshot secret:shop.test/1
			> snapshot`,
		"a proxy that has the latest certificate": `
			> plaintext
			> snapshot secret:shop.test/1
			> secret +shop.test have secret:shop.test/1
			> snapshot secret:shop.test/2`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runScript(t, ModeDelta, text)
		})
	}
	runScript(t, ModeStateOfTheWorld, `
		> plaintext
		> snapshot secret:shop.test/1
		> secret = shop.test`)
}

// TestStateOfTheWorldOmitsTLSListener requires that only delta contains the listener that requests certificates.
func TestStateOfTheWorldOmitsTLSListener(t *testing.T) {
	t.Parallel()
	runScript(t, ModeDelta, `
		> snapshot listener:web demand:tls
		> listener *
		< listener 1: tls/1 web/1`)
	runScript(t, ModeStateOfTheWorld, `
		> snapshot listener:web demand:tls
		> listener =
		< listener 1: web/1
		> listener ack 1
		> snapshot listener:web/2 demand:tls/2
		< listener 2: web/2
		> listener ack 2`)
}

// TestServerNamesAreLimited has a client invent server names. Envoy never discards a name, unless the response says
// that there is no such certificate. The names of hosts are never evicted.
func TestServerNamesAreLimited(t *testing.T) {
	t.Parallel()
	w, err := new(Snapshot).Replace(envoyresources.Parse(t, "secret:*.test secret:shop.test"))
	if err != nil {
		t.Fatal(err)
	}
	session := New(ModeDelta, scriptGrace, "salt", new(Rejections).Of("proxy"))
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	session.Publish(now, w)
	var sent, removed []string
	held := map[string]bool{}
	ask := func(name string) {
		t.Helper()
		requests := []Request{{TypeURL: SecretKind.TypeURL(), Subscribe: []string{name}}}
		for len(requests) > 0 {
			out := session.Receive(now, requests[0])
			requests = requests[1:]
			for _, r := range out.Responses {
				for _, res := range r.Resources {
					sent, held[res.name] = append(sent, res.name), true
				}
				removed = append(removed, r.Removed...)
				for _, gone := range r.Removed {
					delete(held, gone)
				}
				requests = append(
					requests, Request{TypeURL: SecretKind.TypeURL(), Nonce: r.Nonce, Unsubscribe: r.Removed},
				)
			}
		}
	}
	ask("shop.test")
	for i := range serverNamesLimit + 3 {
		ask(fmt.Sprintf("made-up-%d.test", i))
	}
	if diff := cmp.Diff([]string{"made-up-0.test", "made-up-1.test", "made-up-2.test"}, removed); diff != "" {
		t.Errorf("taken back (-want +got):\n%s", diff)
	}
	ask("made-up-0.test")
	if last := sent[len(sent)-1]; last != "made-up-0.test" {
		t.Errorf("what is asked for again is not sent: the last was %s", last)
	}
	if !held["shop.test"] || len(held) != serverNamesLimit+1 || !strings.HasPrefix(removed[3], "made-up-3.") {
		t.Errorf("the proxy has %d names, that of the host among them: %t; taken back last: %s", len(held), held["shop.test"], removed[3])
	}
}
