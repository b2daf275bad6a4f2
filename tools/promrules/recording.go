package main

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// interval is the time between two scrapes. A rate needs several: see [rateInterval].
const interval = 5 * time.Second

// rateInterval is Grafana's variable $__rate_interval, which is at least four scrapes.
const rateInterval = 4 * interval

// recording has the samples of a run.
type recording struct {
	// scrapes is the number of scrapes.
	scrapes int
	// data are the series, with a sample or none for each scrape.
	data database
}

// end returns the time of the last scrape. The first one is at time 0.
func (r recording) end() time.Time { return time.Unix(0, 0).Add(time.Duration(r.scrapes-1) * interval) }

// readRecording reads a file that [scrapes.write] has written.
func readRecording(file string) (recording, error) {
	text, err := os.ReadFile(file) //nolint:gosec // the user names it
	if err != nil {
		return recording{}, err
	}
	var r recording
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if number, ok := strings.CutPrefix(line, "# scrapes: "); ok {
			if r.scrapes, err = strconv.Atoi(number); err != nil {
				return r, fmt.Errorf("%s: %w", file, err)
			}
		}
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		read, err := newSeries(line, interval, true)
		if err != nil {
			return r, fmt.Errorf("%s: %w", file, err)
		}
		r.data = append(r.data, read)
	}
	if r.scrapes == 0 || len(r.data) == 0 {
		return r, fmt.Errorf("%s: %w", file, errEmpty)
	}
	return r, nil
}

// errEmpty is the error of a recording without samples.
var errEmpty = errors.New("the recording has no samples")

// scrapes are the values of series by their names and labels, one for each scrape; NaN for none.
type scrapes struct {
	count  int
	values map[string][]float64
}

// add adds the samples of the next scrape.
func (s *scrapes) add(samples map[string]float64) {
	if s.values == nil {
		s.values = map[string][]float64{}
	}
	for name, value := range samples {
		for len(s.values[name]) < s.count {
			s.values[name] = append(s.values[name], math.NaN())
		}
		s.values[name] = append(s.values[name], value)
	}
	s.count++
}

// write writes the samples to a file, from the first scrape with one to the last.
func (s *scrapes) write(file string) error {
	first, last := s.count, 0
	for _, values := range s.values {
		first = min(first, slices.IndexFunc(values, func(v float64) bool { return !math.IsNaN(v) }))
		last = max(last, len(values))
	}
	if first >= last {
		return errEmpty
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "# Metrics of the components during a run of `make demo`, by `make dashboards-run`: one sample "+
		"every %s.\n# scrapes: %d\n", interval, last-first)
	for _, name := range sortedKeys(s.values) {
		values := s.values[name][min(first, len(s.values[name])):]
		for len(values) < last-first { // a copy is made if values shares its array
			values = append(slices.Clip(values), math.NaN())
		}
		fmt.Fprintf(&out, "%s %s\n", name, notation(values))
	}
	return os.WriteFile(file, out.Bytes(), 0o644) //nolint:gosec // a document
}

// notation returns samples in Prometheus' notation: a repeated value is VALUExREPETITIONS, and _xNUMBER is a gap.
func notation(values []float64) string {
	var parts []string
	for i := 0; i < len(values); {
		length := 1
		for i+length < len(values) && isSame(values[i], values[i+length]) {
			length++
		}
		part := strconv.FormatFloat(values[i], 'g', -1, 64)
		switch {
		case math.IsNaN(values[i]):
			part = "_x" + strconv.Itoa(length)
		case length > 1:
			part += "x" + strconv.Itoa(length-1)
		}
		parts = append(parts, part)
		i += length
	}
	return strings.Join(parts, " ")
}

// isSame reports whether two samples are equal or both missing.
func isSame(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }
