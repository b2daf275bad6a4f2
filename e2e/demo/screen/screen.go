// Package screen puts a transcript and, on a terminal, a live frame below it
// onto the standard output.
package screen

import (
	"fmt"
	"io"
	"strings"
	"sync"
)

// Screen writes lines that stay and, if it is live, a frame that is redrawn in
// place below them.
type Screen struct {
	out  io.Writer
	live bool
	size func() (columns, rows int)

	mu     sync.Mutex
	height int // rows of the frame that is on the screen
}

// New returns a screen. Only a live one draws frames; size is asked for the
// size of the terminal at every frame.
func New(out io.Writer, live bool, size func() (columns, rows int)) *Screen {
	return &Screen{out: out, live: live, size: size}
}

// Columns is the width of the terminal.
func (s *Screen) Columns() int {
	columns, _ := s.size()
	return columns
}

// Print adds lines to the transcript, above the frame. The frame is gone until
// it is drawn the next time.
func (s *Screen) Print(lines ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.write(s.erase() + strings.Join(lines, "\n") + "\n")
}

// Frame draws a frame in place of the last one. A frame that is higher than
// the terminal loses lines from its middle: the head and the last ones matter.
// One without lines takes the last one away.
func (s *Screen) Frame(lines []string) {
	if !s.live {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, rows := s.size()
	lines = fit(lines, rows-1)
	text := s.erase()
	if s.height = len(lines); s.height > 0 {
		text += strings.Join(lines, "\n") + "\n"
	}
	s.write(text)
}

// erase returns what takes the frame off the screen: cursor up, clear to the
// end (ECMA-48 CPL and ED).
func (s *Screen) erase() string {
	if s.height == 0 {
		return ""
	}
	height := s.height
	s.height = 0
	return fmt.Sprintf("\x1b[%dF\x1b[J", height)
}

// write puts text out. A terminal that is gone is no reason to end a run whose
// result is its exit code.
func (s *Screen) write(text string) { _, _ = io.WriteString(s.out, text) }

// fit keeps at most the given number of lines.
func fit(lines []string, rows int) []string {
	const head = 4
	if len(lines) <= rows || rows <= head {
		return lines[:min(len(lines), max(rows, 0))]
	}
	kept := append([]string(nil), lines[:head]...)
	return append(kept, lines[len(lines)-(rows-head):]...)
}
