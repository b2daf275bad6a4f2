// Package report draws what the demo has measured: bars, the table, the live
// frame. Pure: values in, text out. Every character takes one column.
package report

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Style reports whether the terminal takes colours (ECMA-48 SGR).
type Style struct {
	Color bool
}

// The looks that are not an answer's colour.
const (
	bold  = "1"
	faint = "2"
	good  = "32"
	bad   = "31;1"
)

// sgr is the code for a colour that the sample app answers.
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

// paint puts text into a look.
func (s Style) paint(look, text string) string {
	if !s.Color || text == "" {
		return text
	}
	return "\x1b[" + look + "m" + text + "\x1b[0m"
}

// Command draws a command as the user would type it.
func (s Style) Command(line string) string { return s.paint(bold, "$ "+line) }

// Heading draws a heading.
func (s Style) Heading(text string) string { return s.paint(bold, text) }

// Good draws a good outcome, Bad a bad one and Faint what may be passed over.
func (s Style) Good(text string) string { return s.paint(good, text) }

// Bad draws a bad outcome.
func (s Style) Bad(text string) string { return s.paint(bad, text) }

// Faint draws what may be passed over.
func (s Style) Faint(text string) string { return s.paint(faint, text) }

// mark is the sign of an outcome.
func (s Style) mark(ok bool) string {
	if ok {
		return s.Good("✔")
	}
	return s.Bad("✘")
}

// width is the number of columns that a text takes: its runes without the
// colour codes.
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

// skipSGR takes one colour code off the beginning.
func skipSGR(text string) (rest string, ok bool) {
	if !strings.HasPrefix(text, "\x1b[") {
		return text, false
	}
	_, rest, ok = strings.Cut(text, "m")
	return rest, ok
}

// clip cuts a line to the given number of columns. Colour codes stay, so that
// none is left open.
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

// pad fills a text up to the given number of columns, at its end or, for
// right-aligned text, at its beginning.
func pad(text string, columns int, right bool) string {
	fill := strings.Repeat(" ", max(0, columns-width(text)))
	if right {
		return fill + text
	}
	return text + fill
}

// Count draws a number with a space between its thousands.
func Count(n int) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + " " + digits[i:]
	}
	return digits
}

// Latency draws a short duration in milliseconds.
func Latency(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
}

// Seconds draws a longer duration in seconds.
func Seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

// percent draws a share from 0 to 1 with the given number of decimals.
func percent(share float64, decimals int) string {
	return strconv.FormatFloat(share*100, 'f', decimals, 64) + " %"
}

// Percent draws a share from 0 to 1 as briefly as it is exact.
func Percent(share float64) string {
	return strconv.FormatFloat(share*100, 'g', 4, 64) + " %"
}
