// Package invariant reports broken invariants of the product. A run lists them even if a second run of the test passes.
package invariant

import (
	"fmt"
	"strings"
	"testing"
)

// Prefix begins each report of a broken invariant.
const Prefix = "invariant broken: "

// The kinds of invariants.
const (
	// FailedRequests are requests that got no good answer although one was possible.
	FailedRequests = "failed requests"
	// UnexpectedWeights are weights that no step requested.
	UnexpectedWeights = "unexpected weights"
	// EarlyACK is an acknowledgement before each Envoy ran what it acknowledges.
	EarlyACK = "ACK before Envoy"
	// Split is a traffic split other than the active weights.
	Split = "split"
	// End is a wrong state after the end of a rollout.
	End = "end"
)

// Broken marks the test as failed and prints the Line of a broken invariant.
func Broken(tb testing.TB, kind, format string, args ...any) {
	tb.Helper()
	tb.Error(Line(kind, fmt.Sprintf(format, args...)))
}

// Line returns the report of a broken invariant. It is one line: line breaks of the text become semicolons.
func Line(kind, text string) string {
	return Prefix + kind + ": " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "; ")
}
