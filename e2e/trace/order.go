package trace

import "time"

// EarlyACK is a weight that was reported as ACKed while a proxy still ran an earlier one.
type EarlyACK struct {
	// Weight is the reported weight, Active the weight that the proxy ran.
	Weight, Active int
	// Reported is when the report was read. Polled is the start of the last request that returned the earlier weight.
	Reported, Polled time.Time
}

// EarlyACKs returns the weights that were reported as ACKed by every proxy before one of them ran them. See Unexpected
// for requested; unexpected weights are ignored here.
//
// An Envoy shows a weight in its routes when it ACKs it. A request that began after the report was read therefore
// returns that weight or a later one, however slow the report or the polling is. The check needs no tolerance.
func EarlyACKs(requested []int, reports, runs []Observation) []EarlyACK {
	var early []EarlyACK
	reported, ran := positions(requested, weightsOf(reports)), positions(requested, weightsOf(runs))
	for i, report := range reports {
		for j, run := range runs {
			if ran[j] != unexpectedPosition && ran[j] < reported[i] && run.Last.After(report.At) {
				early = append(early, EarlyACK{Weight: report.Weight, Active: run.Weight, Reported: report.At, Polled: run.Last})
			}
		}
	}
	return early
}

func weightsOf(observations []Observation) []int {
	weights := make([]int, len(observations))
	for i, s := range observations {
		weights[i] = s.Weight
	}
	return weights
}
