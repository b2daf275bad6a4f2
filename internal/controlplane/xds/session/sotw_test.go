package session

import "testing"

// newProxySOTW connects a proxy, with the clusters a and b and a scope with a route to a.
const newProxySOTW = `
	> snapshot a b listener:web web>a
	> cluster *
	< cluster 1: a/1 b/1
	> endpoint = a b
	< endpoint 2: a/1 b/1
	> endpoint ack 2
	> cluster ack 1
	> listener *
	< listener 3: web/1
	> scope *
	< scope 4: web/1
	> listener ack 3
	> scope ack 4
`

func TestStateOfTheWorldSession(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"a new proxy connects": newProxySOTW,
		"no response before the first snapshot": `
			> cluster *
			> endpoint = a
			> snapshot a
			< cluster 1: a/1
			< endpoint 2: a/1`,
		"an empty snapshot is valid": `
			> snapshot
			> cluster *
			< cluster 1:
			> listener *
			< listener 2:`,
		"a list of clusters is complete, a list of endpoints is not": newProxySOTW + `
			> snapshot a b/1.2 c listener:web web>a
			< cluster 5: a/1 b/1 c/1
			< endpoint 6: b/2`,
		"make before break: a canary is added": newProxySOTW + `
			> snapshot a b canary listener:web web/2>a,canary
			< cluster 5: a/1 b/1 canary/1
			> endpoint = a b canary
			< endpoint 6: canary/1
			> endpoint ack 6
			> cluster ack 5
			< scope 7: web/2
			> scope ack 7`,
		"endpoints that are lost again wait again": newProxySOTW + `
			> snapshot a/1.none b listener:web web/2>b
			< scope 5: web/2
			< wake 10s
			> snapshot a b listener:web web/2>b
			> scope ack 5
			> snapshot a b listener:web web/3>a
			< scope 6: web/3
			> scope ack 6
			> after 1h
			> snapshot a/1.none b listener:web web/4>b
			< scope 7: web/4
			< wake 10s
			> scope ack 7
			< endpoint 8: a/none`,
		"make before break: a cluster is removed": newProxySOTW + `
			> snapshot b listener:web web/2>b
			< scope 5: web/2
			> after 1h
			> scope ack 5
			< wake 5s
			> after 5s
			< cluster 6: b/1
			> cluster ack 6
			> endpoint = b`,
		"a draining cluster stays in every list": newProxySOTW + `
			> snapshot b listener:web web/2>b
			< scope 5: web/2
			> snapshot b c listener:web web/2>b
			< cluster 6: a/1 b/1 c/1`,
		"a cluster that returns must be warm again": newProxySOTW + `
			> snapshot a listener:web web>a
			< wake 5s
			> after 5s
			< cluster 5: a/1
			> cluster ack 5
			> endpoint = a
			> snapshot a b listener:web web/2>a,b
			< cluster 6: a/1 b/1
			> endpoint = a b
			< endpoint 7: b/1
			> cluster ack 6
			> endpoint ack 7
			< scope 8: web/2`,
		"a cluster that returns before the proxy unsubscribed its endpoints must be warm again": newProxySOTW + `
			> snapshot a b/1.2 listener:web web>a
			< endpoint 5: b/2
			> snapshot a listener:web web>a
			< wake 5s
			> after 5s
			< cluster 6: a/1
			> snapshot a b listener:web web/2>a,b
			< cluster 7: a/1 b/1
			< endpoint 8: b/1
			> cluster ack 7
			> endpoint ack 5
			> endpoint ack 8
			< scope 9: web/2`,
		"endpoints that are requested again are sent again": newProxySOTW + `
			> endpoint = a b
			< endpoint 5: a/1 b/1
			> endpoint ack 5`,
		"a repeated request that crossed a response is stale": newProxySOTW + `
			> snapshot a/1.2 b listener:web web>a
			< endpoint 5: a/2
			> endpoint ack 2
			> endpoint ack 5`,
		"the endpoints of a changed cluster are sent after it": newProxySOTW + `
			> snapshot a/2.1 b listener:web web>a
			< cluster 5: a/2 b/1
			< endpoint 6: a/1`,
		"unknown names are answered once they exist": newProxySOTW + `
			> endpoint = a b c
			> snapshot a b c listener:web web>a
			< cluster 5: a/1 b/1 c/1
			< endpoint 6: c/1`,
		"an unsubscribed name is no longer sent": newProxySOTW + `
			> endpoint = b
			> snapshot a/1.2 b listener:web web>a`,
		"a repeated wildcard request is not answered": newProxySOTW + `
			> cluster *
			> listener *`,
		"clusters by name": `
			> snapshot a b c
			> cluster = a b
			< cluster 1: a/1 b/1
			> cluster ack 1
			> cluster = a
			< cluster 2: a/1
			> snapshot a b/2 c/2`,
		"an ACK covers the responses before it": newProxySOTW + `
			> snapshot a b c listener:web web/2>a,c
			< cluster 5: a/1 b/1 c/1
			> endpoint = a b c
			< endpoint 6: c/1
			> snapshot a/1.2 b c listener:web web/2>a,c
			< endpoint 7: a/2
			> endpoint ack 7
			> cluster ack 5
			< scope 8: web/2`,
		"endpoints have no wildcard": `
			> snapshot a web>a
			> endpoint =`,
		"a list of scopes is complete and contains one change": newProxySOTW + `
			> snapshot a b listener:web web/2>a x>a y>b
			< scope 5: web/2
			> scope ack 5
			< scope 6: web/2 x/1
			> scope ack 6
			< scope 7: web/2 x/1 y/1
			> scope ack 7
			> snapshot a b listener:web web/3>a x>a
			< scope 8: web/3 x/1 y/1
			> scope ack 8
			< scope 9: web/3 x/1`,
		"a list contains the old version of a scope that waits": newProxySOTW + `
			> snapshot a b c listener:web web/2>c x>b
			< cluster 5: a/1 b/1 c/1
			< scope 6: web/1 x/1`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runScript(t, ModeStateOfTheWorld, text)
		})
	}
}
