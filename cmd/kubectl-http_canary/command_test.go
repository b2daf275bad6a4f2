package main

import (
	"testing"
	"time"
)

// TestFormerFlags: scripts with the former name of a flag still work.
func TestFormerFlags(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"timeout", "time-limit"} {
		for _, verb := range []string{"doctor", "cleanup", "install", "uninstall", "try"} {
			command, _, err := newCommand().Find([]string{verb})
			if err != nil {
				t.Fatal(err)
			}
			if err := command.ParseFlags([]string{"--" + name, "7s"}); err != nil {
				t.Fatalf("%s --%s: %v", verb, name, err)
			}
			if got, err := command.Flags().GetDuration("timeout"); err != nil || got != 7*time.Second {
				t.Errorf("%s --%s 7s sets %v, %v", verb, name, got, err)
			}
		}
	}
}
