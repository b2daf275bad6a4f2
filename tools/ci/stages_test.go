package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestStagesNameWhatExists: an input that was moved would leave a stage cached although its files have changed.
func TestStagesNameWhatExists(t *testing.T) {
	t.Parallel()
	for tier, stages := range tiers() {
		names := make([]string, 0, len(stages()))
		for _, s := range stages() {
			if slices.Contains(names, s.Name) {
				t.Errorf("tier %s has two stages %q", tier, s.Name)
			}
			names = append(names, s.Name)
		}
		for _, s := range stages() {
			for _, input := range s.Inputs {
				if _, err := os.Stat(filepath.Join("..", "..", input)); err != nil {
					t.Errorf("tier %s, stage %s: input %v", tier, s.Name, err)
				}
			}
			for _, other := range slices.Concat(s.Needs, s.After) {
				if !slices.Contains(names, other) && tier == "full" {
					t.Errorf("tier %s, stage %s: there is no stage %q", tier, s.Name, other)
				}
			}
		}
	}
}

// TestInputsOfAlerts: the stage "alerts" depends on every file outside of tools/promrules that the module reads.
// Otherwise it would be cached although one of them has changed.
func TestInputsOfAlerts(t *testing.T) {
	t.Parallel()
	at := slices.IndexFunc(landing(), func(s Stage) bool { return s.Name == "alerts" })
	if at < 0 {
		t.Fatal("there is no stage alerts")
	}
	inputs := landing()[at].Inputs
	files, err := filepath.Glob("../promrules/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("files %v, %v", files, err)
	}
	count := 0
	for _, file := range append(files, "../promrules/go.mod") {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range regexp.MustCompile(`"\.\./\.\./([^"*]+)[^"]*"`).FindAllStringSubmatch(string(content), -1) {
			count++
			if !slices.ContainsFunc(inputs, func(input string) bool {
				return strings.HasPrefix(path[1]+"/", input+"/")
			}) {
				t.Errorf("%s reads %s, which is not below %v", file, path[1], inputs)
			}
		}
	}
	if count == 0 {
		t.Error("no file is read: the expression is wrong")
	}
}
