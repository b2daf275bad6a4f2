package scenarios_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"

	"github.com/kedify/argo-rollouts-plugin/internal/testkit/rolloutscontroller"
)

// measuredAtOnce is how many scenarios that measure a time are played at once: what a machine does meanwhile is in it.
const measuredAtOnce = 3

// TestScenarios plays every scenario with both routers and each release of the controller, and prints what was stored.
func TestScenarios(t *testing.T) {
	var mu sync.Mutex
	var rows []string
	row := func(s *stage, one scenario, verdict string) {
		mu.Lock()
		defer mu.Unlock()
		stored := s.of(s.router.resource, s.namespace, "web")
		if next := s.of(s.router.resource, s.namespace, "next"); next != "" {
			stored += "; the second object: " + next
		}
		rows = append(rows, strings.Join([]string{one.name, s.router.plugin, s.release.name, stored, verdict}, "\t"))
	}
	for group, isMeasured := range map[string]bool{"at once": false, "measured": true} {
		t.Run(group, func(t *testing.T) { all(t, isMeasured, row) })
	}
	slices.Sort(rows)
	var table strings.Builder
	writer := tabwriter.NewWriter(&table, 0, 4, 2, ' ', 0)
	fmt.Fprintln(writer, "scenario\trouter\tArgo Rollouts\tevery share of the canary that was stored, in percent\tverdict")
	for _, one := range rows {
		fmt.Fprintln(writer, one)
	}
	if err := writer.Flush(); err != nil {
		t.Error(err)
	}
	t.Log("\n" + table.String())
}

// verdict is what is to be said of a scenario that has ended.
func (s *stage) verdict() string {
	said := "as it should be"
	if s.t.Failed() {
		said = "WRONG"
	}
	if s.refused != "" {
		said += ", refused by the controller: " + s.refused
	}
	if s.aborted > 0 {
		said += fmt.Sprintf(", abort → share 0: %.1f s (limit %v), of these in the plugin %s", s.aborted.Seconds(), abortLimit, s.inPlugin)
	}
	return said
}

// isRefused waits until the controller refuses the Rollout.
func (s *stage) isRefused() {
	s.t.Helper()
	s.is("Degraded")
	if message := s.status("message"); !strings.Contains(message, s.refused) {
		s.t.Errorf("the Rollout's message is %s, want %q in it", message, s.refused)
	}
	if got := s.of(s.router.resource, s.namespace, "web"); got != "0" {
		s.t.Errorf("stored shares are %q, want none", got)
	}
}

// all plays the scenarios that measure a time, or those that don't.
func all(t *testing.T, isMeasured bool, row func(*stage, scenario, string)) {
	t.Helper()
	room := make(chan struct{}, measuredAtOnce)
	for _, c := range clusters {
		for _, router := range []routerUnderTest{kedify, gateway} {
			for number, one := range scenarios() {
				isOthers := one.only != "" && one.only != router.resource || len(c.release.only) > 0 && !slices.Contains(c.release.only, one.name)
				if isOthers || one.measured != isMeasured {
					continue
				}
				t.Run(c.release.name+"/"+router.plugin+"/"+one.name, func(t *testing.T) {
					t.Parallel()
					if isMeasured {
						room <- struct{}{}
						defer func() { <-room }()
					}
					s := &stage{cluster: c, t: t, router: router, namespace: fmt.Sprintf("%s-%d", router.resource, number)}
					verdict := "stood still"
					defer func() { row(s, one, verdict) }()
					s.run(one)
					verdict = s.verdict()
				})
			}
		}
	}
}

// run plays a scenario and compares what was stored.
func (s *stage) run(one scenario) {
	s.t.Helper()
	s.prepare()
	if one.instance != "" {
		one.instance += "-" + s.namespace
	}
	s.rollout(one, "1")
	if s.release.refuses != nil {
		s.refused = s.release.refuses(one)
	}
	if s.refused != "" {
		s.isRefused()
		return
	}
	if one.instance == "" {
		s.controllers = []*rolloutscontroller.Controller{s.main}
		s.is("Healthy")
	}
	one.play(s)
	if one.kedify != "" && s.router.resource == kedify.resource {
		one.want = one.kedify
	}
	if got := s.of(s.router.resource, s.namespace, "web"); got != one.want && (one.or == "" || got != one.or) {
		s.t.Errorf("stored shares are %q, want %q", got, one.want)
	}
	if got := s.of(s.router.resource, s.namespace, "next"); got != one.next {
		s.t.Errorf("stored shares of the next object are %q, want %q", got, one.next)
	}
}
