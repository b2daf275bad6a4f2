package gateway

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// plan is a walk that can be chosen.
type plan struct {
	name string
	// objects names the guide. Walks with the same one need the same objects and
	// follow each other; all others go side by side.
	objects string
	walk    func(t *testing.T, w world, p proxy)
	proxy   proxy
}

// plans are all walks.
func plans() []plan {
	return []plan{
		{"my-app", "my-app", testMyApp, proxy{"gateway", "my-gateway"}},
		{"bookinfo", "bookinfo", testBookinfo, proxy{"gateway", "http-gateway"}},
		{"connections", "connections", testConnections, proxy{"gateway", "connections"}},
		{"my-app on Traefik", "my-app", testMyApp, proxy{"gateway-traefik", "traefik"}},
		{"bookinfo on Traefik", "bookinfo", testBookinfo, proxy{"gateway-traefik", "traefik"}},
	}
}

// walksVariable has the names of the walks to take, with commas between them; all
// if it is empty.
const walksVariable = "GATEWAY_WALKS"

// errChoice says that walks are chosen that there are not.
var errChoice = errors.New("no such choice of walks")

// choose picks plans by their names.
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
			return nil, fmt.Errorf("%w: %s has %q; there are: %s", errChoice, walksVariable, name, strings.Join(known, ", "))
		}
		if slices.ContainsFunc(chosen, func(p plan) bool { return p.name == name }) {
			return nil, fmt.Errorf("%w: %s has %q twice", errChoice, walksVariable, name)
		}
		chosen = append(chosen, all[at])
	}
	return chosen, nil
}

// inTurn groups plans: those of a group need the same objects.
func inTurn(chosen []plan) [][]plan {
	var groups [][]plan
	for _, p := range chosen {
		at := slices.IndexFunc(groups, func(group []plan) bool { return group[0].objects == p.objects })
		if at < 0 {
			groups = append(groups, []plan{p})
			continue
		}
		groups[at] = append(groups[at], p)
	}
	return groups
}

// TestGuides walks through the guides in one cluster. As many walks must have run
// as were chosen, whatever the flags of go test say.
func TestGuides(t *testing.T) {
	chosen, err := choose(os.Getenv(walksVariable), plans())
	if err != nil {
		t.Fatal(err)
	}
	w := start(t)
	var ran atomic.Int32
	// Two walks at a time: three starved Envoy Gateway on two cores. It was seen to
	// need more than 10 s to withdraw the endpoint of a pod that ends.
	atOnce := make(chan struct{}, 2)
	var groups sync.WaitGroup
	for _, group := range inTurn(chosen) {
		groups.Go(func() {
			for _, p := range group {
				atOnce <- struct{}{}
				t.Run(p.name, func(t *testing.T) {
					ran.Add(1)
					p.walk(t, w, p.proxy)
				})
				<-atOnce
			}
		})
	}
	groups.Wait()
	t.Logf("%d of %d walks ran", ran.Load(), len(chosen))
	if int(ran.Load()) != len(chosen) {
		t.Errorf("%d walks were to run, %d did", len(chosen), ran.Load())
	}
}

func TestChoose(t *testing.T) {
	all := []plan{{name: "a", objects: "1"}, {name: "b", objects: "2"}, {name: "a on c", objects: "1"}}
	tests := []struct {
		names string
		want  [][]string
		fails string
	}{
		{names: "", want: [][]string{{"a", "a on c"}, {"b"}}},
		{names: "b", want: [][]string{{"b"}}},
		{names: "a on c, b,a", want: [][]string{{"a on c", "a"}, {"b"}}},
		{names: "a,d", fails: `GATEWAY_WALKS has "d"; there are: a, b, a on c`},
		{names: "a,", fails: `has ""`},
		{names: "b,b", fails: `has "b" twice`},
	}
	for _, tt := range tests {
		chosen, err := choose(tt.names, all)
		if (err != nil) != (tt.fails != "") || (err != nil && !strings.Contains(err.Error(), tt.fails)) {
			t.Errorf("%q: error %v, want %q", tt.names, err, tt.fails)
		}
		var got [][]string
		for _, group := range inTurn(chosen) {
			var names []string
			for _, p := range group {
				names = append(names, p.name)
			}
			got = append(got, names)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tt.names, diff)
		}
	}
}
