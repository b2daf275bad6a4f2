// Package report draws the demo's measurements: bars, the table, the live frame. It has no side effects. Every
// character is one column wide.
package report

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Style reports whether the terminal supports colors (ECMA-48 SGR).
type Style struct {
	Color bool
}

// The looks that are not an answer's color.
const (
	bold  = "1"
	faint = "2"
	good  = "32"
	bad   = "31;1"
)

// sgr returns the SGR code for a color of the sample app.
func sgr(color string) string {
	switch color {
	case "blue":
		return "38;5;69"
	case "yellow":
		return "38;5;220"
	case "green":
		return "38;5;78"
	case "orange":
		return "38;5;208"
	case "purple":
		return "38;5;135"
	case "red":
		return "38;5;203"
	default:
		return "37"
	}
}

// paint applies an SGR attribute to a text.
func (s Style) paint(look, text string) string {
	if !s.Color || text == "" {
		return text
	}
	return "\x1b[" + look + "m" + text + "\x1b[0m"
}

// Command draws a command as the user would enter it.
func (s Style) Command(line string) string { return s.paint(bold, "$ "+line) }

// Heading draws a heading.
func (s Style) Heading(text string) string { return s.paint(bold, text) }

// Good draws a good result, Bad a bad one and Faint secondary information.
func (s Style) Good(text string) string { return s.paint(good, text) }

// Bad draws a bad result.
func (s Style) Bad(text string) string { return s.paint(bad, text) }

// Faint draws secondary information.
func (s Style) Faint(text string) string { return s.paint(faint, text) }

// mark returns the sign of a result.
func (s Style) mark(ok bool) string {
	if ok {
		return s.Good("✔")
	}
	return s.Bad("✘")
}

// width returns the number of columns of a text: its runes without the color codes.
func width(text string) int {
	n := 0
	for text != "" {
		if rest, ok := skipSGR(text); ok {
			text = rest
			continue
		}
		_, size := utf8.DecodeRuneInString(text)
		text = text[size:]
		n++
	}
	return n
}

// skipSGR removes one color code from the beginning.
func skipSGR(text string) (rest string, ok bool) {
	if !strings.HasPrefix(text, "\x1b[") {
		return text, false
	}
	_, rest, ok = strings.Cut(text, "m")
	return rest, ok
}

// clip cuts a line to the given number of columns. It keeps color codes, so that none stays open.
func clip(line string, columns int) string {
	if width(line) <= columns {
		return line
	}
	var b strings.Builder
	for n := 0; line != ""; {
		if rest, ok := skipSGR(line); ok {
			b.WriteString(line[:len(line)-len(rest)])
			line = rest
			continue
		}
		_, size := utf8.DecodeRuneInString(line)
		if n < columns {
			b.WriteString(line[:size])
		}
		line = line[size:]
		n++
	}
	return b.String()
}

// pad fills a text to the given number of columns. It adds spaces at the end or, if right, at the beginning.
func pad(text string, columns int, right bool) string {
	fill := strings.Repeat(" ", max(0, columns-width(text)))
	if right {
		return fill + text
	}
	return text + fill
}

// Count formats a number with a space between its thousands.
func Count(n int) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + " " + digits[i:]
	}
	return digits
}

// Latency formats a short duration in milliseconds.
func Latency(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
}

// Seconds formats a longer duration in seconds.
func Seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

// percent formats a share from 0 to 1 with the given number of decimals.
func percent(share float64, decimals int) string {
	return strconv.FormatFloat(share*100, 'f', decimals, 64) + " %"
}

// Percent formats a share from 0 to 1 with the fewest decimals that are exact.
func Percent(share float64) string {
	return strconv.FormatFloat(share*100, 'g', 4, 64) + " %"
}
