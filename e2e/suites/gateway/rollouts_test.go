package gateway

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// plan is a guide run that can be selected.
type plan struct {
	name  string
	run   func(t *testing.T, w environment, p proxy)
	proxy proxy
}

// runsVariable contains the selected runs, separated by commas; empty means all.
const runsVariable = "GATEWAY_WALKS"

// errChoice means that an unknown run is selected.
var errChoice = errors.New("unknown guide run")

// choose returns the plans with these names.
func choose(names string, all []plan) ([]plan, error) {
	if strings.TrimSpace(names) == "" {
		return all, nil
	}
	var known []string
	for _, p := range all {
		known = append(known, p.name)
	}
	var chosen []plan
	for name := range strings.SplitSeq(names, ",") {
		name = strings.TrimSpace(name)
		at := slices.Index(known, name)
		if at < 0 {
			return nil, fmt.Errorf("%w: %s has %q; there are: %s", errChoice, runsVariable, name, strings.Join(known, ", "))
		}
		if slices.ContainsFunc(chosen, func(p plan) bool { return p.name == name }) {
			return nil, fmt.Errorf("%w: %s has %q twice", errChoice, runsVariable, name)
		}
		chosen = append(chosen, all[at])
	}
	return chosen, nil
}

// TestGuides runs the guides in one cluster. All selected runs must have run, whatever the flags of go test are.
func TestGuides(t *testing.T) {
	s, err := chooseSetup(os.Getenv(setupVariable), os.Getenv(crdsVariable))
	if err != nil {
		t.Fatal(err)
	}
	chosen, err := choose(os.Getenv(runsVariable), s.plans)
	if err != nil {
		t.Fatal(err)
	}
	w := start(t, s)
	// One run at a time: three in parallel starved Envoy Gateway on two cores. It
	// needed more than 10 s to remove the endpoint of a terminating Pod.
	ran := 0
	for _, p := range chosen {
		t.Run(p.name, func(t *testing.T) {
			ran++
			p.run(t, w, p.proxy)
		})
	}
	t.Logf("%d of %d guide runs ran", ran, len(chosen))
	if ran != len(chosen) {
		t.Errorf("%d guide runs selected, %d ran", len(chosen), ran)
	}
}

func TestChoose(t *testing.T) {
	all := []plan{{name: "a"}, {name: "b"}, {name: "a on c"}}
	tests := []struct {
		names string
		want  []string
		fails string
	}{
		{names: "", want: []string{"a", "b", "a on c"}},
		{names: "b", want: []string{"b"}},
		{names: "a on c, b,a", want: []string{"a on c", "b", "a"}},
		{names: "a,d", fails: `GATEWAY_WALKS has "d"; there are: a, b, a on c`},
		{names: "a,", fails: `has ""`},
		{names: "b,b", fails: `has "b" twice`},
	}
	for _, tt := range tests {
		chosen, err := choose(tt.names, all)
		if (err != nil) != (tt.fails != "") || (err != nil && !strings.Contains(err.Error(), tt.fails)) {
			t.Errorf("%q: error %v, want %q", tt.names, err, tt.fails)
		}
		var got []string
		for _, p := range chosen {
			got = append(got, p.name)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tt.names, diff)
		}
	}
}
