package split_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/internal/model/split"
)

func TestFormatMatchesTheGuide(t *testing.T) {
	t.Parallel()
	got := split.Format([]split.Backend{
		{Service: "rollouts-demo-stable", Weight: 80},
		{Service: "rollouts-demo-canary", Weight: 20},
	})
	want := "- service: rollouts-demo-stable\n  weight: 80\n- service: rollouts-demo-canary\n  weight: 20\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Format (-want +got):\n%s", diff)
	}
}

func TestFormatQuotesAmbiguousNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"null", "true", "yes", "on", "y", "1", "0x1f", "1e3", "12-34"} {
		got := split.Format([]split.Backend{{Service: name, Weight: 1}})
		if want := fmt.Sprintf("- service: %q\n  weight: 1\n", name); got != want {
			t.Errorf("Format of service %s = %q, want %q", name, got, want)
		}
	}
}

func TestParseAccepts(t *testing.T) {
	t.Parallel()
	want := []split.Backend{{Service: "stable", Weight: 80}, {Service: "canary", Weight: 20}}
	tests := map[string]struct {
		text string
		want []split.Backend
	}{
		"block style":        {"- service: stable\n  weight: 80\n- service: canary\n  weight: 20\n", want},
		"keys the other way": {"- weight: 80\n  service: stable\n- weight: 20\n  service: canary", want},
		"flow style":         {"[{service: stable, weight: 80}, {service: canary, weight: 20}]", want},
		"JSON":               {`[{"service":"stable","weight":80},{"service":"canary","weight":20}]`, want},
		"document markers":   {"---\n- {service: stable, weight: 80}\n- {service: canary, weight: 20}\n...\n", want},
		"comments":           {"# who\n- {service: stable, weight: 80} # most\n- {service: canary, weight: 20}", want},
		"a weight of zero": {
			"- {service: stable, weight: 0}\n- {service: canary, weight: 100}",
			[]split.Backend{{"stable", 0}, {"canary", 100}},
		},
		"any sum": {
			"- {service: stable, weight: 1}\n- {service: canary, weight: 2}",
			[]split.Backend{{"stable", 1}, {"canary", 2}},
		},
		"one entry":            {"- {service: stable, weight: 100}", []split.Backend{{"stable", 100}}},
		"the greatest sum":     {"- {service: stable, weight: 4294967295}", []split.Backend{{"stable", math.MaxUint32}}},
		"a name like a number": {"- {service: 123, weight: 1}", []split.Backend{{"123", 1}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := split.Parse(test.text)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("Parse (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseRejects(t *testing.T) {
	t.Parallel()
	many := strings.Repeat("- {service: a, weight: 1}\n", split.MaxBackends+1)
	tests := map[string]struct {
		text string
		want error
	}{
		"nothing":                  {"", split.ErrEmpty},
		"a comment only":           {"# later\n", split.ErrEmpty},
		"an empty list":            {"[]", split.ErrEmpty},
		"null":                     {"null", split.ErrSyntax},
		"a mapping":                {"service: a\nweight: 1\n", split.ErrSyntax},
		"bad YAML":                 {"- {service: a", split.ErrSyntax},
		"a list of strings":        {"- a\n- b\n", split.ErrSyntax},
		"two documents":            {"- {service: a, weight: 1}\n---\n- {service: b, weight: 1}\n", split.ErrSyntax},
		"no weight":                {"- service: a\n", split.ErrSyntax},
		"no service":               {"- weight: 1\n", split.ErrSyntax},
		"a null service":           {"- {service: ~, weight: 1}", split.ErrSyntax},
		"a key twice":              {"- {service: a, weight: 1, weight: 2}", split.ErrSyntax},
		"an unknown key":           {"- {service: a, weight: 1, namespace: b}", split.ErrSyntax},
		"a merge key":              {"- {<<: {service: a}, weight: 1}", split.ErrSyntax},
		"a service that is a list": {"- {service: [a], weight: 1}", split.ErrSyntax},
		"an anchor":                {"- &x {service: a, weight: 1}", split.ErrAlias},
		"an alias":                 {"- &x {service: a, weight: 1}\n- *x\n", split.ErrAlias},
		"an alias as value":        {"- {service: &n a, weight: 1}\n- {service: *n, weight: 1}\n", split.ErrAlias},
		"4097 bytes":               {"- {service: a, weight: 1}" + strings.Repeat(" ", split.MaxBytes), split.ErrTooLong},
		"17 entries":               {many, split.ErrTooMany},
		"another namespace":        {"- {service: b/a, weight: 1}", split.ErrServiceName},
		"a domain name":            {"- {service: a.b.svc, weight: 1}", split.ErrServiceName},
		"upper case":               {"- {service: A, weight: 1}", split.ErrServiceName},
		"a hyphen at the end":      {"- {service: a-, weight: 1}", split.ErrServiceName},
		"an empty name":            {`- {service: "", weight: 1}`, split.ErrServiceName},
		"64 characters":            {"- {service: " + strings.Repeat("a", 64) + ", weight: 1}", split.ErrServiceName},
		"a Service twice":          {"- {service: a, weight: 1}\n- {service: a, weight: 2}", split.ErrDuplicate},
		"all weights zero":         {"- {service: a, weight: 0}\n- {service: b, weight: 0}", split.ErrNoWeight},
		"a negative weight":        {"- {service: a, weight: -1}", split.ErrWeight},
		"a fraction":               {"- {service: a, weight: 0.5}", split.ErrWeight},
		"a quoted weight":          {`- {service: a, weight: "1"}`, split.ErrWeight},
		"a hexadecimal weight":     {"- {service: a, weight: 0x10}", split.ErrWeight},
		"a weight of 33 bits":      {"- {service: a, weight: 4294967296}", split.ErrWeight},
		"a sum of 33 bits":         {"- {service: a, weight: 4294967295}\n- {service: b, weight: 1}", split.ErrWeight},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := split.Parse(test.text)
			if !errors.Is(err, test.want) {
				t.Errorf("Parse error is %v, want %v", err, test.want)
			}
			if got != nil {
				t.Errorf("Parse returned %v and an error", got)
			}
		})
	}
}

func TestParseReversesFormat(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		want := randomSplit(random)
		if err := split.Validate(want); err != nil {
			t.Fatalf("the generator made an invalid split %v: %v", want, err)
		}
		got, err := split.Parse(split.Format(want))
		if err != nil {
			t.Fatalf("Parse(Format(%v)): %v", want, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("Parse(Format(x)) (-x +got):\n%s", diff)
		}
	}
}

func TestHashIsSHA256InHexadecimal(t *testing.T) {
	t.Parallel()
	const (
		ofABC = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" // FIPS 180-4's example
		ofAB  = "59b271ae1bbcb1d31d41929817f4b16fb439eb4f31520b5ad1d5ce98920a7138" // a, zero byte, b
	)
	for _, c := range []struct {
		texts []string
		want  string
	}{
		{nil, ""},
		{[]string{"", ""}, ""},
		{[]string{"", "", ""}, ""},
		{[]string{"abc"}, ofABC},
		{[]string{"abc", ""}, ofABC},
		{[]string{"abc", "", ""}, ofABC},
		{[]string{"a", "b"}, ofAB},
		{[]string{"a", "b", ""}, ofAB},
	} {
		if got := split.Hash(c.texts...); got != c.want {
			t.Errorf("Hash(%q) = %q, want %q", c.texts, got, c.want)
		}
	}
	seen := map[string][]string{}
	for _, texts := range [][]string{
		{"a"}, {"", "a"}, {"", "", "a"}, {"a", "b", "c"}, {"a", "b"}, {"a", "", "b"}, {"a", "c", "b"}, {"ab", "c"},
	} {
		hash := split.Hash(texts...)
		if other, ok := seen[hash]; ok {
			t.Errorf("%q and %q have the same hash", texts, other)
		}
		seen[hash] = texts
	}
}

// randomSplit returns a valid split of reserved words, numbers and ordinary names, with at least one weight above zero.
func randomSplit(random *rand.Rand) []split.Backend {
	names := []string{"null", "true", "no", "y", "7", "1e3", "0b1", "a", "shop-stable", "x-1", strings.Repeat("z", 63)}
	random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	backends := make([]split.Backend, 1+random.IntN(len(names)))
	for i := range backends {
		backends[i] = split.Backend{Service: names[i], Weight: random.Uint32N(split.MaxWeightSum / split.MaxBackends)}
	}
	backends[random.IntN(len(backends))].Weight++
	return backends
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"- service: a\n  weight: 80\n- service: b\n  weight: 20\n",
		`[{"service":"a","weight":1}]`,
		"- &x {service: a, weight: 1}\n- *x\n",
		"- {<<: {service: a}, weight: 1}",
		"%YAML 1.1\n---\n- {service: !!binary YQ==, weight: !!int \"1\"}\n",
		"- {service: null, weight: 0o7}",
		"\x00", "[[[[[[", "- ? {service: a}\n", "- {? [a] : b}",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		backends, err := split.Parse(text)
		if err != nil {
			return
		}
		if err := split.Validate(backends); err != nil {
			t.Fatalf("Parse(%q) = %v, which Validate rejects: %v", text, backends, err)
		}
		again, err := split.Parse(split.Format(backends))
		if err != nil || !slices.Equal(backends, again) {
			t.Fatalf("Parse(%q) = %v, but formatted and parsed again %v (%v)", text, backends, again, err)
		}
	})
}
