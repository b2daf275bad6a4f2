package main

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/annotations"
)

// newEngine returns an engine that evaluates expressions as Prometheus does with its default flags. The caller closes
// it.
func newEngine() *promql.Engine {
	return promql.NewEngine(promql.EngineOpts{
		MaxSamples: 1_000_000, Timeout: time.Hour, EnableAtModifier: true, EnableNegativeOffset: true,
		Parser: parser.NewParser(parser.Options{}),
	})
}

// database has series in memory. Prometheus' own database and package promqltest import the clients of its remote
// storages, which would double the number of packages to compile.
type database []storage.Series

// newSeries returns a series with a sample in each interval, from time 0. The text is in Prometheus' notation:
// NAME{LABELS} SAMPLES. If isScraped is set, an omitted sample ends the series, as it does in Prometheus when a target
// lacks it.
func newSeries(text string, interval time.Duration, isScraped bool) (storage.Series, error) {
	name, values, err := parser.NewParser(parser.Options{}).ParseSeriesDesc(text)
	if err != nil {
		return nil, fmt.Errorf("%.200s: %w", text, err)
	}
	chunk := chunkenc.NewXORChunk()
	appender, err := chunk.Appender()
	if err != nil {
		return nil, err
	}
	isThere := false
	for i, sample := range values {
		at := (time.Duration(i) * interval).Milliseconds()
		switch {
		case !sample.Omitted:
			appender.Append(0, at, sample.Value)
		case isScraped && isThere:
			appender.Append(0, at, math.Float64frombits(value.StaleNaN))
		}
		isThere = !sample.Omitted
	}
	return &storage.SeriesEntry{Lset: name, SampleIteratorFn: chunk.Iterator}, nil
}

// Querier implements storage.Queryable.
func (d database) Querier(_, _ int64) (storage.Querier, error) {
	return &storage.MockQuerier{SelectMockFunction: d.find}, nil
}

// find returns the matching series in the order of their labels.
func (d database) find(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	found := &seriesSet{}
	for _, series := range d {
		if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(series.Labels().Get(m.Name)) }) {
			found.remaining = append(found.remaining, series)
		}
	}
	slices.SortFunc(found.remaining, func(a, b storage.Series) int { return labels.Compare(a.Labels(), b.Labels()) })
	return found
}

// seriesSet iterates over series.
type seriesSet struct {
	current   storage.Series
	remaining []storage.Series
}

// Next implements storage.SeriesSet.
func (s *seriesSet) Next() bool {
	if len(s.remaining) == 0 {
		return false
	}
	s.current, s.remaining = s.remaining[0], s.remaining[1:]
	return true
}

// At implements storage.SeriesSet.
func (s *seriesSet) At() storage.Series { return s.current }

// Err implements storage.SeriesSet.
func (s *seriesSet) Err() error { return nil }

// Warnings implements storage.SeriesSet.
func (s *seriesSet) Warnings() annotations.Annotations { return nil }
