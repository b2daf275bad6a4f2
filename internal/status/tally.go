package status

import (
	"context"
	"sync"
	"time"

	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"

	"github.com/kedify/argo-rollouts-plugin/internal/ir"
	"github.com/kedify/argo-rollouts-plugin/internal/translate"
)

const (
	// tallyPace is the shortest time between two looks at what the proxies confirmed.
	tallyPace = 5 * time.Millisecond
	// idleShare is how many times as long as the last look took nothing is looked at, so that a large fleet costs at most a fifth of one processor.
	idleShare = 4
)

// Source is what the discovery server knows.
type Source interface {
	// Streams returns what every connected proxy has confirmed. The result is the caller's.
	Streams() []Stream
	// Versions returns the published versions of the resources of a type by name.
	Versions(typeURL string) map[string]string
	// Changed signals that Streams may return something else than before. There is one reader.
	Changed() <-chan struct{}
}

// tally keeps what the proxies of this replica have taken.
type tally struct {
	replica string
	source  Source
	now     func() time.Time
	notify  func() // called after every change, with no lock held

	mu      sync.Mutex
	ledger  *Ledger
	fresh   bool // acks are up to date
	acks    Acks
	cost    time.Duration
	changed chan struct{} // closed and replaced when acks may have changed
}

// newTally returns a tally of a replica to which nothing is published.
func newTally(replica string, source Source, now func() time.Time, notify func()) *tally {
	return &tally{replica: replica, source: source, now: now, notify: notify, ledger: NewLedger(), changed: make(chan struct{})}
}

// record notes what is published now and returns it by object.
func (t *tally) record(config ir.Config) map[ir.Key]Part {
	parts := Parts(config, t.source.Versions)
	t.mu.Lock()
	t.ledger.Record(t.source.Versions(resourcev3.RouteType)[translate.RouteConfigName], parts)
	t.mu.Unlock()
	t.stir()
	return parts
}

// run passes on the signals of the source until ctx ends, the first one at once.
func (t *tally) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.source.Changed():
		}
		t.stir()
		select {
		case <-ctx.Done():
			return
		case <-time.After(max(tallyPace, idleShare*t.lastCost())):
		}
	}
}

// stir says that what the proxies have taken may have changed.
func (t *tally) stir() {
	t.mu.Lock()
	t.fresh = false
	close(t.changed)
	t.changed = make(chan struct{})
	t.mu.Unlock()
	t.notify()
}

// lastCost is how long the last look took.
func (t *tally) lastCost() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.cost
}

// current returns what the proxies have taken, and a channel that is closed when that may have changed. Nobody may change the result.
func (t *tally) current() (Acks, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.fresh {
		began := t.now()
		t.acks = t.ledger.Acks(t.replica, t.streams())
		t.fresh = true
		t.cost = t.now().Sub(began)
	}
	return t.acks, t.changed
}

// streams returns what proxies have confirmed. While something is published that the ledger has not heard of, comparisons with what is published don't count.
func (t *tally) streams() []Stream {
	streams := t.source.Streams()
	if t.source.Versions(resourcev3.RouteType)[translate.RouteConfigName] == t.ledger.table {
		return streams
	}
	for i := range streams {
		confirmed := streams[i].Confirmed
		streams[i].Confirmed = func(typeURL string) func(string) Confirmation {
			lookUp := confirmed(typeURL)
			return func(name string) Confirmation {
				found := lookUp(name)
				found.Unconfirmed = nil
				return found
			}
		}
	}
	return streams
}
