package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/output"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/split"
)

// readings are what list --watch reads one after the other. An empty name is a cluster without Rollouts.
func readings(t *testing.T, names ...string) []*facts.Facts {
	t.Helper()
	var all []*facts.Facts
	for _, name := range names {
		cluster := readMoment(t, "1-before.yaml")
		if cluster.Rollouts = nil; name != "" {
			cluster = readMoment(t, name)
		}
		all = append(all, cluster)
	}
	return all
}

// watched returns the output of list --watch for these readings.
func watched(t *testing.T, flags outputFlags, all []*facts.Facts) (out, problems string) {
	t.Helper()
	var printed, failed bytes.Buffer
	options := &listOptions{outputFlags: flags, isAll: true, watch: true}
	printer := newListPrinter(options, &printed, &failed)
	for _, cluster := range all {
		if err := printer.print(cluster); err != nil {
			t.Fatal(err)
		}
	}
	return printed.String(), failed.String()
}

// TestListPrintsChanges: list --watch prints each canary once, then those that have changed, and those that were removed.
func TestListPrintsChanges(t *testing.T) {
	t.Parallel()
	out, _ := watched(t, outputFlags{format: output.JSON},
		readings(t, "1-before.yaml", "1-before.yaml", "3-verified.yaml", "5-aborted.yaml", "", "", "1-before.yaml"))
	var lines []string
	for line := range strings.Lines(out) {
		var entry struct {
			APIVersion, Kind string
			Weight           int64
			Removed          bool
		}
		if err := json.Unmarshal([]byte(line), &entry); err != nil || entry.Kind != "Canary" || entry.APIVersion == "" {
			t.Errorf("line %q: %v", line, err)
		}
		lines = append(lines, fmt.Sprintf("%d %t", entry.Weight, entry.Removed))
	}
	if diff := cmp.Diff([]string{"0 false", "20 false", "0 false", "0 true", "0 false"}, lines); diff != "" {
		t.Errorf("weight and removal (-want +got):\n%s", diff)
	}
}

// TestListHasHeadersAboveTheFirstRow: no matter whether there was a canary at the start.
func TestListHasHeadersAboveTheFirstRow(t *testing.T) {
	t.Parallel()
	const (
		headers = "NAMESPACE/NAME ROUTER STEP STABLE/CANARY WEIGHT VERIFIED PROXIES STATUS AGE"
		before  = "shop/shop kedify/http 2/2 2/2 0 True 2/2 Healthy 60m"
		paused  = "shop/shop kedify/http 2/2 2/2 20 True 2/2 Paused 60m"
		removed = "shop/shop kedify/http 2/2 2/2 20 True 2/2 Removed 60m"
		none    = "No Rollout uses a router of this project."
	)
	for name, test := range map[string]struct {
		names     []string
		noHeaders bool
		want      []string
		problems  string
	}{
		"a canary at the start": {[]string{"1-before.yaml", "3-verified.yaml"}, false, []string{headers, before, paused}, ""},
		"no canary at the start": {
			[]string{"", "", "1-before.yaml", "3-verified.yaml", ""},
			false,
			[]string{headers, before, paused, removed},
			none + "\n",
		},
		"no headers": {[]string{"", "1-before.yaml"}, true, []string{before}, none + "\n"},
		"no canary":  {[]string{"", ""}, false, nil, none + "\n"},
	} {
		out, problems := watched(t, outputFlags{format: output.Table, noHeaders: test.noHeaders}, readings(t, test.names...))
		var lines []string
		for line := range strings.Lines(out) {
			namespace, rest, _ := strings.Cut(strings.Join(strings.Fields(line), " "), " ")
			lines = append(lines, namespace+"/"+rest)
		}
		if diff := cmp.Diff(test.want, lines); diff != "" || problems != test.problems {
			t.Errorf("%s: stderr %q (-want +got):\n%s", name, problems, diff)
		}
	}
}

// TestListFollowsTheRouter: a Rollout that no longer uses a router of this project leaves the list.
func TestListFollowsTheRouter(t *testing.T) {
	t.Parallel()
	all := readings(t, "3-verified.yaml", "3-verified.yaml")
	all[1].Rollouts[0].Spec.Strategy.Canary.TrafficRouting.Plugins = nil
	out, _ := watched(t, outputFlags{format: output.Table, noHeaders: true}, all)
	if !strings.Contains(out, "Paused") || !strings.Contains(out, "Removed") {
		t.Errorf("the output is\n%s", out)
	}
}

// TestStatusWatchHasHeadersAboveTheFirstRow: a Rollout without a routing object has no row yet.
func TestStatusWatchHasHeadersAboveTheFirstRow(t *testing.T) {
	t.Parallel()
	full := reportWith(split.ProxyRequests{Proxy: "one", Requests: []int64{1, 1}})
	empty := full
	empty.Objects = nil
	for _, noHeaders := range []bool{false, true} {
		var out strings.Builder
		changes := newChangePrinter(&out, outputFlags{format: output.Table, noHeaders: noHeaders})
		for i, report := range []split.Report{empty, full, full} {
			if err := changes.print(report); err != nil {
				t.Fatal(err)
			}
			if i == 0 && out.Len() > 0 {
				t.Errorf("there is no row, but %q", out.String())
			}
		}
		if got := strings.Count(out.String(), heading); (got == 0) != noHeaders || got > 1 {
			t.Errorf("--no-headers=%t: %d headers:\n%s", noHeaders, got, out.String())
		}
	}
}
