package xds

import "testing"

// refusedInCompany brings a proxy up that refuses its first scopes, x, y and z, and has taken x
// since.
const refusedInCompany = `
	> world static:a x>a y>a z>a
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
		"what was refused together is tried again one at a time": freshDelta + `
			> world a/2 b/2 c d listener:web web>a
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
			# Others have their turn in between. It isn't certain that the proxy still has what was good.
			< cluster 11: c/1
			> cluster ack 11
			< cluster 12: d/1
			> cluster ack 12
			< cluster 13: b/1
			< endpoint 14: b/2
			> endpoint ack 14
			> cluster ack 13
			# What was refused comes back only in another form, and then alone.
			> world a/3.2 b/2 c d listener:web web>a
			< cluster 15: a/3
			< endpoint 16: a/2
			> cluster ack 15
			> world a/4.2 b/3.2 c d listener:web web>a
			< cluster 17: a/4
			< endpoint 18: a/2
			> cluster ack 17
			< cluster 19: b/3
			< endpoint 20: b/2
			> cluster ack 19`,
		"a single refused resource is the culprit at once": freshDelta + `
			> world a b/1.2 listener:web web>a
			< endpoint 5: b/2
			> endpoint nack 5 no
			> world a/1.2 b/1.2 listener:web web>a
			< endpoint 6: a/2`,
		"what goes alone waits until all else is answered": freshDelta + `
			> world a/1.2 b/1.2 listener:web web>a
			< endpoint 5: a/2 b/2
			> world a/1.3 b/1.2 listener:web web>a
			< endpoint 6: a/3
			> endpoint nack 5 no
			> world a/1.3 b/1.4 listener:web web>a
			> endpoint ack 6
			# a is accepted meanwhile, and of b only what is desired now matters.
			< endpoint 7: b/4
			> endpoint ack 7`,
		"others have their turn between two retries": freshDelta + `
			> world a/1.2 b/1.2 listener:web web>a
			< endpoint 5: a/2 b/2
			> endpoint nack 5 no
			< endpoint 6: a/2
			> world a/1.2 b/1.2 c listener:web web>a
			< cluster 7: c/1
			> endpoint +c
			> endpoint ack 6
			< endpoint 8: c/1
			> endpoint ack 8
			< endpoint 9: b/2`,
		"a scope is refused, the others go on": freshDelta + `
			> world a b listener:web web/2>a x>b
			< scope 5: web/2
			> scope nack 5 no
			< scope 6: x/1
			> scope ack 6
			> world a b listener:web web/3>a x/2>b
			< scope 7: x/2
			> scope ack 7
			# Another version has to prove itself.
			< scope 8: web/3
			> scope ack 8`,
		"companions of a refused scope come again in other bytes": refusedInCompany + `
			< scope 4: y/1'
			> scope nack 4 no
			< scope 5: z/1'
			> scope ack 5
			> world static:a x/2>a y/2>a z>a
			< scope 6: x/2'
			> scope ack 6
			< scope 7: y/2'
			> scope ack 7`,
		"a scope that goes away before its retry is removed": `
			> world static:a x>a y>a
			> cluster *
			< cluster 1: a/1
			> cluster ack 1
			> scope *
			< scope 2: x/1 y/1
			> scope nack 2 no
			< scope 3: x/1'
			> world static:a x>a
			> scope ack 3
			< scope 4: -y`,
		"a refused cluster holds back only the scopes that name it": freshDelta + `
			> world a b c listener:web web/2>a,c x>a n>c
			< cluster 5: c/1
			< scope 6: x/1
			> cluster nack 5 no
			> scope ack 6
			> world a b c/2 listener:web web/2>a,c x>a n>c
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
		"the only new one in a list is the culprit, and the list is confirmed without it": freshWhole + `
			> world a b/2.1 listener:web web>a
			< cluster 5: a/1 b/2
			< endpoint 6: b/1
			> cluster nack 5 no
			< cluster 7: a/1 b/1
			< endpoint 8: b/1
			> cluster ack 7
			> endpoint ack 6
			> endpoint ack 8
			> world a/2.1 b/2.1 listener:web web>a
			< cluster 9: a/2 b/1
			< endpoint 10: a/1
			> cluster ack 9`,
		"in a list those that wait for their retry stand as they were": freshWhole + `
			> world a/2 b c d listener:web web>a
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
		"companions of a refused scope come again in other bytes, and keep them": refusedInCompany + `
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
