package report

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files again and remove unused ones")

func rows() []Row {
	row := func(step string, desired float64, colors map[string]int, sigmas float64) Row {
		r := Row{
			Canary: "blue → yellow", Step: step, Color: "yellow", Desired: desired, Annotation: "80/20",
			Acked: "80/20", Envoy: "80/20",
			Colors: colors, P50: 1234 * time.Microsecond, P99: 6789 * time.Microsecond, Sigmas: sigmas, State: Passed,
		}
		for _, n := range colors {
			r.Done += n
		}
		r.Planned = r.Done
		return r
	}
	done := row("done", 1, map[string]int{"yellow": 2000}, 0)
	done.Annotation, done.Acked, done.Envoy = "–", "–", "100"
	swapped := row("20 %", 0.2, map[string]int{"purple": 3199, "yellow": 801}, 94.8)
	swapped.Canary, swapped.Color, swapped.State, swapped.Errors = "yellow → purple", "purple", Failed, 3
	return []Row{row("20 %", 0.2, map[string]int{"blue": 1593, "yellow": 407}, 0.4), done, swapped}
}

func live() Live {
	measuring := Row{
		Canary: "yellow → purple", Step: "50 %", Color: "purple", Desired: 0.5, Annotation: "50/50",
		Acked: "50/50", Envoy: "50/50",
		Colors: map[string]int{"yellow": 300, "purple": 310}, Planned: 2000, Done: 610, State: Measuring,
	}
	waiting := Row{
		Canary: "yellow → purple", Step: "aborted", Color: "yellow", Desired: 1, Annotation: "–",
		Acked: "0 of 1", Envoy: "50/50",
	}
	return Live{
		Elapsed: 83 * time.Second, Activity: "waiting for Envoy to run the requested split", Rate: 250,
		Colors: map[string]int{"yellow": 124, "purple": 126}, Ended: 18123, Failed: 3, InFlight: 2,
		Annotation: "–", Acked: "0 of 1", Envoy: "50/50",
		Rows: append(rows(), measuring, waiting),
	}
}

func replicas() []Replicas {
	return []Replicas{
		{Step: "8 requests/s", Rate: 8, Expected: 2, Desired: 2, Stable: 2, After: 3 * time.Second, State: Passed},
		{
			Step: "25 requests/s", Rate: 25, Expected: 5, Desired: 12, Stable: 11, Canary: 0, After: 3 * time.Minute,
			State: Failed,
		},
		{Step: "45 requests/s, canary at 20 %", Rate: 45, Expected: 9, Desired: 5, Stable: 5, Canary: 1},
	}
}

func TestGolden(t *testing.T) {
	scenarios := map[string]func() []string{
		"replicas": func() []string { return Style{}.ReplicasTable(replicas()) },
		"frame-replicas": func() []string {
			return Style{}.ReplicasFrame(LiveReplicas{
				Elapsed: 83 * time.Second, Activity: "waiting", Ended: 1234,
				Failed: 1, Rows: replicas(),
			}, 100)
		},
		"table": func() []string { return Style{}.Table(rows()) },
		"bars": func() []string {
			var lines []string
			for _, r := range rows() {
				lines = append(append(lines, Style{}.Bars(r)...), Style{}.Verdict(r), "")
			}
			return lines
		},
		"frame":        func() []string { return Style{}.Frame(live(), 120) },
		"frame-narrow": func() []string { return Style{}.Frame(live(), 60) },
		"frame-color":  func() []string { return Style{Color: true}.Frame(live(), 100) },
		"frame-empty":  func() []string { return Style{}.Frame(Live{Activity: "waiting for the first answer"}, 80) },
		"checks": func() []string {
			return Style{}.Checks([]Check{
				{Name: "no request failed", Detail: "0 of 27 431", OK: true},
				{Name: "the annotation is gone", Detail: "80/20"},
			})
		},
	}
	for name, draw := range scenarios {
		t.Run(name, func(t *testing.T) {
			golden(t, filepath.Join("testdata", name+".golden"), strings.Join(draw(), "\n")+"\n")
		})
	}
	orphans(t, func(name string) bool { _, ok := scenarios[strings.TrimSuffix(name, ".golden")]; return ok })
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// orphans fails for golden files that no test case uses, or removes them.
func orphans(t *testing.T, known func(name string) bool) {
	t.Helper()
	entries, err := os.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		switch {
		case known(entry.Name()):
		case *update:
			if err := os.Remove(filepath.Join("testdata", entry.Name())); err != nil {
				t.Fatal(err)
			}
		default:
			t.Errorf("testdata/%s belongs to no scenario", entry.Name())
		}
	}
}

func TestFramesKeepTheirWidth(t *testing.T) {
	for _, style := range []Style{{}, {Color: true}} {
		for _, columns := range []int{20, 60, 80, 200} {
			for _, line := range style.Frame(live(), columns) {
				if got := width(line); got > columns {
					t.Errorf("%d columns: %q takes %d", columns, line, got)
				}
				if strings.Count(line, "\x1b[") != 2*strings.Count(line, "\x1b[0m") {
					t.Errorf("%q leaves a color open", line)
				}
			}
		}
	}
}

func TestNumbers(t *testing.T) {
	var got []string
	for _, n := range []int{0, 999, 1000, 27431, 1234567, -1000, -100} {
		got = append(got, Count(n))
	}
	got = append(got, Latency(1234*time.Microsecond), Seconds(61234*time.Millisecond), Percent(0.2), Percent(0.125),
		Percent(1), clock(603*time.Second))
	want := []string{
		"0", "999", "1 000", "27 431", "1 234 567", "-1 000", "-100", "1.2 ms", "61.2 s",
		"20 %", "12.5 %", "100 %", "10:03",
	}
	if !slices.Equal(got, want) {
		t.Errorf("numbers %q, want %q", got, want)
	}
}
