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
	> route +web
	< route 4: web/1
	> route ack 4
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
			> route +web
			> cluster *
			< cluster 2: a/1 b/1
			> endpoint +a +b
			< endpoint 3: a/1 b/1
			> endpoint ack 3
			> cluster ack 2
			< route 4: web/1`,
		"a cluster that needs no endpoints is ready with its ACK": `
			> world static:a web>a
			> cluster *
			< cluster 1: a/1
			> route +web
			> cluster ack 1
			< route 2: web/1`,
		"make before break: a canary comes": freshDelta + `
			> world a b canary listener:web web/2>a,canary
			< cluster 5: canary/1
			> endpoint +canary
			< endpoint 6: canary/1
			> endpoint ack 6
			> cluster ack 5
			< route 7: web/2`,
		"make before break: a canary goes": freshDelta + `
			> world a listener:web web/2>a
			< route 5: web/2
			< wake 5s
			# b was never in a route of this proxy, so its grace runs already.
			> route ack 5
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
			< route 6: web/2
			> endpoint ack 5
			> route ack 6
			> world a/1.none b/1.2 listener:web web/3>b
			< endpoint 7: b/2
			< route 8: web/3
			< wake 1s
			> endpoint ack 7
			< wake 1s
			> route ack 8
			< endpoint 9: a/none`,
		"endpoints that are lost wait for no routes if none change": freshDelta + `
			> world a/1.none b listener:web web>a
			< endpoint 5: a/none`,
		"endpoints that are lost wait for a second at most": freshDelta + `
			> world a/1.none b listener:web web/2>b
			< route 5: web/2
			< wake 1s
			> after 999ms
			< wake 1ms
			> after 1ms
			< endpoint 6: a/none`,
		"endpoints that are lost do not wait for routes that the proxy refuses": freshDelta + `
			> world a/1.none b listener:web web/2>b
			< route 5: web/2
			< wake 1s
			> route nack 5 no
			< endpoint 6: a/none`,
		"endpoints that come back in time were never lost": freshDelta + `
			> world a/1.none b listener:web web/2>b
			< route 5: web/2
			< wake 1s
			> world a b listener:web web/2>b
			> route ack 5`,
		"a proxy that comes back learns of a loss behind its routes": `
			> world a/1.none b listener:web web/2>b
			> cluster * have a/1 b/1
			< cluster 1:
			> endpoint +a +b have a/1 b/1
			< wake 1s
			> listener * have listener:web/1
			< listener 2:
			< wake 1s
			> route +web have web/1>a
			< route 3: web/2
			< wake 1s
			> route ack 3
			< endpoint 4: a/none`,
		"a removed cluster stays while the proxy may hold routes to it": freshDelta + `
			> world b listener:web web/2>b
			< route 5: web/2
			> after 1h
			> route ack 5
			< wake 5s
			> after 4999ms
			< wake 1ms
			> after 1ms
			< cluster 6: -a
			< endpoint 7: -a`,
		"a refused route keeps the clusters of both versions": freshDelta + `
			> world b listener:web web/2>b
			< route 5: web/2
			> route nack 5 no
			> after 1h
			> world b listener:web web/3>b
			< route 6: web/3
			> route ack 6
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
			< route 9: web/2`,
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
			< route 9: web/2`,
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
			< route 10: web/2`,
		"each cluster has a grace of its own": freshDelta + `
			> world a c listener:web web/2>a,c
			< cluster 5: c/1
			< wake 5s
			> after 2s
			< wake 3s
			> world a c listener:web web/3>a
			< route 6: web/3
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
			< route 7: web/2`,
		"what didn't change is not sent": freshDelta + `
			> world a b listener:web web>a`,
		"a name that is subscribed to again is answered again": freshDelta + `
			> endpoint +a
			< endpoint 5: a/1
			> route +web
			< route 6: web/1`,
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
			< route 9: web/2`,
		"stale and unknown nonces mean nothing": freshDelta + `
			> cluster ack 1
			> cluster nack 99 no
			> route ack 2`,
		"other types are not answered and harm nothing": freshDelta + `
			> type.googleapis.com/unknown +x
			> world a/1.2 b listener:web web>a
			< endpoint 5: a/2`,
		"a removed listener goes at once": freshDelta + `
			> world a b web>a
			< listener 5: -web`,
		"routes outlive their removal until the proxy lets go": freshDelta + `
			> world b
			< listener 5: -web
			< route 6: -web
			> route ack 6
			> after 1h
			> route -web
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
			> route +web have web/1>a,old
			< route 4: web/2
			> cluster ack 1
			> endpoint ack 2
			> listener ack 3
			> after 1h
			> route ack 4
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
			> route +web have web>a`,
		"a reconnecting proxy before the first world": `
			> cluster * have a/1 old/1
			> endpoint +a +old have a/1 old/1
			> route +web have web>a
			> world a web>a
			< cluster 1:
			< wake 5s
			> after 5s
			< cluster 2: -old
			< endpoint 3: -old`,
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
		"a virtual host that waits for its cluster doesn't hold up the others": `
			> world a listener:web web>x:a+y:a
			> cluster *
			< cluster 1: a/1
			> endpoint +a
			< endpoint 2: a/1
			> endpoint ack 2
			> cluster ack 1
			> route +web
			< route 3: web[x/1 y/1]
			> route ack 3
			> world a c listener:web web>x/2:c+y/2:a
			< cluster 4: c/1
			< route 5: web[x/1 y/2]
			> route ack 5
			> endpoint +c
			< endpoint 6: c/1
			> world a c listener:web web>x/2:c+y/2:a+z/2:c
			> endpoint ack 6
			> cluster ack 4
			< route 7: web[x/2 y/2 z/2]`,
		"a fresh proxy waits a while for all of its routes, then gets what it can serve": `
			> world a c listener:web web>x:a+y:c
			> cluster *
			< cluster 1: a/1 c/1
			> endpoint +a
			< endpoint 2: a/1
			> endpoint ack 2
			> cluster ack 1
			> route +web
			< wake 1s
			> after 1s
			< route 3: web[x/1]
			> endpoint +c
			< endpoint 4: c/1
			> endpoint ack 4
			< route 5: web[x/1 y/1]`,
		"a proxy that brought unknown routes keeps them until all are ready": `
			> world a c listener:web web/2>x/2:a+y/2:c
			> cluster * have a/1
			< cluster 1: c/1
			> endpoint +a have a/1
			> route +web have web>x:a+y:a
			> after 1h
			> cluster ack 1
			> endpoint +c
			< endpoint 2: c/1
			> endpoint ack 2
			< route 3: web/2[x/2 y/2]`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runScript(t, Delta, text)
		})
	}
}
