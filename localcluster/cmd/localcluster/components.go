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

// componentsFor returns the components of a cluster with these add-ons.
func componentsFor(l *location, addons []stack.Addon) ([]build.Component, error) {
	release, err := preflight.Release()
	if err != nil {
		return nil, err
	}
	out := build.Components(l.modules(), release, l.kubernetes)
	for _, component := range build.OnDemand(l.modules(), release) {
		if slices.ContainsFunc(addons, func(a stack.Addon) bool { return slices.Contains(a.Components(), component.Name) }) {
			out = append(out, component)
		}
	}
	return out, nil
}

// componentNamed returns a component by name, also one that no cluster needs.
func componentNamed(l *location, name string) (build.Component, error) {
	release, err := preflight.Release()
	if err != nil {
		return build.Component{}, err
	}
	components := append(build.Components(l.modules(), release, l.kubernetes), build.OnDemand(l.modules(), release)...)
	names := make([]string, 0, len(components))
	for _, component := range components {
		if component.Name == name {
			return component, nil
		}
		names = append(names, component.Name)
	}
	slices.Sort(names)
	return build.Component{}, fmt.Errorf("unknown component %q: the components are %s", name, strings.Join(names, ", "))
}

// checkMachine checks whether the cluster can be built and run here. Building is what has to be built if no component
// is missing.
func checkMachine(ctx context.Context, l *location, components []build.Component, building preflight.Building) error {
	missing, err := l.buildCache().Missing(components)
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		building = preflight.Components
	}
	return preflight.Check(ctx, l.cache, building)
}

// ensureComponents builds the components that the cache lacks, and returns the folder of each.
func ensureComponents(ctx context.Context, l *location, components []build.Component) (map[string]string, error) {
	return l.buildCache().Ensure(ctx, components, func(s build.Step) {
		left := s.Remaining.Round(10 * time.Second)
		if s.Took == 0 {
			printProgress("[%d/%d] building %s (about %s left in all)", s.Number, s.Total, s.Component, left)
			return
		}
		printProgress("[%d/%d] built %s in %s (about %s left in all)", s.Number, s.Total, s.Component,
			s.Took.Round(time.Second), left)
	})
}

// estimate is the estimate of the builds before a cluster can start.
type estimate struct {
	// Components are the missing components. Seconds is their build time on two cores.
	Components []string `json:"components"`
	Seconds    float64  `json:"seconds"`
}

// printEstimate prints, as JSON, what ensureComponents would build.
func printEstimate(out io.Writer, l *location, components []build.Component) error {
	missing, err := l.buildCache().Missing(components)
	if err != nil {
		return err
	}
	e := estimate{Seconds: build.Planned(missing).Seconds()}
	for _, component := range missing {
		e.Components = append(e.Components, component.Name)
	}
	return json.NewEncoder(out).Encode(e)
}
