package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/kedify/argo-rollouts-plugin/localcluster/build"
	"github.com/kedify/argo-rollouts-plugin/localcluster/preflight"
	"github.com/kedify/argo-rollouts-plugin/localcluster/stack"
)

// partsFor returns the components of a cluster with these add-ons.
func partsFor(l *location, addons []stack.Addon) ([]build.Part, error) {
	release, err := preflight.Release()
	if err != nil {
		return nil, err
	}
	out := build.Parts(l.modules(), release)
	for _, part := range build.OnDemand(l.modules(), release) {
		if slices.ContainsFunc(addons, func(a stack.Addon) bool { return slices.Contains(a.Parts(), part.Name) }) {
			out = append(out, part)
		}
	}
	return out, nil
}

// partNamed returns a component by name, also one that no cluster needs.
func partNamed(l *location, name string) (build.Part, error) {
	release, err := preflight.Release()
	if err != nil {
		return build.Part{}, err
	}
	parts := append(build.Parts(l.modules(), release), build.OnDemand(l.modules(), release)...)
	names := make([]string, 0, len(parts))
	for _, part := range parts {
		if part.Name == name {
			return part, nil
		}
		names = append(names, part.Name)
	}
	slices.Sort(names)
	return build.Part{}, fmt.Errorf("unknown component %q: the components are %s", name, strings.Join(names, ", "))
}

// checkMachine checks whether the cluster can be built and run here. Building is what has to be built if no component
// is missing.
func checkMachine(ctx context.Context, l *location, parts []build.Part, building preflight.Building) error {
	missing, err := l.buildCache().Missing(parts)
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		building = preflight.Parts
	}
	return preflight.Check(ctx, l.cache, building)
}

// ensureParts builds the components that the cache lacks, and returns the folder of each.
func ensureParts(ctx context.Context, l *location, parts []build.Part) (map[string]string, error) {
	return l.buildCache().Ensure(ctx, parts, func(s build.Step) {
		left := s.Remaining.Round(10 * time.Second)
		if s.Took == 0 {
			printProgress("[%d/%d] building %s (about %s left in all)", s.Number, s.Total, s.Part, left)
			return
		}
		printProgress("[%d/%d] built %s in %s (about %s left in all)", s.Number, s.Total, s.Part, s.Took.Round(time.Second), left)
	})
}

// estimate is the estimate of the builds before a cluster can start.
type estimate struct {
	// Components are the missing components. Seconds is their build time on two cores.
	Components []string `json:"components"`
	Seconds    float64  `json:"seconds"`
}

// printEstimate prints, as JSON, what ensureParts would build.
func printEstimate(out io.Writer, l *location, parts []build.Part) error {
	missing, err := l.buildCache().Missing(parts)
	if err != nil {
		return err
	}
	e := estimate{Seconds: build.Planned(missing).Seconds()}
	for _, part := range missing {
		e.Components = append(e.Components, part.Name)
	}
	return json.NewEncoder(out).Encode(e)
}
