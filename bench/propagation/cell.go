package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"

	"github.com/kedify/argo-rollouts-plugin/bench/internal/pace"
	"github.com/kedify/argo-rollouts-plugin/bench/internal/stopwatch"
	"github.com/kedify/argo-rollouts-plugin/test/kit/netspace"
	"github.com/kedify/argo-rollouts-plugin/test/kit/process"
	"github.com/kedify/argo-rollouts-plugin/test/kit/traffic"
)

const (
	// warmUp is the number of weights of each kind before the measured ones.
	warmUp = 40
	// idleWindow is the duration of the measurement of the idle cost.
	idleWindow = 5 * time.Second
	// idleCPU is the maximum processor time in an idleWindow of an interceptor that has written all statuses. idleLimit
	// bounds the wait for that.
	idleCPU, idleLimit = 100 * time.Millisecond, 3 * time.Minute
)

// errNotIdle is returned if a process keeps working without changes.
var errNotIdle = errors.New("a process does not become idle")

// measureShape measures one shape, starting with an empty API server, and with joining proxies if requested.
func measureShape(
	ctx context.Context, chosen options, folder string, size shape, joins bool, progress io.Writer,
) (found result, err error) {
	s := &environment{
		options: chosen, shape: size,
		folder: filepath.Join(folder, size.String()), binary: filepath.Join(netspace.Folder(), "interceptor"),
	}
	if err := os.Mkdir(s.folder, 0o700); err != nil {
		return result{}, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	if err := s.start(ctx); err != nil {
		return result{}, err
	}
	if err := s.populate(ctx); err != nil {
		return result{}, err
	}
	ours, theirs, err := s.startProxies(ctx)
	if err != nil {
		return result{}, err
	}
	found.Shape = size
	if s.accuracy > 0 {
		found.Accuracy = new(accuracy)
		return found, s.measureAccuracy(ctx, found.Accuracy, progress)
	}
	if s.envoyGateway.Part != "" {
		found.Comparison = new(comparison)
		return found, s.compare(ctx, ours, found.Comparison)
	}
	if s.soak > 0 {
		if err := s.waitUntilIdle(ctx); err != nil {
			return found, err
		}
		return found, s.amongChanges(ctx, func(ctx context.Context) error {
			return s.measureSoak(ctx, ours, theirs, &found.Soak)
		}, &found.Memory)
	}
	if s.reporters > 0 {
		return found, s.measureReported(ctx, ours, theirs, &found)
	}
	if err := s.alone(ctx, ours, theirs, &found); err != nil {
		return result{}, err
	}
	err = s.amongChanges(ctx, func(ctx context.Context) error {
		found.Busy, err = s.cell(ctx, ours, theirs, s.samples)
		return err
	}, &found.Memory)
	if err != nil || !joins {
		return found, err
	}
	found.Joining, err = s.join(ctx, ours)
	return found, err
}

// alone measures without other changes.
func (s *environment) alone(ctx context.Context, ours, theirs poller, found *result) error {
	if err := s.waitUntilIdle(ctx); err != nil {
		return err
	}
	memory, err := s.interceptorAt.Memory()
	if err != nil {
		return err
	}
	found.Memory.Idle, found.Memory.IdleAnonymous = memory.Resident, memory.Anonymous
	idle, err := s.idleRate(ctx)
	if err != nil {
		return err
	}
	if err := s.readMetrics(ctx, &found.Memory); err != nil {
		return err
	}
	if _, err = s.cell(ctx, ours, theirs, warmUp); err != nil {
		return err
	}
	before, err := s.usage(ctx)
	if err != nil {
		return err
	}
	if found.Quiet, err = s.cell(ctx, ours, theirs, s.samples); err != nil {
		return err
	}
	after, err := s.usage(ctx)
	found.Cost = costOf(before.until(after), idle, s.samples)
	return err
}

// readMetrics reads the interceptor's metrics, as Prometheus does, and its memory right afterwards.
func (s *environment) readMetrics(ctx context.Context, found *memory) error {
	page, err := traffic.Get(ctx, s.metricsURL, "", nil)
	if err != nil {
		return err
	}
	memory, err := s.interceptorAt.Memory()
	found.Page, found.Read = float64(len(page.Body))/1e6, memory.Resident
	return err
}

// cell takes samples: each is a bare push and a PATCH that move the host to its other side.
func (s *environment) cell(ctx context.Context, ours, theirs poller, samples int) (cell, error) {
	var result cell
	for range samples {
		s.side = 1 - s.side
		pushed, err := arrival(ctx, theirs, sides()[s.side], func() error {
			return s.bare.Push(resourcev3.ScopedRouteType, hostOf(0), s.side)
		})
		if err != nil {
			return cell{}, err
		}
		pause(ctx)
		patched, err := arrival(ctx, ours, sides()[s.side], func() error {
			return setWeight(ctx, s.client, fleetName(0), 0, weights()[s.side])
		})
		if err != nil {
			return cell{}, err
		}
		pause(ctx)
		result.pushes, result.patches = append(result.pushes, pushed.whole), append(result.patches, patched.whole)
		result.answers = append(result.answers, patched.call)
	}
	return result, nil
}

// times are the durations of a change: until the call that made it returned, and until the first response that follows
// it.
type times struct{ call, whole time.Duration }

// arrival makes a change and measures the time until the proxy, which receives requests all the time, answers with
// side.
func arrival(ctx context.Context, client poller, side string, change func() error) (times, error) {
	type answer struct {
		at  time.Time
		err error
	}
	arrived := make(chan answer, 1)
	go func() {
		at, err := client.until(ctx, side)
		arrived <- answer{at, err}
	}()
	began := time.Now()
	if err := change(); err != nil {
		return times{}, err
	}
	call := time.Since(began)
	got := <-arrived
	return times{call, got.at.Sub(began)}, got.err
}

// waitUntilIdle waits until the interceptor has written every status after its start.
func (s *environment) waitUntilIdle(ctx context.Context) error {
	_, err := waitUntilIdle(ctx, s.interceptorAt, idleWindow, idleCPU)
	return err
}

// waitUntilIdle waits until a process uses less than a processor time in a window. It returns the processor time since
// its start, in microseconds.
func waitUntilIdle(ctx context.Context, of process.Folder, window, cpu time.Duration) (float64, error) {
	last, err := of.CPU()
	for began := time.Now(); err == nil && time.Since(began) < idleLimit; {
		if err := pace.Wait(ctx, window); err != nil {
			return 0, err
		}
		var now float64
		now, err = of.CPU()
		if now-last < stopwatch.Micros(cpu) {
			return now, err
		}
		last = now
	}
	return 0, errors.Join(err, errNotIdle)
}
