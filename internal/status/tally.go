package status

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/ir"
)

const (
	// tallyPace is the shortest time between two looks at what the proxies confirmed.
	tallyPace = 5 * time.Millisecond
	// idleShare is how many times as long as the last look took nothing is looked at, so that a large fleet costs at most a fifth of one processor.
	idleShare = 4
)

// Source is what the discovery server knows.
type Source interface {
	// Poll shows every connected proxy to see, each standing still meanwhile. What see is given is good
	// until it returns. There is one who polls.
	Poll(see func(Stream))
	// Version returns the published version of a resource, "" when there is none.
	Version(typeURL, name string) string
	// Changed signals that Poll may show something else than before. There is one reader.
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
	news    standings
	cost    time.Duration
	changed chan struct{} // closed and replaced when acks may have changed
}

// standings are objects that proxies may stand to otherwise than before, all when everything is set.
type standings struct {
	keys       map[ir.Key]struct{}
	everything bool
}

// add adds others.
func (s *standings) add(keys map[ir.Key]struct{}) {
	if s.keys == nil {
		s.keys = make(map[ir.Key]struct{}, len(keys))
	}
	maps.Copy(s.keys, keys)
}

// newTally returns a tally of a replica to which nothing is published.
func newTally(replica string, source Source, now func() time.Time, notify func()) *tally {
	return &tally{replica: replica, source: source, now: now, notify: notify, ledger: NewLedger(), changed: make(chan struct{})}
}

// record notes what is published now: the Parts of the objects that may have changed.
func (t *tally) record(parts map[ir.Key]Part) {
	t.mu.Lock()
	t.ledger.Record(parts)
	t.mu.Unlock()
	t.stir()
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
	t.look()
	return t.acks, t.changed
}

// latest is current for the one who asks which objects are concerned since it was last called.
func (t *tally) latest() (Acks, standings) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.look()
	news := t.news
	t.news = standings{}
	return t.acks, news
}

// look brings acks up to date. The caller holds the lock.
func (t *tally) look() {
	if t.fresh {
		return
	}
	began := t.now()
	open := map[uint64]struct{}{}
	t.source.Poll(func(stream Stream) {
		if _, known := t.ledger.streams[stream.Number]; !known {
			t.news.everything = true
		}
		t.news.add(t.ledger.Look(stream))
		open[stream.Number] = struct{}{}
	})
	if t.ledger.Keep(open) {
		t.news.everything = true
	}
	t.acks = t.ledger.Acks(t.replica)
	t.fresh = true
	t.cost = t.now().Sub(began)
}
