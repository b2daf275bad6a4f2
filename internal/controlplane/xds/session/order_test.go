package session

import "testing"

// TestOrderInDelta requires make before break: the order in which clusters, endpoints and scopes are sent and removed.
func TestOrderInDelta(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"make before break: a canary is added": newProxyDelta + `
			> snapshot a b canary listener:web web/2>a,canary
			< cluster 5: canary/1
			> endpoint +canary
			< endpoint 6: canary/1
			> endpoint ack 6
			> cluster ack 5
			< scope 7: web/2`,
		"make before break: a canary is removed": newProxyDelta + `
			> snapshot a listener:web web/2>a
			< scope 5: web/2
			< wake 5s
			# No scope of this proxy named b, so its grace period has started.
			> scope ack 5
			< wake 5s
			> after 5s
			< cluster 6: -b
			< endpoint 7: -b
			> cluster ack 6
			> endpoint -b`,
		"a canary that loses all endpoints loses its traffic first": newProxyDelta + `
			> snapshot a b/1.none listener:web web/2>a
			# No scope of this proxy names b: nothing waits for it.
			< endpoint 5: b/none
			< scope 6: web/2
			> endpoint ack 5
			> scope ack 6
			> snapshot a/1.none b/1.2 listener:web web/3>b
			< endpoint 7: b/2
			< scope 8: web/3
			< wake 10s
			> endpoint ack 7
			< wake 10s
			> scope ack 8
			< endpoint 9: a/none`,
		"lost endpoints do not wait if no scope changes": newProxyDelta + `
			> snapshot a/1.none b listener:web web>a
			< endpoint 5: a/none`,
		"lost endpoints wait for at most ten seconds": newProxyDelta + `
			> snapshot a/1.none b listener:web web/2>b
			< scope 5: web/2
			< wake 10s
			> after 9999ms
			< wake 1ms
			> after 1ms
			< endpoint 6: a/none`,
		"the queue replaces lost endpoints after at most a second": newProxyDelta + `
			> snapshot a/1.queue b listener:web web/2>b
			< scope 5: web/2
			< wake 1s
			> after 999ms
			< wake 1ms
			> after 1ms
			< endpoint 6: a/queue`,
		"the queue replaces lost endpoints at once if they have waited for a second": newProxyDelta + `
			> snapshot a/1.none b listener:web web/2>b
			< scope 5: web/2
			< wake 10s
			> after 2s
			< wake 8s
			> snapshot a/1.queue b listener:web web/2>b
			< endpoint 6: a/queue`,
		"the queue is not removed before the scopes are replaced": newProxyDelta + `
			> snapshot a/1.queue b listener:web web>a
			< endpoint 5: a/queue
			> endpoint ack 5
			> snapshot a/1.none b listener:web web/2>b
			< scope 6: web/2
			< wake 10s
			> scope ack 6
			< endpoint 7: a/none`,
		"lost endpoints do not wait for rejected scopes": newProxyDelta + `
			> snapshot a/1.none b listener:web web/2>b
			< scope 5: web/2
			< wake 10s
			> scope nack 5 no
			< endpoint 6: a/none`,
		"endpoints that return in time are not sent": newProxyDelta + `
			> snapshot a/1.none b listener:web web/2>b
			< scope 5: web/2
			< wake 10s
			> snapshot a b listener:web web/2>b
			> scope ack 5`,
		"a reconnecting proxy receives lost endpoints after its scopes": `
			> snapshot a/1.none b listener:web web/2>b
			> cluster * have a/1 b/1
			< cluster 1:
			> endpoint +a +b have a/1 b/1
			< wake 10s
			> listener * have listener:web/1
			< listener 2:
			< wake 10s
			> scope * have web/1>a
			< scope 3: web/2'
			< wake 10s
			> scope ack 3
			< endpoint 4: a/none`,
		"a removed cluster stays while a scope may name it": newProxyDelta + `
			> snapshot b listener:web web/2>b
			< scope 5: web/2
			> after 1h
			> scope ack 5
			< wake 5s
			> after 4999ms
			< wake 1ms
			> after 1ms
			< cluster 6: -a
			< endpoint 7: -a`,
		"a rejected scope keeps the clusters of both versions": newProxyDelta + `
			> snapshot b listener:web web/2>b
			< scope 5: web/2
			> scope nack 5 no
			> after 1h
			> snapshot b listener:web web/3>b
			< scope 6: web/3
			> scope ack 6
			< wake 5s
			> after 5s
			< cluster 7: -a
			< endpoint 8: -a`,
		"a cluster that returns within its grace period is not sent again": newProxyDelta + `
			> snapshot a listener:web web>a
			< wake 5s
			> snapshot a b listener:web web>a
			> after 1h`,
		"a cluster that returns after its grace period must be warm again": newProxyDelta + `
			> snapshot a listener:web web>a
			< wake 5s
			> after 5s
			< cluster 5: -b
			< endpoint 6: -b
			> cluster ack 5
			> endpoint ack 6
			> endpoint -b
			> snapshot a b listener:web web/2>a,b
			< cluster 7: b/1
			> endpoint +b
			< endpoint 8: b/1
			> cluster ack 7
			> endpoint ack 8
			< scope 9: web/2`,
		"a cluster that returns before the proxy unsubscribed must be warm again": newProxyDelta + `
			> snapshot a listener:web web>a
			< wake 5s
			> after 5s
			< cluster 5: -b
			< endpoint 6: -b
			> snapshot a b listener:web web/2>a,b
			< cluster 7: b/1
			< endpoint 8: b/1
			> cluster ack 5
			> cluster ack 7
			> endpoint ack 6
			> endpoint ack 8
			< scope 9: web/2`,
		"an ACK of endpoints from before the removal of their cluster does not count": newProxyDelta + `
			> snapshot a b/1.2 listener:web web>a
			< endpoint 5: b/2
			> snapshot a listener:web web>a
			< wake 5s
			> after 5s
			< cluster 6: -b
			< endpoint 7: -b
			> snapshot a b listener:web web/2>a,b
			< cluster 8: b/1
			< endpoint 9: b/1
			> endpoint ack 5
			> cluster ack 6
			> endpoint ack 7
			> cluster ack 8
			> endpoint ack 9
			< scope 10: web/2`,
		"each cluster has its own grace period": newProxyDelta + `
			> snapshot a c listener:web web/2>a,c
			< cluster 5: c/1
			< wake 5s
			> after 2s
			< wake 3s
			> snapshot a c listener:web web/3>a
			< scope 6: web/3
			< wake 3s
			> snapshot a listener:web web/3>a
			< wake 3s
			> after 3s
			< cluster 7: -b
			< endpoint 8: -b
			< wake 2s`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runScript(t, ModeDelta, text)
		})
	}
}
