package testbed

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/trace"
)

// What Argo Rollouts v1.10 logs of a reconciliation, and, at the level DEBUG,
// go-plugin of its router.
const (
	syncBegins     = `msg="Started syncing rollout"`
	syncEnds       = `msg="Reconciliation completed"`
	routerStarted  = "[DEBUG] plugin: plugin started:"
	routerNotFound = "failed to get traffic router plugin"
	routerFailed   = " via plugin: " // in each error that a router answers with
	routerAnswered = `msg="Desired weight (stepIdx: `
	notVerified    = ` not yet verified"`
	syncFails      = `msg="roCtx.reconcile err `
)

// Syncs are the controller's reconciliations of the Rollout since a moment, the
// one that was under way then included, by its own log. The log is read where
// the kubelet keeps it, so that it can be while the API server is away.
func (b *Testbed) Syncs(since time.Time) ([]trace.Sync, error) {
	files, err := filepath.Glob(filepath.Join(b.Cluster.Logs, "pods",
		"argo-rollouts_argo-rollouts-*", "argo-rollouts", "*.log"))
	if err != nil {
		return nil, err
	}
	var all []trace.Sync
	for _, name := range files {
		file, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("the controller's log: %w", err)
		}
		syncs, err := syncsIn(bufio.NewScanner(file))
		_ = file.Close() // it was only read
		if err != nil {
			return nil, fmt.Errorf("the controller's log %s: %w", name, err)
		}
		all = append(all, syncs...)
	}
	slices.SortFunc(all, func(x, y trace.Sync) int { return x.Began.Compare(y.Began) })
	return slices.DeleteFunc(all, func(s trace.Sync) bool { return !s.Ended.IsZero() && s.Ended.Before(since) }), nil
}

// syncsIn reads one log in the kubelet's format: the time, the stream, a mark and
// the text.
func syncsIn(lines *bufio.Scanner) ([]trace.Sync, error) {
	const longest = 1 << 20
	lines.Buffer(nil, longest)
	version := regexp.MustCompile(` resourceVersion=(\d+) `)
	var syncs []trace.Sync
	open := new(trace.Sync) // of nothing, at first
	for lines.Scan() {
		stamp, text, _ := strings.Cut(lines.Text(), " ")
		at, err := time.Parse(time.RFC3339Nano, stamp)
		if err != nil {
			continue
		}
		if !strings.Contains(text, syncBegins) {
			addLogLine(open, at, text)
			continue
		}
		found := version.FindStringSubmatch(text)
		if !isAboutRollout(text) || found == nil {
			continue
		}
		number, err := strconv.ParseInt(found[1], 10, 64)
		if err != nil {
			return nil, err
		}
		syncs = append(syncs, trace.Sync{Began: at, Version: number})
		open = &syncs[len(syncs)-1]
	}
	return syncs, lines.Err()
}

// addLogLine adds to a sync, unless it has ended, what a line says of it.
func addLogLine(s *trace.Sync, at time.Time, text string) {
	if !s.Ended.IsZero() {
		return
	}
	if strings.Contains(text, routerStarted) {
		s.Started = true
		return
	}
	if !isAboutRollout(text) {
		return
	}
	if _, failure, found := strings.Cut(text, syncFails); found {
		s.Failure, _, _ = strings.Cut(failure, `" generation=`)
	}
	answer := trace.NotCalled
	switch {
	case strings.Contains(text, syncEnds):
		s.Ended = at
	case strings.Contains(text, routerNotFound), strings.Contains(text, routerFailed):
		answer = trace.Failed
	case strings.Contains(text, routerAnswered) && strings.Contains(text, notVerified):
		answer = trace.Unverified
	case strings.Contains(text, routerAnswered):
		answer = trace.Verified
	}
	if answer != trace.NotCalled && s.Answer == trace.NotCalled {
		s.Answer, s.Answered = answer, at
	}
}

// isAboutRollout says whether a line is about the guide's Rollout.
func isAboutRollout(text string) bool {
	return strings.Contains(text, " namespace="+Namespace+" ") && strings.Contains(text+" ", " rollout="+App+" ")
}
