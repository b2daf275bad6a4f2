package build

import "time"

// Cost is how long a part takes.
type Cost struct {
	// Planned is its Estimate, Took what was measured: 0 for a part that is not made yet.
	Planned, Took time.Duration
}

// Left estimates how long the parts take that are not made yet. The planned costs are about right relative to each
// other, on every machine. So the parts that are made show how much slower or faster than planned this machine is.
func Left(costs []Cost) time.Duration {
	var planned, took, left time.Duration
	for _, c := range costs {
		if c.Took == 0 {
			left += c.Planned
			continue
		}
		planned += c.Planned
		took += c.Took
	}
	if planned == 0 {
		return left
	}
	return time.Duration(float64(left) * float64(took) / float64(planned))
}

// Planned is how long the parts take on two cores with nothing cached. Downloads cost nothing as long as something is
// compiled, because they run in parallel.
func Planned(parts []Part) time.Duration {
	compiled, downloaded := lanes(parts)
	return max(Left(costs(compiled)), Left(costs(downloaded)))
}

// costs are the costs of parts of which none is made.
func costs(parts []Part) []Cost {
	out := make([]Cost, len(parts))
	for i, part := range parts {
		out[i].Planned = part.Estimate
	}
	return out
}

// compiler is a recipe that takes the processors. Such parts are made one at a time: two of them would compile what
// they share twice.
type compiler interface {
	// compiles returns the programs that the recipe compiles.
	compiles() GoTools
}

// lanes separates the parts that are compiled from those that are only downloaded.
func lanes(parts []Part) (compiled, downloaded []Part) {
	for _, part := range parts {
		if _, ok := part.Recipe.(compiler); ok {
			compiled = append(compiled, part)
		} else {
			downloaded = append(downloaded, part)
		}
	}
	return compiled, downloaded
}
