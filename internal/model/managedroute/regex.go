package managedroute

import (
	"errors"
	"fmt"
	"regexp/syntax"
	"strings"
)

// MaxProgram is the size of the largest program, as RE2 counts it, that Envoy takes of a regular expression (its runtime key re2.max_program_size.error_level,
// which is 100 where nobody sets it). One above is a configuration that Envoy refuses.
const MaxProgram = 100

// WithQuery is a regular expression for a path as one for the path and the query together.
func WithQuery(path string) string { return "(?:" + path + `)(?:\?.*)?` }

// validateRegex checks a regular expression, as the larger one that WithQuery makes of it, whatever it is for: it is one of RE2, and not too large.
//
// Envoy compares bytes (RE2 in Latin-1), and Go characters. So what is not ASCII is refused, and the escapes that tell the two apart.
func validateRegex(text string) error {
	isOther := func(c rune) bool { return c < ' ' || c >= 0x7f }
	_, err := syntax.Parse(text, syntax.Perl)
	var wrong *syntax.Error
	switch {
	case len(text) > maxPath, strings.ContainsFunc(text, isOther):
		return fmt.Errorf("%w: it is longer than %d bytes, or not printable ASCII: shorten it, or write \\x and two digits for each other byte", ErrRegex, maxPath)
	case errors.As(err, &wrong):
		return fmt.Errorf("%w: %.80q: %s: correct it (RE2 syntax)", ErrRegex, text, wrong.Code)
	case err != nil:
		return fmt.Errorf("%w: %.80q: %w", ErrRegex, text, err)
	case hasForeignEscape(text):
		return fmt.Errorf(`%w: %.80q: it has an escape \p, \P, \x{} or of octal digits, and Envoy compares bytes: write the characters, such as [a-z], or \x and two `+
			"digits", ErrRegex, text)
	}
	if size := programSize(WithQuery(text)); size > MaxProgram {
		return fmt.Errorf("%w: %.80q: it may take a program of %d instructions, and Envoy refuses one above %d: shorten it, repeat less often, or use exact or prefix",
			ErrRegex, text, size, MaxProgram)
	}
	return nil
}

// hasForeignEscape says whether an escape of text means another thing to RE2 in Latin-1, or nothing, or may do so.
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
