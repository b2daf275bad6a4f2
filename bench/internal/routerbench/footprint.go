package routerbench

import (
	"context"
	"fmt"
	"time"

	"github.com/kedify/argo-rollouts-plugin/bench/internal/benchresult"
	"github.com/kedify/argo-rollouts-plugin/bench/internal/stopwatch"
	"github.com/kedify/argo-rollouts-plugin/test/kit/process"
)

const (
	// starts is the number of measured starts of each plugin.
	starts = 15
	// maxStart limits the time of a start in milliseconds, and maxMemory the plugin's memory in MB of a million bytes: it
	// shares the controller's container.
	maxStart, maxMemory = 25, 30
)

// footprint is what a running plugin takes.
type footprint struct {
	// StartMs is the median time of a start, up to the answer of InitPlugin, and NoopStartMs that of the no-op plugin.
	StartMs     float64 `json:"startMs"`
	NoopStartMs float64 `json:"noopStartMs"`
	// MemoryMB is the resident memory after all rounds.
	MemoryMB float64 `json:"residentMB"`
}

// footprint measures starts of both plugins alternately, next to the running ones, and reads the router's memory.
func (m *measurement) footprint(ctx context.Context) (footprint, error) {
	folder, err := process.Find(m.router.process.PID())
	if err != nil {
		return footprint{}, err
	}
	memory, err := folder.Memory()
	if err != nil {
		return footprint{}, err
	}
	var ours, nothing []float64
	for range starts {
		for runner, took := range map[*pluginRunner]*[]float64{m.router: &ours, m.noop: &nothing} {
			if err := stopwatch.Pause(ctx); err != nil {
				return footprint{}, err
			}
			began := time.Now()
			started, err := runner.start()
			if err != nil {
				return footprint{}, err
			}
			*took = append(*took, stopwatch.Micros(time.Since(began))/1000) //nolint:mnd // milliseconds
			started.Kill()
		}
	}
	return footprint{stopwatch.Median(ours), stopwatch.Median(nothing), memory.Resident}, nil
}

// limits returns the limits.
func (f footprint) limits() []benchresult.Limit {
	return []benchresult.Limit{
		{Name: "start of the plugin, p50, ms", Of: fmt.Sprintf("no-op plugin %.1f ms", f.NoopStartMs), Value: f.StartMs, Limit: maxStart},
		{Name: "memory of the plugin after all rounds, MB", Value: f.MemoryMB, Limit: maxMemory},
	}
}
