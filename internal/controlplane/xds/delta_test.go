package xds

import "testing"

// freshDelta brings a proxy up with the clusters a and b and routes to a.
const freshDelta = `
	> world a b listener:web web>a
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
		"a fresh proxy is brought up": freshDelta,
		"nothing is answered before the first world": `
			> cluster *
			> listener *
			> world a listener:web web>a
			< cluster 1: a/1
			< listener 2: web/1`,
		"an empty world is a valid answer": `
			> world
			> cluster *
			< cluster 1:
			> cluster ack 1
			> listener *
			< listener 2:
			> listener ack 2`,
		"the wildcard may be spelled out": `
			> world a
			> cluster +*
			< cluster 1: a/1`,
		"a route waits for clusters and their endpoints": `
			> world a b listener:web web>a,b
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
		"a cluster that needs no endpoints is ready with its ACK": `
			> world static:a web>a
			> cluster *
			< cluster 1: a/1
			> scope *
			< wake 5s
			> cluster ack 1
			< scope 2: web/1`,
		"make before break: a canary comes": freshDelta + `
			> world a b canary listener:web web/2>a,canary
			< cluster 5: canary/1
			> endpoint +canary
			< endpoint 6: canary/1
			> endpoint ack 6
			> cluster ack 5
			< scope 7: web/2`,
		"make before break: a canary goes": freshDelta + `
			> world a listener:web web/2>a
			< scope 5: web/2
			< wake 5s
			# b was never in a route of this proxy, so its grace runs already.
			> scope ack 5
			< wake 5s
			> after 5s
			< cluster 6: -b
			< endpoint 7: -b
			> cluster ack 6
			> endpoint -b`,
		"a canary that loses all endpoints gives its share away first": freshDelta + `
			> world a b/1.none listener:web web/2>a
			# b is in no route of this proxy: nothing waits for it.
			< endpoint 5: b/none
			< scope 6: web/2
			> endpoint ack 5
			> scope ack 6
			> world a/1.none b/1.2 listener:web web/3>b
			< endpoint 7: b/2
			< scope 8: web/3
			< wake 1s
			> endpoint ack 7
			< wake 1s
			> scope ack 8
			< endpoint 9: a/none`,
		"endpoints that are lost wait for no routes if none change": freshDelta + `
			> world a/1.none b listener:web web>a
			< endpoint 5: a/none`,
		"endpoints that are lost wait for a second at most": freshDelta + `
			> world a/1.none b listener:web web/2>b
			< scope 5: web/2
			< wake 1s
			> after 999ms
			< wake 1ms
			> after 1ms
			< endpoint 6: a/none`,
		"endpoints that are lost do not wait for routes that the proxy refuses": freshDelta + `
			> world a/1.none b listener:web web/2>b
			< scope 5: web/2
			< wake 1s
			> scope nack 5 no
			< endpoint 6: a/none`,
		"endpoints that come back in time were never lost": freshDelta + `
			> world a/1.none b listener:web web/2>b
			< scope 5: web/2
			< wake 1s
			> world a b listener:web web/2>b
			> scope ack 5`,
		"a proxy that comes back learns of a loss behind its routes": `
			> world a/1.none b listener:web web/2>b
			> cluster * have a/1 b/1
			< cluster 1:
			> endpoint +a +b have a/1 b/1
			< wake 1s
			> listener * have listener:web/1
			< listener 2:
			< wake 1s
			> scope * have web/1>a
			< scope 3: web/2'
			< wake 1s
			> scope ack 3
			< endpoint 4: a/none`,
		"a removed cluster stays while the proxy may hold routes to it": freshDelta + `
			> world b listener:web web/2>b
			< scope 5: web/2
			> after 1h
			> scope ack 5
			< wake 5s
			> after 4999ms
			< wake 1ms
			> after 1ms
			< cluster 6: -a
			< endpoint 7: -a`,
		"a refused route keeps the clusters of both versions": freshDelta + `
			> world b listener:web web/2>b
			< scope 5: web/2
			> scope nack 5 no
			> after 1h
			> world b listener:web web/3>b
			< scope 6: web/3
			> scope ack 6
			< wake 5s
			> after 5s
			< cluster 7: -a
			< endpoint 8: -a`,
		"a cluster that returns within its grace is not sent again": freshDelta + `
			> world a listener:web web>a
			< wake 5s
			> world a b listener:web web>a
			> after 1h`,
		"a cluster that returns after its grace must be warm anew": freshDelta + `
			> world a listener:web web>a
			< wake 5s
			> after 5s
			< cluster 5: -b
			< endpoint 6: -b
			> cluster ack 5
			> endpoint ack 6
			> endpoint -b
			> world a b listener:web web/2>a,b
			< cluster 7: b/1
			> endpoint +b
			< endpoint 8: b/1
			> cluster ack 7
			> endpoint ack 8
			< scope 9: web/2`,
		"a cluster that returns before the proxy unsubscribed must be warm anew": freshDelta + `
			> world a listener:web web>a
			< wake 5s
			> after 5s
			< cluster 5: -b
			< endpoint 6: -b
			> world a b listener:web web/2>a,b
			< cluster 7: b/1
			< endpoint 8: b/1
			> cluster ack 5
			> cluster ack 7
			> endpoint ack 6
			> endpoint ack 8
			< scope 9: web/2`,
		"endpoints ACKed before their cluster left don't count when it returns": freshDelta + `
			> world a b/1.2 listener:web web>a
			< endpoint 5: b/2
			> world a listener:web web>a
			< wake 5s
			> after 5s
			< cluster 6: -b
			< endpoint 7: -b
			> world a b listener:web web/2>a,b
			< cluster 8: b/1
			< endpoint 9: b/1
			> endpoint ack 5
			> cluster ack 6
			> endpoint ack 7
			> cluster ack 8
			> endpoint ack 9
			< scope 10: web/2`,
		"each cluster has a grace of its own": freshDelta + `
			> world a c listener:web web/2>a,c
			< cluster 5: c/1
			< wake 5s
			> after 2s
			< wake 3s
			> world a c listener:web web/3>a
			< scope 6: web/3
			< wake 3s
			> world a listener:web web/3>a
			< wake 3s
			> after 3s
			< cluster 7: -b
			< endpoint 8: -b
			< wake 2s`,
		"a change of endpoints goes out alone and at once": freshDelta + `
			> world a/1.2 b listener:web web>a
			< endpoint 5: a/2`,
		"a changed cluster is followed by its endpoints": freshDelta + `
			> world a/2.1 b listener:web web>a
			< cluster 5: a/2
			< endpoint 6: a/1`,
		"a changed cluster holds no route back, the old one still serves": freshDelta + `
			> world a/2.1 b listener:web web/2>a
			< cluster 5: a/2
			< endpoint 6: a/1
			< scope 7: web/2`,
		"what didn't change is not sent": freshDelta + `
			> world a b listener:web web>a`,
		"a name that is subscribed to again is answered again": freshDelta + `
			> endpoint +a
			< endpoint 5: a/1
			> scope +web
			< scope 6: web/1`,
		"a name that doesn't exist is answered, once, and remembered": freshDelta + `
			> endpoint +ghost
			< endpoint 5: -ghost
			> world a b ghost listener:web web>a
			< cluster 6: ghost/1
			< endpoint 7: ghost/1`,
		"unsubscribing ends the updates": freshDelta + `
			> endpoint -a -phantom
			> world a/1.2 b listener:web web>a`,
		"a name beside the wildcard is answered when it is given up": `
			> world a
			> cluster +* +a +ghost
			< cluster 1: a/1 -ghost
			> cluster -a -ghost
			< cluster 2: a/1 -ghost`,
		"giving up the wildcard leaves the names": `
			> world a b
			> cluster +* +a
			< cluster 1: a/1 b/1
			> cluster -*
			> world a/2 b/2
			< cluster 2: a/2`,
		"a refused version is not sent again until it changes": freshDelta + `
			> world a/2 b listener:web web>a
			< cluster 5: a/2
			< endpoint 6: a/2
			> cluster nack 5 no
			> world a/2 b/1.2 listener:web web>a
			< endpoint 7: b/2
			> world a/3.2 b/1.2 listener:web web>a
			< cluster 8: a/3
			< endpoint 9: a/2`,
		"a new cluster that was refused holds its route back": freshDelta + `
			> world a b c listener:web web/2>a,c
			< cluster 5: c/1
			> cluster nack 5 no
			> endpoint +c
			< endpoint 6: c/1
			> endpoint ack 6
			> world a b c/2 listener:web web/2>a,c
			< cluster 7: c/2
			< endpoint 8: c/2
			> cluster ack 7
			< scope 9: web/2`,
		"stale and unknown nonces mean nothing": freshDelta + `
			> cluster ack 1
			> cluster nack 99 no
			> scope ack 2`,
		"other types are not answered and harm nothing": freshDelta + `
			> type.googleapis.com/unknown +x
			> world a/1.2 b listener:web web>a
			< endpoint 5: a/2`,
		"a removed listener goes at once": freshDelta + `
			> world a b web>a
			< listener 5: -web`,
		"clusters outlive the removal of their route until the proxy confirms it": freshDelta + `
			> world b
			< listener 5: -web
			< scope 6: -web
			> after 1h
			> scope ack 6
			< wake 5s
			> after 5s
			< cluster 7: -a
			< endpoint 8: -a`,
		"a reconnecting proxy is sent the difference": `
			> world a/2 b c listener:web web/2>a,b
			> cluster * have a/1 b/1 c/1 old/1
			< cluster 1: a/2
			> endpoint +a +b +c +old have a/2 b/1 c/1 old/1
			# a was changed on this stream, so Envoy warms it and waits for endpoints.
			< endpoint 2: a/2
			> listener * have listener:web listener:gone
			< listener 3: -gone
			> scope * have web/1>a,old
			# What the proxy refused before is unknown, so these are bytes that it has never seen.
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
		"a reconnecting proxy that has all gets an empty answer": `
			> world a listener:web web>a
			> cluster * have a/1
			< cluster 1:
			> endpoint +a have a/1
			> listener * have listener:web
			< listener 2:
			> scope * have web>a
			< scope 3:`,
		"a reconnecting proxy before the first world": `
			> cluster * have a/1 old/1
			> endpoint +a +old have a/1 old/1
			> scope * have web>a
			> world a web>a
			< cluster 1:
			< scope 2:
			< wake 5s
			> after 5s
			< cluster 3: -old
			< endpoint 4: -old`,
		"a silent proxy is left alone, then gets all at once": `
			> world a/1.1
			> endpoint +a
			< endpoint 1: a/1
			> world a/1.2
			< endpoint 2: a/2
			> world a/1.3
			< endpoint 3: a/3
			> world a/1.4
			< endpoint 4: a/4
			> world a/1.5
			< endpoint 5: a/5
			> world a/1.6
			< endpoint 6: a/6
			> world a/1.7
			< endpoint 7: a/7
			> world a/1.8
			< endpoint 8: a/8
			> world a/1.9
			> world a/1.10
			> endpoint ack 1
			< endpoint 9: a/10`,
		"a scope that waits for its cluster doesn't hold up the others": freshDelta + `
			> world a b c listener:web web/2>c other>a
			< cluster 5: c/1
			< scope 6: other/1
			> scope ack 6
			> endpoint +c
			< endpoint 7: c/1
			> world a b c listener:web web/2>c other>a third>c
			> endpoint ack 7
			> cluster ack 5
			< scope 8: web/2
			> scope ack 8
			< scope 9: third/1`,
		"a fresh proxy gets all scopes in one response": `
			> world a b listener:web x>a y>b z>a,b
			> cluster *
			< cluster 1: a/1 b/1
			> endpoint +a +b
			< endpoint 2: a/1 b/1
			> endpoint ack 2
			> cluster ack 1
			> scope *
			< scope 3: x/1 y/1 z/1`,
		"a fresh proxy waits while it makes progress, then gets what it can serve": `
			> world a c listener:web x>a y>c
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
		"a fresh proxy doesn't wait for what it refuses": `
			> world static:a static:c x>a y>c
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
		"a proxy that brought scopes keeps those that wait": `
			> world a c listener:web x/2>a y/2>c
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
		"after the first response each scope travels alone, one at a time, the newest version of it": freshDelta + `
			> world a b listener:web web/2>a x>a y>a z>a
			< scope 5: web/2
			> world a b listener:web web/3>a x>a y/2>a z>a
			> scope ack 5
			< scope 6: x/1
			> scope ack 6
			< scope 7: y/2
			> scope ack 7
			< scope 8: z/1
			> scope ack 8
			< scope 9: web/3`,
		"removals of scopes travel together, and without a change": freshDelta + `
			> world a b listener:web x>a y>a z>a
			< scope 5: -web
			> scope ack 5
			< scope 6: y/1
			> scope ack 6
			< scope 7: z/1
			> world a b listener:web w/2>a
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
