package managedroute

import (
	"errors"
	"fmt"
	"regexp/syntax"
	"strings"
)

// MaxProgram is the maximum size of the RE2 program of a regular expression in Envoy (runtime key
// re2.max_program_size.error_level, 100 by default). Envoy rejects a configuration with a larger one.
const MaxProgram = 100

// WithQuery converts a regular expression for a path to one for path and query together.
func WithQuery(path string) string { return "(?:" + path + `)(?:\?.*)?` }

// IgnoringCase converts a regular expression to one that ignores the case of ASCII letters.
func IgnoringCase(text string) string { return "(?i:" + text + ")" }

// ValidateRegex checks that a regular expression is valid in RE2 and not too large. It always checks the larger
// expression that WithQuery returns. The error wraps ErrRegex.
//
// Envoy compares bytes (RE2 in Latin-1), Go compares characters. So non-ASCII characters and escapes that differ
// between the two are errors.
func ValidateRegex(text string) error {
	isOther := func(c rune) bool { return c < ' ' || c >= 0x7f }
	_, err := syntax.Parse(text, syntax.Perl)
	var wrong *syntax.Error
	switch {
	case len(text) > maxPath, strings.ContainsFunc(text, isOther):
		return fmt.Errorf("%w: it is longer than %d bytes, or not printable ASCII: shorten it, or write \\x and two digits "+
			"for each other byte", ErrRegex, maxPath)
	case errors.As(err, &wrong):
		return fmt.Errorf("%w: %.80q: %s: correct it (RE2 syntax)", ErrRegex, text, wrong.Code)
	case err != nil:
		return fmt.Errorf("%w: %.80q: %w", ErrRegex, text, err)
	case hasForeignEscape(text):
		return fmt.Errorf(`%w: %.80q: it has an escape \p, \P, \x{} or of octal digits, and Envoy compares bytes: `+
			`write the characters, such as [a-z], or \x and two digits`, ErrRegex, text)
	}
	if size := programSize(WithQuery(text)); size > MaxProgram {
		return fmt.Errorf("%w: %.80q: its RE2 program may have %d instructions, and Envoy allows at most %d: shorten it, "+
			"repeat less often, or use exact or prefix", ErrRegex, text, size, MaxProgram)
	}
	return nil
}

// hasForeignEscape reports whether text contains an escape that is different or unsupported in Latin-1 RE2.
func hasForeignEscape(text string) bool {
	for i := 0; i+1 < len(text); i++ {
		if text[i] != '\\' {
			continue
		}
		i++
		if strings.ContainsRune("pP01234567", rune(text[i])) || strings.HasPrefix(text[i:], "x{") {
			return true
		}
	}
	return false
}
