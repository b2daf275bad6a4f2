package model_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// TestParseHeaderPatterns lists patterns and what they become. Wildcards that match the same values become equal.
func TestParseHeaderPatterns(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text       model.HeaderText
		want       model.Header
		expression string
	}{
		"a wildcard": {
			model.HeaderText{Name: "User-Agent", Wildcard: new("Python*")},
			model.Header{Name: "user-agent", Wildcard: "python*"},
			"(?i:python.*)",
		},
		"other characters are literal": {
			model.HeaderText{Name: "x", Wildcard: new("rel.v?-*(a|b)")},
			model.Header{Name: "x", Wildcard: "rel.v?-*(a|b)"},
			`(?i:rel\.v.-.*\(a\|b\))`,
		},
		"a backslash is literal": {
			model.HeaderText{Name: "x", Wildcard: new(`\*`)},
			model.Header{Name: "x", Wildcard: `\*`},
			`(?i:\\.*)`,
		},
		"several stars are one, after the question marks": {
			model.HeaderText{Name: "x", Wildcard: new("a**?*?b***")},
			model.Header{Name: "x", Wildcard: "a??*b*"},
			"(?i:a...*b.*)",
		},
		"only stars": {
			model.HeaderText{Name: "x", Wildcard: new("***")}, model.Header{Name: "x", Any: true}, "",
		},
		"a regular expression": {
			model.HeaderText{Name: "X-Version", Regex: new(`Go/[0-9]+(\.[0-9]+)*`)},
			model.Header{Name: "x-version", Regex: `Go/[0-9]+(\.[0-9]+)*`},
			`(?i:Go/[0-9]+(\.[0-9]+)*)`,
		},
		"an alternation stays one expression": {
			model.HeaderText{Name: "x", Regex: new("a|b")}, model.Header{Name: "x", Regex: "a|b"}, "(?i:a|b)",
		},
		"an exact value": {
			model.HeaderText{Name: "x", Value: new("A*")}, model.Header{Name: "x", Value: "A*"}, "",
		},
	} {
		got, err := c.text.Parse()
		if err != nil || !cmp.Equal(got, c.want) || got.Expression() != c.expression {
			t.Errorf("%s: %+v %s, %v; want %+v %s", name, got, got.Expression(), err, c.want, c.expression)
		}
	}
}

// TestParseHeaderRejects lists invalid conditions and their messages.
func TestParseHeaderRejects(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text model.HeaderText
		want string
	}{
		"two conditions": {
			model.HeaderText{Name: "x", Value: new("a"), Regex: new("a")},
			"not a header: it has several of value, valueWildcard and valueRegex: keep one",
		},
		"an empty wildcard": {
			model.HeaderText{Name: "x", Wildcard: new("")},
			`not a header: valueWildcard is empty: for an empty value, use value: ""`,
		},
		"an empty expression": {
			model.HeaderText{Name: "x", Regex: new("")},
			`not a header: valueRegex is empty: for an empty value, use value: ""`,
		},
		"a space at the end": {
			model.HeaderText{Name: "x", Wildcard: new("a* ")},
			"not a header: valueWildcard begins or ends with a space, which is never part of a value in a request: remove it",
		},
		"a letter outside ASCII": {
			model.HeaderText{Name: "x", Wildcard: new("caf\u00e9")},
			"not a header: valueWildcard contains a character that is not printable ASCII: write a wildcard or . instead of it",
		},
		"too long": {
			model.HeaderText{Name: "x", Wildcard: new(strings.Repeat("a", 1025))},
			"not a header: valueWildcard is longer than 1024 characters",
		},
		"two groups by a missing one": {
			model.HeaderText{Name: "x", Regex: new("a)(b")},
			`not a header: valueRegex: not a regular expression that Envoy accepts: "a)(b": unexpected ): correct it ` +
				`(RE2 syntax)`,
		},
		"not in RE2": {
			model.HeaderText{Name: "x", Regex: new("(?=a)")},
			`not a header: valueRegex: not a regular expression that Envoy accepts: "(?=a)": invalid or unsupported Perl ` +
				`syntax: correct it (RE2 syntax)`,
		},
	} {
		if got, err := c.text.Parse(); !errors.Is(err, model.ErrHeader) || err.Error() != c.want {
			t.Errorf("%s: %+v, %v; want %s", name, got, err, c.want)
		}
	}
}

// TestParseHeaderLimitsPrograms: Envoy would reject a proxy's whole configuration for one expression that is too large.
func TestParseHeaderLimitsPrograms(t *testing.T) {
	t.Parallel()
	for _, text := range []model.HeaderText{
		{Name: "x", Wildcard: new(strings.Repeat("a", 200))},
		{Name: "x", Wildcard: new(strings.Repeat("?*a", 60))},
		{Name: "x", Regex: new("[a-z]{200}")},
		{Name: "x", Regex: new("((a{1,9}){1,9}){1,9}")},
	} {
		if got, err := text.Parse(); !errors.Is(err, model.ErrHeader) || !strings.Contains(err.Error(), "instructions") {
			t.Errorf("%+v, %v", got, err)
		}
	}
}
