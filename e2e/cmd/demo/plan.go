package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/provider"
)

// planStep is a step of a run in the announcement.
type planStep struct {
	what string
	// takes is its approximate duration on two cores.
	takes time.Duration
}

// The durations of the steps that build nothing, on two cores.
const (
	startTakes   = time.Minute
	canaryTakes  = 2 * time.Minute
	scalingTakes = 5 * time.Minute // one of them starts KEDA
)

// builds contains the missing components of each half.
type builds map[part]provider.Estimate

// missing returns what must be built. Nothing is built for the user's own cluster.
func (o *options) missing(ctx context.Context) (builds, error) {
	out := builds{}
	if o.provider != provider.NameEmbedded {
		return out, nil
	}
	var built provider.Estimate
	for _, h := range []part{canaryPart, scalingPart} {
		if !o.has(h) {
			continue
		}
		all, err := o.local.Estimate(ctx, o.spec(h).Addons...)
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

// planSteps returns the steps of a run in order.
func (o *options) planSteps(missing builds) []planStep {
	cluster := planStep{"start the embedded cluster, or update the one that runs", startTakes}
	switch o.provider {
	case provider.NameExisting:
		cluster = planStep{what: "check the cluster that $KUBECONFIG names"}
	case provider.NameKind:
		cluster = planStep{"create a cluster with kind, and install Argo Rollouts and this project", 5 * time.Minute}
	}
	var steps []planStep
	build := func(h part, what string) {
		if m := missing[h]; len(m.Components) > 0 {
			text := fmt.Sprintf("build %s, once (components: %d)", what, len(m.Components))
			steps = append(steps, planStep{text, time.Duration(m.Seconds * float64(time.Second))})
		}
	}
	if o.has(canaryPart) {
		build(canaryPart, "what the canary half needs")
		steps = append(steps, cluster, planStep{
			"canary half: promote one canary, abort a second one, and measure each weight under load", canaryTakes,
		})
	}
	if o.has(scalingPart) {
		build(scalingPart, "what the scaling half needs")
		if !o.has(canaryPart) {
			steps = append(steps, cluster)
		}
		steps = append(steps, planStep{
			"scaling half: KEDA scales the app with its requests, down to zero and up again", scalingTakes,
		})
	}
	return steps
}

// announcement returns the lines that announce the run, and the alternatives to the embedded cluster.
func (o *options) announcement(steps []planStep) []string {
	var all time.Duration
	for _, s := range steps {
		all += s.takes
	}
	lines := []string{fmt.Sprintf("This run takes about %s on two cores:", minutes(all))}
	for i, s := range steps {
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
		"  make demo PROVIDER=existing   uses the cluster that $KUBECONFIG names, with Argo Rollouts and this project in it "+
			"(docs/how-to/install.md)",
		"  make demo PROVIDER=kind       creates a cluster; needs Docker and kind",
	)
}

// minutes formats a duration in whole minutes, at least one.
func minutes(d time.Duration) string {
	return fmt.Sprintf("%.0f min", max(1, math.Round(d.Minutes())))
}
