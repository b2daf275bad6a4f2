package session

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/test/kit/envoyresources"
)

// recordState is the state of a record. It contains more than ResourceState.
type recordState struct {
	Sent, Acked     string // last, whatever came in between
	InSync          bool
	Nacked, Message string
}

// recordState returns the state of the record of a name.
func (s *Session) recordState(k Kind, name string) recordState {
	rec, is := s.lookup(k, name), s.State(k, name)
	out := recordState{InSync: rec.isSynced(), Nacked: is.Nacked, Message: is.Message}
	if rec.sent != nil {
		out.Sent = rec.sent.version.String()
	}
	if rec.lastAcked != nil && !rec.uncertain {
		out.Acked = rec.lastAcked.version.String()
	}
	return out
}

// reported returns the ResourceState that must be reported for it.
func (r recordState) reported() ResourceState {
	reported := ResourceState{Nacked: r.Nacked, Message: r.Message}
	if r.InSync {
		reported.Acked = r.Acked
	}
	return reported
}

// TestStateReportsOnlyConfirmedVersions plays events between a response and its answer, and requires that the state
// never claims more than the proxy confirmed.
func TestStateReportsOnlyConfirmedVersions(t *testing.T) {
	t.Parallel()
	const one, two = "a/1.1", "a/1.2"
	type step struct {
		snapshots []string // created one after the other; the session receives the last
		answer    string   // nonce
		reject    bool
		want      recordState // versions are "1" and "2"
	}
	for name, steps := range map[string][]step{
		"ACKed": {
			{snapshots: []string{one}, want: recordState{Sent: "1"}},
			{answer: "1", want: recordState{Sent: "1", Acked: "1", InSync: true}},
			{snapshots: []string{two}, want: recordState{Sent: "2", Acked: "1"}},
			{answer: "2", want: recordState{Sent: "2", Acked: "2", InSync: true}},
		},
		"back to the ACKed version while another is pending": {
			{snapshots: []string{one}, answer: "1", want: recordState{Sent: "1", Acked: "1", InSync: true}},
			{snapshots: []string{two}, want: recordState{Sent: "2", Acked: "1"}},
			{snapshots: []string{one}, want: recordState{Sent: "1", Acked: "1"}},
			{answer: "2", want: recordState{Sent: "1", Acked: "2"}},
			{answer: "3", want: recordState{Sent: "1", Acked: "1", InSync: true}},
		},
		"there and back between two snapshots": {
			{snapshots: []string{one}, want: recordState{Sent: "1"}},
			{snapshots: []string{two, one}, want: recordState{Sent: "1"}},
			{answer: "1", want: recordState{Sent: "1", Acked: "1", InSync: true}},
		},
		"rejected, then replaced": {
			{snapshots: []string{one}, answer: "1", want: recordState{Sent: "1", Acked: "1", InSync: true}},
			{
				snapshots: []string{two}, answer: "2", reject: true, want: recordState{
					Sent: "1", Acked: "1", InSync: true, Nacked: "2", Message: "no",
				},
			},
			{snapshots: []string{one}, want: recordState{Sent: "1", Acked: "1", InSync: true}},
		},
		"an old ACK after a NACK": {
			{snapshots: []string{one}, want: recordState{Sent: "1"}},
			{snapshots: []string{two}, answer: "2", reject: true, want: recordState{Nacked: "2", Message: "no"}},
			{answer: "1", want: recordState{Nacked: "2", Message: "no"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, now := New(ModeDelta, scriptGrace, "salt", new(Rejections).Of("proxy")), time.Unix(0, 0)
			endpoints := EndpointKind.TypeURL()
			w := new(Snapshot)
			versions := map[string]string{"": ""}
			for i, step := range steps {
				for _, items := range step.snapshots {
					next, err := w.Replace(envoyresources.Parse(t, items))
					if err != nil {
						t.Fatal(err)
					}
					w = next
					versions[w.resources[EndpointKind].get("a").version.String()] = items[len("a/1."):]
				}
				if len(step.snapshots) > 0 {
					s.Publish(now, w)
				}
				if i == 0 {
					s.Receive(now, Request{TypeURL: endpoints, Subscribe: []string{"a"}})
				}
				if step.answer != "" {
					r := Request{TypeURL: endpoints, Nonce: step.answer, Rejected: step.reject, Message: "no"}
					s.Receive(now, r)
				}
				got := s.recordState(EndpointKind, "a")
				if reported := s.State(EndpointKind, "a"); reported != got.reported() {
					t.Errorf("after step %d %+v is reported of %+v", i+1, reported, got)
				}
				got.Sent, got.Acked, got.Nacked = versions[got.Sent], versions[got.Acked], versions[got.Nacked]
				if diff := cmp.Diff(step.want, got); diff != "" {
					t.Errorf("after step %d the state differs (-want +got):\n%s", i+1, diff)
				}
			}
		})
	}
}
