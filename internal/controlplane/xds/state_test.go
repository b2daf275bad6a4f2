package xds

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// known is what a session knows of a resource, which is more than it tells.
type known struct {
	Sent, Acked     string // last, whatever came in between
	InSync          bool
	Nacked, Message string
}

// known is all of it.
func (s *session) known(k kind, name string) known {
	rec, is := s.look(k, name), s.state(k, name)
	out := known{InSync: rec.inSync(), Nacked: is.Nacked, Message: is.Message}
	if rec.sent != nil {
		out.Sent = rec.sent.version.String()
	}
	if rec.lastAcked != nil && !rec.doubtful {
		out.Acked = rec.lastAcked.version.String()
	}
	return out
}

// told is what is to be told of it.
func (is known) told() ResourceState {
	told := ResourceState{Nacked: is.Nacked, Message: is.Message}
	if is.InSync {
		told.Acked = is.Acked
	}
	return told
}

// TestStateTellsWhatIsCertain plays what may happen between a response and its
// answer and wants the state never to claim more than the proxy confirmed.
func TestStateTellsWhatIsCertain(t *testing.T) {
	t.Parallel()
	const one, two = "a/1.1", "a/1.2"
	type step struct {
		worlds []string // published one after the other, the session sees the last
		answer string   // nonce
		refuse bool
		want   known // versions are "1" and "2"
	}
	for name, steps := range map[string][]step{
		"ACKed": {
			{worlds: []string{one}, want: known{Sent: "1"}},
			{answer: "1", want: known{Sent: "1", Acked: "1", InSync: true}},
			{worlds: []string{two}, want: known{Sent: "2", Acked: "1"}},
			{answer: "2", want: known{Sent: "2", Acked: "2", InSync: true}},
		},
		"back to the ACKed version while another is under way": {
			{worlds: []string{one}, answer: "1", want: known{Sent: "1", Acked: "1", InSync: true}},
			{worlds: []string{two}, want: known{Sent: "2", Acked: "1"}},
			{worlds: []string{one}, want: known{Sent: "1", Acked: "1"}},
			{answer: "2", want: known{Sent: "1", Acked: "2"}},
			{answer: "3", want: known{Sent: "1", Acked: "1", InSync: true}},
		},
		"there and back between two looks": {
			{worlds: []string{one}, want: known{Sent: "1"}},
			{worlds: []string{two, one}, want: known{Sent: "1"}},
			{answer: "1", want: known{Sent: "1", Acked: "1", InSync: true}},
		},
		"refused, then replaced": {
			{worlds: []string{one}, answer: "1", want: known{Sent: "1", Acked: "1", InSync: true}},
			{worlds: []string{two}, answer: "2", refuse: true, want: known{Sent: "1", Acked: "1", InSync: true, Nacked: "2", Message: "no"}},
			{worlds: []string{one}, want: known{Sent: "1", Acked: "1", InSync: true}},
		},
		"an old ACK after a refusal": {
			{worlds: []string{one}, want: known{Sent: "1"}},
			{worlds: []string{two}, answer: "2", refuse: true, want: known{Nacked: "2", Message: "no"}},
			{answer: "1", want: known{Nacked: "2", Message: "no"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, now := newSession(ModeDelta, scriptGrace, "salt", &rejections{}), time.Unix(0, 0)
			endpoints := endpointKind.typeURL()
			w := new(snapshot)
			versions := map[string]string{"": ""}
			for i, step := range steps {
				for _, items := range step.worlds {
					next, err := w.replace(desiredWorld(t, items))
					if err != nil {
						t.Fatal(err)
					}
					w = next
					versions[w.resources[endpointKind].get("a").version.String()] = items[len("a/1."):]
				}
				if len(step.worlds) > 0 {
					s.publish(now, w)
				}
				if i == 0 {
					if _, err := s.receive(now, request{typeURL: endpoints, subscribe: []string{"a"}}); err != nil {
						t.Fatal(err)
					}
				}
				if step.answer != "" {
					r := request{typeURL: endpoints, nonce: step.answer, refused: step.refuse, message: "no"}
					if _, err := s.receive(now, r); err != nil {
						t.Fatal(err)
					}
				}
				got := s.known(endpointKind, "a")
				if told := s.state(endpointKind, "a"); told != got.told() {
					t.Errorf("after step %d %+v is told of %+v", i+1, told, got)
				}
				got.Sent, got.Acked, got.Nacked = versions[got.Sent], versions[got.Acked], versions[got.Nacked]
				if diff := cmp.Diff(step.want, got); diff != "" {
					t.Errorf("after step %d the state differs (-want +got):\n%s", i+1, diff)
				}
			}
		})
	}
}
