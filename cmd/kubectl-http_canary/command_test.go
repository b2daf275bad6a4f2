package main

import (
	"strings"
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

// TestTimeout: 0s means no limit for every command with --timeout, and a negative time is an error.
func TestTimeout(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"doctor", "cleanup", "install", "uninstall", "try"} {
		for text, isValid := range map[string]bool{
			"0s": true, "0": true, "0h": true, "90s": true, "1h30m": true,
			"-1s": false, "-0.5h": false, "": false, "1": false, "forever": false, "99999999h": false,
		} {
			command, _, err := newCommand().Find([]string{verb})
			if err != nil {
				t.Fatal(err)
			}
			if err := command.ParseFlags([]string{"--timeout=" + text}); (err == nil) != isValid {
				t.Errorf("%s --timeout=%s: error %v", verb, text, err)
			} else if err != nil && !strings.Contains(err.Error(), "0s means no limit") {
				t.Errorf("%s --timeout=%s: the error has no fix: %v", verb, text, err)
			}
		}
	}
}

func TestWithTimeout(t *testing.T) {
	t.Parallel()
	for timeout, want := range map[time.Duration]bool{0: false, time.Hour: true} {
		ctx, cancel := withTimeout(t.Context(), timeout)
		if _, got := ctx.Deadline(); got != want || ctx.Err() != nil {
			t.Errorf("%v: has a deadline: %t, want %t; %v", timeout, got, want, ctx.Err())
		}
		cancel()
		if ctx.Err() == nil {
			t.Errorf("%v: the context is not cancelled", timeout)
		}
	}
}
