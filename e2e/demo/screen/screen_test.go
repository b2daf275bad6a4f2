package screen

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFramesAreRedrawnInPlaceBelowTheTranscript(t *testing.T) {
	var out strings.Builder
	s := New(&out, true, func() (int, int) { return 80, 24 })
	s.Frame([]string{"one", "two"})
	s.Frame([]string{"three"})
	s.Print("stays")
	s.Frame([]string{"four"})
	s.Frame(nil)
	s.Frame(nil)
	want := "one\ntwo\n" + "\x1b[2F\x1b[Jthree\n" + "\x1b[1F\x1b[Jstays\n" + "four\n" + "\x1b[1F\x1b[J"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}

func TestWithoutATerminalOnlyLines(t *testing.T) {
	var out strings.Builder
	s := New(&out, false, func() (int, int) { return 80, 24 })
	s.Frame([]string{"frame"})
	s.Print("line", "another")
	s.Frame(nil)
	if got := out.String(); got != "line\nanother\n" {
		t.Errorf("output %q", got)
	}
}

func TestFitKeepsHeadAndEnd(t *testing.T) {
	lines := []string{"a", "b", "c", "d", "e", "f"}
	for rows, want := range map[int]string{6: "abcdef", 5: "abcdf", 4: "abcd", 3: "abc", 0: ""} {
		if got := strings.Join(fit(lines, rows), ""); got != want {
			t.Errorf("%d rows: %q, want %q", rows, got, want)
		}
	}
}
