package session

import "testing"

// rejectedTogether connects a proxy that rejects its first scopes x, y and z, and then accepts x alone.
const rejectedTogether = `
	> snapshot static:a x>a y>a z>a
	> cluster *
	< cluster 1: a/1
	> cluster ack 1
	> scope *
	< scope 2: x/1 y/1 z/1
	> scope nack 2 no
	< scope 3: x/1'
	> scope ack 3
`

func TestRetriesInDelta(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"resources of a rejected response are sent again one by one": newProxyDelta + `
			> snapshot a/2 b/2 c d listener:web web>a
			< cluster 5: a/2 b/2 c/1 d/1
			< endpoint 6: a/2 b/2
			> endpoint ack 6
			> cluster nack 5 no
			< cluster 7: a/2
			< endpoint 8: a/2
			> endpoint ack 8
			> cluster ack 7
			< cluster 9: b/2
			< endpoint 10: b/2
			> endpoint ack 10
			> cluster nack 9 no
			# Other changes are sent in between. Whether the proxy still has the last good version is uncertain.
			< cluster 11: c/1
			> cluster ack 11
			< cluster 12: d/1
			> cluster ack 12
			< cluster 13: b/1
			< endpoint 14: b/2
			> endpoint ack 14
			> cluster ack 13
			# A rejected resource is sent again only in another version, and then alone.
			> snapshot a/3.2 b/2 c d listener:web web>a
			< cluster 15: a/3
			< endpoint 16: a/2
			> cluster ack 15
			> snapshot a/4.2 b/3.2 c d listener:web web>a
			< cluster 17: a/4
			< endpoint 18: a/2
			> cluster ack 17
			< cluster 19: b/3
			< endpoint 20: b/2
			> cluster ack 19`,
		"a NACK of a single resource rejects it": newProxyDelta + `
			> snapshot a b/1.2 listener:web web>a
			< endpoint 5: b/2
			> endpoint nack 5 no
			> snapshot a/1.2 b/1.2 listener:web web>a
			< endpoint 6: a/2`,
		"a retry waits until all responses are answered": newProxyDelta + `
			> snapshot a/1.2 b/1.2 listener:web web>a
			< endpoint 5: a/2 b/2
			> snapshot a/1.3 b/1.2 listener:web web>a
			< endpoint 6: a/3
			> endpoint nack 5 no
			> snapshot a/1.3 b/1.4 listener:web web>a
			> endpoint ack 6
			# a was ACKed meanwhile, and only the latest version of b matters.
			< endpoint 7: b/4
			> endpoint ack 7`,
		"other changes are sent between two retries": newProxyDelta + `
			> snapshot a/1.2 b/1.2 listener:web web>a
			< endpoint 5: a/2 b/2
			> endpoint nack 5 no
			< endpoint 6: a/2
			> snapshot a/1.2 b/1.2 c listener:web web>a
			< cluster 7: c/1
			> endpoint +c
			> endpoint ack 6
			< endpoint 8: c/1
			> endpoint ack 8
			< endpoint 9: b/2`,
		"a rejected scope delays no other": newProxyDelta + `
			> snapshot a b listener:web web/2>a x>b
			< scope 5: web/2
			> scope nack 5 no
			< scope 6: x/1
			> scope ack 6
			> snapshot a b listener:web web/3>a x/2>b
			< scope 7: x/2
			> scope ack 7
			# Another version is sent alone.
			< scope 8: web/3
			> scope ack 8`,
		"other scopes of a rejected response are sent again in other bytes": rejectedTogether + `
			< scope 4: y/1'
			> scope nack 4 no
			< scope 5: z/1'
			> scope ack 5
			> snapshot static:a x/2>a y/2>a z>a
			< scope 6: x/2'
			> scope ack 6
			< scope 7: y/2'
			> scope ack 7`,
		"a scope that is removed before its retry": `
			> snapshot static:a x>a y>a
			> cluster *
			< cluster 1: a/1
			> cluster ack 1
			> scope *
			< scope 2: x/1 y/1
			> scope nack 2 no
			< scope 3: x/1'
			> snapshot static:a x>a
			> scope ack 3
			< scope 4: -y`,
		"only scopes that name a rejected cluster wait": newProxyDelta + `
			> snapshot a b c listener:web web/2>a,c x>a n>c
			< cluster 5: c/1
			< scope 6: x/1
			> cluster nack 5 no
			> scope ack 6
			> snapshot a b c/2 listener:web web/2>a,c x>a n>c
			< cluster 7: c/2
			> endpoint +c
			< endpoint 8: c/2
			> cluster ack 7
			> endpoint ack 8
			< scope 9: n/1
			> scope ack 9
			< scope 10: web/2`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runScript(t, ModeDelta, text)
		})
	}
}

func TestRetriesInStateOfTheWorld(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"a NACK of a list with one change rejects it, and the list is sent without it": newProxySOTW + `
			> snapshot a b/2.1 listener:web web>a
			< cluster 5: a/1 b/2
			< endpoint 6: b/1
			> cluster nack 5 no
			< cluster 7: a/1 b/1
			< endpoint 8: b/1
			> cluster ack 7
			> endpoint ack 6
			> endpoint ack 8
			> snapshot a/2.1 b/2.1 listener:web web>a
			< cluster 9: a/2 b/1
			< endpoint 10: a/1
			> cluster ack 9`,
		"a list contains the old versions of resources that wait for their retry": newProxySOTW + `
			> snapshot a/2 b c d listener:web web>a
			< cluster 5: a/2 b/1 c/1 d/1
			< endpoint 6: a/2
			> endpoint ack 6
			> cluster nack 5 no
			< cluster 7: a/2 b/1
			< endpoint 8: a/2
			> endpoint ack 8
			> cluster ack 7
			< cluster 9: a/2 b/1 c/1
			> endpoint = a b c
			< endpoint 10: c/1
			> endpoint ack 10
			> cluster ack 9
			< cluster 11: a/2 b/1 c/1 d/1
			> cluster nack 11 no
			< cluster 12: a/2 b/1 c/1
			> cluster ack 12`,
		"other scopes of a rejected response are sent again in other bytes and keep them": rejectedTogether + `
			< scope 4: x/1' y/1'
			> scope nack 4 no
			< scope 5: x/1' z/1'
			> scope ack 5`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runScript(t, ModeStateOfTheWorld, text)
		})
	}
}
