package xds

import (
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/test/kit"
)

// recorder records the calls of its Callbacks, and whether cluster a served then.
type recorder struct {
	mu     sync.Mutex
	events []string
	signal chan struct{} // has room for what the tests do
}

func (w *recorder) record(what string, stream StreamState) {
	if stream.Serves("a") {
		what += ", serves"
	}
	w.mu.Lock()
	w.events = append(w.events, what)
	w.mu.Unlock()
	w.signal <- struct{}{}
}

func (w *recorder) OnStreamOpen(stream StreamState)     { w.record("opened", stream) }
func (w *recorder) OnStreamClosed(stream StreamState)   { w.record("closed", stream) }
func (w *recorder) OnEndpointsAcked(stream StreamState) { w.record("confirmed", stream) }

// TestCallbacks requires a call for each ACK of endpoints, with the state at that time, and for nothing else.
func TestCallbacks(t *testing.T) {
	t.Parallel()
	for _, mode := range []kit.XDSMode{kit.XDSDelta, kit.XDSStateOfTheWorld} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			w := &recorder{signal: make(chan struct{}, 100)}
			s := serve(t, Options{Callbacks: w})
			s.publishItems("a/1.none listener:web web>a")
			client := kit.NewXDSClient(t, s.conn, mode)
			client.WaitFor(s.isSynced)
			<-w.signal // opened
			<-w.signal
			s.publishItems("a/1.2 listener:web web>a")
			<-w.signal
			s.publishItems("a/1.2 listener:web web/2>a") // No endpoints are in it.
			client.WaitFor(s.isSynced)
			s.publishItems("a/1.none listener:web web/2>a")
			<-w.signal
			client.Disconnect()
			<-w.signal
			w.mu.Lock()
			defer w.mu.Unlock()
			want := []string{"opened", "confirmed", "confirmed, serves", "confirmed", "closed"}
			if diff := cmp.Diff(want, w.events); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
