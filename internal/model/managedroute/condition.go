package managedroute

import (
	"fmt"
	"strings"
)

// The limits of a single condition in bytes, equal to those of an HTTPScaledObject's headers and path prefixes.
const (
	maxHeaderName, maxHeaderValue, maxPath = 256, 4096, 1024
)

// tokenChars are the characters of a header name or a method in addition to letters and digits (RFC 9110, section
// 5.6.2).
const tokenChars = "!#$%&'*+-.^_`|~" //nolint:gosec // no credentials, but characters

// validate checks one match.
func (m Match) validate() error {
	if err := m.Method.validateOptional(validateToken); err != nil {
		return fmt.Errorf("method: %w", err)
	}
	if err := m.Path.validateOptional(validatePath); err != nil {
		return fmt.Errorf("path: %w", err)
	}
	if len(m.Headers) > MaxHeaders {
		return fmt.Errorf("%w: %d headers, at most %d are allowed", ErrTooMany, len(m.Headers), MaxHeaders)
	}
	for _, header := range m.Headers {
		err := validateToken(header.Name)
		if err == nil {
			err = header.validate(validateHeaderValue)
		}
		if err != nil {
			return fmt.Errorf("header %.80q: %w", header.Name, err)
		}
	}
	return nil
}

// validateOptional is validate for a condition that may be missing.
func (m StringMatch) validateOptional(literal func(string) error) error {
	if m == (StringMatch{}) {
		return nil
	}
	return m.validate(literal)
}

// validate checks a condition; literal checks the value of an exact or prefix match.
func (m StringMatch) validate(literal func(string) error) error {
	switch {
	case m.Value == "":
		return fmt.Errorf("%w: there is no value: write one under exact, prefix or regex", ErrMatch)
	case m.Type == Regex:
		return ValidateRegex(m.Value)
	case m.Type != Exact && m.Type != Prefix:
		return fmt.Errorf("%w: the type %.80q: write %s, %s or %s", ErrMatch, m.Type, Exact, Prefix, Regex)
	}
	return literal(m.Value)
}

// validateToken checks a header name or a method.
func validateToken(text string) error {
	isOther := func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune(tokenChars, c)
	}
	if text == "" || len(text) > maxHeaderName || strings.ContainsFunc(text, isOther) {
		return fmt.Errorf("%w: %.80q: write 1 to %d letters, digits and %s", ErrMatch, text, maxHeaderName, tokenChars)
	}
	return nil
}

// validateHeaderValue checks a header value or a prefix of one.
func validateHeaderValue(text string) error {
	isControl := func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f || c == '\uFFFD' }
	switch {
	case len(text) > maxHeaderValue:
		return fmt.Errorf("%w: the value is longer than %d bytes", ErrMatch, maxHeaderValue)
	case strings.ContainsFunc(text, isControl):
		return fmt.Errorf("%w: the value contains a control character", ErrMatch)
	case strings.TrimLeft(text, " \t") != text:
		return fmt.Errorf("%w: the value begins with white space, which a request's value never does: remove it", ErrMatch)
	}
	return nil
}

// validatePath checks a path or a prefix of one.
func validatePath(text string) error {
	isOther := func(c rune) bool { return c <= ' ' || c >= 0x7f || strings.ContainsRune(`?#\`, c) }
	switch {
	case text[0] != '/':
		return fmt.Errorf("%w: %.80q: must begin with /", ErrMatch, text)
	case len(text) > maxPath:
		return fmt.Errorf("%w: it is longer than %d bytes", ErrMatch, maxPath)
	case strings.ContainsFunc(text, isOther):
		return fmt.Errorf(`%w: %.80q: a path has no space, control character, \, ? or #: `+
			"percent-encode them and what is not ASCII", ErrMatch, text)
	}
	for segment := range strings.SplitSeq(text, "/") {
		if segment == "." || segment == ".." {
			return fmt.Errorf("%w: %.80q: requests never have . or .. as a segment: they are resolved first", ErrMatch, text)
		}
	}
	return nil
}
