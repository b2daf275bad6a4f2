package session

import "testing"

// newProxyDelta connects a proxy, with the clusters a and b and a scope with a route to a.
const newProxyDelta = `
	> snapshot a b listener:web web>a
	> cluster *
	< cluster 1: a/1 b/1
	> cluster ack 1
	> endpoint +a +b
	< endpoint 2: a/1 b/1
	> endpoint ack 2
	> listener *
	< listener 3: web/1
	> listener ack 3
	> scope *
	< scope 4: web/1
	> scope ack 4
`

func TestDeltaSession(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"a new proxy connects": newProxyDelta,
		"no response before the first snapshot": `
			> cluster *
			> listener *
			> snapshot a listener:web web>a
			< cluster 1: a/1
			< listener 2: web/1`,
		"an empty snapshot is valid": `
			> snapshot
			> cluster *
			< cluster 1:
			> cluster ack 1
			> listener *
			< listener 2:
			> listener ack 2`,
		"an explicit wildcard": `
			> snapshot a
			> cluster +*
			< cluster 1: a/1`,
		"a scope waits for clusters and their endpoints": `
			> snapshot a b listener:web web>a,b
			> listener *
			< listener 1: web/1
			> scope *
			< wake 5s
			> cluster *
			< cluster 2: a/1 b/1
			< wake 5s
			> endpoint +a +b
			< endpoint 3: a/1 b/1
			< wake 5s
			> endpoint ack 3
			< wake 5s
			> cluster ack 2
			< scope 4: web/1`,
		"a cluster without EDS is warm after its ACK": `
			> snapshot static:a web>a
			> cluster *
			< cluster 1: a/1
			> scope *
			< wake 5s
			> cluster ack 1
			< scope 2: web/1`,
		"a change of endpoints is sent at once": newProxyDelta + `
			> snapshot a/1.2 b listener:web web>a
			< endpoint 5: a/2`,
		"the endpoints of a changed cluster are sent after it": newProxyDelta + `
			> snapshot a/2.1 b listener:web web>a
			< cluster 5: a/2
			< endpoint 6: a/1`,
		"a scope does not wait for a changed cluster, because the old one serves": newProxyDelta + `
			> snapshot a/2.1 b listener:web web/2>a
			< cluster 5: a/2
			< endpoint 6: a/1
			< scope 7: web/2`,
		"unchanged resources are not sent": newProxyDelta + `
			> snapshot a b listener:web web>a`,
		"a repeated subscription is answered": newProxyDelta + `
			> endpoint +a
			< endpoint 5: a/1
			> scope +web
			< scope 6: web/1`,
		"an unknown name is answered once, and sent when it exists": newProxyDelta + `
			> endpoint +ghost
			< endpoint 5: -ghost
			> snapshot a b ghost listener:web web>a
			< cluster 6: ghost/1
			< endpoint 7: ghost/1`,
		"no updates after unsubscribing": newProxyDelta + `
			> endpoint -a -phantom
			> snapshot a/1.2 b listener:web web>a`,
		"unsubscribing a name under the wildcard is answered": `
			> snapshot a
			> cluster +* +a +ghost
			< cluster 1: a/1 -ghost
			> cluster -a -ghost
			< cluster 2: a/1 -ghost`,
		"unsubscribing the wildcard keeps the names": `
			> snapshot a b
			> cluster +* +a
			< cluster 1: a/1 b/1
			> cluster -*
			> snapshot a/2 b/2
			< cluster 2: a/2`,
		"a rejected version is not sent again": newProxyDelta + `
			> snapshot a/2 b listener:web web>a
			< cluster 5: a/2
			< endpoint 6: a/2
			> cluster nack 5 no
			> snapshot a/2 b/1.2 listener:web web>a
			< endpoint 7: b/2
			> snapshot a/3.2 b/1.2 listener:web web>a
			< cluster 8: a/3
			< endpoint 9: a/2`,
		"a scope waits for a rejected new cluster": newProxyDelta + `
			> snapshot a b c listener:web web/2>a,c
			< cluster 5: c/1
			> cluster nack 5 no
			> endpoint +c
			< endpoint 6: c/1
			> endpoint ack 6
			> snapshot a b c/2 listener:web web/2>a,c
			< cluster 7: c/2
			< endpoint 8: c/2
			> cluster ack 7
			< scope 9: web/2`,
		"stale and unknown nonces are ignored": newProxyDelta + `
			> cluster ack 1
			> cluster nack 99 no
			> scope ack 2`,
		"other types are ignored": newProxyDelta + `
			> type.googleapis.com/unknown +x
			> snapshot a/1.2 b listener:web web>a
			< endpoint 5: a/2`,
		"a listener is removed at once": newProxyDelta + `
			> snapshot a b web>a
			< listener 5: -web`,
		"clusters outlive the removal of their scope until its ACK": newProxyDelta + `
			> snapshot b
			< listener 5: -web
			< scope 6: -web
			> after 1h
			> scope ack 6
			< wake 5s
			> after 5s
			< cluster 7: -a
			< endpoint 8: -a`,
		"a reconnecting proxy receives the difference": `
			> snapshot a/2 b c listener:web web/2>a,b
			> cluster * have a/1 b/1 c/1 old/1
			< cluster 1: a/2
			> endpoint +a +b +c +old have a/2 b/1 c/1 old/1
			# a changed on this stream, so Envoy warms it and waits for its endpoints.
			< endpoint 2: a/2
			> listener * have listener:web listener:gone
			< listener 3: -gone
			> scope * have web/1>a,old
			# Earlier NACKs of the proxy are unknown, so these are bytes that it has never received.
			< scope 4: web/2'
			> cluster ack 1
			> endpoint ack 2
			> listener ack 3
			> after 1h
			> scope ack 4
			< wake 5s
			> after 5s
			< cluster 5: -old
			< endpoint 6: -old`,
		"a reconnecting proxy that is synced receives empty responses": `
			> snapshot a listener:web web>a
			> cluster * have a/1
			< cluster 1:
			> endpoint +a have a/1
			> listener * have listener:web
			< listener 2:
			> scope * have web>a
			< scope 3:`,
		"a reconnecting proxy before the first snapshot": `
			> cluster * have a/1 old/1
			> endpoint +a +old have a/1 old/1
			> scope * have web>a
			> snapshot a web>a
			< cluster 1:
			< scope 2:
			< wake 5s
			> after 5s
			< cluster 3: -old
			< endpoint 4: -old`,
		"a proxy that does not answer receives the latest version later": `
			> snapshot a/1.1
			> endpoint +a
			< endpoint 1: a/1
			> snapshot a/1.2
			< endpoint 2: a/2
			> snapshot a/1.3
			< endpoint 3: a/3
			> snapshot a/1.4
			< endpoint 4: a/4
			> snapshot a/1.5
			< endpoint 5: a/5
			> snapshot a/1.6
			< endpoint 6: a/6
			> snapshot a/1.7
			< endpoint 7: a/7
			> snapshot a/1.8
			< endpoint 8: a/8
			> snapshot a/1.9
			> snapshot a/1.10
			> endpoint ack 1
			< endpoint 9: a/10`,
		"a scope that waits for its cluster delays no other": newProxyDelta + `
			> snapshot a b c listener:web web/2>c other>a
			< cluster 5: c/1
			< scope 6: other/1
			> scope ack 6
			> endpoint +c
			< endpoint 7: c/1
			> snapshot a b c listener:web web/2>c other>a third>c
			> endpoint ack 7
			> cluster ack 5
			< scope 8: web/2
			> scope ack 8
			< scope 9: third/1`,
		"a new proxy receives all scopes in one response": `
			> snapshot a b listener:web x>a y>b z>a,b
			> cluster *
			< cluster 1: a/1 b/1
			> endpoint +a +b
			< endpoint 2: a/1 b/1
			> endpoint ack 2
			> cluster ack 1
			> scope *
			< scope 3: x/1 y/1 z/1`,
		"the first scopes wait while the proxy makes progress": `
			> snapshot a c listener:web x>a y>c
			> cluster *
			< cluster 1: a/1 c/1
			> endpoint +a
			< endpoint 2: a/1
			> scope *
			< wake 5s
			> after 4s
			< wake 1s
			> endpoint ack 2
			< wake 5s
			> after 4s
			< wake 1s
			> cluster ack 1
			< wake 5s
			> after 5s
			< scope 3: x/1
			> scope ack 3
			> endpoint +c
			< endpoint 4: c/1
			> endpoint ack 4
			< scope 5: y/1`,
		"the first scopes do not wait for rejected clusters": `
			> snapshot static:a static:c x>a y>c
			> cluster *
			< cluster 1: a/1 c/1
			> cluster nack 1 no
			< cluster 2: a/1
			> scope *
			< wake 5s
			> cluster ack 2
			< cluster 3: c/1
			< wake 5s
			> cluster nack 3 no
			< scope 4: x/1`,
		"a reconnecting proxy keeps scopes that wait": `
			> snapshot a c listener:web x/2>a y/2>c
			> cluster * have a/1
			< cluster 1: c/1
			> endpoint +a have a/1
			> scope * have x>a y>a
			< scope 2: x/2'
			> scope ack 2
			> after 1h
			> cluster ack 1
			> endpoint +c
			< endpoint 3: c/1
			> endpoint ack 3
			< scope 4: y/2'`,
		"after the first response scopes are sent one by one, in their latest version": newProxyDelta + `
			> snapshot a b listener:web web/2>a x>a y>a z>a
			< scope 5: web/2
			> snapshot a b listener:web web/3>a x>a y/2>a z>a
			> scope ack 5
			< scope 6: x/1
			> scope ack 6
			< scope 7: y/2
			> scope ack 7
			< scope 8: z/1
			> scope ack 8
			< scope 9: web/3`,
		"removals of scopes are sent together and without a change": newProxyDelta + `
			> snapshot a b listener:web x>a y>a z>a
			< scope 5: -web
			> scope ack 5
			< scope 6: y/1
			> scope ack 6
			< scope 7: z/1
			> snapshot a b listener:web w/2>a
			> scope ack 7
			< scope 8: w/2
			> scope ack 8
			< scope 9: -y -z`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runScript(t, ModeDelta, text)
		})
	}
}
