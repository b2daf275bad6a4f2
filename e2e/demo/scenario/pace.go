package scenario

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/demo/guide"
	"github.com/kedify/argo-rollouts-plugin/e2e/demo/report"
	"github.com/kedify/argo-rollouts-plugin/test/load"
)

// The bounds of the load in requests per second. Below MinRate a run takes too long.
const (
	MinRate = 5
	MaxRate = 2000
)

// safeShare is the part of an idle machine's capacity that the load uses, because the machine also starts and stops
// Pods. At one half, an emulated machine fell behind when the last step of a canary started the Pods of both sides:
// requests waited for 9 s.
const safeShare = 1. / 3

// paced returns the settings for a machine with a maximum number of requests per second. Both samples of a step then
// fit into a timed pause.
func (s Settings) paced(capacity float64) (Settings, error) {
	carried := math.Floor(capacity * safeShare)
	if carried < MinRate {
		return s, fmt.Errorf("%w: its maximum request rate is about %.1f requests/s, and a third of that is less than the "+
			"%d that a run needs: end other programs, or use a machine with more or faster cores",
			ErrTooSlow, capacity, MinRate)
	}
	s.Rate = min(s.Rate, carried)
	// MaxInFlight covers the requests of one timeout, minus a fifth.
	s.MaxInFlight = min(s.MaxInFlight, int(s.Rate*s.Timeout.Seconds()*0.8))
	if needed := s.pauseNeeded(); needed > s.Pause {
		const step = 10 * time.Second
		s.Pause = (needed + step - 1).Truncate(step)
	}
	return s, nil
}

// pauseNeeded returns the duration of a sample and a second one of twice the size.
func (s Settings) pauseNeeded() time.Duration {
	return time.Duration(float64(3*s.Sample)/s.Rate*float64(time.Second)) + s.Slack
}

// pace adapts the load to the machine's capacity, and the timed pauses of the Rollout to the load.
func (d *demo) pace(ctx context.Context) error {
	d.display.setStatus("measuring the maximum request rate of this machine")
	capacity, totals, err := d.Capacity(ctx, d.target(), d.Burst)
	if err != nil {
		return fmt.Errorf("measure the maximum request rate of this machine: %w", err)
	}
	fitting, err := d.paced(capacity)
	if c := noneFailed(totals); !c.OK {
		d.outcome.Checks = append(d.outcome.Checks, c)
		err = errors.Join(err, fmt.Errorf("measure the maximum request rate of this machine: %s: %w: %s",
			c.Name, guide.ErrCheck, c.Detail))
	}
	if err != nil {
		return err
	}
	if fitting.Rate < d.Rate {
		d.screen.Print("", fmt.Sprintf("The maximum request rate of this machine is about %s requests/s. The load is %s "+
			"requests/s instead of %s, so each step takes longer: the verdict needs %s requests, at any rate.",
			report.Count(int(capacity)), report.Count(int(fitting.Rate)), report.Count(int(d.Rate)), report.Count(d.Sample)))
	}
	usual := d.Pause
	d.Rate, d.MaxInFlight, d.Pause = fitting.Rate, fitting.MaxInFlight, fitting.Pause
	if d.Pause == usual {
		return nil
	}
	d.screen.Print("", fmt.Sprintf("A sample and a fresh one of twice the size take up to %s at %.0f requests/s: the "+
		"guide's timed pauses of %s are too short for that.",
		report.Seconds(d.pauseNeeded()), d.Rate, report.Seconds(usual)))
	return d.show(ctx, guide.Kubectl("patch", "rollout", app, "--type=json", "-p", pausePatch(d.Pause)))
}

// pausePatch returns the patch of the guide's timed pauses (RFC 6902).
func pausePatch(pause time.Duration) string {
	var operations []string
	for _, step := range timedPauses() {
		operations = append(operations,
			fmt.Sprintf(`{"op":"replace","path":"/spec/strategy/canary/steps/%d/pause/duration","value":"%.0fs"}`,
				step, pause.Seconds()))
	}
	return "[" + strings.Join(operations, ",") + "]"
}

// overload returns an error if this machine cannot generate the load.
func (d *demo) overload(totals load.Totals) error {
	if !totals.Overloaded {
		return nil
	}
	fix := fmt.Sprintf("try --rate %.0f, or end what else runs on this machine", max(MinRate, math.Floor(d.Rate/2)))
	if d.Rate <= MinRate {
		fix = "end what else runs on this machine, or use one with more or faster cores"
	}
	return fmt.Errorf("%w: %d requests are in flight (%d may be at once) and one began %s late (%s is too late); this "+
		"machine or the proxy is too slow for %.0f requests/s: %s",
		ErrOverload, totals.InFlight, d.MaxInFlight, report.Seconds(totals.Lag), report.Seconds(d.Timeout), d.Rate, fix)
}
