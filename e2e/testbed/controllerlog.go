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

// These are the log messages of a reconciliation by Argo Rollouts v1.10 and, at level DEBUG, those of go-plugin about
// the traffic router.
const (
	syncBegins     = `msg="Started syncing rollout"`
	syncEnds       = `msg="Reconciliation completed"`
	routerStarted  = "[DEBUG] plugin: plugin started:"
	routerNotFound = "failed to get traffic router plugin"
	routerFailed   = " via plugin: " // in each error that a router returns
	routerAnswered = `msg="Desired weight (stepIdx: `
	notVerified    = ` not yet verified"`
	syncFails      = `msg="roCtx.reconcile err `
)

// Syncs returns the controller's reconciliations of the Rollout since a moment, including the one in progress at that
// moment. It reads the controller's log file, because the file is available while the API server is down.
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
		_ = file.Close() // read-only
		if err != nil {
			return nil, fmt.Errorf("the controller's log %s: %w", name, err)
		}
		all = append(all, syncs...)
	}
	slices.SortFunc(all, func(x, y trace.Sync) int { return x.Began.Compare(y.Began) })
	return slices.DeleteFunc(all, func(s trace.Sync) bool { return !s.Ended.IsZero() && s.Ended.Before(since) }), nil
}

// syncsIn reads a log in the kubelet's format: time, stream, tag and text.
func syncsIn(lines *bufio.Scanner) ([]trace.Sync, error) {
	const longest = 1 << 20
	lines.Buffer(nil, longest)
	version := regexp.MustCompile(` resourceVersion=(\d+) `)
	var syncs []trace.Sync
	open := new(trace.Sync) // discarded: no reconciliation has started yet
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
		match := version.FindStringSubmatch(text)
		if !isAboutRollout(text) || match == nil {
			continue
		}
		number, err := strconv.ParseInt(match[1], 10, 64)
		if err != nil {
			return nil, err
		}
		syncs = append(syncs, trace.Sync{Began: at, Version: number})
		open = &syncs[len(syncs)-1]
	}
	return syncs, lines.Err()
}

// addLogLine adds the content of a log line to a sync that has not ended.
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
	if _, failure, ok := strings.Cut(text, syncFails); ok {
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

// isAboutRollout reports whether a log line is about the guide's Rollout.
func isAboutRollout(text string) bool {
	return strings.Contains(text, " namespace="+Namespace+" ") && strings.Contains(text+" ", " rollout="+App+" ")
}
