package model_test

import (
	"slices"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

func TestHostsFor(t *testing.T) {
	t.Parallel()
	for authority, want := range map[string][]model.Host{
		"shop.example.com":      {"shop.example.com", "*.example.com", "*.com", "*"},
		"Shop.EXAMPLE.com.:80":  {"shop.example.com", "*.example.com", "*.com", "*"},
		"localhost":             {"localhost", "*"},
		"[::1]:80":              {"[::1]", "*"},
		"[2001:DB8::1]":         {"[2001:db8::1]", "*"},
		"[::ffff:10.0.0.1]":     {"[::ffff:10.0.0.1]", "*"},
		"[::1":                  {"[", "*"},
		"]":                     {"]", "*"},
		"*.example.com":         {"*.example.com", "*.com", "*"},
		"*":                     {"*"},
		"":                      {"*"},
		".example.com":          {".example.com", "*.com", "*"},
		"shop.example.com:http": {"shop.example.com", "*.example.com", "*.com", "*"},
	} {
		if got := model.HostsFor(authority); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", authority, got, want)
		}
	}
}

func TestMatches(t *testing.T) {
	t.Parallel()
	headers := map[string]string{"x-canary": "1"}
	look := func(name string) (string, bool) {
		value, present := headers[name]
		return value, present
	}
	for name, test := range map[string]struct {
		match model.Match
		path  string
		want  bool
	}{
		"every path":       {model.Match{PathPrefix: "/"}, "/x", true},
		"the prefix":       {model.Match{PathPrefix: "/app"}, "/app", true},
		"below the prefix": {model.Match{PathPrefix: "/app"}, "/app/x", true},
		"half a segment":   {model.Match{PathPrefix: "/app"}, "/apple", false},
		"another path":     {model.Match{PathPrefix: "/app"}, "/", false},
		"a header": {
			model.Match{PathPrefix: "/", Headers: []model.Header{{Name: "x-canary", Value: "1"}}},
			"/", true,
		},
		"another value": {
			model.Match{PathPrefix: "/", Headers: []model.Header{{Name: "x-canary", Value: "2"}}},
			"/", false,
		},
		"any value": {
			model.Match{PathPrefix: "/", Headers: []model.Header{{Name: "x-canary", Any: true}}},
			"/", true,
		},
		"a header that is missing": {
			model.Match{PathPrefix: "/", Headers: []model.Header{{Name: "x-other", Any: true}}},
			"/",
			false,
		},
	} {
		if got := test.match.Matches(test.path, look); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
