package bed

import (
	"bufio"
	"strings"
	"testing"
	"time"
)

// controllerLog is a log in which the weight 40 was asked for at 02.0, in a call
// that took 5 s, and again at 08.0 by somebody who didn't know.
const controllerLog = `2026-01-01T00:00:00.5Z stderr F time="2026-01-01T00:00:00Z" level=info msg="Reconciling TrafficRouting with type 'kedify/http'"
2026-01-01T00:00:01Z stderr F time="2026-01-01T00:00:01Z" level=info msg="Desired weight (stepIdx: 2) 20 verified"
2026-01-01T00:00:02Z stderr F time="2026-01-01T00:00:02Z" level=info msg="Reconciling TrafficRouting with type 'kedify/http'"
2026-01-01T00:00:07Z stderr F time="2026-01-01T00:00:07Z" level=info msg="Previous weights: &TrafficWeights{Canary:WeightDestination{Weight:20,"
2026-01-01T00:00:07Z stderr F time="2026-01-01T00:00:07Z" level=info msg="New weights: &TrafficWeights{Canary:WeightDestination{Weight:40,"
2026-01-01T00:00:08Z stderr F time="2026-01-01T00:00:08Z" level=info msg="Reconciling TrafficRouting with type 'kedify/http'"
2026-01-01T00:00:09Z stderr F time="2026-01-01T00:00:09Z" level=info msg="New weights: &TrafficWeights{Canary:WeightDestination{Weight:40,"
`

// A weight is asked for when the call that set it began.
func TestAsked(t *testing.T) {
	t.Parallel()
	at := func(second float64) time.Time { return start().Add(time.Duration(second * float64(time.Second))) }
	for name, test := range map[string]struct {
		weight   int
		from, to time.Time
		want     time.Time
	}{
		"the call before it":             {40, at(1), at(10), at(2)},
		"not one before the round":       {40, at(7.5), at(10), at(8)},
		"set when it was in force, only": {40, at(1), at(6), time.Time{}},
		"another weight":                 {60, at(1), at(10), time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked, err := askedIn(bufio.NewScanner(strings.NewReader(controllerLog)), test.weight, test.from, test.to)
			if err != nil || !asked.Equal(test.want) {
				t.Errorf("asked at %v, %v; want %v", asked, err, test.want)
			}
		})
	}
}
