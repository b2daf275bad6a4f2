// Package screen prints a transcript to the standard output. On a terminal it also draws a live frame below the
// transcript.
package screen

import (
	"fmt"
	"io"
	"strings"
	"sync"
)

// Screen prints permanent lines and, if it is live, a frame below them that is redrawn in place.
type Screen struct {
	out  io.Writer
	live bool
	size func() (columns, rows int)

	mu     sync.Mutex
	height int // rows of the displayed frame
}

// New returns a screen. Only a live one draws frames. It calls size for the size of the terminal at every frame.
func New(out io.Writer, live bool, size func() (columns, rows int)) *Screen {
	return &Screen{out: out, live: live, size: size}
}

// Columns returns the width of the terminal.
func (s *Screen) Columns() int {
	columns, _ := s.size()
	return columns
}

// Print adds lines to the transcript, above the frame. The frame disappears until it is drawn again.
func (s *Screen) Print(lines ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.write(s.erase() + strings.Join(lines, "\n") + "\n")
}

// Frame replaces the frame. A frame that is higher than the terminal loses lines from its middle, because its first and
// last lines matter. A frame without lines removes the previous one.
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

// erase returns the control sequence that removes the frame: cursor up, clear to the end (ECMA-48 CPL and ED).
func (s *Screen) erase() string {
	if s.height == 0 {
		return ""
	}
	height := s.height
	s.height = 0
	return fmt.Sprintf("\x1b[%dF\x1b[J", height)
}

// write writes text. It ignores errors: a closed terminal must not end a run, which reports by its exit code.
func (s *Screen) write(text string) { _, _ = io.WriteString(s.out, text) }

// fit returns at most rows lines.
func fit(lines []string, rows int) []string {
	const head = 4
	if len(lines) <= rows || rows <= head {
		return lines[:min(len(lines), max(rows, 0))]
	}
	kept := append([]string(nil), lines[:head]...)
	return append(kept, lines[len(lines)-(rows-head):]...)
}
