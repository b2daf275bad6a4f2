package picture

import (
	_ "embed"
	"fmt"
	"strings"
	"text/template"
)

//go:embed demo.svg.tmpl
var source string

// Palette are the colours of a picture, as SVG has them.
type Palette map[string]string

// Light is for a light page.
func Light() Palette {
	return Palette{
		"page": "#ffffff", "edge": "#d0d7de", "text": "#1f2328", "faint": "#59636e", "good": "#1a7f37",
		"bad": "#cf222e", "mark": "#1f2328",
		"blue": "#0969da", "yellow": "#d4a72c", "purple": "#8250df", "track": "#eaeef2",
	}
}

// Dark is for a dark page.
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
	// canariesEnd and ratesEnd are when the last state of each half is drawn. The rest of the time nothing moves.
	start, canariesEnd, ratesEnd, loop = 0.5, 9.0, 14.0, 19.0
)

// Draw draws a run. All that moves is there at once where the reader's system asks for no motion.
func Draw(r Run, colors Palette) (string, error) {
	picture, err := template.New("demo.svg").Funcs(template.FuncMap{"color": func(name string) (string, error) {
		if colors[name] == "" {
			return "", fmt.Errorf("no palette has the colour %q", name)
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

// layout is what the template places.
type layout struct {
	Run

	Bars   []bar
	Titles []title
	Pods   []podColumn
	// RatesTop is where the second half begins, Height is the picture's.
	RatesTop, Height float64
	// Loop is how long the picture moves until it begins anew, in seconds.
	Loop float64
}

// title stands above the steps of a canary.
type title struct {
	Y    float64
	Text string
}

// bar is the split at one step.
type bar struct {
	Step

	// Tick is where the asked share ends, Left and End are the ends of the interval.
	Y, Width, Tick, Left, End float64
	// Other is the colour of the requests that were not counted.
	Other string
	// Appears and Grown are when the bar begins and ends to grow, in percent of the loop.
	Appears, Grown float64
	N              int
}

// podColumn are the replicas at one rate.
type podColumn struct {
	Rate

	X       float64
	Squares []pod
	Appears float64
	N       int
}

// pod is one replica.
type pod struct {
	X, Y  float64
	Color string
}

// layoutOf places everything.
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

// moment is when something is drawn, in percent of the loop: its own time between those of the first and the last one.
func moment(at, first, last, from, to float64) float64 {
	share := 0.0
	if last > first {
		share = (at - first) / (last - first)
	}
	return 100 * (from + share*(to-from)) / loop
}

// barOf places a step.
func barOf(s Step, n int, y, appears float64) bar {
	b := bar{
		Step: s, N: n, Y: y, Appears: appears, Grown: appears + 4, Other: s.From,
		Width: barWidth * s.Measured / 100, Tick: barLeft + barWidth*s.Asked/100,
		Left: barLeft + barWidth*s.Low/100, End: barLeft + barWidth*s.High/100,
	}
	if s.Color == s.From {
		b.Other = s.To
	}
	return b
}

// podsOf places the replicas of a rate, five in a row.
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

// Size is the side of a replica's square.
func (pod) Size() float64 { return podSize }

// Base is where a step's words stand.
func (b bar) Base() float64 { return b.Y + 13 }

// Middle is the line of a step's interval.
func (b bar) Middle() float64 { return b.Y + 8 }

// First is the rate itself, Second what stands behind the comma.
func (c podColumn) First() string { return strings.Split(c.Name, ", ")[0] }

// Second says in which state of a canary the rate was, if there was one.
func (c podColumn) Second() string {
	_, second, _ := strings.Cut(c.Name, ", ")
	return second
}
