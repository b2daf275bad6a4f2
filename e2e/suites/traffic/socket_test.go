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
	// socketTime is the duration of the WebSocket of an application that scales to zero by its request rate. It is much
	// longer than the window of the rate and the cooldown together.
	socketTime = 3 * time.Minute
	// socketEvery is the interval of its messages.
	socketEvery = 5 * time.Second
	// sampleEvery is the interval in which the replicas are recorded.
	sampleEvery = 100 * time.Millisecond
)

// deployment is the part of a Deployment that the test reads.
type deployment struct {
	Spec struct {
		Replicas int `json:"replicas"`
	} `json:"spec"`
}

// openSocket is a WebSocket of an application that scales to zero.
type openSocket struct {
	s     *suite
	ended chan struct{}

	mu             sync.Mutex
	replicas       []sample
	opened, closed time.Time
}

// sample is a number of replicas from a time on.
type sample struct {
	at       time.Time
	replicas int
}

// startSocket opens a WebSocket while the application has no replica, and records the number of its replicas.
func (s *suite) startSocket(t *testing.T) *openSocket {
	t.Helper()
	o := &openSocket{s: s, ended: make(chan struct{})}
	s.Do(t, "wait", "ingress/socket", "--for=jsonpath={.spec.rules[0].http.paths[0].backend.service.name}=kedify-proxy")
	s.Do(t, "wait", "deployment/socket", "--for=jsonpath={.spec.replicas}=0")
	ctx, cancel := context.WithCancel(t.Context())
	var background sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		background.Wait()
	})
	latest := new(kube.Latest[deployment])
	background.Go(func() {
		kube.Watch(ctx, s, latest, "kubectl", "get", "-n", namespace, "deployment/socket", "-w", "-o", "json")
	})
	background.Go(func() { o.record(ctx, latest) })
	r := s.row(fmt.Sprintf("WebSocket for %s, scaled by request rate, min 0", socketTime))
	background.Go(func() {
		defer close(o.ended)
		r.once(ctx, o.talk)
	})
	return o
}

// talk opens the WebSocket, which waits for the first Pod, and exchanges messages.
func (o *openSocket) talk(ctx context.Context) error {
	socket, err := place{o.s.ingress, socketHost}.webSocket(ctx, socketTime)
	if err != nil {
		return err
	}
	defer socket.Close()
	o.mu.Lock()
	o.opened = time.Now()
	o.mu.Unlock()
	err = chat(ctx, socket, socketEvery, socketTime)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = time.Now()
	return err
}

// record records the changes of the number of replicas.
func (o *openSocket) record(ctx context.Context, latest *kube.Latest[deployment]) {
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

// check waits for the end of the WebSocket, and until the application has no replica. It must have had one as long as
// the WebSocket was open.
func (o *openSocket) check(t *testing.T) {
	t.Helper()
	await.Receive(t, "the end of the WebSocket", o.ended)
	o.s.Do(t, "wait", "deployment/socket", "--for=jsonpath={.spec.replicas}=0")
	await.True(t, "the record of that", func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		return len(o.replicas) > 0 && o.replicas[len(o.replicas)-1].replicas == 0
	})
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, sample := range o.replicas {
		t.Logf("socket: %d replicas %+.1f s after the WebSocket was opened", sample.replicas,
			sample.at.Sub(o.opened).Seconds())
		if sample.replicas == 0 && sample.at.After(o.opened) && sample.at.Before(o.closed) {
			t.Errorf("no replica while the WebSocket was open")
		}
	}
	t.Logf("socket: closed by the client after %.1f s", o.closed.Sub(o.opened).Seconds())
}
