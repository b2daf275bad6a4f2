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
	// Prefix stands before each line of the guest's terminal.
	Prefix = "  dev│ "
	// tailLines is how much of a command's output the summary repeats.
	tailLines = 12
)

// Transcript shows what the guest's terminal shows, each line with a prefix,
// and keeps the last lines. Control sequences are passed on to a terminal, so
// that a screen that is redrawn in place looks as it does in the guest; to
// anything else they are not.
type Transcript struct {
	out  io.Writer
	raw  io.Writer
	live bool

	mu       sync.Mutex
	midLine  bool
	line     []byte
	lastText []string
}

// NewTranscript shows lines on out and writes all bytes to raw as they are.
func NewTranscript(out, raw io.Writer, live bool) *Transcript {
	return &Transcript{out: out, raw: raw, live: live}
}

// Write takes what the guest prints.
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

// show passes a piece of a line on to a terminal. A carriage return begins the
// line anew, with the prefix.
func (t *Transcript) show(chunk []byte) {
	text := strings.ReplaceAll(string(chunk), "\r\n", "\n")
	text = strings.ReplaceAll(text, "\r", "\r"+Prefix)
	if !t.midLine {
		text = Prefix + text
	}
	t.midLine = !strings.HasSuffix(text, "\n")
	_, _ = io.WriteString(t.out, text) // a terminal that is gone ends nothing
}

// endLine keeps a line that is complete.
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

// EndLine ends a line that is shown in part, so that something else can be said.
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

// plain removes control sequences (ECMA-48) and what a carriage return has
// written over.
func plain(line string) string {
	line = regexp.MustCompile(`\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b\[[0-?]*[ -/]*[@-~]|\x1b[@-Z\\-_]`).ReplaceAllString(line, "")
	line = strings.TrimRight(line, "\r\n ")
	return line[strings.LastIndex(line, "\r")+1:]
}
