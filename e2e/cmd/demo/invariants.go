package main

import (
	"errors"

	"github.com/kedify/argo-rollouts-plugin/e2e/assert"
	"github.com/kedify/argo-rollouts-plugin/e2e/demo/report"
	"github.com/kedify/argo-rollouts-plugin/e2e/demo/scenario"
	"github.com/kedify/argo-rollouts-plugin/test/kit/invariant"
)

// brokenInvariants returns the lines by which CI detects broken invariants of the product. An overloaded machine breaks
// none.
func brokenInvariants(err error, checks []report.Check) []string {
	if errors.Is(err, scenario.ErrOverload) {
		return nil
	}
	var lines []string
	for _, c := range checks {
		if !c.OK && c.Invariant != "" {
			lines = append(lines, invariant.Line(c.Invariant, c.Name+": "+c.Detail))
		}
	}
	if errors.Is(err, assert.ErrSplit) {
		lines = append(lines, invariant.Line(invariant.Split, err.Error()))
	}
	if errors.Is(err, scenario.ErrWeight) {
		lines = append(lines, invariant.Line(invariant.UnexpectedWeights, err.Error()))
	}
	return lines
}
