// Package tutorial reads the commands of a tutorial page and their expected output.
package tutorial

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Step is a block of commands.
type Step struct {
	// Commands are lines of shell.
	Commands string
	// Output is the expected output, empty if the page shows none.
	Output string
}

// Read returns the steps of a page up to the given heading. Commands are blocks of sh and bash, outputs are blocks of
// text.
func Read(page, until string) []Step {
	page, _, _ = strings.Cut(page, "\n## "+until+"\n")
	var steps []Step
	for _, block := range regexp.MustCompile("(?ms)^```(sh|bash|text)\n(.*?)^```$").FindAllStringSubmatch(page, -1) {
		switch {
		case block[1] != "text":
			steps = append(steps, Step{Commands: block[2]})
		case len(steps) > 0:
			steps[len(steps)-1].Output = block[2]
		}
	}
	return steps
}

// count is a line of `uniq -c`.
var count = regexp.MustCompile(`^(\d+) ("\w+")$`)

// Tolerance bounds the difference between a count that the page shows and a printed one. Of 50 requests at 20 % the
// standard deviation is 2.8.
const Tolerance = 8

// Compare returns an error if a line of the shown output is not in the printed one, in this order. Spaces and colors do
// not matter, a line "…" stands for any lines. Counts of 50 have to match exactly, other counts within Tolerance.
func (s Step) Compare(printed string) error {
	rest := lines(regexp.MustCompile("\x1b\\[[0-9]*m").ReplaceAllString(printed, ""))
	for _, shown := range lines(s.Output) {
		if shown == "…" {
			continue
		}
		index := indexOf(rest, shown)
		if index < 0 {
			return fmt.Errorf("the output has no line %q after the lines before it:\n%s", shown, printed)
		}
		rest = rest[index+1:]
	}
	return nil
}

// indexOf returns the index of the first printed line that matches a shown one, or -1.
func indexOf(printed []string, shown string) int {
	for index, line := range printed {
		if line == shown || isSimilarCount(line, shown) {
			return index
		}
	}
	return -1
}

// isSimilarCount reports whether both lines count the same answer, and the counts are similar.
func isSimilarCount(printed, shown string) bool {
	got, want := count.FindStringSubmatch(printed), count.FindStringSubmatch(shown)
	if got == nil || want == nil || got[2] != want[2] || want[1] == "50" {
		return false
	}
	gotCount, gotErr := strconv.Atoi(got[1])
	wantCount, wantErr := strconv.Atoi(want[1])
	return gotErr == nil && wantErr == nil && max(gotCount-wantCount, wantCount-gotCount) <= Tolerance
}

// lines returns the lines of a text that are not empty, with single spaces.
func lines(text string) []string {
	var all []string
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) > 0 {
			all = append(all, strings.Join(fields, " "))
		}
	}
	return all
}
