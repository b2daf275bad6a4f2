package bed

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// What Argo Rollouts v1.10 logs before it calls its routers, and after a weight
// was set.
const (
	beforeRouters = "Reconciling TrafficRouting with type"
	afterWeights  = `msg="New weights: `
)

// Asked is when the controller began to ask its router for a weight, between two
// moments, by its own log; zero if the log doesn't tell. The log is read where
// the kubelet keeps it, so that it can be while the API server is away.
func (b *Bed) Asked(weight int, from, to time.Time) (time.Time, error) {
	files, err := filepath.Glob(filepath.Join(b.Cluster.Logs, "pods", "argo-rollouts_argo-rollouts-*", "argo-rollouts", "*.log"))
	if err != nil {
		return time.Time{}, err
	}
	for _, name := range files {
		file, err := os.Open(name)
		if err != nil {
			return time.Time{}, fmt.Errorf("the controller's log: %w", err)
		}
		asked, err := askedIn(bufio.NewScanner(file), weight, from, to)
		if closed := file.Close(); err == nil {
			err = closed
		}
		if err != nil || !asked.IsZero() {
			return asked, err
		}
	}
	return time.Time{}, nil
}

// askedIn is Asked for one log, in the kubelet's format: the time, the stream, a
// mark and the text. The last call before a weight is the one that set it.
func askedIn(lines *bufio.Scanner, weight int, from, to time.Time) (time.Time, error) {
	const longest = 1 << 20
	lines.Buffer(nil, longest)
	var called time.Time
	for lines.Scan() {
		stamp, text, _ := strings.Cut(lines.Text(), " ")
		at, err := time.Parse(time.RFC3339Nano, stamp)
		if err != nil || at.Before(from) {
			continue
		}
		switch {
		case at.After(to):
			return time.Time{}, nil
		case strings.Contains(text, beforeRouters):
			called = at
		case strings.Contains(text, afterWeights) && strings.Contains(text, fmt.Sprintf("Canary:WeightDestination{Weight:%d,", weight)):
			return called, nil
		}
	}
	return time.Time{}, lines.Err()
}
