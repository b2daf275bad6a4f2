package affinity_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/internal/model/affinity"
)

func TestParse(t *testing.T) {
	t.Parallel()
	cookie := func(change func(*affinity.Cookie)) affinity.Key {
		key := affinity.Key{Cookie: affinity.DefaultCookie()}
		change(&key.Cookie)
		return key
	}
	tests := map[string]struct {
		text string
		want affinity.Key
	}{
		"a cookie with the defaults": {"cookie: {}", cookie(func(*affinity.Cookie) {})},
		"JSON":                       {`{"cookie":{"name":"side"}}`, cookie(func(c *affinity.Cookie) { c.Name = "side" })},
		"a name that is a number":    {"cookie: {name: 007}", cookie(func(c *affinity.Cookie) { c.Name = "007" })},
		"all attributes": {
			"cookie:\n  name: __Host-side\n  path: /\n  maxAge: 86400\n  secure: true\n  httpOnly: false\n  sameSite: None\n",
			affinity.Key{Cookie: affinity.Cookie{
				Name: "__Host-side", Path: "/", MaxAge: 86400, Secure: true, SameSite: affinity.None,
			}},
		},
		"the longest lifetime": {
			"cookie: {maxAge: 34560000}", cookie(func(c *affinity.Cookie) { c.MaxAge = affinity.MaxAge }),
		},
		"every character of a name": {
			"cookie: {name: \"!#$%&'*+-.^_`|~\"}", cookie(func(c *affinity.Cookie) { c.Name = "!#$%&'*+-.^_`|~" }),
		},
		"a header":           {"header: X-User-Id", affinity.Key{Header: "X-User-Id"}},
		"the source address": {"sourceAddress: {}", affinity.Key{SourceAddress: true}},
		"a comment":          {"# by team shop\nheader: x-user", affinity.Key{Header: "x-user"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := affinity.Parse(test.text)
			if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
				t.Errorf("Parse(%q): %v (-want +got):\n%s", test.text, err, diff)
			}
		})
	}
}

func TestParseRejects(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		text string
		want error
		says string // part of the message
	}{
		"nothing":                   {"", affinity.ErrSyntax, "the text is empty"},
		"only a comment":            {"# none", affinity.ErrSyntax, ""},
		"not YAML":                  {"{{{", affinity.ErrSyntax, ""},
		"a text":                    {"cookie", affinity.ErrSyntax, "not a mapping"},
		"a list":                    {"[cookie]", affinity.ErrSyntax, "not a mapping"},
		"no key":                    {"{}", affinity.ErrSyntax, "0 of them are set: write exactly one"},
		"two keys":                  {"{cookie: {}, header: x-user}", affinity.ErrSyntax, "2 of them are set"},
		"all keys":                  {"{cookie: {}, header: x-user, sourceAddress: {}}", affinity.ErrSyntax, "3 of them"},
		"a misspelled key":          {"{cokie: {}}", affinity.ErrSyntax, `unknown key "cokie": remove it`},
		"a misspelled attribute":    {"{cookie: {maxage: 1}}", affinity.ErrCookie, `invalid cookie: unknown key "maxage"`},
		"a key twice":               {"{header: a, header: b}", affinity.ErrSyntax, ""},
		"an attribute twice":        {"{cookie: {path: /, path: /a}}", affinity.ErrCookie, "duplicate key"},
		"a mapping as a key":        {"{? {a: b} : c}", affinity.ErrSyntax, ""},
		"a merge key":               {"{<<: {header: a}}", affinity.ErrSyntax, "unknown key"},
		"a cookie without a value":  {"{cookie: }", affinity.ErrCookie, "not a mapping: write {} for the defaults"},
		"a cookie's name alone":     {"{cookie: side}", affinity.ErrCookie, "invalid cookie: not a mapping"},
		"an address":                {"{sourceAddress: true}", affinity.ErrSyntax, "sourceAddress: not a mapping"},
		"a part of an address":      {"{sourceAddress: {ipv4: 24}}", affinity.ErrSyntax, `sourceAddress: unknown key "ipv4"`},
		"two documents":             {"{header: a}\n---\n{header: b}", affinity.ErrSyntax, "unexpected content"},
		"an alias":                  {"{cookie: &a {}, header: *a}", affinity.ErrAlias, ""},
		"no name":                   {`{cookie: {name: ""}}`, affinity.ErrCookie, "name: not a text"},
		"a list of names":           {`{cookie: {name: [a]}}`, affinity.ErrCookie, "name: not a text"},
		"a name with a space":       {`{cookie: {name: "a b"}}`, affinity.ErrCookie, `name "a b"`},
		"a name with an attribute":  {`{cookie: {name: "a;b"}}`, affinity.ErrCookie, `name "a;b"`},
		"a name that is not ASCII":  {`{cookie: {name: "é"}}`, affinity.ErrCookie, "letters, digits"},
		"a long name":               {"{cookie: {name: " + strings.Repeat("a", 65) + "}}", affinity.ErrCookie, "1 to 64"},
		"a path without a slash":    {"{cookie: {path: shop}}", affinity.ErrCookie, `path "shop": write a path`},
		"a path with an attribute":  {`{cookie: {path: "/;domain=a"}}`, affinity.ErrCookie, "no ;"},
		"a path with a line break":  {`{cookie: {path: "/\r\n"}}`, affinity.ErrCookie, "printable"},
		"a long path":               {"{cookie: {path: /" + strings.Repeat("a", 256) + "}}", affinity.ErrCookie, "256"},
		"a lifetime as a duration":  {"{cookie: {maxAge: 24h}}", affinity.ErrCookie, "whole number of seconds above 0"},
		"a lifetime in quotes":      {`{cookie: {maxAge: "60"}}`, affinity.ErrCookie, "whole number"},
		"no lifetime":               {"{cookie: {maxAge: 0}}", affinity.ErrCookie, "ends with the browser session"},
		"a negative lifetime":       {"{cookie: {maxAge: -1}}", affinity.ErrCookie, "maxAge"},
		"a long lifetime":           {"{cookie: {maxAge: 34560001}}", affinity.ErrCookie, "400 days"},
		"yes":                       {"{cookie: {secure: yes}}", affinity.ErrCookie, "secure \"yes\": write true"},
		"another SameSite":          {"{cookie: {sameSite: lax}}", affinity.ErrCookie, `"lax": write Lax, Strict or None`},
		"None without Secure":       {"{cookie: {sameSite: None}}", affinity.ErrCookie, "secure: true"},
		"__Secure- without Secure":  {"{cookie: {name: __Secure-side}}", affinity.ErrCookie, "secure: true"},
		"__Host- with another path": {"{cookie: {name: __host-side, secure: true, path: /a}}", affinity.ErrCookie, "path /"},
		"a header with a colon":     {`{header: ":path"}`, affinity.ErrHeader, `name ":path"`},
		"a header with a space":     {`{header: "x user"}`, affinity.ErrHeader, ""},
		"no header":                 {"{header: }", affinity.ErrHeader, "name: not a text"},
		"the header Cookie":         {"{header: Cookie}", affinity.ErrHeader, "write {cookie: {name: …}}"},
		"the header Host":           {"{header: host}", affinity.ErrHeader, "does not identify a client"},
		"the request id":            {"{header: X-Request-Id}", affinity.ErrHeader, "does not identify a client"},
		"a header that Envoy sets":  {"{header: x-envoy-external-address}", affinity.ErrHeader, "does not identify a client"},
		"the proxies' own header":   {"{header: x-kedify-scope}", affinity.ErrHeader, "does not identify a client"},
		"too long":                  {"{header: a}" + strings.Repeat(" ", affinity.MaxBytes), affinity.ErrTooLong, "1024"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := affinity.Parse(test.text)
			if !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("Parse(%.80q): %v, want %v with %q", test.text, err, test.want, test.says)
			}
			if !got.IsZero() {
				t.Errorf("rejected, but %+v", got)
			}
		})
	}
}

func TestFormat(t *testing.T) {
	t.Parallel()
	long := affinity.DefaultCookie()
	long.MaxAge = 60
	for want, key := range map[string]affinity.Key{
		``: {},
		`{"cookie":{"name":"kedify-session","path":"/","secure":false,"httpOnly":true,"sameSite":"Lax"}}`: {
			Cookie: affinity.DefaultCookie(),
		},
		`{"cookie":{"name":"kedify-session","path":"/","maxAge":60,"secure":false,"httpOnly":true,"sameSite":"Lax"}}`: {
			Cookie: long,
		},
		`{"header":"x-user"}`:  {Header: "x-user"},
		`{"sourceAddress":{}}`: {SourceAddress: true},
	} {
		if got := affinity.Format(key); got != want {
			t.Errorf("Format(%+v) = %s, want %s", key, got, want)
		}
	}
}

// TestParseReversesFormat: a valid Key survives Format and Parse, and its text has at most MaxBytes.
func TestParseReversesFormat(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		want := randomKey(random)
		if err := affinity.Validate(want); err != nil {
			t.Fatalf("the generator made an invalid Key %+v: %v", want, err)
		}
		got, err := affinity.Parse(affinity.Format(want))
		if err != nil || got != want {
			t.Fatalf("Parse(Format(%+v)) = %+v, %v", want, got, err)
		}
	}
}

// randomKey returns a valid Key.
func randomKey(random *rand.Rand) affinity.Key {
	name := func(alphabet string) string {
		text := make([]byte, 1+random.IntN(affinity.MaxName))
		for i := range text {
			text[i] = alphabet[random.IntN(len(alphabet))]
		}
		return string(text)
	}
	path := []byte("/")
	for range random.IntN(affinity.MaxPath) {
		if c := byte(' ' + random.IntN('~'-' ')); c != ';' {
			path = append(path, c)
		}
	}
	switch random.IntN(3) {
	case 0:
		return affinity.Key{SourceAddress: true}
	case 1:
		return affinity.Key{Header: name("aX0-_.~!#$%&'*+^`|")}
	default:
		secure := random.IntN(2) == 0
		sites := []affinity.SameSite{affinity.Lax, affinity.Strict, affinity.None}
		if !secure {
			sites = sites[:2]
		}
		return affinity.Key{Cookie: affinity.Cookie{
			Name: name("aX0-.~!#$%&'*+^`|"), Path: string(path), MaxAge: random.Uint32N(affinity.MaxAge + 1), Secure: secure,
			HTTPOnly: random.IntN(2) == 0, SameSite: sites[random.IntN(len(sites))],
		}}
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"cookie: {}", `{"cookie":{"name":"side","path":"/shop","maxAge":60,"secure":true,"sameSite":"None"}}`,
		"header: x-user-id", "sourceAddress: {}", "{cookie: &a {}, header: *a}", "{<<: {header: a}}",
		"%YAML 1.1\n---\n{header: !!binary YQ==}\n", "\x00", "[[[[[[", "{? {a: b} : c}",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		key, err := affinity.Parse(text)
		if err != nil {
			if !key.IsZero() {
				t.Fatalf("Parse(%q) = %+v and %v", text, key, err)
			}
			return
		}
		if err := affinity.Validate(key); err != nil {
			t.Fatalf("Parse(%q) = %+v, which Validate rejects: %v", text, key, err)
		}
		written := affinity.Format(key)
		if again, err := affinity.Parse(written); err != nil || again != key || len(written) > affinity.MaxBytes {
			t.Fatalf("Parse(%q) = %+v, but formatted and parsed again %+v (%v)", text, key, again, err)
		}
	})
}
