package main

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/output"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/split"
)

// reportWith returns the report of a Rollout at 20 %, with the request counts of one proxy.
func reportWith(counts split.ProxyRequests) split.Report {
	return split.Report{
		Phase: "Paused",
		Services: []split.Service{
			{Role: split.Stable, Desired: 80, Endpoints: 2},
			{Role: split.Canary, Desired: 20, Endpoints: 1},
		},
		Objects: []split.Object{{
			Name: "HTTPScaledObject shop/shop", Written: []int64{80, 20}, Applied: split.Yes,
			Sent: []split.ProxyRequests{counts},
		}},
	}
}

// TestRequestCountLines: a line is printed only if requests have been sent, and a restarted proxy counts from zero.
func TestRequestCountLines(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	changes, now := newChangePrinter(&out, outputFlags{format: output.Table}), time.Now()
	changes.now = func() time.Time { return now }
	for _, step := range []struct {
		after time.Duration
		sent  split.ProxyRequests
		want  []string
	}{
		{
			0,
			split.ProxyRequests{Proxy: "one", Requests: []int64{80, 20}},
			[]string{
				"TIME " + strings.Join(strings.Fields(heading),
					" "), "Paused 80/20 80/20 yes - 2/1 HTTPScaledObject shop/shop",
				"sent by one: 80/20 (80.0/20.0 %) since start",
			},
		},
		// The counters change within countInterval, and then not at all.
		{time.Millisecond, split.ProxyRequests{Proxy: "one", Requests: []int64{81, 20}}, nil},
		{999 * time.Millisecond, split.ProxyRequests{Proxy: "one", Requests: []int64{80, 20}}, nil},
		{
			time.Second,
			split.ProxyRequests{Proxy: "one", Requests: []int64{120, 30}},
			[]string{"sent by one: 40/10 in 2 s (80.0/20.0 %), 120/30 since start"},
		},
		{2 * time.Second, split.ProxyRequests{Proxy: "one", Problem: "forbidden"}, []string{"sent by one: forbidden"}},
		{2 * time.Second, split.ProxyRequests{Proxy: "one", Problem: "forbidden"}, nil},
		{
			2 * time.Second,
			split.ProxyRequests{Proxy: "one", Requests: []int64{3, 1}},
			[]string{"sent by one: 3/1 in 4 s (75.0/25.0 %), 3/1 since start"},
		},
	} {
		out.Reset()
		now = now.Add(step.after)
		if err := changes.print(reportWith(step.sent)); err != nil {
			t.Fatal(err)
		}
		var got []string
		for line := range strings.Lines(out.String()) {
			line = regexp.MustCompile(`^\d\d:\d\d:\d\d`).ReplaceAllString(line, "")
			got = append(got, strings.Join(strings.Fields(line), " "))
		}
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", step.sent, diff)
		}
	}
}
