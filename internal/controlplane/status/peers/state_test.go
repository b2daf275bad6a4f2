package peers

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/status/peers/peerspb"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// digest returns the digest with a number.
func digest(number int) string { return fmt.Sprintf("%0*d", DigestBytes, number) }

func key(number int) model.Key {
	return model.Key{Namespace: "apps", Name: fmt.Sprint("shop-", number)}
}

func address(number int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, byte(number)}) }

// fleetOf is the fleet of a proxy.
func fleetOf(proxy int) model.Fleet { return model.Fleet(fmt.Sprint("fleet-", proxy%2)) }

// world is the true state of one replica: the digests of its objects and the ACKs of each proxy.
type world struct {
	random  *rand.Rand
	digests [6]int // 0 for an object that is not published
	acks    [4]map[int]Ack
}

// ack is any.
func (w *world) ack() Ack {
	switch w.random.IntN(4) {
	case 0:
		return Ack{}
	case 1:
		return Ack{NackMessage: "no"}
	default:
		return Ack{Acked: true}
	}
}

// step changes the world at random, like an AckTracker.
func (w *world) step() Delta {
	d := Delta{Objects: map[model.Key]string{}, Proxies: map[netip.Addr]Proxy{}}
	published := -1
	if w.random.IntN(3) == 0 {
		published = w.random.IntN(len(w.digests))
		w.digests[published] = w.random.IntN(4)
		d.Objects[key(published)] = digest(w.digests[published])
		if w.digests[published] == 0 {
			d.Objects[key(published)] = ""
		}
	}
	for proxy := range w.acks {
		update := Proxy{Fleet: fleetOf(proxy), Acks: map[model.Key]Ack{}}
		switch dice := w.random.IntN(12); {
		case dice == 0:
			w.acks[proxy], update.Gone = nil, true
		case dice == 1 || w.acks[proxy] == nil && dice < 4:
			w.acks[proxy], update.Full = map[int]Ack{}, true
		}
		for object, digest := range w.digests {
			isDue := update.Full || object == published || w.random.IntN(8) == 0
			if w.acks[proxy] != nil && digest != 0 && isDue {
				ack := w.ack()
				w.acks[proxy][object], update.Acks[key(object)] = ack, ack
			}
		}
		if update.Gone || update.Full || len(update.Acks) > 0 {
			d.Proxies[address(proxy)] = update
		}
	}
	return d
}

// table returns the ACKs of a State about everything.
func (w *world) table(s *State) map[string]string {
	out := map[string]string{}
	for proxy := range w.acks {
		for object, number := range w.digests {
			ack, connected := s.Ack(address(proxy), fleetOf(proxy), key(object), digest(number))
			out[fmt.Sprint(proxy, " ", object)] = fmt.Sprint(ack, connected)
		}
	}
	return out
}

// want returns the expected answers.
func (w *world) want() map[string]string {
	out := map[string]string{}
	for proxy, acks := range w.acks {
		for object, number := range w.digests {
			ack := Ack{}
			if acks != nil && number != 0 {
				ack = acks[object]
			}
			out[fmt.Sprint(proxy, " ", object)] = fmt.Sprint(ack, acks != nil)
		}
	}
	return out
}

// TestDeltasAddUp applies random changes to a State, and sends the effective changes, merged between reads, through a
// stream to another State. Both must have the same content as the world. A third State joins late.
func TestDeltasAddUp(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		w := &world{random: rand.New(rand.NewPCG(seed, 1))}
		own, remote := newState(), newState()
		out, in := &encoder{numbers: map[model.Key]uint32{}}, &decoder{objects: map[uint32]model.Key{}}
		var unsent Delta
		pass := func(unsent Delta, out *encoder, in *decoder, to *State) {
			t.Helper()
			bytes, err := proto.Marshal(out.encode(unsent))
			if err != nil {
				t.Fatal(err)
			}
			message := new(peerspb.Delta)
			if err := proto.Unmarshal(bytes, message); err != nil {
				t.Fatal(err)
			}
			decoded, err := in.decode(message)
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			to.apply(decoded)
		}
		for step := range 60 {
			unsent = unsent.mergedWith(own.apply(w.step()))
			if diff := cmp.Diff(w.want(), w.table(own)); diff != "" {
				t.Fatalf("seed %d, step %d: own (-want +got):\n%s", seed, step, diff)
			}
			if w.random.IntN(3) > 0 {
				continue
			}
			pass(unsent, out, in, remote)
			unsent = Delta{}
			if diff := cmp.Diff(w.want(), w.table(remote)); diff != "" {
				t.Fatalf("seed %d, step %d: remote (-want +got):\n%s", seed, step, diff)
			}
		}
		late := newState()
		pass(own.snapshot(), &encoder{numbers: map[model.Key]uint32{}}, &decoder{objects: map[uint32]model.Key{}}, late)
		if diff := cmp.Diff(w.want(), w.table(late)); diff != "" {
			t.Fatalf("seed %d: late (-want +got):\n%s", seed, diff)
		}
		if len(in.objects) != len(out.numbers) {
			t.Fatalf("seed %d: %d numbers are sent and %d known", seed, len(out.numbers), len(in.objects))
		}
	}
}

// TestChangeOfOneObject changes one of a thousand objects, which a proxy then ACKs: neither message contains another
// object, nor a name again.
func TestChangeOfOneObject(t *testing.T) {
	own, out := newState(), &encoder{numbers: map[model.Key]uint32{}}
	all := Delta{Objects: map[model.Key]string{}, Proxies: map[netip.Addr]Proxy{address(1): {Fleet: "apps", Full: true}}}
	for i := range 1000 {
		all.Objects[key(i)] = digest(1)
	}
	if first := out.encode(own.apply(all)); len(first.GetObjects()) != 1000 || first.GetSequence() != 1 {
		t.Fatalf("the first message has %d objects", len(first.GetObjects()))
	}
	ack := func(is Ack) map[netip.Addr]Proxy {
		return map[netip.Addr]Proxy{address(1): {Fleet: "apps", Acks: map[model.Key]Ack{key(7): is}}}
	}
	for _, step := range []struct {
		name  string
		delta Delta
		limit int // of bytes
	}{
		{"the weight", Delta{Objects: map[model.Key]string{key(7): digest(2)}, Proxies: ack(Ack{})}, 50},
		{"the ACK", Delta{Proxies: ack(Ack{Acked: true})}, 25},
		{
			"the same again",
			Delta{Objects: map[model.Key]string{key(7): digest(2)}, Proxies: ack(Ack{Acked: true})},
			2,
		},
	} {
		if size := proto.Size(out.encode(own.apply(step.delta))); size > step.limit {
			t.Errorf("%s takes %d bytes, want at most %d", step.name, size, step.limit)
		}
	}
}

// TestDecodeErrors decodes messages that violate the protocol.
func TestDecodeErrors(t *testing.T) {
	good := &peerspb.Object{Number: 1, Namespace: "apps", Name: "shop", Digest: []byte(digest(1))}
	proxy := func(is *peerspb.Proxy) *peerspb.Delta {
		is.Address, is.Fleet = []byte{10, 0, 0, 1}, "apps"
		return &peerspb.Delta{Sequence: 1, Objects: []*peerspb.Object{good}, Proxies: []*peerspb.Proxy{is}}
	}
	object := func(is *peerspb.Object) *peerspb.Delta {
		return &peerspb.Delta{Sequence: 1, Objects: []*peerspb.Object{is}}
	}
	for name, message := range map[string]*peerspb.Delta{
		"a Delta is missing":     {Sequence: 2},
		"an object without name": object(&peerspb.Object{Number: 1, Digest: []byte(digest(1))}),
		"a name that is too long": object(&peerspb.Object{
			Number: 1, Namespace: "apps", Name: strings.Repeat("x", 254), Digest: []byte(digest(1)),
		}),
		"a digest that is too long": object(&peerspb.Object{
			Number: 1, Namespace: "apps", Name: "shop", Digest: []byte(digest(1) + "0"),
		}),
		"an address that is none": {Sequence: 1, Proxies: []*peerspb.Proxy{{Address: []byte{1}, Fleet: "apps"}}},
		"a fleet that is none": {Sequence: 1, Proxies: []*peerspb.Proxy{
			{Address: []byte{10, 0, 0, 1}, Fleet: strings.Repeat("x", 64)},
		}},
		"an ACK of nothing":         proxy(&peerspb.Proxy{Confirmed: []uint32{2}}),
		"more answers than objects": proxy(&peerspb.Proxy{Confirmed: []uint32{1, 1}}),
		"a refusal of nothing":      proxy(&peerspb.Proxy{Refusals: []*peerspb.Refusal{{Number: 3}}}),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := (&decoder{objects: map[uint32]model.Key{}}).decode(message); !errors.Is(err, errProtocol) {
				t.Errorf("decode = %v, want errProtocol", err)
			}
		})
	}
	long := proxy(&peerspb.Proxy{
		Unconfirmed: []uint32{1}, Refusals: []*peerspb.Refusal{{Number: 1, Message: strings.Repeat("x", 10000)}},
	})
	decoded, err := (&decoder{objects: map[uint32]model.Key{}}).decode(long)
	if refusal := decoded.Proxies[address(1)].Acks[model.Key{Namespace: "apps", Name: "shop"}].NackMessage; err != nil ||
		len(refusal) != MaxNackMessage {
		t.Errorf("a refusal of %d bytes is kept, %v", len(refusal), err)
	}
}

// TestRejectionsOfAllObjectsFitOneMessage has seven proxies reject each of 10,000 objects, with reasons of the maximal
// length: each object stays rejected.
func TestRejectionsOfAllObjectsFitOneMessage(t *testing.T) {
	all := Delta{Objects: map[model.Key]string{}, Proxies: map[netip.Addr]Proxy{}}
	refused := map[model.Key]Ack{}
	for i := range 10_000 {
		all.Objects[key(i)], refused[key(i)] = digest(i), Ack{NackMessage: strings.Repeat("x", MaxNackMessage)}
	}
	for i := range 7 {
		all.Proxies[address(i)] = Proxy{Fleet: "apps", Full: true, Acks: refused}
	}
	message := (&encoder{numbers: map[model.Key]uint32{}}).encode(all)
	if size := proto.Size(message); size > maxMessage {
		t.Fatalf("the message has %d bytes, want at most %d", size, maxMessage)
	}
	decoded, err := (&decoder{objects: map[uint32]model.Key{}}).decode(message)
	if err != nil {
		t.Fatal(err)
	}
	for at, proxy := range decoded.Proxies {
		count, whole := 0, 0
		for _, ack := range proxy.Acks {
			switch len(ack.NackMessage) {
			case 0:
				t.Fatal("a refusal was lost")
			case MaxNackMessage:
				whole++
			}
			count++
		}
		if count != 10_000 || whole != maxRefusals {
			t.Errorf("proxy %v: %d refusals, %d of them whole", at, count, whole)
		}
	}
}
