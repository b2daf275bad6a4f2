package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts/gather"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/split"
)

var (
	// errWatchFor reports flags that exclude each other.
	errWatchFor = errors.New("--for excludes --watch and --sent")
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

// errFirstLine reports that a watch has not printed its first line within the time limit.
var errFirstLine = errors.New("the first reading has not finished in time: increase --timeout")

// watchSplit prints a line at each change of the traffic split until ctx ends. It fails if the first reading does not
// finish within the time limit.
func (s *statusOptions) watchSplit(ctx context.Context, out io.Writer, reader *gather.Reader, name types.NamespacedName,
) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := func() bool { return true }
	if s.timeout > 0 {
		stop = time.AfterFunc(s.timeout, func() { cancel(errFirstLine) }).Stop
	}
	changes := newChangePrinter(out, s.outputFlags)
	notify := func(report split.Report) error {
		stop()
		return changes.print(report)
	}
	err := s.follow(ctx, reader, name, notify)
	if errors.Is(context.Cause(ctx), errFirstLine) {
		return fmt.Errorf("rollout %s: %w", name, errFirstLine)
	}
	return err
}

// follow calls notify with the traffic split at each change until ctx ends.
func (s *statusOptions) follow(ctx context.Context, reader *gather.Reader, name types.NamespacedName,
	notify func(split.Report) error,
) error {
	if s.withCount {
		return watchWithCounts(ctx, reader, name, notify)
	}
	return reader.Watch(ctx, name, func(cluster *facts.Facts) error {
		return notify(split.Of(cluster, &cluster.Rollouts[0]))
	})
}
