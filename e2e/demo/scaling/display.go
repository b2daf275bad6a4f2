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

// display is what the live frame shows, filled in by the run.
type display struct {
	mu     sync.Mutex
	doing  string
	rows   []report.Replicas
	client *load.Client
	ended  load.Totals // of the clients that have stopped
}

// setStatus sets what is going on.
func (b *display) setStatus(doing string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.doing = doing
}

// add begins a row.
func (b *display) add(row report.Replicas) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rows = append(b.rows, row)
}

// change sets the pods of the last row.
func (b *display) change(asked, stable, canary int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	last := &b.rows[len(b.rows)-1]
	last.Asked, last.Stable, last.Canary = asked, stable, canary
}

// end replaces the last row.
func (b *display) end(row report.Replicas) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rows[len(b.rows)-1] = row
}

// startLoad makes a client's numbers part of the frame.
func (b *display) startLoad(client *load.Client) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.client = client
}

// stopLoad stops the client, and keeps what it has counted.
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

// sum adds what two clients have counted, as far as it is shown.
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

// all returns the rows, and what the clients that have stopped have counted.
func (b *display) all() ([]report.Replicas, load.Totals) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.rows), b.ended
}

// live is the frame as of now.
func (b *display) live() report.Followers {
	b.mu.Lock()
	defer b.mu.Unlock()
	totals := b.ended
	if b.client != nil {
		totals = sum(totals, b.client.Totals())
	}
	return report.Followers{Doing: b.doing, Ended: totals.Ended, Failed: totals.Failed, Rows: slices.Clone(b.rows)}
}

// drawEvery is the time between two frames.
const drawEvery = 250 * time.Millisecond

// draw draws the frame again and again until ctx ends.
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
			l.Elapsed = time.Since(d.Begun)
			d.shell.Screen.Frame(d.shell.Style.FollowersFrame(l, d.shell.Screen.Columns()))
		}
	}
}
