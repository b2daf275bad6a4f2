package traffic

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/kube"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

const (
	// socketTime is the duration of the WebSockets of applications that are scaled by their request rate. It is much
	// longer than the window of the rate and the cooldown together.
	socketTime = 3 * time.Minute
	// socketEvery is the interval of its messages.
	socketEvery = 5 * time.Second
	// sampleEvery is the interval in which the replicas are recorded.
	sampleEvery = 100 * time.Millisecond
)

// openSockets are the WebSockets of socket, a Rollout that scales to zero.
type openSockets struct {
	s       *suite
	row     *row
	running sync.WaitGroup

	mu       sync.Mutex
	replicas []sample
	talks    []talk
}

// talk is the time in which a WebSocket was open.
type talk struct {
	name           string
	opened, closed time.Time
}

// sample is a number of replicas from a time on.
type sample struct {
	at       time.Time
	replicas int
}

// startSockets opens a WebSocket while the application has no replica, and records the number of its replicas.
func (s *suite) startSockets(t *testing.T) *openSockets {
	t.Helper()
	o := &openSockets{s: s, row: s.row(fmt.Sprintf("WebSocket for %s, scaled by request rate, min 0", socketTime))}
	s.socket().awaitBackend(t, "kedify-proxy")
	s.Do(t, "wait", "rollout/socket", "--for=jsonpath={.spec.replicas}=0")
	ctx, cancel := context.WithCancel(t.Context())
	var background sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		background.Wait()
	})
	latest := new(kube.Latest[kube.Rollout])
	background.Go(func() {
		kube.Watch(ctx, s, latest, "kubectl", "get", "-n", namespace, "rollout/socket", "-w", "-o", "json")
	})
	background.Go(func() { o.record(ctx, latest) })
	o.start("at zero", place{address: s.ingress, host: socketHost})
	return o
}

// startCanary opens another WebSocket, which the canary answers.
func (o *openSockets) startCanary(t *testing.T) {
	t.Helper()
	o.start("by the canary", o.s.canaryPlace(t, socketHost))
}

// start opens a WebSocket and exchanges messages in the background.
func (o *openSockets) start(name string, p place) {
	o.running.Go(func() {
		o.row.once(o.s.ctx, func(ctx context.Context) error { return o.talk(ctx, name, p) })
	})
}

// talk opens a WebSocket, which waits for the first Pod, and exchanges messages.
func (o *openSockets) talk(ctx context.Context, name string, p place) error {
	socket, err := p.webSocket(ctx, socketTime)
	if err != nil {
		return err
	}
	defer socket.Close()
	now := talk{name: name, opened: time.Now()}
	err = p.chat(ctx, socket, socketEvery, socketTime)
	now.closed = time.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.talks = append(o.talks, now)
	return err
}

// record records the changes of the number of replicas.
func (o *openSockets) record(ctx context.Context, latest *kube.Latest[kube.Rollout]) {
	ticks := time.NewTicker(sampleEvery)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		now := latest.Get().Spec.Replicas
		o.mu.Lock()
		if len(o.replicas) == 0 || o.replicas[len(o.replicas)-1].replicas != now {
			o.replicas = append(o.replicas, sample{time.Now(), now})
		}
		o.mu.Unlock()
	}
}

// check waits for the end of the WebSockets, aborts the canary, which keeps a Pod of each side without requests, and
// waits until the application has no replica. It must have had one as long as one of the WebSockets was open.
func (o *openSockets) check(t *testing.T) {
	t.Helper()
	ended := make(chan struct{})
	go func() {
		o.running.Wait()
		close(ended)
	}()
	await.Receive(t, "the end of the WebSockets", ended)
	o.s.Argo(t, "abort", o.s.socket().name)
	o.s.Do(t, "wait", "rollout/socket", "--for=jsonpath={.spec.replicas}=0")
	await.True(t, "the record of that", func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		return len(o.replicas) > 0 && o.replicas[len(o.replicas)-1].replicas == 0
	})
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, talk := range o.talks {
		t.Logf("socket: a WebSocket %s was closed by the client after %.1f s", talk.name,
			talk.closed.Sub(talk.opened).Seconds())
		for _, sample := range o.replicas {
			t.Logf("socket: %d replicas %+.1f s after it was opened", sample.replicas, sample.at.Sub(talk.opened).Seconds())
			if sample.replicas == 0 && sample.at.After(talk.opened) && sample.at.Before(talk.closed) {
				t.Errorf("no replica while a WebSocket %s was open", talk.name)
			}
		}
	}
}

// startAwake opens a WebSocket of awake, an application with at least one replica, while its Ingress is not wired. A
// change of the Ingress does not end it.
func (s *suite) startAwake() {
	s.slow.Go(func() {
		s.awake.once(s.ctx, func(ctx context.Context) error {
			return place{address: s.ingress, host: awakeHost}.talk(ctx, socketEvery, socketTime)
		})
	})
}
