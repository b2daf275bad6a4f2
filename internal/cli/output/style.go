package output

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ColorMode is a value of flag --color.
type ColorMode string

// The modes: Auto uses colors on a terminal, unless NO_COLOR is set or TERM is dumb.
const (
	Auto   ColorMode = "auto"
	Always ColorMode = "always"
	Never  ColorMode = "never"
)

// errUnknownMode reports an invalid value of --color.
var errUnknownMode = errors.New("unknown color mode")

// ColorModes returns the names of all modes.
func ColorModes() []string { return []string{string(Auto), string(Always), string(Never)} }

// String returns the name of the mode.
func (m *ColorMode) String() string { return string(*m) }

// Type returns the name of the type in help texts.
func (*ColorMode) Type() string { return "mode" }

// Set parses the name of a mode.
func (m *ColorMode) Set(text string) error {
	if !slices.Contains(ColorModes(), text) {
		return fmt.Errorf("%w: must be one of %s", errUnknownMode, strings.Join(ColorModes(), ", "))
	}
	*m = ColorMode(text)
	return nil
}

// Style is how marks and titles are printed. The zero value prints ASCII without colors.
type Style struct {
	// HasColor is true if the output may contain ANSI escape sequences for colors.
	HasColor bool
	// IsUnicode is true if the output may contain characters outside of ASCII.
	IsUnicode bool
}

// NewStyle returns the style for an output. getenv returns the value of an environment variable. NO_COLOR
// (https://no-color.org) and TERM=dumb turn colors off in mode Auto. Marks are ASCII unless the locale is UTF-8, by the
// precedence of POSIX: LC_ALL, LC_CTYPE, LANG.
func NewStyle(mode ColorMode, isTerminal bool, getenv func(string) string) Style {
	hasColor := isTerminal && getenv("NO_COLOR") == "" && getenv("TERM") != "dumb"
	switch mode {
	case Always:
		hasColor = true
	case Never:
		hasColor = false
	case Auto:
	}
	locale := ""
	for _, variable := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if locale = getenv(variable); locale != "" {
			break
		}
	}
	locale = strings.ToLower(locale)
	return Style{
		HasColor:  hasColor,
		IsUnicode: strings.Contains(locale, "utf-8") || strings.Contains(locale, "utf8"),
	}
}

// Level is the result of a check.
type Level string

// The levels.
const (
	Passed  Level = "passed"
	Failed  Level = "failed"
	Warned  Level = "warning"
	Skipped Level = "skipped"
)

// ANSI escape sequences (ECMA-48, SGR).
const (
	bold   = "1"
	dim    = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
)

// Mark returns the mark of a level: ✓, ✗, ! and -, or words in brackets of the same width if the output is ASCII.
func (s Style) Mark(level Level) string {
	marks := map[Level][3]string{
		Passed: {"✓", "[ ok ]", green}, Failed: {"✗", "[fail]", red}, Warned: {"!", "[warn]", yellow},
		Skipped: {"-", "[skip]", dim},
	}
	mark := marks[level]
	if s.IsUnicode {
		return s.paint(mark[2], mark[0])
	}
	return s.paint(mark[2], mark[1])
}

// Title returns a text as a title.
func (s Style) Title(text string) string { return s.paint(bold, text) }

// Dim returns a text that is less important.
func (s Style) Dim(text string) string { return s.paint(dim, text) }

// paint returns a text in a color.
func (s Style) paint(code, text string) string {
	if !s.HasColor {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}
