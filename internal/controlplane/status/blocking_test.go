package status_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/status"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// slowSource is a Source whose Poll blocks until release is closed.
type slowSource struct {
	*proxies

	entered, release chan struct{}
}

// Poll implements status.Source.
func (s slowSource) Poll() []status.Stream {
	select {
	case s.entered <- struct{}{}:
	default:
	}
	<-s.release
	return s.proxies.Poll()
}

// TestObserveDoesNotWaitForPoll: the caller of Observe publishes weights, and must not wait for a poll of the streams
// (F4).
func TestObserveDoesNotWaitForPoll(t *testing.T) {
	s := newFixture(t)
	source := slowSource{s.proxies, make(chan struct{}, 1), make(chan struct{})}
	s.reporter = newReporter(t, s.server, source, "interceptor-0")
	defer s.lead(t)()
	s.proxies.confirm("10.0.0.1:1")
	<-source.entered
	reported := make(chan struct{})
	go func() {
		s.canary(20)
		close(reported)
	}()
	await.Receive(t, "the end of Observe while Poll blocks", reported)
	close(source.release)
}

// hangingServer never answers a write of the object other.
type hangingServer struct{ *server }

// ApplyStatus implements status.Client.
func (s hangingServer) ApplyStatus(
	ctx context.Context, object *httpv1alpha1.HTTPScaledObject, is httpv1alpha1.HTTPScaledObjectStatus,
) error {
	if object.Name == "other" {
		<-ctx.Done()
		return ctx.Err()
	}
	return s.server.ApplyStatus(ctx, object, is)
}

// TestSlowWriteDelaysNoOtherObject runs a canary while a write of another object hangs (F13).
func TestSlowWriteDelaysNoOtherObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		s.reporter = newReporter(t, hangingServer{s.server}, s.proxies, "interceptor-0")
		defer s.lead(t)()
		for _, weight := range []uint32{20, 50, 80} {
			s.canary(weight)
			s.proxies.confirm("10.0.0.1:1")
			s.proxies.confirm("10.0.0.2:1")
			time.Sleep(200 * time.Millisecond)
			if got, writes := s.reported(); got != "2/2 true" || writes != 1 {
				t.Errorf("at %d the report is %q after %d writes", weight, got, writes)
			}
		}
	})
}
