package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/e2e/assert"
	"github.com/kedify/argo-rollouts-plugin/e2e/demo/report"
	"github.com/kedify/argo-rollouts-plugin/e2e/demo/scenario"
	"github.com/kedify/argo-rollouts-plugin/e2e/provider"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/invariant"
)

func TestAnnouncement(t *testing.T) {
	const (
		canary  = "canary half: promote one canary, abort a second one, and measure each weight under load: about 2 min"
		scaling = "scaling half: KEDA scales the app with its requests, down to zero and up again: about 5 min"
		start   = "start the embedded cluster, or update the one that runs: about 1 min"
	)
	cold := builds{
		canaryPart:  {Components: []string{"etcd", "keda-api"}, Seconds: 600},
		scalingPart: {Components: []string{"keda"}, Seconds: 300},
	}
	tests := []struct {
		name, provider string
		only           part
		missing        builds
		want           []string
	}{
		{"with an empty cache", provider.NameEmbedded, "", cold, []string{
			"This run takes about 23 min on two cores:",
			"  1. build what the canary half needs, once (components: 2): about 10 min", "  2. " + start,
			"  3. " + canary, "  4. build what the scaling half needs, once (components: 1): about 5 min", "  5. " + scaling,
		}},
		{
			"with a full cache", provider.NameEmbedded, "", nil,
			[]string{"This run takes about 8 min on two cores:", "  1. " + start, "  2. " + canary, "  3. " + scaling},
		},
		{
			"the scaling half", provider.NameEmbedded, scalingPart, nil,
			[]string{"This run takes about 6 min on two cores:", "  1. " + start, "  2. " + scaling},
		},
		{"a cluster of the user's", provider.NameExisting, "", nil, []string{
			"This run takes about 7 min on two cores:", "  1. check the cluster that $KUBECONFIG names",
			"  2. " + canary, "  3. " + scaling,
		}},
	}
	for _, tt := range tests {
		o := options{provider: tt.provider, only: tt.only}
		got := o.announcement(o.planSteps(tt.missing))
		if len(got) < len(tt.want) || cmp.Diff(tt.want, got[:len(tt.want)]) != "" {
			t.Errorf("%s: output\n%s", tt.name, strings.Join(got, "\n"))
		}
		if others := strings.Contains(strings.Join(got, "\n"),
			"PROVIDER=kind"); others != (tt.provider == provider.NameEmbedded) {
			t.Errorf("%s: it names other clusters: %v", tt.name, others)
		}
	}
}

// Each half waits only for its own components.
func TestMissing(t *testing.T) {
	p := newFakeBin(t, "stopped")
	p.write(t, "localcluster", `#!/bin/sh
case "$*" in
"build --estimate --with keda-api --with traefik") echo '{"components":["etcd","keda-api"],"seconds":600}' ;;
"build --estimate --with keda --with traefik") echo '{"components":["etcd","keda"],"seconds":900}' ;;
*) exit 1 ;;
esac`)
	o := p.options(false, new(fakeScreen))
	o.local.Patience = await.Patience()
	got, err := o.missing(t.Context())
	want := builds{
		canaryPart:  {Components: []string{"etcd", "keda-api"}, Seconds: 600},
		scalingPart: {Components: []string{"keda"}, Seconds: 300},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v; missing (-want +got):\n%s", err, diff)
	}
}

func TestBrokenInvariants(t *testing.T) {
	lost := report.Check{Name: "no request failed", Detail: "3 of 100", Invariant: invariant.FailedRequests}
	tests := []struct {
		name   string
		err    error
		checks []report.Check
		want   []string
	}{
		{
			"failed requests", errors.New("x"),
			[]report.Check{lost, {Name: "good", OK: true, Invariant: invariant.End}, {Name: "Envoy counted the same"}},
			[]string{
				"invariant broken: failed requests: no request failed: 3 of 100",
			},
		},
		{
			"a split", fmt.Errorf("step 20 %%: %w\nmore", assert.ErrSplit), nil,
			[]string{"invariant broken: split: step 20 %: the split is off; more"},
		},
		{"a weight", fmt.Errorf("%w: Envoy ran 35/65", scenario.ErrWeight), nil, []string{
			"invariant broken: unexpected weights: a weight that no step requests: Envoy ran 35/65",
		}},
		{"an overload", fmt.Errorf("%w\n%w", scenario.ErrOverload, assert.ErrSplit), []report.Check{lost}, nil},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, brokenInvariants(tt.err, tt.checks)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}
