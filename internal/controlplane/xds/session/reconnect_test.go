package session

import "testing"

func TestReconnectInStateOfTheWorld(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"a removed cluster stays until the scopes have changed, and for the grace period": `
			> snapshot a listener:web web/2>a
			> cluster returns
			< wake 1s
			> endpoint returns a old
			< endpoint 1: a/1
			< wake 1s
			> listener returns
			< listener 2: web/1
			< wake 1s
			> scope returns
			< wake 1s
			> endpoint ack 1
			< scope 3: web/2
			< wake 1s
			> listener ack 2
			< wake 1s
			> scope ack 3
			< wake 5s
			> after 5s
			< cluster 4: a/1
			< endpoint 5: a/1
			> endpoint ack 5
			> cluster ack 4`,
		"without a removed cluster the list is sent at once": `
			> snapshot a b listener:web web/2>a,b
			> cluster returns
			< wake 1s
			> endpoint returns a
			< endpoint 1: a/1
			< wake 1s
			> scope returns
			< cluster 2: a/1 b/1
			< endpoint 3: a/1
			< wake 5s
			> endpoint ack 1
			< wake 5s
			> endpoint ack 3
			< wake 5s
			> endpoint = a b
			< endpoint 4: b/1
			< wake 5s
			> endpoint ack 4
			< wake 5s
			> cluster ack 2
			< scope 5: web/2`,
		"scopes that need a new cluster are not sent first": `
			> snapshot a b listener:web web/2>a,b
			> cluster returns
			< wake 1s
			> endpoint returns a old
			< endpoint 1: a/1
			< wake 1s
			> scope returns
			< cluster 2: a/1 b/1
			< endpoint 3: a/1
			< wake 5s`,
		"the list waits for the ACK of scopes for at most a second": `
			> snapshot a listener:web web/2>a
			> cluster returns
			< wake 1s
			> endpoint returns a old
			< endpoint 1: a/1
			< wake 1s
			> scope returns
			< wake 1s
			> endpoint ack 1
			< scope 2: web/2
			< wake 1s
			> after 1s
			< cluster 3: a/1
			< endpoint 4: a/1`,
		"the list waits for a subscription to scopes for at most a second": `
			> snapshot a listener:web web/2>a
			> cluster returns
			< wake 1s
			> listener returns
			< listener 1: web/1
			< wake 1s
			> after 1s
			< cluster 2: a/1`,
		"no response before the first snapshot": `
			> cluster returns
			> endpoint returns a old
			> scope returns
			> snapshot a listener:web web/2>a
			< endpoint 1: a/1
			< wake 1s`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runScript(t, ModeStateOfTheWorld, text)
		})
	}
}
