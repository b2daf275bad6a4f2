package xds

import "testing"

// freshWhole brings a proxy up with the clusters a and b and routes to a.
const freshWhole = `
	> world a b listener:web web>a
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
		"a fresh proxy is brought up": freshWhole,
		"nothing is answered before the first world": `
			> cluster *
			> endpoint = a
			> world a
			< cluster 1: a/1
			< endpoint 2: a/1`,
		"an empty world is a valid answer": `
			> world
			> cluster *
			< cluster 1:
			> listener *
			< listener 2:`,
		"a list of clusters is complete, a list of endpoints is not": freshWhole + `
			> world a b/1.2 c listener:web web>a
			< cluster 5: a/1 b/1 c/1
			< endpoint 6: b/2`,
		"make before break: a canary comes": freshWhole + `
			> world a b canary listener:web web/2>a,canary
			< cluster 5: a/1 b/1 canary/1
			> endpoint = a b canary
			< endpoint 6: canary/1
			> endpoint ack 6
			> cluster ack 5
			< scope 7: web/2
			> scope ack 7`,
		"make before break: a cluster goes": freshWhole + `
			> world b listener:web web/2>b
			< scope 5: web/2
			> after 1h
			> scope ack 5
			< wake 5s
			> after 5s
			< cluster 6: b/1
			> cluster ack 6
			> endpoint = b`,
		"a leaving cluster stays in every list": freshWhole + `
			> world b listener:web web/2>b
			< scope 5: web/2
			> world b c listener:web web/2>b
			< cluster 6: a/1 b/1 c/1`,
		"a cluster that returns must be warm anew": freshWhole + `
			> world a listener:web web>a
			< wake 5s
			> after 5s
			< cluster 5: a/1
			> cluster ack 5
			> endpoint = a
			> world a b listener:web web/2>a,b
			< cluster 6: a/1 b/1
			> endpoint = a b
			< endpoint 7: b/1
			> cluster ack 6
			> endpoint ack 7
			< scope 8: web/2`,
		"a cluster that returns before the proxy gave up its endpoints must be warm anew": freshWhole + `
			> world a b/1.2 listener:web web>a
			< endpoint 5: b/2
			> world a listener:web web>a
			< wake 5s
			> after 5s
			< cluster 6: a/1
			> world a b listener:web web/2>a,b
			< cluster 7: a/1 b/1
			< endpoint 8: b/1
			> cluster ack 7
			> endpoint ack 5
			> endpoint ack 8
			< scope 9: web/2`,
		"endpoints that are asked for again are sent again": freshWhole + `
			> endpoint = a b
			< endpoint 5: a/1 b/1
			> endpoint ack 5`,
		"a repeated request that crossed a response is no new one": freshWhole + `
			> world a/1.2 b listener:web web>a
			< endpoint 5: a/2
			> endpoint ack 2
			> endpoint ack 5`,
		"a changed cluster is followed by its endpoints": freshWhole + `
			> world a/2.1 b listener:web web>a
			< cluster 5: a/2 b/1
			< endpoint 6: a/1`,
		"names that don't exist are answered when they do": freshWhole + `
			> endpoint = a b c
			> world a b c listener:web web>a
			< cluster 5: a/1 b/1 c/1
			< endpoint 6: c/1`,
		"a name given up is no longer sent": freshWhole + `
			> endpoint = b
			> world a/1.2 b listener:web web>a`,
		"a repeated wildcard request is not answered": freshWhole + `
			> cluster *
			> listener *`,
		"clusters by name": `
			> world a b c
			> cluster = a b
			< cluster 1: a/1 b/1
			> cluster ack 1
			> cluster = a
			< cluster 2: a/1
			> world a b/2 c/2`,
		"an ACK covers the responses before it": freshWhole + `
			> world a b c listener:web web/2>a,c
			< cluster 5: a/1 b/1 c/1
			> endpoint = a b c
			< endpoint 6: c/1
			> world a/1.2 b c listener:web web/2>a,c
			< endpoint 7: a/2
			> endpoint ack 7
			> cluster ack 5
			< scope 8: web/2`,
		"endpoints have no wildcard": `
			> world a web>a
			> endpoint =`,
		"a list of scopes is complete, and has one change at a time": freshWhole + `
			> world a b listener:web web/2>a x>a y>b
			< scope 5: web/2
			> scope ack 5
			< scope 6: web/2 x/1
			> scope ack 6
			< scope 7: web/2 x/1 y/1
			> scope ack 7
			> world a b listener:web web/3>a x>a
			< scope 8: web/3 x/1 y/1
			> scope ack 8
			< scope 9: web/3 x/1`,
		"a scope that waits for its cluster stands in the list as it was": freshWhole + `
			> world a b c listener:web web/2>c x>b
			< cluster 5: a/1 b/1 c/1
			< scope 6: web/1 x/1`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runScript(t, ModeStateOfTheWorld, text)
		})
	}
}
