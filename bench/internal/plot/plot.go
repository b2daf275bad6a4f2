// Package plot draws the results of benchmarks as SVG images, which show light and dark with the system's setting. The
// same values result in the same image.
package plot

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// The measures of the images, in pixels.
const (
	width, rowHeight, margin = 900, 20, 12
	labelWidth, valueWidth   = 430, 110
	lineHeight               = 150
)

// style are the colors of all images.
const style = `<style>text{font:12px sans-serif;fill:#24292f}.t{font-weight:bold}.g{stroke:#8c959f;stroke-width:1}` +
	`.ok{fill:#2da44e}.missed{fill:#cf222e}.l{fill:none;stroke:#0969da;stroke-width:1.5}` +
	`@media(prefers-color-scheme:dark){text{fill:#e6edf3}.g{stroke:#6e7681}.l{stroke:#58a6ff}}</style>`

// Bar is a value as a share of its limit.
type Bar struct {
	// Label names the value, and Text shows it and its limit.
	Label, Text string
	// Share is the value divided by its limit: at most 1 is within the limit.
	Share float64
}

// Bars draws bars below each other, with a line where the limit is.
func Bars(title string, bars []Bar) string {
	const limitAt = 0.6 // of the width of the longest bar
	from, full := float64(labelWidth), float64(width-labelWidth-valueWidth-margin)
	height := (len(bars)+2)*rowHeight + margin //nolint:mnd // the title and the name of the line
	var rows strings.Builder
	for i, bar := range bars {
		class, y := "ok", (i+2)*rowHeight //nolint:mnd // the title and the name of the line
		if !(bar.Share <= 1) {            // also NaN
			class = "missed"
		}
		length := min(max(bar.Share, 0), 1/limitAt)
		if math.IsNaN(length) {
			length = 0
		}
		fmt.Fprintf(&rows, `<text x="%d" y="%d" text-anchor="end">%s</text><rect class="%s" x="%d" y="%d" width="%.1f" height="%d"/>`+
			`<text x="%d" y="%d">%s</text>`+"\n",
			labelWidth-margin/2, y+rowHeight*3/4, html.EscapeString(bar.Label), class, labelWidth, y+rowHeight/4,
			length*limitAt*full, rowHeight/2, width-valueWidth, y+rowHeight*3/4, html.EscapeString(bar.Text))
	}
	at := from + limitAt*full
	line := fmt.Sprintf(`<line class="g" x1="%.1f" x2="%.1f" y1="%d" y2="%d"/><text x="%.1f" y="%d">limit</text>`+"\n",
		at, at, 2*rowHeight, height-margin, at, 2*rowHeight-margin/4) //nolint:mnd // below the title
	return image(title, height, rows.String()+line)
}

// Series are values at equal distances.
type Series struct {
	// Label names the values, with their unit.
	Label  string    `json:"label"`
	Values []float64 `json:"values"`
}

// Diagram is a set of series with a common horizontal axis.
type Diagram struct {
	// Axis names the horizontal axis.
	Axis   string   `json:"axis"`
	Series []Series `json:"series"`
}

// Lines draws each series on its own, from zero to its highest value.
func Lines(title string, diagram Diagram) string {
	series, axis := diagram.Series, diagram.Axis
	var parts strings.Builder
	for i, next := range series {
		top := rowHeight*3/2 + i*(lineHeight+2*rowHeight) //nolint:mnd // a row for the label, and one for the space
		highest := 0.0
		for _, value := range next.Values {
			highest = max(highest, value)
		}
		fmt.Fprintf(&parts, `<text x="%d" y="%d">%s, up to %.4g</text>`+"\n", margin, top+rowHeight*3/4,
			html.EscapeString(next.Label), highest)
		bottom := top + rowHeight + lineHeight
		fmt.Fprintf(&parts, `<line class="g" x1="%d" x2="%d" y1="%d" y2="%d"/>`+"\n", margin, width-margin, bottom, bottom)
		parts.WriteString(`<polyline class="l" points="`)
		for n, value := range next.Values {
			x := margin + float64(n)*float64(width-2*margin)/float64(max(1, len(next.Values)-1))
			fmt.Fprintf(&parts, "%.1f,%.1f ", x, float64(bottom)-value/max(highest, math.SmallestNonzeroFloat64)*lineHeight)
		}
		parts.WriteString(`"/>` + "\n")
	}
	height := rowHeight*3 + len(series)*(lineHeight+2*rowHeight) //nolint:mnd // title, axis and space
	fmt.Fprintf(&parts, `<text x="%d" y="%d">%s</text>`+"\n", margin, height-margin, html.EscapeString(axis))
	return image(title, height, parts.String())
}

// image returns an image with a title.
func image(title string, height int, content string) string {
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img"><title>%s</title>%s`+"\n"+
		`<text class="t" x="%d" y="%d">%s</text>`+"\n%s</svg>\n",
		width, height, html.EscapeString(title), style, margin, rowHeight*3/4, html.EscapeString(title), content)
}
