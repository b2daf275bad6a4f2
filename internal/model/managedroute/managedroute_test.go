package managedroute_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/internal/model/managedroute"
)

// one returns a text with one header route that has this match.
func one(match string) string { return `[{"name":"qa","matches":[` + match + `]}]` }

// role returns a match with one condition on the header role.
func role(kind, value string) string {
	return `{"headers":[{"name":"role","type":"` + kind + `","value":"` + strings.ReplaceAll(value, `\`, `\\`) + `"}]}`
}

func TestParse(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		text string
		want error // nil where the text is right
	}{
		"exact":                           {one(role("Exact", "qa")), nil},
		"a prefix that ends with a space": {one(role("Prefix", "Bearer ")), nil},
		"a regular expression":            {one(role("Regex", "(?i:qa|dev-[0-9]{1,4})")), nil},
		"every part":                      {one(`{"method":{"type":"Exact","value":"GET"},"path":{"type":"Regex","value":"/v[12]/.*"},"headers":[{"name":"a","type":"Exact","value":"1"}]}`), nil},
		"a mirror of everything":          {`[{"name":"copy","mirrorPercent":20,"matches":[{}]}]`, nil},
		"no route":                        {`[]`, nil},
		"nothing":                         {``, managedroute.ErrSyntax},
		"an object":                       {`{"name":"qa"}`, managedroute.ErrSyntax},
		"YAML":                            {"- name: qa\n", managedroute.ErrSyntax},
		"an unknown key":                  {one(`{"header":[]}`), managedroute.ErrSyntax},
		"two lists":                       {`[][]`, managedroute.ErrSyntax},
		"a negative percentage":           {`[{"name":"copy","mirrorPercent":-1,"matches":[{}]}]`, managedroute.ErrSyntax},
		"more than all":                   {`[{"name":"copy","mirrorPercent":101,"matches":[{}]}]`, managedroute.ErrPercent},
		"no name":                         {`[{"matches":[{}]}]`, managedroute.ErrName},
		"a name twice": {
			`[{"name":"a","matches":[{}]},{"name":"a","matches":[{}]}]`,
			managedroute.ErrName,
		},
		"no match":                     {`[{"name":"a","matches":[]}]`, managedroute.ErrMatch},
		"another type":                 {one(role("Contains", "qa")), managedroute.ErrMatch},
		"no value":                     {one(role("Exact", "")), managedroute.ErrMatch},
		"white space before the value": {one(role("Exact", " qa")), managedroute.ErrMatch},
		"a control character":          {one(role("Exact", "q\x7fa")), managedroute.ErrMatch},
		"a header name with a colon": {
			one(`{"headers":[{"name":":path","type":"Exact","value":"/"}]}`),
			managedroute.ErrMatch,
		},
		"a path without a slash":           {one(`{"path":{"type":"Prefix","value":"v1"}}`), managedroute.ErrMatch},
		"a path with a query":              {one(`{"path":{"type":"Exact","value":"/v1?a"}}`), managedroute.ErrMatch},
		"a path that goes up":              {one(`{"path":{"type":"Exact","value":"/a/../b"}}`), managedroute.ErrMatch},
		"a method with a space":            {one(`{"method":{"type":"Exact","value":"GET /"}}`), managedroute.ErrMatch},
		"an open group":                    {one(role("Regex", "qa(")), managedroute.ErrRegex},
		"a closed group that was not open": {one(role("Regex", "a)b(c")), managedroute.ErrRegex},
		"looking ahead":                    {one(role("Regex", "qa(?=x)")), managedroute.ErrRegex},
		"a class of Unicode":               {one(role("Regex", `\pL`)), managedroute.ErrRegex},
		"a character beyond a byte":        {one(role("Regex", `\x{100}`)), managedroute.ErrRegex},
		"an escaped escape":                {one(role("Regex", `\\pL`)), nil},
		"a regular expression of letters":  {one(role("Regex", "é")), managedroute.ErrRegex},
		"a program of 100":                 {one(role("Regex", strings.Repeat("a", 87))), nil},
		"a larger one":                     {one(role("Regex", strings.Repeat("a", 88))), managedroute.ErrRegex},
		"one that is larger by repeating":  {one(role("Regex", "(?:[a-z]{10}){10}")), managedroute.ErrRegex},
		"a loop in a loop": {one(role("Regex",
			"(?:[acegikmoqsuwy]+?)*(?:[acegikmoqsuwy]+?)*(?:[acegikmoqsuwy]+?)*")), managedroute.ErrRegex},
		"too many routes": {"[" + strings.TrimSuffix(numbered(17, `{"name":"%d","matches":[{}]},`), ",") +
			"]", managedroute.ErrTooMany},
		"too many matches": {
			one(strings.TrimSuffix(strings.Repeat("{},", 65), ",")),
			managedroute.ErrTooMany,
		},
		"too many headers": {
			one(`{"headers":[` + strings.TrimSuffix(numbered(17, `{"name":"h%d","type":"Exact","value":"1"},`), ",") + `]}`),
			managedroute.ErrTooMany,
		},
		"too long": {"[" + strings.Repeat(" ", managedroute.MaxBytes) + "]", managedroute.ErrTooLong},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			routes, err := managedroute.Parse(test.text)
			if !errors.Is(err, test.want) {
				t.Fatalf("Parse(%.200q): %v, want %v", test.text, err, test.want)
			}
			if err != nil && routes != nil {
				t.Errorf("rejected, but %v", routes)
			}
		})
	}
}

// numbered returns format with each number below count.
func numbered(count int, format string) string {
	var text strings.Builder
	for i := range count {
		fmt.Fprintf(&text, format, i)
	}
	return text.String()
}

// TestErrorsNameTheField: the error names the invalid route, match and header of several.
func TestErrorsNameTheField(t *testing.T) {
	t.Parallel()
	_, err := managedroute.Parse(`[{"name":"a","matches":[{}]},{"name":"b","mirrorPercent":5,"matches":[{},{"headers":[{"name":"x-team","type":"Regex","value":"["}]}]}]`)
	const want = `route "b": match 2: header "x-team": not a regular expression that Envoy accepts: "[": missing ` +
		`closing ]: correct it (RE2 syntax)`
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

func TestFormatIsDeterministic(t *testing.T) {
	t.Parallel()
	routes := []managedroute.Route{
		{
			Name: "copy", MirrorPercent: 20,
			Matches: []managedroute.Match{{Path: managedroute.StringMatch{Type: managedroute.Prefix, Value: "/"}}},
		},
		{Name: "qa", Matches: []managedroute.Match{{Headers: []managedroute.HeaderMatch{
			{Name: "role", StringMatch: managedroute.StringMatch{Type: managedroute.Exact, Value: "<qa>"}},
		}}}},
	}
	const want = `[{"name":"copy","mirrorPercent":20,"matches":[{"path":{"type":"Prefix","value":"/"}}]},` +
		`{"name":"qa","matches":[{"headers":[{"type":"Exact","value":"<qa>","name":"role"}]}]}]`
	if diff := cmp.Diff(want, managedroute.Format(routes)); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
	if got := managedroute.Format(nil); got != "" {
		t.Errorf("of no route: %q", got)
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{
		one(role("Exact", "qa")), one(role("Regex", "a|b")),
		`[{"name":"copy","mirrorPercent":20,"matches":[{},{"path":{"type":"Prefix","value":"/"}}]}]`, "[]", "null", "[[[[",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		routes, err := managedroute.Parse(text)
		if err != nil || len(routes) == 0 {
			return
		}
		written := managedroute.Format(routes)
		again, err := managedroute.Parse(written)
		if len(written) <= managedroute.MaxBytes && (err != nil ||
			!slices.EqualFunc(routes, again, managedroute.Route.Equal)) {
			t.Fatalf("Parse(%q) = %v, but formatted and parsed again %v (%v)", text, routes, again, err)
		}
	})
}
