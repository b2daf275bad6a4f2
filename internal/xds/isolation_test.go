package xds

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestIsolationInDelta(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"a culprit is found by halves, and its last good version stays": freshDelta + `
			> world a/2 b/2 c d listener:web web>a
			< cluster 5: a/2 b/2 c/1 d/1
			< endpoint 6: a/2 b/2
			> endpoint ack 6
			> cluster nack 5 no
			< cluster 7: a/2 b/2
			< endpoint 8: a/2 b/2
			> cluster nack 7 no
			< cluster 9: a/2
			< endpoint 10: a/2
			> cluster ack 9
			< cluster 11: b/2
			< endpoint 12: b/2
			> cluster nack 11 no
			< cluster 13: c/1 d/1
			> cluster ack 13
			# The others have got through, which could have been what b was missing.
			< cluster 14: b/2
			< endpoint 15: b/2
			> cluster nack 14 no
			# It isn't certain that the proxy still has the last good version.
			< cluster 16: b/1
			< endpoint 17: b/2
			> cluster ack 16
			# What was refused comes back only in another form, and then alone.
			> world a/3.2 b/2 c d listener:web web>a
			< cluster 18: a/3
			< endpoint 19: a/2
			> cluster ack 18
			> world a/4.2 b/3.2 c d listener:web web>a
			< cluster 20: a/4
			< endpoint 21: a/2
			> cluster ack 20
			< cluster 22: b/3
			< endpoint 23: b/2
			> cluster ack 22`,
		"a single refused resource is the culprit at once": freshDelta + `
			> world a b/1.2 listener:web web>a
			< endpoint 5: b/2
			> endpoint nack 5 no
			> world a/1.2 b/1.2 listener:web web>a
			< endpoint 6: a/2`,
		"removals of a refused response are repeated": freshDelta + `
			> world a listener:web web>a
			< wake 5s
			> world a/2 c listener:web web>a
			< cluster 5: a/2 c/1
			< endpoint 6: a/2
			< wake 5s
			> cluster ack 5
			< wake 5s
			> endpoint +c
			< endpoint 7: c/1
			< wake 5s
			> after 5s
			< cluster 8: -b
			< endpoint 9: -b
			> endpoint nack 7 no`,
		"what is on trial waits until all else is answered": freshDelta + `
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
		"a virtual host is refused, the rest of the table goes on": freshHosts + `
			> world a b listener:web web>w/2:a+x/2:a+y/2:b+z/2:b
			< route 4: web[w/2 x/2 y/2 z/2]
			> route nack 4 no
			< route 5: web[w/2 x/2 y/1 z/1]
			> route ack 5
			< route 6: web[w/2 x/2 y/2 z/2]
			> route nack 6 no
			< route 7: web[w/2 x/2 y/2 z/1]
			> route nack 7 no
			< route 8: web[w/2 x/2 y/1 z/2]
			> route ack 8
			< route 9: web[w/2 x/2 y/2 z/2]
			> route nack 9 no
			> world a b listener:web web>w/3:a+x/2:a+y/2:b+z/2:b
			< route 10: web[w/3 x/2 y/1 z/2]
			> route ack 10
			# Another version has to prove itself first.
			> world a b listener:web web>w/4:a+x/2:a+y/3:b+z/2:b
			< route 11: web[w/3 x/2 y/3 z/2]
			> route ack 11
			< route 12: web[w/4 x/2 y/3 z/2]
			> route ack 12`,
		"two virtual hosts that exchange something are accepted together in the end": freshHosts + `
			> world a b listener:web web>w/2:a+x/2:a+y/1:b+z/1:b
			< route 4: web[w/2 x/2 y/1 z/1]
			> route nack 4 another one is bad
			< route 5: web[w/2 x/1 y/1 z/1]
			> route nack 5 x still has it
			< route 6: web[w/1 x/2 y/1 z/1]
			> route ack 6
			< route 7: web[w/2 x/2 y/1 z/1]
			> route ack 7`,
		"a new virtual host that is refused is left out": freshHosts + `
			> world a b listener:web web>w/1:a+v/1:a+x/1:a+y/2:b
			< route 4: web[v/1 w/1 x/1 y/2]
			> route nack 4 no
			< route 5: web[v/1 w/1 x/1 y/1]
			> route nack 5 no
			< route 6: web[w/1 x/1 y/2]
			> route ack 6
			< route 7: web[v/1 w/1 x/1 y/2]
			> route nack 7 no`,
		"what surrounds the virtual hosts may be the culprit": freshHosts + `
			> world a b listener:web web/2>w/2:a+x/1:a+y/1:b+z/1:b
			< route 4: web/2[w/2 x/1 y/1 z/1]
			> route nack 4 no
			< route 5: web/2[w/1 x/1 y/1 z/1]
			> route nack 5 no
			< route 6: web[w/2 x/1 y/1 z/1]
			> route ack 6
			< route 7: web/2[w/2 x/1 y/1 z/1]
			> route nack 7 no`,
		"a refused cluster holds back only the virtual hosts that name it": freshHosts + `
			> world a b c listener:web web>w/2:a,c+x/2:a+y/1:b+z/1:b+n/1:c
			< cluster 4: c/1
			< route 5: web[w/1 x/2 y/1 z/1]
			> cluster nack 4 no
			> route ack 5
			> world a b c/2 listener:web web>w/2:a,c+x/2:a+y/1:b+z/1:b+n/1:c
			< cluster 6: c/2
			> endpoint +c
			< endpoint 7: c/2
			> cluster ack 6
			> endpoint ack 7
			< route 8: web[n/1 w/2 x/2 y/1 z/1]`,
		"a table is refused beside another one": `
			> world static:a listener:web web>x/1:a+y/1:a tls>x/1:a+y/1:a
			> cluster *
			< cluster 1: a/1
			> cluster ack 1
			> route +web +tls
			< route 2: tls[x/1 y/1] web[x/1 y/1]
			> route nack 2 no
			< route 3: tls[x/1 y/1]
			> route ack 3
			< route 4: web[x/1 y/1]
			> route nack 4 no
			< route 5: web[x/1]
			> route ack 5
			< route 6: web[x/1 y/1]
			> route nack 6 no`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runScript(t, Delta, text)
		})
	}
}

// freshHosts brings a proxy up with the clusters a and b and four virtual hosts.
const freshHosts = `
	> world a b listener:web web>w/1:a+x/1:a+y/1:b+z/1:b
	> cluster *
	< cluster 1: a/1 b/1
	> endpoint +a +b
	< endpoint 2: a/1 b/1
	> endpoint ack 2
	> cluster ack 1
	> route +web
	< route 3: web[w/1 x/1 y/1 z/1]
	> route ack 3
`

func TestIsolationInStateOfTheWorld(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"the only new one in a list is the culprit, and the list is confirmed without it": freshWhole + `
			> world a b/2.1 listener:web web>a
			< cluster 5: a/1 b/2
			< endpoint 6: b/1
			> cluster nack 5 no
			< cluster 7: a/1 b/1
			> cluster ack 7
			> endpoint ack 6
			> world a/2.1 b/2.1 listener:web web>a
			< cluster 8: a/2 b/1
			< endpoint 9: a/1
			> cluster ack 8`,
		"in a list those that wait for their trial stand as they were": freshWhole + `
			> world a/2 b c d listener:web web>a
			< cluster 5: a/2 b/1 c/1 d/1
			< endpoint 6: a/2
			> endpoint ack 6
			> cluster nack 5 no
			< cluster 7: a/2 b/1
			< endpoint 8: a/2
			> endpoint ack 8
			> cluster ack 7
			< cluster 9: a/2 b/1 c/1 d/1
			> cluster nack 9 no
			< cluster 10: a/2 b/1 c/1
			> endpoint = a b c
			< endpoint 11: c/1
			> endpoint ack 11
			> cluster ack 10
			< cluster 12: a/2 b/1 c/1 d/1
			> cluster nack 12 no
			< cluster 13: a/2 b/1 c/1
			> cluster ack 13`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runScript(t, StateOfTheWorld, text)
		})
	}
}

// TestIsolationIsCheap wants the culprits among many suspects found in a number
// of trials that grows with their logarithm.
func TestIsolationIsCheap(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ suspects, culprits, most int }{
		{1000, 1, 22}, {1000, 3, 66}, {10_000, 1, 30}, {10_000, 5, 150}, {1000, 1000, trialLimit},
	} {
		t.Run(fmt.Sprintf("%d of %d", test.culprits, test.suspects), func(t *testing.T) {
			t.Parallel()
			var names, bad []string
			for n := range test.suspects {
				names = append(names, strconv.Itoa(n))
				if n%(test.suspects/test.culprits) == 0 && len(bad) < test.culprits {
					bad = append(bad, names[n])
				}
			}
			i, trials := &isolation{}, 0
			i.suspect(names)
			for group := i.next(); group != nil; group = i.next() {
				trials++
				if slices.ContainsFunc(group, func(name string) bool { return slices.Contains(bad, name) }) {
					i.failed()
				} else {
					i.passed()
				}
			}
			if trials > test.most {
				t.Errorf("it took %d trials, want at most %d", trials, test.most)
			}
			found := slices.Concat(i.doubted, i.untried())
			if trials < trialLimit && !cmp.Equal(bad, found) || trials == trialLimit && len(found) != test.suspects {
				t.Errorf("found %d: %v, want %d", len(found), found[:min(len(found), 10)], len(bad))
			}
		})
	}
}
