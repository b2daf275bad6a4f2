package walk

import (
	"bytes"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"
)

const (
	// Prefix precedes each line of the guest's terminal.
	Prefix = "  dev│ "
	// tailLines is the number of lines of a command's output in the summary.
	tailLines = 12
)

// Transcript shows the output of the guest's terminal, each line with a prefix, and keeps the last lines. It passes
// control sequences on to a terminal, so that a screen that is redrawn looks as it does in the guest. To any other
// output it writes none.
type Transcript struct {
	out  io.Writer
	raw  io.Writer
	live bool

	mu       sync.Mutex
	midLine  bool
	line     []byte
	lastText []string
}

// NewTranscript shows lines on out and writes all bytes unchanged to raw.
func NewTranscript(out, raw io.Writer, live bool) *Transcript {
	return &Transcript{out: out, raw: raw, live: live}
}

// Write receives the guest's output.
func (t *Transcript) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, err := t.raw.Write(p); err != nil {
		return 0, err
	}
	for chunk := range bytes.Lines(p) {
		t.line = append(t.line, chunk...)
		if t.live {
			t.show(chunk)
		}
		if chunk[len(chunk)-1] == '\n' {
			t.endLine()
		}
	}
	return len(p), nil
}

// show passes a piece of a line on to a terminal. A carriage return restarts the line, with the prefix.
func (t *Transcript) show(chunk []byte) {
	text := strings.ReplaceAll(string(chunk), "\r\n", "\n")
	text = strings.ReplaceAll(text, "\r", "\r"+Prefix)
	if !t.midLine {
		text = Prefix + text
	}
	t.midLine = !strings.HasSuffix(text, "\n")
	_, _ = io.WriteString(t.out, text) // a closed terminal is not an error
}

// endLine stores a complete line.
func (t *Transcript) endLine() {
	text := plain(string(t.line))
	t.line = t.line[:0]
	if !t.live {
		_, _ = io.WriteString(t.out, Prefix+text+"\n")
	}
	if text == "" {
		return
	}
	t.lastText = append(t.lastText, text)
	if len(t.lastText) > tailLines {
		t.lastText = slices.Delete(t.lastText, 0, len(t.lastText)-tailLines)
	}
}

// EndLine ends an incomplete line, so that other output can follow.
func (t *Transcript) EndLine() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.midLine {
		_, _ = io.WriteString(t.out, "\n")
	}
	t.midLine = false
}

// Tail returns the last lines since the last call, without control sequences.
func (t *Transcript) Tail() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	tail := slices.Clone(t.lastText)
	t.lastText = t.lastText[:0]
	return tail
}

// plain removes control sequences (ECMA-48) and text that a carriage return has overwritten.
func plain(line string) string {
	line = regexp.MustCompile(`\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b\[[0-?]*[ -/]*[@-~]|\x1b[@-Z\\-_]`).
		ReplaceAllString(line, "")
	line = strings.TrimRight(line, "\r\n ")
	return line[strings.LastIndex(line, "\r")+1:]
}
