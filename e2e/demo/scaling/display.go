package scaling

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/demo/report"
	"github.com/kedify/argo-rollouts-plugin/test/load"
)

// display is the content of the live frame, which the run updates.
type display struct {
	mu       sync.Mutex
	activity string
	rows     []report.Replicas
	client   *load.Client
	ended    load.Totals // of the clients that have stopped
}

// setStatus sets the current action.
func (b *display) setStatus(doing string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.activity = doing
}

// add adds a row.
func (b *display) add(row report.Replicas) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rows = append(b.rows, row)
}

// change sets the Pods of the last row.
func (b *display) change(desired, stable, canary int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	last := &b.rows[len(b.rows)-1]
	last.Desired, last.Stable, last.Canary = desired, stable, canary
}

// end replaces the last row.
func (b *display) end(row report.Replicas) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rows[len(b.rows)-1] = row
}

// startLoad adds a client's counts to the frame.
func (b *display) startLoad(client *load.Client) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.client = client
}

// stopLoad stops the client and keeps its counts.
func (b *display) stopLoad() {
	b.mu.Lock()
	client := b.client
	b.client = nil
	b.mu.Unlock()
	totals, _ := client.Stop()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = sum(b.ended, totals)
}

// sum adds the displayed counts of two clients.
func sum(x, y load.Totals) load.Totals {
	reasons := maps.Clone(y.Reasons)
	for reason, n := range x.Reasons {
		if reasons == nil {
			reasons = map[string]int{}
		}
		reasons[reason] += n
	}
	return load.Totals{
		Sent: x.Sent + y.Sent, Ended: x.Ended + y.Ended, OK: x.OK + y.OK, Failed: x.Failed + y.Failed, Reasons: reasons,
	}
}

// all returns the rows, and the counts of the stopped clients.
func (b *display) all() ([]report.Replicas, load.Totals) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.rows), b.ended
}

// live returns the current frame.
func (b *display) live() report.LiveReplicas {
	b.mu.Lock()
	defer b.mu.Unlock()
	totals := b.ended
	if b.client != nil {
		totals = sum(totals, b.client.Totals())
	}
	return report.LiveReplicas{
		Activity: b.activity, Ended: totals.Ended, Failed: totals.Failed, Rows: slices.Clone(b.rows),
	}
}

// drawEvery is the interval between two frames.
const drawEvery = 250 * time.Millisecond

// draw draws the frame repeatedly until ctx ends.
func (d *Demo) draw(ctx context.Context) {
	ticks := time.NewTicker(drawEvery)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			d.shell.Screen.Frame(nil)
			return
		case <-ticks.C:
			l := d.display.live()
			l.Elapsed = time.Since(d.Started)
			d.shell.Screen.Frame(d.shell.Style.ReplicasFrame(l, d.shell.Screen.Columns()))
		}
	}
}
