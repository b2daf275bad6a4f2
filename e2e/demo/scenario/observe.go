package scenario

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/demo/report"
	"github.com/kedify/argo-rollouts-plugin/e2e/envoyadmin"
	"github.com/kedify/argo-rollouts-plugin/e2e/kube"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/load"
)

// state is the last read state of Envoy.
type state struct {
	shares envoyadmin.Shares
	err    error
	at     time.Time // when the response was complete
}

// String implements fmt.Stringer.
func (v state) String() string {
	if v.err != nil {
		return v.err.Error()
	}
	return v.shares.String()
}

// watchEnvoy reads Envoy's routes repeatedly until ctx ends.
func (d *demo) watchEnvoy(ctx context.Context) {
	ticks := time.NewTicker(d.Poll)
	defer ticks.Stop()
	for {
		v := d.readState(ctx)
		d.view.Set(v)
		if v.err == nil && !isRequestedSplit(v.shares) {
			d.unrequested.Set(shortShares(v.shares))
		}
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
	}
}

// readState reads Envoy's routes once.
func (d *demo) readState(ctx context.Context) state {
	routes, err := d.envoy.Routes(ctx, clusterPrefix())
	if err != nil {
		return state{err: err}
	}
	shares, err := envoyadmin.Split(routes)
	return state{shares: shares, err: err, at: time.Now()}
}

// await waits until ready returns true: see await.Until. It also ends when the load client is overloaded.
func (d *demo) await(ctx context.Context, what string, within time.Duration, ready func() bool,
	state func() string,
) error {
	d.display.setStatus("waiting for " + what)
	var overload error
	err := await.Within(ctx, what, within, func() bool {
		if ready() {
			return true
		}
		if d.client != nil {
			overload = d.overload(d.client.Totals())
		}
		return overload != nil
	}, state)
	return errors.Join(overload, err)
}

// display is the content of the live frame, which the run updates.
type display struct {
	mu       sync.Mutex
	activity string
	rows     []report.Row
	client   *load.Client
}

// setStatus sets the current action.
func (b *display) setStatus(doing string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.activity = doing
}

// load adds the client's counts to the frame.
func (b *display) load(client *load.Client) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.client = client
}

// add adds a row.
func (b *display) add(row report.Row) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rows = append(b.rows, row)
}

// change changes the last row and returns it.
func (b *display) change(edit func(*report.Row)) report.Row {
	b.mu.Lock()
	defer b.mu.Unlock()
	last := &b.rows[len(b.rows)-1]
	edit(last)
	return *last
}

// all returns the rows.
func (b *display) all() []report.Row {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.rows)
}

// live returns the current frame.
func (b *display) live() report.Live {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := report.Live{Activity: b.activity, Rows: slices.Clone(b.rows)}
	if b.client != nil {
		totals, recent := b.client.Totals(), b.client.Recent(time.Second)
		l.Ended, l.Failed, l.InFlight = totals.Ended, totals.Failed, totals.InFlight
		l.Rate, l.Colors = recent.Done, recent.Colors
	}
	return l
}

// drawEvery is the interval between two frames.
const drawEvery = 250 * time.Millisecond

// draw draws the frame repeatedly until ctx ends.
func (d *demo) draw(ctx context.Context) {
	ticks := time.NewTicker(drawEvery)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			d.screen.Frame(nil)
			return
		case <-ticks.C:
			l := d.display.live()
			l.Elapsed = time.Since(d.Started)
			if object := d.object.Get(); object.Metadata.Name != "" {
				l.Annotation, l.Acked = kube.ShortWeights(d.weights()), object.AckedWeights()
			}
			l.Envoy = shortShares(d.view.Get().shares)
			d.screen.Frame(d.style.Frame(l, d.screen.Columns()))
		}
	}
}
