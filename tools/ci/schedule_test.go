package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// duration is how long an attempt of a stage takes: no two stages that run at the same time end at the same moment.
func duration(stage Stage) time.Duration {
	seconds := map[string]int{"build": 10, "lint": 12, "docs": 7, "site": 8}
	return time.Duration(max(1, seconds[stage.Name])) * time.Second
}

// scripted is an Executor with scripted results.
type scripted struct {
	mu sync.Mutex
	// failures is how many attempts of a stage fail.
	failures map[string]int
	cached   []string
	// events are the begins and ends of stages, such as "+unit" and "-unit".
	events []string
}

func (s *scripted) note(event string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, event)
}

func (s *scripted) attempt(stage Stage, success Status) Result {
	s.note("+" + stage.Name)
	time.Sleep(duration(stage)) // The clock is synctest's.
	s.note("-" + stage.Name)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failures[stage.Name] > 0 {
		s.failures[stage.Name]--
		return Result{Stage: stage, Status: Failed}
	}
	return Result{Stage: stage, Status: success}
}

func (s *scripted) First(_ context.Context, stage Stage) Result {
	if slices.Contains(s.cached, stage.Name) {
		return Result{Stage: stage, Status: Cached}
	}
	return s.attempt(stage, Passed)
}

func (s *scripted) Again(_ context.Context, failed Result) Result {
	return s.attempt(failed.Stage, Flaky)
}

func statuses(results []Result) string {
	var text []string
	for _, r := range results {
		text = append(text, fmt.Sprintf("%s %s", r.Stage.Name, r.Status))
	}
	return strings.Join(text, ", ")
}

func TestRun(t *testing.T) {
	build, unit, lint := Stage{Name: "build"}, Stage{Name: "unit", Needs: []string{"build"}}, Stage{Name: "lint"}
	demo := Stage{Name: "demo", Needs: []string{"build"}, After: []string{"unit"}}
	tests := []struct {
		name     string
		stages   []Stage
		failures map[string]int
		cached   []string
		// events are in the order of time; what begins at the same moment is sorted.
		events, want string
	}{
		{
			name: "two at a time, in order", stages: []Stage{build, lint, {Name: "docs"}},
			events: "+build +lint -build +docs -lint -docs", want: "build passed, lint passed, docs passed",
		},
		{
			name: "a stage waits for what it needs and what it comes after", stages: []Stage{demo, unit, build},
			events: "+build -build +unit -unit +demo -demo", want: "demo passed, unit passed, build passed",
		},
		{
			name: "a stage that is alone", stages: []Stage{lint, {Name: "faults", Alone: true}, {Name: "docs"}},
			events: "+docs +lint -docs -lint +faults -faults", want: "lint passed, faults passed, docs passed",
		},
		{
			name: "cached stages do not run, and satisfy needs", stages: []Stage{build, unit}, cached: []string{"build"},
			events: "+unit -unit", want: "build cached, unit passed",
		},
		{
			name: "a failed stage runs again after all others", stages: []Stage{build, unit, demo},
			failures: map[string]int{"unit": 1},
			events:   "+build -build +unit -unit +demo -demo +unit -unit", want: "build passed, unit flaky, demo passed",
		},
		{
			name: "a stage that fails twice fails", stages: []Stage{build, lint}, failures: map[string]int{"lint": 2},
			events: "+build +lint -build -lint +lint -lint", want: "build passed, lint failed",
		},
		{
			name: "what needs a flaky stage runs late", stages: []Stage{build, unit, demo}, failures: map[string]int{"build": 1},
			events: "+build -build +build -build +unit -unit +demo -demo", want: "build flaky, unit passed, demo passed",
		},
		{
			name: "a late stage has two attempts, too", stages: []Stage{build, unit},
			failures: map[string]int{"build": 1, "unit": 1},
			events:   "+build -build +build -build +unit -unit +unit -unit", want: "build flaky, unit flaky",
		},
		{
			name: "what needs a failed stage is skipped", stages: []Stage{build, unit, lint, demo},
			failures: map[string]int{"build": 2},
			events:   "+build +lint -build -lint +build -build", want: "build failed, unit skipped, lint passed, demo skipped",
		},
		{
			name:     "a stage does not wait for one that can't run",
			stages:   []Stage{build, unit, {Name: "clean", After: []string{"unit"}}},
			failures: map[string]int{"build": 2},
			events:   "+build -build +clean -clean +build -build", want: "build failed, unit skipped, clean passed",
		},
		{
			name: "needs of another tier are ignored", stages: []Stage{unit, demo},
			events: "+unit -unit +demo -demo", want: "unit passed, demo passed",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				executor := &scripted{failures: tt.failures, cached: tt.cached}
				results := Run(t.Context(), tt.stages, executor)
				if got := statuses(results); got != tt.want {
					t.Errorf("results: %s\nwant:    %s", got, tt.want)
				}
				if got := ordered(executor.events); got != tt.events {
					t.Errorf("events: %s\nwant:   %s", got, tt.events)
				}
			})
		})
	}
}

// ordered sorts neighboring begins, because they happen at the same moment.
func ordered(events []string) string {
	var groups [][]string
	for _, event := range events {
		if n := len(groups); n > 0 && event[0] == '+' && groups[n-1][0][0] == '+' {
			groups[n-1] = append(groups[n-1], event)
			continue
		}
		groups = append(groups, []string{event})
	}
	var sorted []string
	for _, group := range groups {
		slices.Sort(group)
		sorted = append(sorted, group...)
	}
	return strings.Join(sorted, " ")
}

func TestAnInterruptedRunStartsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second/2, cancel)
		executor := &scripted{failures: map[string]int{"build": 1}}
		results := Run(ctx, []Stage{{Name: "build"}, {Name: "lint", After: []string{"build"}}}, executor)
		if got, want := statuses(results), "build failed, lint skipped"; got != want {
			t.Errorf("results: %s, want %s", got, want)
		}
	})
}

// TestStages checks the tables of all tiers: a typo in a name would otherwise drop a dependency.
func TestStages(t *testing.T) {
	everything, targets := full(), makefiles(t)
	for name, tier := range tiers() {
		t.Run(name, func(t *testing.T) {
			stages := tier()
			seen := map[string]bool{}
			for _, s := range stages {
				if seen[s.Name] {
					t.Errorf("there are two stages %s", s.Name)
				}
				seen[s.Name] = true
				if !strings.Contains(targets, "\n"+s.Make[0]+":") {
					t.Errorf("%s calls make %s, which does not exist", s.Name, s.Make[0])
				}
				for _, input := range s.Inputs {
					if _, err := os.Stat(filepath.Join("..", "..", input)); err != nil {
						t.Errorf("%s: %v", s.Name, err)
					}
				}
				for _, other := range slices.Concat(s.Needs, s.After) {
					if !slices.ContainsFunc(everything, func(s Stage) bool { return s.Name == other }) {
						t.Errorf("%s refers to %s, which no tier has", s.Name, other)
					}
				}
			}
			synctest.Test(t, func(t *testing.T) {
				for _, r := range Run(t.Context(), stages, &scripted{}) {
					if r.Status != Passed {
						t.Errorf("%s is %s", r.Stage.Name, r.Status)
					}
				}
			})
		})
	}
}

// makefiles is the text of the Makefile and of the files that it includes.
func makefiles(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob("../../make/*.mk")
	if err != nil || len(files) == 0 {
		t.Fatal("there are no files in make/ ", err)
	}
	var text strings.Builder
	for _, file := range append(files, "../../Makefile") {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text.Write(content)
	}
	return text.String()
}
