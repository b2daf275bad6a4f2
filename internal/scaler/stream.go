package scaler

import (
	"time"

	"google.golang.org/grpc"

	"github.com/kedify/argo-rollouts-plugin/internal/scaler/externalscaler"
)

// pushInterval is the pause between two pushes while requests are held, and the longest time that a
// canary goes unnoticed.
const pushInterval = time.Second

// StreamIsActive pushes true: at once if the workload is active, when it becomes active, and each
// second while requests are held, because KEDA 2.20 drops what comes before the ScaledObject's
// status lists its metrics. It never pushes false. It ends when KEDA goes, or as done with Close.
func (s *Service) StreamIsActive(
	ref *externalscaler.ScaledObjectRef, stream grpc.ServerStreamingServer[externalscaler.IsActiveResponse],
) error {
	ctx := stream.Context()
	t, err := parse(ref)
	if err != nil {
		return s.refuse(ctx, ref, err)
	}
	s.observer.StreamOpened()
	defer s.observer.StreamClosed()
	var pushed pushes
	for {
		// After Close a stream of the same connection may still come: it ends as done, too.
		select {
		case <-s.closing:
			return nil
		default:
		}
		changed := s.reader.Changed(t.object)
		found, err := s.activity(ctx, t)
		due, pause := pushed.due(found, err, time.Now())
		if due {
			if err := stream.Send(&externalscaler.IsActiveResponse{Result: true}); err != nil {
				return err
			}
			s.observer.Pushed()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.closing:
		case <-changed:
		case <-time.After(pause):
		}
	}
}

// pushes remembers what one stream was told.
type pushes struct {
	active bool // what was known at last
	last   time.Time
}

// due says whether true is to be pushed for what was found at now, and takes it for done; and after
// what pause to look again. What is not known changes nothing.
func (p *pushes) due(found activity, err error, now time.Time) (due bool, pause time.Duration) {
	if err != nil {
		return false, pushInterval
	}
	next := p.last.Add(pushInterval)
	due = found != idle && !p.active || found == held && !now.Before(next)
	p.active = found != idle
	if due {
		p.last = now
	} else if found == held {
		return false, next.Sub(now)
	}
	return due, pushInterval
}
