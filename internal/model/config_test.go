package model_test

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

func TestParseHost(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]model.Host{
		"shop.example.com":             "shop.example.com",
		"Shop.EXAMPLE.com":             "shop.example.com",
		"shop.example.com.":            "shop.example.com",
		"shop.example.com:8080":        "shop.example.com",
		"Shop.example.com.:443":        "shop.example.com",
		"*.Example.com":                "*.example.com",
		"*":                            "*",
		"*:80":                         "*",
		"*.":                           "*",
		"localhost":                    "localhost",
		"10.0.0.1:80":                  "10.0.0.1",
		"[::1]":                        "[::1]",
		"[::1]:8080":                   "[::1]",
		"[2001:0DB8:0::0001]:443":      "[2001:db8::1]",
		"[::ffff:10.0.0.1]":            "[::ffff:10.0.0.1]",
		"my_app.example.com":           "my_app.example.com",
		"xn--bcher-kva.example":        "xn--bcher-kva.example",
		strings.Repeat("a", 63) + ".x": model.Host(strings.Repeat("a", 63) + ".x"),
	} {
		got, err := model.ParseHost(text)
		if err != nil || got != want {
			t.Errorf("ParseHost(%q) = %q, %v, want %q", text, got, err, want)
		}
		if again, err := model.ParseHost(string(got)); err != nil || again != got {
			t.Errorf("ParseHost(%q) = %q, %v: the normal form is not its own normal form", got, again, err)
		}
	}
	for _, text := range []string{
		"", ".", "..", "a..b", ".a", "a b", "a/b", "http://a", "a:b", "a:", "a:123456", "::1", "2001:db8::1", "[::1", "[::1]a", "[::1].",
		"[::1]:", "[::1]:http", "[10.0.0.1]", "[fe80::1%eth0]", "[]", "[a]", "*.[::1]", "[*]", "[::1]:123456",
		"-a.b", "a-.b",
		"*a.b", "a.*", "*.*.b", "**",
		"bücher.example", "a\x00b", "\u212A.example" /* the Kelvin sign */, strings.Repeat("a", 64),
		strings.Repeat("a.", 127) + "a",
	} {
		if got, err := model.ParseHost(text); !errors.Is(err, model.ErrHost) {
			t.Errorf("ParseHost(%q) = %q, %v, want ErrHost", text, got, err)
		}
	}
}

func TestParsePathPrefix(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "/", "/": "/", "//": "/", "/app": "/app", "/app/": "/app", "/app//": "/app", "/app/x": "/app/x",
		"/a%20b": "/a%20b", "/A": "/A", "/a..b": "/a..b",
	} {
		if got, err := model.ParsePathPrefix(text); err != nil || got != want {
			t.Errorf("ParsePathPrefix(%q) = %q, %v, want %q", text, got, err, want)
		}
	}
	for _, text := range []string{
		"app", "app/", "/a b", "/a?b", "/a#b", "/a\nb", "/a\\b", "/ä", "/a/../b", "/./a", "/..",
		"/" + strings.Repeat("a", 1024),
	} {
		if got, err := model.ParsePathPrefix(text); !errors.Is(err, model.ErrPathPrefix) {
			t.Errorf("ParsePathPrefix(%q) = %q, %v, want ErrPathPrefix", text, got, err)
		}
	}
}

func TestParseHeader(t *testing.T) {
	t.Parallel()
	value := func(text string) *string { return &text }
	for _, c := range []struct {
		name  string
		value *string
		want  model.Header
	}{
		{"X-Canary", value("yes"), model.Header{Name: "x-canary", Value: "yes"}},
		{"x-canary", nil, model.Header{Name: "x-canary", Any: true}},
		{"x-canary", value(""), model.Header{Name: "x-canary"}},
		{"x", value("a \tb"), model.Header{Name: "x", Value: "a \tb"}},
	} {
		if got, err := model.ParseHeader(c.name, c.value); err != nil || got != c.want {
			t.Errorf("ParseHeader(%q) = %+v, %v, want %+v", c.name, got, err, c.want)
		}
	}
	for _, c := range []struct {
		name  string
		value *string
	}{
		{"", nil},
		{":authority", nil},
		{"a b", nil},
		{"ä", nil},
		{strings.Repeat("a", 257), nil},
		{"x", value(" a")},
		{"x", value("a\t")},
		{"x", value("a\r\nb: c")},
		{"x", value("\x00")},
		{"x", value("\xff")},
		{"x", value(strings.Repeat("a", 4097))},
	} {
		if got, err := model.ParseHeader(c.name, c.value); !errors.Is(err, model.ErrHeader) {
			t.Errorf("ParseHeader(%q) = %+v, %v, want ErrHeader", c.name, got, err)
		}
	}
}

// TestCovers lists hosts and wildcards above them.
func TestCovers(t *testing.T) {
	t.Parallel()
	for wide, hosts := range map[model.Host][]model.Host{
		"*":             {"*", "*.example.com", "a.example.com", "[::1]"},
		"*.example.com": {"*.example.com", "*.a.example.com", "a.example.com", "a.b.example.com"},
		"a.example.com": {"a.example.com"},
	} {
		for _, host := range hosts {
			if !wide.Covers(host) {
				t.Errorf("%s does not cover %s", wide, host)
			}
		}
	}
	for wide, host := range map[model.Host]model.Host{
		"*.example.com": "example.com", "*.b.example.com": "*.example.com", "a.example.com": "*.example.com",
		"*.ample.com": "a.example.com", "b.example.com": "a.example.com",
	} {
		if wide.Covers(host) {
			t.Errorf("%s covers %s", wide, host)
		}
	}
}

// TestRouteOrder lists routes in their order and sorts every permutation of them.
// TestJSONOfTimeouts: replicas of different builds compare digests of the JSON. A limit has that of builds in which 0
// meant that there is none, and no limit differs from a timeout that is not given.
func TestJSONOfTimeouts(t *testing.T) {
	t.Parallel()
	for want, value := range map[string]any{
		`{}`:                             model.Timeouts{},
		`{"ResponseHeader":60000000000}`: model.Timeouts{ResponseHeader: model.TimeoutOf(time.Minute)},
		`{"ColdStart":0}`:                model.Timeouts{ColdStart: model.TimeoutOf(0)},
		`{"IdleTimeout":1000000000}`:     model.RouteSettings{IdleTimeout: model.TimeoutOf(time.Second)},
		`{"ConnectTimeout":1000000000}`:  model.ClusterSettings{ConnectTimeout: model.TimeoutOf(time.Second)},
	} {
		if got, err := json.Marshal(value); err != nil || string(got) != want {
			t.Errorf("%+v is %s, %v; want %s", value, got, err, want)
		}
	}
}

func TestRouteOrder(t *testing.T) {
	t.Parallel()
	old, young := time.Unix(1000, 0), time.Unix(2000, 0)
	route := func(host, prefix string, created time.Time, owner string, headers ...model.Header) model.Route {
		return model.Route{
			Owner: model.Key{Namespace: "apps", Name: owner}, Created: created,
			Match: model.Match{Host: model.Host(host), PathPrefix: prefix, Headers: headers},
		}
	}
	exact, anyValue := model.Header{Name: "x", Value: "1"}, model.Header{Name: "x", Any: true}
	other := model.Header{Name: "y", Value: "1"}
	wildcard, regex := model.Header{Name: "x", Wildcard: "1*"}, model.Header{Name: "x", Regex: "1+"}
	want := []model.Route{
		route("a.example.com", "/app/x", young, "a"),
		route("a.example.com", "/app", young, "a", exact, other),
		route("a.example.com", "/app", old, "b", wildcard, other),
		route("a.example.com", "/app", young, "a", exact, model.Header{Name: "y", Any: true}),
		route("a.example.com", "/app", old, "b", wildcard, model.Header{Name: "y", Any: true}),
		route("a.example.com", "/app", old, "b", other),
		route("a.example.com", "/app", young, "a", exact),
		route("a.example.com", "/app", young, "c", exact),
		route("a.example.com", "/app", old, "b", regex),
		route("a.example.com", "/app", old, "c", wildcard),
		route("a.example.com", "/app", young, "a", regex),
		route("a.example.com", "/app", old, "a", anyValue),
		route("a.example.com", "/app", old, "a"),
		route("a.example.com", "/", old, "a"),
		route("b.example.com", "/app", old, "a"),
		route("*.shop.example.com", "/", young, "a"),
		route("*.example.com", "/app", old, "a"),
		route("*.example.org", "/app", old, "a"),
		route("*.com", "/app", old, "a"),
		route("*", "/app/x", old, "a"),
		route("*", "/", old, "a"),
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		got := slices.Clone(want)
		random.Shuffle(len(got), func(i, j int) { got[i], got[j] = got[j], got[i] })
		slices.SortFunc(got, model.CompareRoutes)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("wrong order (-want +got):\n%s", diff)
		}
	}
}

func TestMatchCompareIsZeroForEqualOnly(t *testing.T) {
	t.Parallel()
	headers := [][]model.Header{
		nil,
		{{Name: "x", Value: "1"}},
		{{Name: "x", Value: "2"}},
		{{Name: "x", Any: true}},
		{{Name: "x", Wildcard: "1"}},
		{{Name: "x", Regex: "1"}},
		{{Name: "x", Regex: "2"}},
		{{Name: "x"}},
		{{Name: "y"}},
	}
	var all []model.Match
	for _, host := range []model.Host{"a", "*.a", "*"} {
		for _, prefix := range []string{"/", "/a", "/b"} {
			for _, set := range headers {
				all = append(all, model.Match{Host: host, PathPrefix: prefix, Headers: set})
			}
		}
	}
	for i, a := range all {
		for j, b := range all {
			there, back := a.Compare(b), b.Compare(a)
			if (there == 0) != (i == j) || there != -back {
				t.Errorf("Compare(%+v, %+v) = %d, the other way round %d", a, b, there, back)
			}
		}
	}
}

func TestEffectiveWeights(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		desired []uint32
		ready   []bool
		want    []uint32
	}{
		"no canary":                              {[]uint32{100}, []bool{true}, []uint32{100}},
		"no canary, nothing ready":               {[]uint32{100}, []bool{false}, []uint32{100}},
		"all ready":                              {[]uint32{80, 20}, []bool{true, true}, []uint32{80, 20}},
		"canary not ready":                       {[]uint32{80, 20}, []bool{true, false}, []uint32{100, 0}},
		"stable not ready":                       {[]uint32{80, 20}, []bool{false, true}, []uint32{80, 20}},
		"nothing ready":                          {[]uint32{80, 20}, []bool{false, false}, []uint32{100, 0}},
		"canary at full weight":                  {[]uint32{0, 100}, []bool{true, true}, []uint32{0, 100}},
		"canary at full weight, not ready":       {[]uint32{0, 100}, []bool{true, false}, []uint32{0, 100}},
		"experiment not ready":                   {[]uint32{60, 30, 10}, []bool{true, true, false}, []uint32{70, 30, 0}},
		"canary and experiment not ready":        {[]uint32{60, 30, 10}, []bool{true, false, false}, []uint32{100, 0, 0}},
		"canary of weight 0 not ready":           {[]uint32{100, 0}, []bool{true, false}, []uint32{100, 0}},
		"the largest sum":                        {[]uint32{1, 1<<32 - 2}, []bool{true, false}, []uint32{1<<32 - 1, 0}},
		"nothing":                                {nil, nil, nil},
		"stable at 0, of two canaries one ready": {[]uint32{0, 50, 50}, []bool{true, true, false}, []uint32{0, 50, 50}},
	} {
		backends, services := world(c.desired, c.ready)
		if got := model.EffectiveWeights(backends, services); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

// TestEffectiveWeightsProperties checks the properties of all splits and all states of their endpoints.
func TestEffectiveWeightsProperties(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	for range 20_000 {
		desired, ready := make([]uint32, 1+random.IntN(5)), make([]bool, 5)
		for i := range desired {
			desired[i] = random.Uint32N(4) * random.Uint32N(1000)
			ready[i] = random.IntN(2) == 0
		}
		backends, services := world(desired, ready)
		before := slices.Clone(backends)
		got := model.EffectiveWeights(backends, services)
		if !slices.Equal(before, backends) {
			t.Fatal("the desired weights were changed")
		}
		if sum(got) != sum(desired) {
			t.Fatalf("desired %v, ready %v: got %v: the sum changed", desired, ready, got)
		}
		for i, weight := range got {
			switch {
			case desired[i] == 0 && weight != 0:
				t.Fatalf("desired %v, ready %v: got %v: weight 0 got requests", desired, ready, got)
			case i == 0 && weight < desired[0]:
				t.Fatalf("desired %v, ready %v: got %v: the stable weight went to a canary", desired, ready, got)
			case i > 0 && weight > desired[i]:
				t.Fatalf("desired %v, ready %v: got %v: a canary got more than its weight", desired, ready, got)
			case i > 0 && ready[i] && weight != desired[i]:
				t.Fatalf("desired %v, ready %v: got %v: a ready canary lost its weight", desired, ready, got)
			case i > 0 && !ready[i] && weight != 0 && desired[0] > 0:
				t.Fatalf("desired %v, ready %v: got %v: the weight of a backend without ready endpoints was "+
					"kept", desired, ready, got)
			}
		}
	}
}

// world returns backends with the desired weights, and endpoints for those that are ready. The others have a draining
// endpoint, which must not count.
func world(desired []uint32, ready []bool) ([]model.Backend, map[model.ServicePort]model.Endpoints) {
	var backends []model.Backend
	services := map[model.ServicePort]model.Endpoints{}
	address := []netip.AddrPort{netip.MustParseAddrPort("10.0.0.1:80")}
	for i, weight := range desired {
		backend := model.Backend{
			Service: model.Key{Namespace: "apps", Name: string(rune('a' + i))}, Port: 80, Weight: weight,
			Protocol: model.HTTP1,
		}
		backends = append(backends, backend)
		if ready[i] {
			services[backend.ServicePort()] = model.Endpoints{Ready: address}
		} else {
			services[backend.ServicePort()] = model.Endpoints{Draining: address}
		}
	}
	return backends, services
}

func sum(weights []uint32) (total uint64) {
	for _, weight := range weights {
		total += uint64(weight)
	}
	return total
}
