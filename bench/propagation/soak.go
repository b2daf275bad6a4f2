package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/kedify/argo-rollouts-plugin/bench/internal/benchresult"
	"github.com/kedify/argo-rollouts-plugin/bench/internal/plot"
	"github.com/kedify/argo-rollouts-plugin/test/kit/traffic"
	"github.com/kedify/argo-rollouts-plugin/test/load/stats"
)

const (
	// soakIntervals is the number of readings of a soak, at equal distances.
	soakIntervals = 60
	// maxGrowth limits the growth of memory, goroutines, descriptors and latency from the second third of a soak to the
	// last one: the median of one is at most this multiple of that of the other. In the first third caches are filled.
	maxGrowth, maxSlower = 1.1, 1.5
)

// soak are the readings of the interceptor while other applications change for a long time.
type soak struct {
	Readings []soakReading `json:"readings"`
}

// soakReading is one reading, and the time from a PATCH to the first response since the previous one.
type soakReading struct {
	Minutes     float64 `json:"minutes"`
	MemoryMB    float64 `json:"residentMB"`
	HeapMB      float64 `json:"heapMB"`
	Goroutines  float64 `json:"goroutines"`
	Descriptors float64 `json:"descriptors"`
	P50         float64 `json:"patchP50ms"`
	P99         float64 `json:"patchP99ms"`
}

// measureSoak changes the weight of the measured host for a duration, and reads the interceptor.
func (s *environment) measureSoak(ctx context.Context, ours, theirs poller, found *soak) error {
	began, last := time.Now(), time.Now()
	var patches []time.Duration
	for time.Since(began) < s.soak {
		sample, err := s.cell(ctx, ours, theirs, 1)
		if err != nil {
			return err
		}
		patches = append(patches, sample.patches...)
		if time.Since(last) < s.soak/soakIntervals {
			continue
		}
		reading, err := s.readSoak(ctx)
		if err != nil {
			return err
		}
		took := quantilesOf(patches)
		reading.Minutes, reading.P50, reading.P99 = time.Since(began).Minutes(), took.P50/1000, took.P99/1000 //nolint:mnd // milliseconds
		found.Readings = append(found.Readings, reading)
		patches, last = nil, time.Now()
	}
	return nil
}

// readSoak reads the interceptor's usage.
func (s *environment) readSoak(ctx context.Context) (reading soakReading, err error) {
	memory, err := s.interceptorAt.Memory()
	if err != nil {
		return reading, err
	}
	descriptors, err := s.interceptorAt.Descriptors()
	if err != nil {
		return reading, err
	}
	page, err := traffic.Get(ctx, s.metricsURL, "", nil)
	if err != nil {
		return reading, err
	}
	goroutines, goroutinesErr := traffic.Metric(page.Body, "go_goroutines")
	heap, heapErr := traffic.Metric(page.Body, "go_memstats_heap_inuse_bytes")
	return soakReading{
		MemoryMB: memory.Resident, HeapMB: heap / 1e6, Goroutines: goroutines, Descriptors: float64(descriptors),
	}, errors.Join(goroutinesErr, heapErr)
}

// soakColumn is a value of all readings.
type soakColumn struct {
	name  string
	most  float64 // growth
	value func(soakReading) float64
}

// soakColumns returns the values that are compared and drawn.
func soakColumns() []soakColumn {
	return []soakColumn{
		{"resident memory, MB", maxGrowth, func(r soakReading) float64 { return r.MemoryMB }},
		{"heap, MB", maxGrowth, func(r soakReading) float64 { return r.HeapMB }},
		{"goroutines", maxGrowth, func(r soakReading) float64 { return r.Goroutines }},
		{"descriptors", maxGrowth, func(r soakReading) float64 { return r.Descriptors }},
		{"PATCH to first response, p50, ms", maxSlower, func(r soakReading) float64 { return r.P50 }},
		{"PATCH to first response, p99, ms", maxSlower, func(r soakReading) float64 { return r.P99 }},
	}
}

// values returns the values of a column.
func (s soak) values(column soakColumn) []float64 {
	values := make([]float64, 0, len(s.Readings))
	for _, reading := range s.Readings {
		values = append(values, column.value(reading))
	}
	return values
}

// minutes returns the duration of the soak.
func (s soak) minutes() float64 { return s.Readings[len(s.Readings)-1].Minutes }

// limits returns the limits of the growth.
func (s soak) limits(of shape) (limits []benchresult.Limit) {
	const thirds = 3
	third := len(s.Readings) / thirds
	for _, column := range soakColumns() {
		values := s.values(column)
		before, after := stats.Quantile(values[third:2*third], 0.5), stats.Quantile(values[2*third:], 0.5)
		limits = append(limits, benchresult.Limit{
			Name:  fmt.Sprintf("soak, %v: %s, last third / second third", of, column.name),
			Of:    fmt.Sprintf("%.1f, before %.1f", after, before),
			Value: after / before, Limit: column.most,
		})
	}
	return limits
}

// series returns the values of a column for a diagram.
func (s soak) series() (all []plot.Series) {
	for _, column := range soakColumns() {
		all = append(all, plot.Series{Label: column.name, Values: s.values(column)})
	}
	return all
}

// table prints the readings.
func (s soak) table(w io.Writer) {
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(columns, "minutes\t")
	for _, column := range soakColumns() {
		fmt.Fprintf(columns, "%s\t", column.name)
	}
	fmt.Fprintln(columns)
	for _, reading := range s.Readings {
		fmt.Fprintf(columns, "%.1f\t", reading.Minutes)
		for _, column := range soakColumns() {
			fmt.Fprintf(columns, "%.1f\t", column.value(reading))
		}
		fmt.Fprintln(columns)
	}
	_ = columns.Flush() // the reader notices a table that cannot be printed
}
