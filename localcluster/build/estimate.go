package build

import "time"

// Cost is the build time of a component.
type Cost struct {
	// Planned is the component's Estimate. Took is the measured time, 0 until the component is built.
	Planned, Took time.Duration
}

// Left estimates the build time of the components that are not built yet. The planned costs are about right relative to
// each other on every machine. So the components already built show how this machine compares with the plan.
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

// Planned returns the build time on two cores with an empty cache. Downloads are free while something compiles, because
// they run in parallel.
func Planned(components []Component) time.Duration {
	compiled, downloaded := lanes(components)
	return max(Left(costs(compiled)), Left(costs(downloaded)))
}

// costs returns the costs of components of which none is built.
func costs(components []Component) []Cost {
	out := make([]Cost, len(components))
	for i, component := range components {
		out[i].Planned = component.Estimate
	}
	return out
}

// compiler is a recipe that uses all processors. Such components are built one at a time: two in parallel would compile
// their common packages twice.
type compiler interface {
	// compiles returns the programs that the recipe compiles.
	compiles() GoTools
}

// lanes separates components that are compiled from components that are only downloaded.
func lanes(components []Component) (compiled, downloaded []Component) {
	for _, component := range components {
		if _, ok := component.Recipe.(compiler); ok {
			compiled = append(compiled, component)
		} else {
			downloaded = append(downloaded, component)
		}
	}
	return compiled, downloaded
}
