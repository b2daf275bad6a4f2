package session

import (
	"slices"
	"strings"
	"testing"
	"time"

	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/test/kit/envoyresources"
)

// A script specifies a session, one line per event. Lines that begin with > are inputs, lines that begin with < the
// outputs of the input before them, lines that begin with # comments.
//
//	> plaintext                the first line: the stream receives no certificates
//	> snapshot ITEM...         a new desired snapshot, in the notation of envoyresources.Parse
//	> after 5s                 time passes, then the session is ticked
//	> TYPE *                   subscribe to all (cluster, listener, scope)
//	> TYPE +a -b have c/1      delta: subscribe, unsubscribe, initial versions
//	> TYPE = a b               state of the world: all names of the subscription
//	> TYPE returns a b         the same, of a proxy that had a connection before
//	> TYPE ack N               the ACK of response N
//	> TYPE nack N REASON       the NACK of response N
//	< TYPE N: a/1 -b           response N with version 1 of a and the removal of b
//	< wake 5s                  at the end of a step: a tick is due then
//
// An apostrophe after a version means that the scope is sent in other bytes than it was published in.

const scriptGrace = 5 * time.Second

// labelOf returns a resource as scripts write it: its name and its version.
func labelOf(tb testing.TB, res *Resource) string {
	tb.Helper()
	message, err := res.Any(nil).UnmarshalNew()
	if err != nil {
		tb.Fatal(err)
	}
	if secret, isSecret := message.(*tlsv3.Secret); isSecret && secret.GetName() != res.name {
		tb.Errorf("secret %s is sent as %q", res.name, secret.GetName())
	}
	return res.name + "/" + envoyresources.Version(tb, message)
}

// script runs one script with one session.
type script struct {
	tb       testing.TB
	session  *Session
	snapshot *Snapshot
	now      time.Time
	names    map[Kind][]string // the last subscription in state of the world
	early    []Request         // requests before the first snapshot, which the stream does not read yet
}

// runScript plays the inputs of a script and compares the outputs.
func runScript(t *testing.T, mode Mode, text string) {
	t.Helper()
	s := &script{
		tb: t, session: New(mode, scriptGrace, "salt", new(Rejections).Of("proxy")), names: map[Kind][]string{},
		now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	var want, got []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "> "):
			want, got = append(want, line), append(got, line)
			got = append(got, s.play(strings.Fields(line)[1:])...)
		default:
			want = append(want, line)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the session differs from its script (-want +got):\n%s", diff)
	}
}

// play plays one input line and returns the output lines.
func (s *script) play(words []string) []string {
	var out Output
	switch words[0] {
	case "plaintext":
		s.session.WithholdSecrets()
	case "snapshot":
		before := s.snapshot
		if before == nil {
			before = new(Snapshot)
		}
		w, err := before.Replace(envoyresources.Parse(s.tb, strings.Join(words[1:], " ")))
		if err != nil {
			s.tb.Fatal(err)
		}
		s.snapshot = w
		out = s.session.Publish(s.now, w)
		for _, r := range s.early {
			out.Responses = append(out.Responses, s.session.Receive(s.now, r).Responses...)
		}
		s.early = nil
	case "after":
		d, err := time.ParseDuration(words[1])
		if err != nil {
			s.tb.Fatal(err)
		}
		s.now = s.now.Add(d)
		out = s.session.Tick(s.now)
	default:
		r := s.request(words)
		if s.snapshot == nil {
			s.early = append(s.early, r)
			return nil
		}
		out = s.session.Receive(s.now, r)
	}
	var lines []string
	for _, r := range out.Responses {
		lines = append(lines, s.describe(r))
	}
	if at, due := s.session.NextTick(); due {
		lines = append(lines, "< wake "+at.Sub(s.now).String())
	}
	return lines
}

// describe returns a response as a line.
func (s *script) describe(r Response) string {
	words := []string{"<", r.Kind.String(), r.Nonce + ":"}
	for _, res := range r.Resources {
		words = append(words, labelOf(s.tb, res))
	}
	if s.session.mode == ModeDelta {
		for _, name := range r.Removed {
			words = append(words, "-"+name)
		}
	}
	return strings.Join(words, " ")
}

// request parses the words of a request.
func (s *script) request(words []string) Request {
	r := Request{TypeURL: words[0]}
	k, served := Kind(0), false
	for candidate := range Kind(KindCount) {
		if candidate.String() == words[0] {
			k, served, r.TypeURL = candidate, true, candidate.TypeURL()
		}
	}
	switch words[1] {
	case "ack", "nack":
		r.Nonce, r.Rejected, r.Message = words[2], words[1] == "nack", strings.Join(words[3:], " ")
	case "=":
		s.names[k] = words[2:]
		if served {
			r.Nonce = s.session.subs[k].nonce
		}
	case "returns":
		s.names[k], r.Version = words[2:], "known"
	case "*":
	default:
		r.Subscribe, r.Unsubscribe = changesOf(words[1:])
	}
	if i := slices.Index(words, "have"); i >= 0 {
		r.InitialVersions = s.versions(k, words[i+1:])
	}
	if s.session.mode == ModeStateOfTheWorld {
		r.Names = s.names[k]
	}
	return r
}

// changesOf parses the +a and -b of a delta request.
func changesOf(words []string) (subscribe, unsubscribe []string) {
	for _, word := range words {
		switch {
		case word == "have":
			return subscribe, unsubscribe
		case word[0] == '+':
			subscribe = append(subscribe, word[1:])
		case word[0] == '-':
			unsubscribe = append(unsubscribe, word[1:])
		}
	}
	return subscribe, unsubscribe
}

// versions returns the content hashes of items, as a proxy would report them.
func (s *script) versions(k Kind, items []string) map[string]string {
	versions := map[string]string{}
	for _, item := range items {
		for name, message := range envoyresources.Parse(s.tb, item)[k.TypeURL()] {
			res, err := newResource(k, name, message)
			if err != nil {
				s.tb.Fatal(err)
			}
			versions[name] = res.version.String()
		}
	}
	return versions
}
