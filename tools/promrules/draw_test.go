package main

import (
	"context"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
)

// pictures is the folder of the pictures and of the recording.
const pictures = "../../docs/pictures"

// recorded returns the recording in docs.
func recorded(t *testing.T) recording {
	t.Helper()
	made, err := readRecording(filepath.Join(pictures, "dashboards.txt"))
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// TestPictures: each query of the dashboards has a result in the recorded run, and the pictures in docs are the
// results.
func TestPictures(t *testing.T) {
	made := recorded(t)
	for _, file := range boards(t) {
		board, err := readDashboard(file)
		if err != nil {
			t.Fatal(err)
		}
		want, err := draw(t.Context(), board, made)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		got, err := os.ReadFile(pictureOf(pictures, file))
		if err != nil || string(got) != want {
			t.Errorf("%s: %v: the picture is not current: run make dashboards-picture", file, err)
		}
		decoder := xml.NewDecoder(strings.NewReader(want))
		for err == nil {
			_, err = decoder.Token()
		}
		if !errors.Is(err, io.EOF) {
			t.Errorf("%s: the picture is not XML: %v", file, err)
		}
		for _, panel := range board.Panels {
			if !strings.Contains(want, ">"+panel.Title+"<") {
				t.Errorf("%s: the picture lacks panel %s", file, panel.Title)
			}
		}
	}
}

// TestDrawNeedsResults: a query that Prometheus rejects or that has no result, and a variable without a value, are
// errors with the name of the panel or of the variable.
func TestDrawNeedsResults(t *testing.T) {
	made := recorded(t)
	for _, test := range []struct{ name, expression, variable, want string }{
		{"a metric that nothing has", "kedify_missing_total", "", `panel "A": kedify_missing_total: no result`},
		{"an expression that is invalid", "sum(", "", `panel "A"`},
		{"another variable", "kedify_build_info{pod=\"$pod\"}", "", "a variable has no value"},
		{"a variable without values", "kedify_build_info", "label_values(kedify_missing_total, pod)", "variable v"},
		{"a variable of another form", "kedify_build_info", "query_result(kedify_build_info)", "is not label_values"},
	} {
		var board dashboard
		board.Panels = []panel{{Title: "A", Targets: []query{{Expr: test.expression}}}}
		if test.variable != "" {
			board.Templating.List = []variable{{Name: "v", Type: "query", Definition: test.variable}}
		}
		if _, err := draw(t.Context(), board, made); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want %q", test.name, err, test.want)
		}
	}
}

// TestRecording: a recording that is written and read has the same samples. A series that a scrape lacks ends there.
func TestRecording(t *testing.T) {
	var made scrapes
	file := filepath.Join(t.TempDir(), "recording.txt")
	if err := made.write(file); !errors.Is(err, errEmpty) {
		t.Errorf("without a scrape: %v", err)
	}
	const text = "# HELP kedify_a A.\nkedify_a{backend=\"x y\",le=\"+Inf\"} 1.5e-05\nkedify_b 0\ngo_goroutines 7\nkedify_bad\n"
	made.add(nil) // the cluster has not started yet
	for range 3 {
		made.add(parseMetrics(text, "one"))
	}
	made.add(parseMetrics("kedify_b 4", "one"))
	made.add(parseMetrics("kedify_b 4\nkedify_a{backend=\"x y\",le=\"+Inf\"} 2", "one"))
	made.add(nil) // the cluster has ended
	if err := made.write(file); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := "# scrapes: 5\nkedify_a{backend=\"x y\",le=\"+Inf\",pod=\"one\"} 1.5e-05x2 _x1 2\nkedify_b{pod=\"one\"} 0x2 4x1\n"
	if _, got, _ := strings.Cut(string(raw), "\n"); got != want {
		t.Errorf("the recording is\n%swant\n%s", got, want)
	}
	read, err := readRecording(file)
	if err != nil {
		t.Fatal(err)
	}
	for scrape, want := range []string{"0.000015", "0.000015", "0.000015", "", "2"} {
		query, err := startEngine(t).NewInstantQuery(t.Context(), read.data, nil, "kedify_a",
			time.Unix(0, 0).Add(time.Duration(scrape)*interval))
		if err != nil {
			t.Fatal(err)
		}
		vector, err := query.Exec(t.Context()).Vector()
		got := ""
		if len(vector) == 1 {
			got = vector[0].String()
			_, got, _ = strings.Cut(got, "=> ")
			got, _, _ = strings.Cut(got, " @")
		}
		if err != nil || got != want {
			t.Errorf("scrape %d: %q, %v, want %q", scrape, got, err, want)
		}
	}
}

// TestDrawing: gaps and values without a number are not drawn, and stacked series are on top of each other.
func TestDrawing(t *testing.T) {
	made := recording{scrapes: 4}
	for _, text := range []string{`m{s="a"} 1x1 _x1 1`, `m{s="b"} 3x3`, `z 0x3`} {
		one, err := newSeries(text, interval, true)
		if err != nil {
			t.Fatal(err)
		}
		made.data = append(made.data, one)
	}
	var p panel
	p.GridPos.W, p.GridPos.H = 12, 8
	p.FieldConfig.Defaults.Custom.Stacking.Mode = "normal"
	p.Targets = []query{{"m", "{{s}}"}, {"z / z", "none"}}
	picture, err := draw(context.WithoutCancel(t.Context()), dashboard{Panels: []panel{p}}, made)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(picture, "NaN") || strings.Contains(picture, "Inf") {
		t.Errorf("a value without a number is drawn:\n%s", picture)
	}
	// The two parts of a, and b, each with an area below.
	if got := strings.Count(picture, `fill="none"`); got != 3 || strings.Count(picture, "Z\"") != 3 {
		t.Errorf("%d lines, want 3:\n%s", got, picture)
	}
	if top := p.top([]line{}); top != 1 {
		t.Errorf("the upper end of an empty panel is %v", top)
	}
	for value, want := range map[float64]string{0.2: "20 %", math.Pi: "314 %", 15: "1500 %"} {
		p.FieldConfig.Defaults.Unit = "percentunit"
		if got := p.format(value); got != want {
			t.Errorf("%v is %q, want %q", value, got, want)
		}
	}
	if got := legendOf("{{s}} of {{t}}", labels.FromStrings("s", "a")); got != "a of " {
		t.Errorf("legend %q", got)
	}
}
