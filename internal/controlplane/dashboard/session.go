package dashboard

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/dashboard/view"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/server"
)

// session is the work of a Hub while it has viewers. All its fields belong to the goroutine of run.
type session struct {
	hub       *Hub
	reports   *reports
	workloads *workloads
	viewers   map[*viewer]struct{}
	rows      map[model.Key]row
	// urgent are the objects that changed, and changed those with another demand, both without an update yet.
	urgent, changed map[model.Key]struct{}
	whole           *update // all objects, nil after a change
	interceptors    []byte
	details         map[model.Key]*update // the last update of each object that is shown
}

// newSession returns a session without viewers.
func newSession(hub *Hub) *session {
	return &session{
		hub: hub, reports: newReports(hub), workloads: newWorkloads(hub.options.Workload),
		viewers: map[*viewer]struct{}{}, rows: map[model.Key]row{}, changed: map[model.Key]struct{}{},
		details: map[model.Key]*update{},
	}
}

// run serves viewers, beginning with the first one, until ctx ends or there has been none for linger.
func (s *session) run(ctx context.Context, first *viewer) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer func() {
		cancel()
		running.Wait()
		s.hub.end()
		for v := range s.viewers {
			v.close()
		}
	}()
	running.Go(func() { s.reports.follow(ctx) })
	running.Go(func() { s.workloads.run(ctx) })
	s.urgent = s.hub.begin()
	waiting := []*viewer{first}
	if !s.warmUp(ctx, &waiting) {
		for _, v := range waiting {
			v.close()
		}
		return
	}
	s.refresh(len(s.urgent))
	for _, v := range waiting {
		s.add(v)
	}
	s.serve(ctx)
}

// warmUp waits until the other replicas have reported, at most for warmUp. It returns false if ctx ends first.
func (s *session) warmUp(ctx context.Context, waiting *[]*viewer) bool {
	timeout := time.After(warmUp)
	for s.reports.take(); !s.isWarm(); {
		select {
		case <-ctx.Done():
			return false
		case v := <-s.hub.joining:
			*waiting = append(*waiting, v)
		case v := <-s.hub.leaving:
			*waiting = slices.DeleteFunc(*waiting, func(other *viewer) bool { return other == v })
			v.close()
		case <-s.reports.arrived:
		case <-timeout:
			return true
		}
	}
	return true
}

// isWarm reports whether all known replicas have reported.
func (s *session) isWarm() bool {
	return s.hub.options.WatchReplica == nil || len(s.hub.others()) == 0 || s.reports.hasAll(s.hub.others())
}

// serve updates the viewers each Interval.
func (s *session) serve(ctx context.Context) {
	ticker := time.NewTicker(Interval)
	defer ticker.Stop()
	idle := time.Duration(0)
	for idle < linger {
		select {
		case <-ctx.Done():
			return
		case v := <-s.hub.joining:
			idle = 0
			s.add(v)
		case v := <-s.hub.leaving:
			delete(s.viewers, v)
			v.close()
		case key := <-s.workloads.read:
			if _, isShown := s.details[key]; isShown {
				s.updateDetail(key)
				s.deliverDetails()
			}
		case <-ticker.C:
			if idle += Interval; len(s.viewers) > 0 {
				idle = 0
			}
			s.tick()
		}
	}
}

// add adds a viewer and sends it everything.
func (s *session) add(v *viewer) {
	if !s.hasRoom(v.user) {
		v.close()
		return
	}
	s.viewers[v] = struct{}{}
	if v.object != (model.Key{}) {
		s.workloads.show(v.object)
		s.updateDetail(v.object)
		s.deliver(v, s.details[v.object])
		return
	}
	if s.whole == nil {
		s.whole = &update{isWhole: true, interceptors: s.interceptors}
		s.whole.rows = slices.Collect(maps.Values(s.rows))
		slices.SortFunc(s.whole.rows, func(a, b row) int { return a.key.Compare(b.key) })
	}
	s.deliver(v, s.whole)
}

// hasRoom reports whether the limits permit one more viewer of a user.
func (s *session) hasRoom(user string) bool {
	if user == "" {
		return len(s.viewers) < MaxViewers
	}
	ofUser, ofUsers := 0, 0
	for v := range s.viewers {
		if v.user != "" {
			ofUsers++
		}
		if v.user == user {
			ofUser++
		}
	}
	return ofUser < MaxViewersOfUser && ofUsers < MaxViewers-localViewers && len(s.viewers) < MaxViewers
}

// deliver sends an update to a viewer, which is removed if it is too slow.
func (s *session) deliver(v *viewer, next *update) {
	if v.sent == next {
		return
	}
	if v.sent = next; !v.send(next) {
		delete(s.viewers, v)
	}
}

// tick updates all viewers.
func (s *session) tick() {
	maps.Copy(s.urgent, s.hub.takeTouched())
	changed, isAny := s.reports.take()
	for _, key := range changed {
		s.changed[key] = struct{}{}
	}
	if isAny {
		for key := range s.rows {
			s.changed[key] = struct{}{}
		}
	}
	if next := s.refresh(MaxRows); next != nil {
		for v := range s.viewers {
			if v.object == (model.Key{}) {
				s.deliver(v, next)
			}
		}
	}
	s.updateDetails()
}

// refresh encodes up to limit changed rows. It returns nil if nothing has changed.
func (s *session) refresh(limit int) *update {
	keys := take(s.urgent, nil, limit)
	keys = take(s.changed, keys, limit)
	sources, demands := s.hub.sources(keys), s.reports.demandOf(keys)
	next := &update{}
	for _, key := range keys {
		source, exists := sources[key]
		before, isShown := s.rows[key]
		if isShown && (!exists || before.resource != source.Resource()) {
			delete(s.rows, key)
			next.gone = append(next.gone, row{key: key, resource: before.resource})
		}
		if !exists {
			continue
		}
		text := s.encode(key, func() any { return view.Row(source, demands[key]) })
		if text != nil && !bytes.Equal(text, s.rows[key].text) {
			s.rows[key] = row{key, source.Resource(), text}
			next.rows = append(next.rows, s.rows[key])
		}
	}
	if text := encode(s.reports.interceptors()); !bytes.Equal(text, s.interceptors) {
		s.interceptors, next.interceptors = text, text
	}
	if len(next.rows)+len(next.gone) == 0 && next.interceptors == nil {
		return nil
	}
	s.whole = nil
	return next
}

// take moves keys from a set to a list of at most limit.
func take(from map[model.Key]struct{}, to []model.Key, limit int) []model.Key {
	for key := range from {
		if len(to) >= limit {
			break
		}
		delete(from, key)
		to = append(to, key)
	}
	return to
}

// updateDetails updates the objects that viewers show.
func (s *session) updateDetails() {
	shown := map[model.Key]struct{}{}
	for v := range s.viewers {
		if v.object != (model.Key{}) {
			shown[v.object] = struct{}{}
		}
	}
	maps.DeleteFunc(s.details, func(key model.Key, _ *update) bool {
		_, isShown := shown[key]
		return !isShown
	})
	s.workloads.keep(shown)
	for key := range shown {
		s.updateDetail(key)
	}
	s.deliverDetails()
}

// deliverDetails sends the viewers of single objects their last updates, if they do not have them yet.
func (s *session) deliverDetails() {
	for v := range s.viewers {
		if v.object != (model.Key{}) {
			s.deliver(v, s.details[v.object])
		}
	}
}

// updateDetail encodes an object that is shown. Without a change, the update before remains.
func (s *session) updateDetail(key model.Key) {
	next := &update{}
	if source, exists := s.hub.sources([]model.Key{key})[key]; exists {
		s.workloads.setSource(key, source)
		facts := view.Facts{History: s.hub.history(key)}
		found := s.reports.interceptors()
		facts.Reports, facts.Absent = found.Reports, found.Absent
		s.reports.read(func(all []metrics.Report, absent []string) {
			facts.Demand, facts.Totals = view.DemandOf(key, all, absent)
		})
		next.brief = s.encode(key, func() any { return view.Details(source, facts) })
		facts.Workload, next.isRead = s.workloads.of(key)
		next.resource = source.Resource()
		next.detail = s.encode(key, func() any { return view.Details(source, facts) })
	}
	if before := s.details[key]; before != nil && bytes.Equal(before.detail, next.detail) &&
		bytes.Equal(before.brief, next.brief) && before.isRead == next.isRead {
		return
	}
	s.details[key] = next
}

// encode returns what value returns as JSON. It is nil after a panic, which costs only this object.
func (s *session) encode(key model.Key, value func() any) (text []byte) {
	if err := server.Recovered(func() error {
		text = encode(value())
		return nil
	}); err != nil {
		s.hub.options.Logger.Error("an object is not shown: please report this bug", "error", err, "httpScaledObject", key)
	}
	return text
}

// encode returns a value of this package or of package view as JSON.
func encode(value any) []byte {
	text, err := json.Marshal(value)
	if err != nil { // No type of them fails to marshal.
		return []byte("null")
	}
	return text
}
