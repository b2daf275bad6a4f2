package picture

import (
	_ "embed"
	"fmt"
	"strings"
	"text/template"
)

//go:embed demo.svg.tmpl
var source string

// Palette contains the colors of a picture in SVG notation.
type Palette map[string]string

// Light returns the palette for a light page.
func Light() Palette {
	return Palette{
		"page": "#ffffff", "edge": "#d0d7de", "text": "#1f2328", "faint": "#59636e", "good": "#1a7f37",
		"bad": "#cf222e", "mark": "#1f2328",
		"blue": "#0969da", "yellow": "#d4a72c", "purple": "#8250df", "track": "#eaeef2",
	}
}

// Dark returns the palette for a dark page.
func Dark() Palette {
	return Palette{
		"page": "#0d1117", "edge": "#3d444d", "text": "#f0f6fc", "faint": "#9198a1", "good": "#3fb950",
		"bad": "#f85149", "mark": "#f0f6fc",
		"blue": "#4493f8", "yellow": "#e3b341", "purple": "#ab7df8", "track": "#212830",
	}
}

// The layout, in pixels, and the course of the picture, in seconds.
const (
	barLeft, barWidth  = 210.0, 400.0
	rowTop, rowHeight  = 96.0, 26.0
	podSize, podsTall  = 9.0, 13.0
	rateLeft, rateWide = 40.0, 160.0
	// canariesEnd and ratesEnd are when the last state of each half is drawn. The picture does not move for the rest of
	// the loop.
	start, canariesEnd, ratesEnd, loop = 0.5, 9.0, 14.0, 19.0
)

// Draw draws a run. If the reader's system requests reduced motion, everything is visible immediately.
func Draw(r Run, colors Palette) (string, error) {
	picture, err := template.New("demo.svg").Funcs(template.FuncMap{"color": func(name string) (string, error) {
		if colors[name] == "" {
			return "", fmt.Errorf("no palette has the color %q", name)
		}
		return colors[name], nil
	}}).Parse(source)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	err = picture.Execute(&out, layoutOf(r))
	return out.String(), err
}

// layout contains the positions for the template.
type layout struct {
	Run

	Bars   []bar
	Titles []title
	Pods   []podColumn
	// RatesTop is the top of the second half, Height the height of the picture.
	RatesTop, Height float64
	// Loop is the duration of the animation until it restarts, in seconds.
	Loop float64
}

// title is the heading of a canary's steps.
type title struct {
	Y    float64
	Text string
}

// bar is the traffic split at one step.
type bar struct {
	Step

	// Tick is the end of the expected share. Left and End are the ends of the interval.
	Y, Width, Tick, Left, End float64
	// Other is the color of the other requests.
	Other string
	// Appears and Grown are the start and end of the bar's growth, in percent of the loop.
	Appears, Grown float64
	N              int
}

// podColumn contains the replicas at one rate.
type podColumn struct {
	Rate

	X       float64
	Squares []pod
	Appears float64
	N       int
}

// pod is a replica.
type pod struct {
	X, Y  float64
	Color string
}

// layoutOf returns the layout of a run.
func layoutOf(r Run) layout {
	l := layout{Run: r, Loop: loop}
	y, last := rowTop, ""
	for i, s := range r.Steps {
		if name := s.From + " → " + s.To; name != last {
			l.Titles, last = append(l.Titles, title{y + 12, name}), name
			y += rowHeight
		}
		l.Bars = append(l.Bars, barOf(s, i, y, moment(s.At, r.Steps[0].At, r.Steps[len(r.Steps)-1].At, start, canariesEnd)))
		y += rowHeight
	}
	l.RatesTop = y + 22
	for i, rate := range r.Rates {
		l.Pods = append(l.Pods, podsOf(rate, i, l.RatesTop,
			moment(rate.At, r.Rates[0].At, r.Rates[len(r.Rates)-1].At, canariesEnd+1, ratesEnd)))
	}
	l.Height = l.RatesTop + 122
	return l
}

// moment returns when something is drawn, in percent of the loop. It maps the time at, between first and last, to the
// interval from..to.
func moment(at, first, last, from, to float64) float64 {
	share := 0.0
	if last > first {
		share = (at - first) / (last - first)
	}
	return 100 * (from + share*(to-from)) / loop
}

// barOf returns the bar of a step.
func barOf(s Step, n int, y, appears float64) bar {
	b := bar{
		Step: s, N: n, Y: y, Appears: appears, Grown: appears + 4, Other: s.From,
		Width: barWidth * s.Measured / 100, Tick: barLeft + barWidth*s.Desired/100,
		Left: barLeft + barWidth*s.Low/100, End: barLeft + barWidth*s.High/100,
	}
	if s.Color == s.From {
		b.Other = s.To
	}
	return b
}

// podsOf returns the replicas of a rate, five in a row.
func podsOf(r Rate, n int, top, appears float64) podColumn {
	c := podColumn{Rate: r, N: n, X: rateLeft + rateWide*float64(n), Appears: appears}
	for i := range r.Stable + r.Canary {
		color := "blue"
		if i >= r.Stable {
			color = "yellow"
		}
		c.Squares = append(c.Squares, pod{c.X + podsTall*float64(i%6), top + 44 + podsTall*float64(i/6), color})
	}
	return c
}

// Size returns the side length of a replica's square.
func (pod) Size() float64 { return podSize }

// Base returns the baseline of a step's text.
func (b bar) Base() float64 { return b.Y + 13 }

// Middle returns the vertical position of a step's interval.
func (b bar) Middle() float64 { return b.Y + 8 }

// First returns the rate itself, Second the text after the comma.
func (c podColumn) First() string { return strings.Split(c.Name, ", ")[0] }

// Second returns the state of the canary at that rate, if there was one.
func (c podColumn) Second() string {
	_, second, _ := strings.Cut(c.Name, ", ")
	return second
}
