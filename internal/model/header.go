package model

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	"github.com/kedify/argo-rollouts-plugin/internal/model/managedroute"
)

const (
	// maxHeaderName and maxHeaderValue are the maximum lengths of header name and value in bytes.
	maxHeaderName, maxHeaderValue = 256, 4096
	// maxHeaderPattern is the maximum length of a pattern in bytes, equal to that of the schema of HTTPScaledObject.
	maxHeaderPattern = 1024
)

// Header is one condition on a request's headers.
type Header struct {
	// Name is the header's name in lower case.
	Name string
	// Value is the exact value of the header, unless another field is set.
	Value string `json:",omitempty"`
	// Any means that the header must exist, with any value.
	Any bool `json:",omitempty"`
	// Wildcard is a normalized pattern, and Regex a regular expression (RE2), for the whole value, in any letter case.
	// See ParseHeader. At most one field besides Name is set.
	Wildcard string `json:",omitempty"`
	Regex    string `json:",omitempty"`
}

// HeaderText is a condition on a header as users write it. At most one of Value, Wildcard and Regex is set; without
// them, any value matches.
type HeaderText struct {
	// Name is the header's name, in any letter case.
	Name string
	// Value is the exact value.
	Value *string
	// Wildcard is a pattern for the whole value, in any letter case: "*" matches any bytes, "?" one byte.
	Wildcard *string
	// Regex is a regular expression (RE2) for the whole value, in any letter case.
	Regex *string
}

// ParseHeader normalizes a condition on a header. A nil value matches any value.
func ParseHeader(name string, value *string) (Header, error) {
	return HeaderText{Name: name, Value: value}.Parse()
}

// Parse normalizes the condition: the name and a wildcard become lower case, and equal wildcards get equal texts. The
// wildcard "*" matches any value, so it becomes Any. The error wraps ErrHeader.
func (t HeaderText) Parse() (Header, error) {
	switch {
	case t.Name == "" || len(t.Name) > maxHeaderName:
		return Header{}, fmt.Errorf("%w: a name has 1 to %d characters", ErrHeader, maxHeaderName)
	case strings.ContainsFunc(t.Name, func(c rune) bool { return !isTokenChar(c) }):
		return Header{}, fmt.Errorf("%w: a name has letters, digits and !#$%%&'*+-.^_`|~ only", ErrHeader)
	}
	count := 0
	for _, condition := range []*string{t.Value, t.Wildcard, t.Regex} {
		if condition != nil {
			count++
		}
	}
	header := Header{Name: strings.ToLower(t.Name)}
	var err error
	switch {
	case count > 1:
		return Header{}, fmt.Errorf("%w: it has several of value, valueWildcard and valueRegex: keep one", ErrHeader)
	case t.Wildcard != nil:
		header.Wildcard, err = normalizeWildcard(*t.Wildcard)
		header.Any = err == nil && header.Wildcard == ""
	case t.Regex != nil:
		header.Regex, err = *t.Regex, validateRegex(*t.Regex)
	case t.Value != nil:
		header.Value, err = *t.Value, validateHeaderValue(*t.Value)
	default:
		header.Any = true
	}
	if err != nil {
		return Header{}, err
	}
	return header, nil
}

// validateHeaderValue checks an exact value.
func validateHeaderValue(value string) error {
	switch {
	case len(value) > maxHeaderValue:
		return fmt.Errorf("%w: the value is longer than %d characters", ErrHeader, maxHeaderValue)
	case strings.Trim(value, " \t") != value:
		return fmt.Errorf("%w: the value begins or ends with white space, which is never part of it in a request",
			ErrHeader)
	case strings.ContainsFunc(value, func(c rune) bool {
		return c < ' ' && c != '\t' || c == 0x7f ||
			c == '\uFFFD'
	}):
		return fmt.Errorf("%w: the value contains a control character", ErrHeader)
	}
	return nil
}

// normalizeWildcard normalizes a wildcard: in each run of wildcard characters, "?" comes before a single "*". The result
// is empty for one that matches any value.
func normalizeWildcard(text string) (string, error) {
	const field = "valueWildcard"
	if err := validatePattern(field, text); err != nil {
		return "", err
	}
	if strings.Trim(text, " ") != text {
		return "", fmt.Errorf("%w: %s begins or ends with a space, which is never part of a value in a request: remove it",
			ErrHeader, field)
	}
	var normal strings.Builder
	hasStar := false
	for _, c := range text + "\x00" { // the end, too, ends a run
		switch {
		case c == '*':
			hasStar = true
			continue
		case hasStar && c != '?':
			normal.WriteByte('*')
			hasStar = false
		}
		if c != 0 {
			normal.WriteRune(lowerASCII(c))
		}
	}
	if normal.String() == "*" {
		return "", nil
	}
	return normal.String(), validateExpression(field, wildcardExpression(normal.String()))
}

// validateRegex checks a regular expression.
func validateRegex(text string) error {
	const field = "valueRegex"
	if err := validatePattern(field, text); err != nil {
		return err
	}
	return validateExpression(field, text)
}

// validatePattern checks what both kinds of patterns have in common.
func validatePattern(field, text string) error {
	switch {
	case text == "":
		return fmt.Errorf(`%w: %s is empty: for an empty value, use value: ""`, ErrHeader, field)
	case len(text) > maxHeaderPattern:
		return fmt.Errorf("%w: %s is longer than %d characters", ErrHeader, field, maxHeaderPattern)
	case strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c >= 0x7f }):
		return fmt.Errorf("%w: %s contains a character that is not printable ASCII: write a wildcard or . instead of it",
			ErrHeader, field)
	}
	return nil
}

// validateExpression checks that Envoy accepts a regular expression, alone and in any letter case.
func validateExpression(field, expression string) error {
	err := managedroute.ValidateRegex(expression)
	if err == nil {
		err = managedroute.ValidateRegex(managedroute.IgnoringCase(expression))
	}
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrHeader, field, err)
	}
	return nil
}

// wildcardExpression converts a wildcard to a regular expression.
func wildcardExpression(wildcard string) string {
	return strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(regexp.QuoteMeta(wildcard))
}

// Expression returns the regular expression (RE2) for the whole value of a header with a pattern, empty for others.
func (h Header) Expression() string {
	switch {
	case h.Regex != "":
		return managedroute.IgnoringCase(h.Regex)
	case h.Wildcard != "":
		return managedroute.IgnoringCase(wildcardExpression(h.Wildcard))
	default:
		return ""
	}
}

// Compare orders headers by name, then by kind: an exact value, a wildcard, a regular expression, any value. Headers of
// the same name and kind are ordered by text.
func (h Header) Compare(other Header) int {
	return cmp.Or(cmp.Compare(h.Name, other.Name), cmp.Compare(h.kind(), other.kind()), cmp.Compare(h.Value, other.Value),
		cmp.Compare(h.Wildcard, other.Wildcard), cmp.Compare(h.Regex, other.Regex))
}

// The kinds of conditions, in the order of Header.Compare.
const (
	kindExact = iota
	kindWildcard
	kindRegex
	kindAny
)

// kind returns the kind of the condition.
func (h Header) kind() int {
	switch {
	case h.Any:
		return kindAny
	case h.Regex != "":
		return kindRegex
	case h.Wildcard != "":
		return kindWildcard
	default:
		return kindExact
	}
}

// countExact counts the headers with an exact value, which are more specific than others.
func countExact(headers []Header) int {
	count := 0
	for _, header := range headers {
		if header.kind() == kindExact {
			count++
		}
	}
	return count
}

// CountPatterns counts the headers with a wildcard or a regular expression, which are more specific than those with any
// value.
func CountPatterns(headers []Header) int {
	count := 0
	for _, header := range headers {
		if kind := header.kind(); kind == kindWildcard || kind == kindRegex {
			count++
		}
	}
	return count
}

// isTokenChar reports whether c may be part of a header name (tchar of RFC 9110, section 5.6.2).
func isTokenChar(c rune) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
		strings.ContainsRune("!#$%&'*+-.^_`|~", c)
}
