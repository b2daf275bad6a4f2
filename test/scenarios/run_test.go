package scenarios_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"

	"github.com/kedify/argo-rollouts-plugin/test/kit/invariant"
	"github.com/kedify/argo-rollouts-plugin/test/kit/rolloutscontroller"
)

// TestScenarios runs every scenario with both routers and each release of the controller, one release after another,
// and prints the stored traffic splits.
func TestScenarios(t *testing.T) {
	var mu sync.Mutex
	var rows []string
	row := func(s *environment, sc scenario, verdict string) {
		mu.Lock()
		defer mu.Unlock()
		stored := s.history(s.router.resource, s.namespace, "web")
		if next := s.history(s.router.resource, s.namespace, "next"); next != "" {
			stored += "; the second object: " + next
		}
		rows = append(rows, strings.Join([]string{sc.name, s.router.plugin, s.release.name, stored, verdict}, "\t"))
	}
	for _, release := range releases() {
		t.Run(release.name, func(t *testing.T) {
			start(t, release).all(t, row)
		})
	}
	slices.Sort(rows)
	var table strings.Builder
	writer := tabwriter.NewWriter(&table, 0, 4, 2, ' ', 0)
	fmt.Fprintln(writer, "scenario\trouter\tArgo Rollouts\tall stored canary weights, in percent\tresult")
	for _, line := range rows {
		fmt.Fprintln(writer, line)
	}
	if err := writer.Flush(); err != nil {
		t.Error(err)
	}
	t.Log("\n" + table.String())
}

// result returns the text for a completed scenario.
func (s *environment) result() string {
	text := "as it should be"
	if s.t.Failed() {
		text = "WRONG"
	}
	if s.rejection != "" {
		text += ", rejected by the controller: " + s.rejection
	}
	if s.aborted > 0 {
		text += fmt.Sprintf(", abort → weight 0: %.1f s, of these in the plugin %s", s.aborted.Seconds(), s.inPlugin)
	}
	return text
}

// awaitRejection waits until the controller rejects the Rollout.
func (s *environment) awaitRejection() {
	s.t.Helper()
	s.awaitPhase("Degraded")
	if message := s.status("message"); !strings.Contains(message, s.rejection) {
		s.t.Errorf("the Rollout's message is %s, want %q in it", message, s.rejection)
	}
	if got := s.history(s.router.resource, s.namespace, "web"); got != "0" {
		s.t.Errorf("stored weights are %q, want none", got)
	}
}

// all runs the scenarios.
func (c *cluster) all(t *testing.T, row func(*environment, scenario, string)) {
	t.Helper()
	for _, router := range []routerUnderTest{kedify, gateway} {
		for number, sc := range scenarios() {
			isOthers := sc.only != "" && sc.only != router.resource || len(c.release.only) > 0 &&
				!slices.Contains(c.release.only, sc.name)
			if isOthers {
				continue
			}
			t.Run(router.plugin+"/"+sc.name, func(t *testing.T) {
				t.Parallel()
				s := &environment{
					cluster: c, t: t, router: router, namespace: fmt.Sprintf("%s-%d", router.resource, number),
					seen: map[string]int{},
				}
				verdict := "stood still"
				defer func() { row(s, sc, verdict) }()
				s.run(sc)
				verdict = s.result()
			})
		}
	}
}

// run runs a scenario and compares the stored traffic splits.
func (s *environment) run(sc scenario) {
	s.t.Helper()
	s.prepare()
	if sc.instance != "" {
		sc.instance += "-" + s.namespace
	}
	s.rollout(sc, "1")
	if s.release.rejects != nil {
		s.rejection = s.release.rejects(sc)
	}
	if s.rejection != "" {
		s.awaitRejection()
		return
	}
	if sc.instance == "" {
		s.controllers = []*rolloutscontroller.Controller{s.main}
		s.awaitPhase("Healthy")
	}
	sc.play(s)
	if sc.kedify != "" && s.router.resource == kedify.resource {
		sc.want = sc.kedify
	}
	s.compare("web", sc.want, sc.or)
	s.compare("next", sc.next, "")
}

// compare waits until the stored traffic splits of an object are want, or alternatively or if that is not empty, in
// their order.
func (s *environment) compare(name, want, or string) {
	s.t.Helper()
	got, wanted := "", slices.DeleteFunc([]string{want, or}, func(one string) bool { return one == "" && want != "" })
	s.await("the stored weights of "+name, "final", func() string {
		got = s.history(s.router.resource, s.namespace, name)
		isUnderWay := slices.ContainsFunc(wanted, func(one string) bool { return strings.HasPrefix(one, got) })
		if slices.Contains(wanted, got) || !isUnderWay {
			return "final"
		}
		return got
	})
	if slices.Contains(wanted, got) {
		return
	}
	for one := range strings.FieldsSeq(got) {
		if !slices.Contains(strings.Fields(want), one) {
			invariant.Broken(s.t, invariant.UnexpectedWeights, "%s was shared as %q, which no step requests", name, one)
		}
	}
	s.t.Errorf("stored weights of %s are %q, want %q", name, got, want)
}
