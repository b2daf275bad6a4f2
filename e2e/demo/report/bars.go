package report

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/kedify/argo-rollouts-plugin/test/load/stats"
)

// barWidth is the number of columns of a full bar: one for every 2 %.
const barWidth = 50

// bar draws a share and its confidence interval: solid up to the lower bound, shaded up to the upper bound, and a tick
// at the expected share. A negative desired share draws no tick.
func bar(interval stats.Interval, desired float64, columns int) string {
	cells := []rune(strings.Repeat("·", columns))
	low := int(math.Round(interval.Low * float64(columns)))
	high := int(math.Ceil(interval.High*float64(columns) - 1e-9))
	for i := range cells {
		switch {
		case i < low:
			cells[i] = '█'
		case i < high:
			cells[i] = '▒'
		}
	}
	if at := int(math.Round(desired * float64(columns))); desired >= 0 && at > 0 && at < columns {
		cells[at] = '┃'
	}
	return string(cells)
}

// Bars draws the split of a row's responses: one bar for each color, the most frequent first.
func (s Style) Bars(r Row) []string {
	total := 0
	for _, n := range r.Colors {
		total += n
	}
	var lines []string
	for _, color := range byCount(r.Colors) {
		split := stats.Split{Hits: r.Colors[color], Total: total}
		interval := split.Wilson(stats.Z95)
		desired := -1.0
		if color == r.Color {
			desired = r.Desired
		}
		lines = append(lines, fmt.Sprintf("%s %s %s  [%s, %s]",
			pad(color, 7, false), s.paint(sgr(color), bar(interval, desired, barWidth)), pad(percent(split.Share(), 2), 8, true),
			percent(interval.Low, 1), percent(interval.High, 1)))
	}
	return lines
}

// byCount sorts colors by the number of responses, then by name.
func byCount(colors map[string]int) []string {
	return slices.SortedFunc(maps.Keys(colors), func(a, b string) int {
		return cmp.Or(cmp.Compare(colors[b], colors[a]), cmp.Compare(a, b))
	})
}

// strip draws the present split in one line. The bar shows each color's share, sorted by name, so that the order is
// stable.
func (s Style) strip(colors map[string]int, columns int) string {
	total := 0
	for _, n := range colors {
		total += n
	}
	if total == 0 {
		return s.Faint(strings.Repeat("·", columns))
	}
	var bars, legend strings.Builder
	seen, drawn := 0, 0
	for _, color := range slices.Sorted(maps.Keys(colors)) {
		seen += colors[color]
		end := int(math.Round(float64(seen) / float64(total) * float64(columns)))
		bars.WriteString(s.paint(sgr(color), strings.Repeat("█", end-drawn)))
		drawn = end
		fmt.Fprintf(&legend, "  %s %s", s.paint(sgr(color), color), percent(float64(colors[color])/float64(total), 0))
	}
	return bars.String() + legend.String()
}
