package trace

import "time"

// EarlyACK is a weight that was reported to be taken while a proxy ran one from
// before it.
type EarlyACK struct {
	// Weight was reported, Runs is what the proxy ran.
	Weight, Active int
	// Reported is when the report was read, Looked when the last look began that
	// found the proxy so.
	Reported, Polled time.Time
}

// EarlyACKs are the weights that were reported to be acknowledged by every proxy
// before one of them ran them. Asked is as for Strays; strays don't count here.
//
// An Envoy shows a weight when it acknowledges it. So a look that began after the
// report was read finds that weight or a later one, however long the report was
// on its way and however seldom one looks: there is nothing to allow for.
func EarlyACKs(asked []int, reports, runs []Observation) []EarlyACK {
	var early []EarlyACK
	reported, ran := positions(asked, weightsOf(reports)), positions(asked, weightsOf(runs))
	for i, report := range reports {
		for j, run := range runs {
			if ran[j] != unexpectedPosition && ran[j] < reported[i] && run.Last.After(report.At) {
				early = append(early, EarlyACK{Weight: report.Weight, Active: run.Weight, Reported: report.At, Polled: run.Last})
			}
		}
	}
	return early
}

func weightsOf(sightings []Observation) []int {
	weights := make([]int, len(sightings))
	for i, s := range sightings {
		weights[i] = s.Weight
	}
	return weights
}
