package main

import (
	"os"
	"path/filepath"
	"slices"
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
