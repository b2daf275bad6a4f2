package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/provider"
)

// stage is one part of a run, for the user.
type stage struct {
	what string
	// takes is about how long it takes on two cores.
	takes time.Duration
}

// The times of the stages in which nothing is built, on two cores.
const (
	startTakes   = time.Minute
	canaryTakes  = 2 * time.Minute
	scalingTakes = 5 * time.Minute // one of them starts KEDA
)

// building are the components that are missing for each half.
type building map[half]provider.Estimate

// missing asks what has to be built. Nothing is built for a cluster of the user's.
func (o *options) missing(ctx context.Context) (building, error) {
	out := building{}
	if o.provider != provider.NameEmbedded {
		return out, nil
	}
	var built provider.Estimate
	for _, h := range []half{canaryHalf, scalingHalf} {
		if !o.has(h) {
			continue
		}
		all, err := o.local.Estimate(ctx, o.wishes(h).Addons...)
		if err != nil {
			return nil, err
		}
		names := slices.DeleteFunc(slices.Clone(all.Components), func(name string) bool {
			return slices.Contains(built.Components, name)
		})
		out[h] = provider.Estimate{Components: names, Seconds: max(0, all.Seconds-built.Seconds)}
		built = all
	}
	return out, nil
}

// stages are the parts of a run, in their order.
func (o *options) stages(missing building) []stage {
	cluster := stage{"start the embedded cluster, or update the one that runs", startTakes}
	switch o.provider {
	case provider.NameExisting:
		cluster = stage{what: "check the cluster that $KUBECONFIG names"}
	case provider.NameKind:
		cluster = stage{"create a cluster with kind, and install Argo Rollouts and this project", 5 * time.Minute}
	}
	var out []stage
	build := func(h half, what string) {
		if m := missing[h]; len(m.Components) > 0 {
			text := fmt.Sprintf("build %s, once (components: %d)", what, len(m.Components))
			out = append(out, stage{text, time.Duration(m.Seconds * float64(time.Second))})
		}
	}
	if o.has(canaryHalf) {
		build(canaryHalf, "what the canary half needs")
		out = append(out, cluster, stage{
			"canary half: promote one canary, abort a second one, and measure each weight under load", canaryTakes,
		})
	}
	if o.has(scalingHalf) {
		build(scalingHalf, "what the scaling half needs")
		if !o.has(canaryHalf) {
			out = append(out, cluster)
		}
		out = append(out, stage{
			"scaling half: KEDA scales the app with its requests, down to zero and up again", scalingTakes,
		})
	}
	return out
}

// announcement says what the run is about to do, and what other clusters need.
func (o *options) announcement(stages []stage) []string {
	var all time.Duration
	for _, s := range stages {
		all += s.takes
	}
	lines := []string{fmt.Sprintf("This run takes about %s on two cores:", minutes(all))}
	for i, s := range stages {
		line := fmt.Sprintf("  %d. %s", i+1, s.what)
		if s.takes > 0 {
			line += ": about " + minutes(s.takes)
		}
		lines = append(lines, line)
	}
	if o.provider != provider.NameEmbedded {
		return lines
	}
	return append(lines,
		"To use another cluster, which needs kubectl and kubectl-argo-rollouts in $PATH:",
		"  make demo PROVIDER=existing   uses the cluster that $KUBECONFIG names, with Argo Rollouts and this project in it (docs/how-to/install.md)",
		"  make demo PROVIDER=kind       creates a cluster; needs Docker and kind",
	)
}

// minutes draws a duration in whole minutes, at least one.
func minutes(d time.Duration) string {
	return fmt.Sprintf("%.0f min", max(1, math.Round(d.Minutes())))
}
