package testkit

import (
	"context"
	"testing"
	"time"
)

// pollEvery is how often Eventually looks.
const pollEvery = 10 * time.Millisecond

// Eventually waits until holds says true, and ends the test when it does not within patience. what says what is waited for.
func Eventually(tb testing.TB, patience time.Duration, what string, holds func() bool) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	defer cancel()
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for !holds() {
		select {
		case <-ctx.Done():
			tb.Fatalf("%s: not within %v", what, patience)
		case <-ticker.C:
		}
	}
}
