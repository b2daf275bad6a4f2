package testbed

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Transcript is a record of commands and their outputs, without what differs from run to run.
type Transcript struct{ text strings.Builder }

// Add adds a command as a user types it, and its output.
func (t *Transcript) Add(command, output string) {
	if t.text.Len() > 0 {
		t.text.WriteString("\n")
	}
	fmt.Fprintf(&t.text, "$ %s\n%s", command, Neutral(output))
}

// String returns the text of the record.
func (t *Transcript) String() string { return t.text.String() }

// Neutral replaces what differs from run to run in the output of the kubectl plugin: ages, the versions of other
// projects, and the numbers of Pods that include those of earlier versions, which end 30 s after a canary.
func Neutral(output string) string {
	for _, replacement := range []struct{ pattern, by string }{
		{`(?m) +\d+[smhd](\d+[smhd])?$`, "   <age>"},
		{`version \d+\.\d+\.\d+`, "version <version>"},
		{`(?m)^(Replicas: +)\d+ total, (\d+ updated), \d+ available$`, "${1}<n> total, ${2}, <n> available"},
	} {
		output = regexp.MustCompile(replacement.pattern).ReplaceAllString(output, replacement.by)
	}
	return output
}

// Golden is a file with an expected output.
type Golden struct {
	// Path is the path of the file.
	Path string
	// IsUpdate is true to write the file instead of reading it.
	IsUpdate bool
}

// Expect returns the content of the file. With IsUpdate, it first writes the output to the file.
func (g Golden) Expect(output string) (string, error) {
	if g.IsUpdate {
		if err := os.MkdirAll(filepath.Dir(g.Path), 0o755); err != nil {
			return "", fmt.Errorf("golden output: %w", err)
		}
		if err := os.WriteFile(g.Path, []byte(output), 0o644); err != nil {
			return "", fmt.Errorf("golden output: %w", err)
		}
	}
	want, err := os.ReadFile(g.Path)
	if err != nil {
		return "", fmt.Errorf("golden output: %w", err)
	}
	return string(want), nil
}
