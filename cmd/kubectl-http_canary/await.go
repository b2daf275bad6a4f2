package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts/gather"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/output"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/split"
)

var (
	// errWatchFor reports flags that exclude each other.
	errWatchFor = errors.New("--watch and --for exclude each other")
	// errGoal reports an invalid value of --for.
	errGoal = errors.New("use ready, written, verified, verified=WEIGHT or promoted")
	// errNotReached reports a condition that did not become True within the time limit.
	errNotReached = errors.New("timed out waiting for the condition")
	// errReached ends a watch.
	errReached = errors.New("the condition is True")
)

// goal is a parsed value of --for.
type goal struct {
	condition string
	weight    int64 // of the canary; -1 for any
}

// parseGoal parses a value of --for. It returns nil for an empty one.
func parseGoal(text string) (*goal, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // nil means no goal
	}
	name, weight, hasWeight := strings.Cut(strings.ToLower(strings.TrimPrefix(text, "condition=")), "=")
	parsed := &goal{weight: -1}
	for _, condition := range []string{split.Ready, split.Written, split.Verified, split.Promoted} {
		if strings.EqualFold(condition, name) {
			parsed.condition = condition
		}
	}
	if hasWeight {
		value, err := strconv.ParseInt(strings.TrimSuffix(weight, "%"), 10, 32)
		if err != nil || value < 0 || parsed.condition != split.Verified {
			return nil, fmt.Errorf("--for=%s: %w", text, errGoal)
		}
		parsed.weight = value
	}
	if parsed.condition == "" {
		return nil, fmt.Errorf("--for=%s: %w", text, errGoal)
	}
	return parsed, nil
}

// isReached reports whether a report meets the goal.
func (g *goal) isReached(report *split.Report) bool {
	if report.Condition(g.condition).Status != metav1.ConditionTrue {
		return false
	}
	return g.weight < 0 || slices.ContainsFunc(report.Services, func(service split.Service) bool {
		return service.Role == split.Canary && service.Desired == g.weight
	})
}

// isLost reports whether the goal can no longer be met without a new version: the canary was aborted or is degraded.
func (g *goal) isLost(report *split.Report) bool {
	if g.condition != split.Promoted && g.weight <= 0 {
		return false
	}
	promoted := report.Condition(split.Promoted)
	return promoted.Reason == "Aborted" || promoted.Reason == "Degraded"
}

// await waits until the canary meets a goal, and prints its last state.
func (s *statusOptions) await(ctx context.Context, out io.Writer, reader *gather.Reader, name types.NamespacedName,
	target *goal,
) error {
	var last split.Report
	err := reader.Watch(ctx, name, func(cluster *facts.Facts) error {
		last = split.Of(cluster, &cluster.Rollouts[0])
		switch {
		case target.isReached(&last):
			return errReached
		case target.isLost(&last):
			return errFinding
		}
		return nil
	})
	if err != nil && !errors.Is(err, errReached) && !errors.Is(err, errFinding) {
		return err
	}
	if last.Rollout == "" {
		return ctx.Err()
	}
	if problem := s.print(out, &last); problem != nil {
		return problem
	}
	switch {
	case errors.Is(err, errReached):
		return nil
	case err != nil:
		return err
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("rollout %s: --for=%s: %w within %v: %s", name, s.goal, errNotReached, s.timeout,
			explainCondition(last.Condition(target.condition)))
	}
	return ctx.Err()
}

// explainCondition returns the reason of a condition.
func explainCondition(condition split.Condition) string {
	text := condition.Type + " is " + string(condition.Status) + " (" + condition.Reason + ")"
	if condition.Message != "" {
		text += ": " + condition.Message
	}
	return text
}

// watchSplit prints a line at each change of the traffic split until ctx ends.
func watchSplit(ctx context.Context, out io.Writer, format output.Format, withCounts bool, reader *gather.Reader,
	name types.NamespacedName,
) error {
	changes := newChangePrinter(out, format)
	if withCounts {
		return watchWithCounts(ctx, reader, name, changes.print)
	}
	return reader.Watch(ctx, name, func(cluster *facts.Facts) error {
		return changes.print(split.Of(cluster, &cluster.Rollouts[0]))
	})
}
