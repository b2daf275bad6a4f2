package picture_test

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/e2e/demo/picture"
	"github.com/kedify/argo-rollouts-plugin/e2e/demo/report"
)

// pictures is the folder with the committed pictures and the run that they show.
const pictures = "../../../docs/pictures/"

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func draw(t *testing.T, file string, colors picture.Palette) string {
	t.Helper()
	run, err := picture.Parse(read(t, file))
	if err != nil {
		t.Fatal(err)
	}
	drawn, err := picture.Draw(run, colors)
	if err != nil {
		t.Fatal(err)
	}
	return drawn
}

func TestPicturesMatchRecordedRun(t *testing.T) {
	for name, colors := range map[string]picture.Palette{
		"demo-light.svg": picture.Light(),
		"demo-dark.svg":  picture.Dark(),
	} {
		drawn := draw(t, pictures+"demo.txt", colors)
		if diff := cmp.Diff(drawn, read(t, pictures+name)); diff != "" {
			t.Errorf("%s is not what is drawn of demo.txt: run `make picture` (-drawn +there):\n%s", name, diff)
		}
	}
}

// A page embeds a picture as a file: well-formed XML without references or scripts.
func TestPicturesAreSelfContained(t *testing.T) {
	files, err := filepath.Glob(pictures + "*.svg")
	if err != nil || len(files) < 3 {
		t.Fatalf("pictures %v, %v", files, err)
	}
	for _, file := range files {
		for decoder := xml.NewDecoder(strings.NewReader(read(t, file))); ; {
			token, err := decoder.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s is no XML: %v", file, err)
			}
			element, ok := token.(xml.StartElement)
			if ok && (element.Name.Local == "script" ||
				slices.ContainsFunc(element.Attr, func(a xml.Attr) bool { return a.Name.Local == "href" })) {
				t.Errorf("%s has an element %s that loads or runs something", file, element.Name.Local)
			}
		}
	}
}

// The input is a second real run of the same demo. Without the numbers the pictures are equal; the number of replicas
// is one of them.
func TestPictureOfAnotherRun(t *testing.T) {
	withoutFigures := func(drawn string) string {
		drawn = regexp.MustCompile(`of [0-9a-f]{7,}<`).ReplaceAllString(drawn, "of #<")
		drawn = regexp.MustCompile(`[0-9]+(?:[. ][0-9]+)*`).ReplaceAllString(drawn, "#")
		return regexp.MustCompile(`(<rect x="#" y="#" width="#" height="#" rx="#" fill="[^"]*"/>)+\n<text`).ReplaceAllString(drawn, "pods\n<text")
	}
	one, other := draw(t, pictures+"demo.txt", picture.Light()), draw(t, "testdata/another.txt", picture.Light())
	if one == other {
		t.Fatal("two runs have the same figures: the second is a copy of the first")
	}
	if diff := cmp.Diff(withoutFigures(one), withoutFigures(other)); diff != "" {
		t.Errorf("more than figures differs (-one +other):\n%s", diff)
	}
}

// log returns the output of a run, with tables drawn as by the demo.
func log(t *testing.T) string {
	t.Helper()
	style := report.Style{}
	rows := []report.Row{
		{
			Canary: "blue → yellow", Step: "20 %", Color: "yellow", Desired: 0.2, Annotation: "80/20",
			Acked: "80/20", Envoy: "80/20",
			Colors: map[string]int{"blue": 1600, "yellow": 400}, Done: 2000, State: report.Passed,
		},
		{
			Canary: "blue → yellow", Step: "done", Color: "yellow", Desired: 1, Annotation: "–", Acked: "–", Envoy: "100",
			Colors: map[string]int{"blue": 1, "yellow": 1999}, Done: 2000, Errors: 3, State: report.Failed,
		},
	}
	lines := []string{
		"make: a line that is not drawn, with /a/path", "Canary demo, v1.2.3",
		"The load runs: 250 requests/s through kedify-proxy, and so on",
		"", "Canary blue → yellow", "[11.2 s] 20 %: desired 20 % yellow, annotation 80/20, ACKed 80/20, Envoy runs 80/20",
		"[81.2 s] done: desired 100 % yellow, annotation –, ACKed –, Envoy runs 100", "Summary",
	}
	lines = append(lines, style.Table(rows)...)
	lines = append(lines, style.Checks([]report.Check{{
		Name:   "no request failed",
		Detail: "3 of 28 347; 3 × HTTP status 503",
	}})...)
	lines = append(lines, "123.0 s in all.", "Canary demo, v1.2.3",
		"[125.4 s] 45 requests/s, canary at 20 %: 9 replicas expected, 9 stable and 2 canary after 33.2 s")
	lines = append(lines, style.Checks([]report.Check{{
		Name:   "no request of the app that scales failed",
		Detail: "0 of 4 069", OK: true,
	}})...)
	return strings.Join(append(lines, "172.5 s in all.", ""), "\n")
}

func TestParse(t *testing.T) {
	want := picture.Run{
		Version: "v1.2.3", Rate: "250", Seconds: 123,
		Steps: []picture.Step{
			{
				From: "blue", To: "yellow", Color: "yellow", Name: "20 %", At: 11.2, Desired: 20, Measured: 20, Low: 18.3, High: 21.8,
				Sample: "2 000", Passed: true,
			},
			{
				From: "blue", To: "yellow", Color: "yellow", Name: "done", At: 81.2, Desired: 100, Measured: 99.95, Low: 99.7,
				High: 100, Sample: "2 000",
			},
		},
		Rates: []picture.Rate{{
			Name: "45 requests/s, canary at 20 %", At: 125.4, After: 33.2,
			Expected: 9, Stable: 9, Canary: 2,
		}},
		Canaries: picture.Requests{Failed: "3", Made: "28 347"}, Scaling: picture.Requests{Failed: "0", Made: "4 069"},
	}
	kept := picture.Extract(log(t))
	for name, text := range map[string]string{"a log": log(t), "what is kept of it": kept} {
		got, err := picture.Parse(text)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if strings.Contains(kept, "/a/path") {
		t.Errorf("what is kept has more than what is drawn:\n%s", kept)
	}
}

func TestParseIncompleteRun(t *testing.T) {
	whole := log(t)
	firstHalf, _, _ := strings.Cut(whole, "[125.4 s]")
	for name, text := range map[string]string{
		"empty":                   "",
		"no step":                 strings.ReplaceAll(whole, "s] 20 %:", "s]"),
		"a step without figures":  strings.Replace(whole, "[99.7, 100.0]", "", 1),
		"no rate":                 strings.Replace(whole, "9 replicas expected", "", 1),
		"no count of requests":    strings.Replace(whole, "no request failed", "", 1),
		"the canaries' half only": firstHalf,
		"no end":                  strings.ReplaceAll(whole, " s in all.", ""),
	} {
		if _, err := picture.Parse(text); !errors.Is(err, picture.ErrIncomplete) {
			t.Errorf("%s: %v, want %v", name, err, picture.ErrIncomplete)
		}
	}
}

func TestUnknownColor(t *testing.T) {
	run, err := picture.Parse(strings.ReplaceAll(log(t), "blue", "orange"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := picture.Draw(run, picture.Light()); err == nil || !strings.Contains(err.Error(), `"orange"`) {
		t.Errorf("drawn with %v", err)
	}
}
