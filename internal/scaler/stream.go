package scaler

import (
	"fmt"
	"time"

	"google.golang.org/grpc"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/scaler/externalscaler"
	"github.com/kedify/argo-rollouts-plugin/internal/trigger"
)

// pushInterval is the pause between two pushes while requests are queued, and between two checks while the activity is
// unknown.
const pushInterval = time.Second

// StreamIsActive pushes true: at once if the workload is active, when it becomes active, and each second while requests
// are queued, because KEDA 2.20 drops pushes until the status of the ScaledObject lists its metrics. It never pushes
// false. It ends when KEDA disconnects, or with status OK after Close.
func (s *Service) StreamIsActive(
	ref *externalscaler.ScaledObjectRef, stream grpc.ServerStreamingServer[externalscaler.IsActiveResponse],
) error {
	ctx := stream.Context()
	q, err := parse(ref)
	if err == nil && q.connections > 0 {
		err = fmt.Errorf("%w: %s needs a trigger of type %s: proxies have at least one replica", errTrigger,
			trigger.KeyProxyConnections, trigger.TypePull)
	}
	if err != nil {
		return s.fail(ctx, ref, err)
	}
	s.observer.StreamOpened()
	defer s.observer.StreamClosed()
	var pushed pushState
	for {
		// After Close the connection may still open a stream, which ends with status OK too.
		select {
		case <-s.closing:
			return nil
		default:
		}
		changed, canary := s.reader.Changed(model.Key(q.object)), s.canaries.Changes(q.object)
		state, err := s.activity(q)
		due, pause := pushed.next(state, err, time.Now())
		if due {
			if err := stream.Send(&externalscaler.IsActiveResponse{Result: true}); err != nil {
				return err
			}
			s.observer.Pushed()
		}
		var timer <-chan time.Time // A stream that waits for a change needs no timer and uses no CPU.
		if pause > 0 {
			timer = time.After(pause)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.closing:
		case <-changed:
		case <-canary[0]:
		case <-canary[1]:
		case <-timer:
		}
	}
}

// pushState is the state of one stream.
type pushState struct {
	isActive bool // the last known activity
	last     time.Time
}

// next returns whether true is due for a state at now, and records the push. pause is the time until the next check, or
// 0 if only a change requires one. Unknown activity (err) changes nothing.
func (p *pushState) next(state activity, err error, now time.Time) (due bool, pause time.Duration) {
	if err != nil {
		return false, pushInterval
	}
	next := p.last.Add(pushInterval)
	due = state != idle && !p.isActive || state == queued && !now.Before(next)
	p.isActive = state != idle
	if due {
		p.last, next = now, now.Add(pushInterval)
	}
	if state == queued {
		pause = next.Sub(now)
	}
	return due, pause
}
