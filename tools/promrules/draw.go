package main

import (
	"context"
	"fmt"
	"html"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/prometheus/promql"
)

// The sizes in the pictures, in pixels. A panel has a title, and below its plot the times and the legend.
const (
	columnWidth, rowHeight = 50, 30
	boardTitle, gap        = 44, 6
	panelTitle, marginLeft = 40, 62
	marginRight, below     = 24, 42
)

// colors returns the colors of series, in their order.
func colors() []string {
	return []string{"#2f7ed8", "#e08a1e", "#3a9d5d", "#c0392b", "#8e5ea2", "#16a3a3", "#7f8c8d", "#b8860b"}
}

// line is a series of a panel.
type line struct {
	name   string
	points []promql.FPoint
}

// last returns the last value of a line.
func (l line) last() float64 { return l.points[len(l.points)-1].F }

// draw returns the picture of a dashboard: each panel with the results of its queries, as an SVG document. A query
// without a result is an error.
func draw(ctx context.Context, board dashboard, made recording) (string, error) {
	e := &evaluator{engine: newEngine(), made: made}
	defer func() { _ = e.engine.Close() }()
	if err := e.choose(ctx, board); err != nil {
		return "", err
	}
	var body strings.Builder
	height := 0
	for _, each := range board.Panels {
		lines, err := e.lines(ctx, each)
		if err != nil {
			return "", fmt.Errorf("panel %q: %w", each.Title, err)
		}
		height = max(height, (each.GridPos.Y+each.GridPos.H)*rowHeight)
		each.draw(&body, lines, made.end())
	}
	title := board.Title
	if object := e.values["$httpscaledobject"]; object != "" {
		title += ": HTTPScaledObject " + e.values["$namespace"] + "/" + object
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]d %[2]d" width="%[1]d" height="%[2]d"
	role="img" aria-labelledby="title">
<title id="title">%[3]s</title>
<style>
text { font: 12px system-ui, sans-serif; fill: #333 }
.head { font-size: 20px; font-weight: 600 }
.title { font-size: 14px; font-weight: 600 }
.faint { fill: #777; font-size: 11px }
.value { font-size: 30px; font-weight: 600 }
</style>
<rect width="%[1]d" height="%[2]d" fill="#f4f5f7"/>
<text class="head" x="12" y="30">%[3]s</text>
%[4]s</svg>
`, 24*columnWidth, height+boardTitle, html.EscapeString(title), body.String()), nil
}

// lines returns the series of a panel.
func (e *evaluator) lines(ctx context.Context, p panel) ([]line, error) {
	var all []line
	for _, target := range p.Targets {
		matrix, err := e.results(ctx, target.Expr)
		if err != nil {
			return nil, err
		}
		for _, series := range matrix {
			if len(series.Floats) > 0 {
				all = append(all, line{legendOf(target.LegendFormat, series.Metric), series.Floats})
			}
		}
	}
	return all, nil
}

// draw draws a panel.
func (p panel) draw(out *strings.Builder, lines []line, end time.Time) {
	x, y := p.GridPos.X*columnWidth, p.GridPos.Y*rowHeight+boardTitle
	width, height := p.GridPos.W*columnWidth, p.GridPos.H*rowHeight
	fmt.Fprintf(out, `<g transform="translate(%d %d)">`+"\n", x, y)
	fmt.Fprintf(out, `<rect x="%d" y="%d" width="%d" height="%d" rx="4" fill="#fff" stroke="#dcdfe4"/>`+"\n", gap/2, gap/2,
		width-gap, height-gap)
	fmt.Fprintf(out, `<text class="title" x="14" y="22">%s</text>`+"\n", html.EscapeString(p.Title))
	if p.Type == "stat" {
		p.drawValues(out, lines, width, height)
	} else {
		p.drawLines(out, lines, plot{
			width: float64(width - marginLeft - marginRight), height: float64(height - panelTitle - below), end: end,
			top: p.top(lines),
		})
	}
	out.WriteString("</g>\n")
}

// drawValues draws the last value of each series.
func (p panel) drawValues(out *strings.Builder, lines []line, width, height int) {
	for i, each := range lines {
		x := (2*i + 1) * width / (2 * len(lines))
		fmt.Fprintf(out, `<text class="value" x="%d" y="%d" text-anchor="middle" style="fill:%s">%s</text>`+"\n", x,
			height/2+16, colors()[i%len(colors())], p.format(each.last()))
		fmt.Fprintf(out, `<text class="faint" x="%d" y="%d" text-anchor="middle">%s</text>`+"\n", x, height/2+40,
			html.EscapeString(each.name))
	}
}

// plot is the area of a panel in which its series are.
type plot struct {
	width, height float64
	top           float64 // the value at the upper end; the lower end is 0
	end           time.Time
}

// x and y return the place of a sample.
func (a plot) x(milliseconds int64) float64 {
	return marginLeft + a.width*float64(milliseconds)/float64(a.end.UnixMilli())
}

func (a plot) y(value float64) float64 { return panelTitle + a.height*(1-min(value, a.top)/a.top) }

// isStacked reports whether the series of a panel are drawn on top of each other.
func (p panel) isStacked() bool { return p.FieldConfig.Defaults.Custom.Stacking.Mode == "normal" }

// top returns the value at the upper end of a panel.
func (p panel) top(lines []line) float64 {
	if limit := p.FieldConfig.Defaults.Max; limit != nil {
		return *limit
	}
	highest, sums := 0.0, map[int64]float64{}
	for _, each := range lines {
		for _, point := range each.points {
			if math.IsNaN(point.F) || math.IsInf(point.F, 0) {
				continue
			}
			sums[point.T] += point.F
			highest = max(highest, point.F)
			if p.isStacked() {
				highest = max(highest, sums[point.T])
			}
		}
	}
	if highest == 0 {
		return 1
	}
	step := tick(highest)
	return math.Ceil(highest*1.05/step) * step
}

// tick returns the distance of the lines of a grid: 1, 2 or 5 times a power of ten.
func tick(top float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(top/3)))
	for _, factor := range []float64{1, 2, 5} {
		if top/(factor*power) <= 5 {
			return factor * power
		}
	}
	return 10 * power
}

// drawLines draws the series, the grid and the legend of a panel.
func (p panel) drawLines(out *strings.Builder, lines []line, area plot) {
	step := tick(area.top)
	for i := 0; float64(i)*step <= area.top*1.001; i++ {
		value := float64(i) * step
		fmt.Fprintf(out, `<path d="M%d %.1fh%.0f" stroke="#e8eaee"/>`, marginLeft, area.y(value), area.width)
		fmt.Fprintf(out, `<text class="faint" x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n", marginLeft-6,
			area.y(value)+4, p.format(value))
	}
	for at := time.Unix(0, 0); !at.After(area.end); at = at.Add(time.Minute) {
		fmt.Fprintf(out, `<text class="faint" x="%.1f" y="%.1f" text-anchor="middle">%d min</text>`+"\n",
			area.x(at.UnixMilli()), panelTitle+area.height+14, at.Unix()/60)
	}
	base := map[int64]float64{}
	for i, each := range lines {
		p.drawLine(out, each, area, base, colors()[i%len(colors())])
	}
	drawLegend(out, lines, panelTitle+area.height+31, marginLeft+area.width)
}

// drawLegend draws the names of the series at a height, as many as are left of end.
func drawLegend(out *strings.Builder, lines []line, y, end float64) {
	const sign, letter = 30, 6.4 // the widths of a color and of a letter
	x := float64(marginLeft)
	for i, each := range lines {
		width := sign + letter*float64(len(each.name))
		if x+width > end {
			fmt.Fprintf(out, `<text class="faint" x="%.0f" y="%.1f">+ %d</text>`+"\n", x, y, len(lines)-i)
			return
		}
		fmt.Fprintf(out, `<rect x="%.0f" y="%.1f" width="12" height="4" fill="%s"/>`, x, y-6, colors()[i%len(colors())])
		fmt.Fprintf(out, `<text x="%.0f" y="%.1f">%s</text>`+"\n", x+18, y, html.EscapeString(each.name))
		x += width
	}
}

// drawLine draws a series, with a gap for each missing sample. In a stacked panel, it starts at base, to which it is
// added.
func (p panel) drawLine(out *strings.Builder, each line, area plot, base map[int64]float64, color string) {
	var path, lower []string
	flush := func() {
		if len(path) == 0 {
			return
		}
		fmt.Fprintf(out, `<path d="M%s" fill="none" stroke="%s" stroke-width="1.5"/>`+"\n", strings.Join(path, "L"), color)
		if p.isStacked() {
			slices.Reverse(lower)
			fmt.Fprintf(out, `<path d="M%sL%sZ" fill="%s" opacity=".2"/>`+"\n", strings.Join(path, "L"),
				strings.Join(lower, "L"), color)
		}
		path, lower = nil, nil
	}
	previous := int64(-1)
	for _, point := range each.points {
		isGap := previous >= 0 && point.T-previous > interval.Milliseconds()
		if isGap || math.IsNaN(point.F) || math.IsInf(point.F, 0) {
			flush()
		}
		previous = point.T
		if math.IsNaN(point.F) || math.IsInf(point.F, 0) {
			continue
		}
		value := point.F
		if p.isStacked() {
			lower = append(lower, fmt.Sprintf("%.1f %.1f", area.x(point.T), area.y(base[point.T])))
			base[point.T] += point.F
			value = base[point.T]
		}
		path = append(path, fmt.Sprintf("%.1f %.1f", area.x(point.T), area.y(value)))
	}
	flush()
}

// format returns a value with the unit of a panel.
func (p panel) format(value float64) string {
	number := func(v float64) string {
		if v >= 100 {
			return strconv.FormatFloat(v, 'f', 0, 64)
		}
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	switch unit := p.FieldConfig.Defaults.Unit; {
	case unit == "percentunit":
		return number(100*value) + " %"
	case unit == "reqps" || unit == "ops":
		return number(value) + "/s"
	case unit == "s" && value > 0 && value < 0.001:
		return number(1e6*value) + " µs"
	case unit == "s" && value > 0 && value < 1:
		return number(1000*value) + " ms"
	case unit == "s":
		return number(value) + " s"
	default:
		return number(value)
	}
}
