package plot_test

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/bench/internal/plot"
)

// isXML fails if text is not well-formed.
func isXML(t *testing.T, text string) {
	t.Helper()
	for decoder := xml.NewDecoder(strings.NewReader(text)); ; {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
	}
}

// TestBars has values within and above their limits: the limit is at 0.6 of the longest bar.
func TestBars(t *testing.T) {
	t.Parallel()
	image := plot.Bars("A & B", []plot.Bar{
		{Label: "half", Text: "1 of 2", Share: 0.5},
		{Label: "<at>", Text: "2 of 2", Share: 1},
		{Label: "twice", Text: "4 of 2", Share: 2},
		{Label: "unknown", Text: "NaN", Share: math.NaN()},
	})
	isXML(t, image)
	for _, want := range []string{
		"A &amp; B", "&lt;at&gt;", `class="ok" x="430" y="45" width="104.4"`, `class="ok" x="430" y="65" width="208.8"`,
		`class="missed" x="430" y="85" width="348.0"`, `class="missed" x="430" y="105" width="0.0"`,
		`<line class="g" x1="638.8"`,
	} {
		if !strings.Contains(image, want) {
			t.Errorf("there is no %s in\n%s", want, image)
		}
	}
}

// TestLines has a series that falls, one without values and one of zeros.
func TestLines(t *testing.T) {
	t.Parallel()
	image := plot.Lines("Soak", plot.Diagram{Axis: "minutes", Series: []plot.Series{
		{Label: "MB", Values: []float64{100, 50, 0}}, {Label: "none"}, {Label: "zero", Values: []float64{0}},
	}})
	isXML(t, image)
	for _, want := range []string{`points="12.0,50.0 450.0,125.0 888.0,200.0 "`, "MB, up to 100", "minutes", `points=""`, `points="12.0,580.0 "`} {
		if !strings.Contains(image, want) {
			t.Errorf("there is no %s in\n%s", want, image)
		}
	}
}
