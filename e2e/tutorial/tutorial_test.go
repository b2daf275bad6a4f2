package tutorial

import (
	"os"
	"strings"
	"testing"
)

// TestReadFindsEveryStepOfThePage reads the page that the suite runs.
func TestReadFindsEveryStepOfThePage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/tutorials/first-canary.md")
	if err != nil {
		t.Fatal(err)
	}
	var requests, outputs int
	for _, step := range Read(string(page), "Next") {
		if strings.Contains(step.Commands, "curl") {
			requests++
		}
		if step.Output != "" {
			outputs++
		}
	}
	if requests < 4 || outputs < 10 {
		t.Errorf("the tutorial has %d steps that send requests and %d outputs, want at least 4 and 10", requests, outputs)
	}
}

func TestCompare(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		shown, printed string
		isDifferent    bool
	}{
		"equal":           {shown: "a b\nc\n", printed: "a   b\nc\n"},
		"colors":          {shown: "Status: Paused\n", printed: "Status: \x1b[33mPaused\x1b[0m\n"},
		"further lines":   {shown: "…\nc\n", printed: "a\nb\nc\nd\n"},
		"a missing line":  {shown: "a\nb\n", printed: "a\n", isDifferent: true},
		"the other order": {shown: "a\nb\n", printed: "b\na\n", isDifferent: true},
		"similar counts":  {shown: "40 \"blue\"\n10 \"yellow\"\n", printed: "     37 \"blue\"\n     13 \"yellow\"\n"},
		"another count": {
			shown:   "40 \"blue\"\n10 \"yellow\"\n",
			printed: "25 \"blue\"\n25 \"yellow\"\n", isDifferent: true,
		},
		"not all":                {shown: "50 \"blue\"\n", printed: "49 \"blue\"\n1 \"yellow\"\n", isDifferent: true},
		"the page shows nothing": {printed: "a\n"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := (Step{Output: test.shown}).Compare(test.printed); (err != nil) != test.isDifferent {
				t.Errorf("Compare returns %v, want an error: %t", err, test.isDifferent)
			}
		})
	}
}
