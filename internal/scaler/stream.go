package scaler

import (
	"time"

	"google.golang.org/grpc"

	"github.com/kedify/argo-rollouts-plugin/internal/scaler/externalscaler"
)

// pushInterval is the pause between two pushes while requests are held, and between two looks at what
// is not known.
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
		changed, canary := s.reader.Changed(t.object), s.canaries.Changes(t.object)
		found, err := s.activity(t)
		due, pause := pushed.due(found, err, time.Now())
		if due {
			if err := stream.Send(&externalscaler.IsActiveResponse{Result: true}); err != nil {
				return err
			}
			s.observer.Pushed()
		}
		var again <-chan time.Time // A stream that waits for a change takes no processor time.
		if pause > 0 {
			again = time.After(pause)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.closing:
		case <-changed:
		case <-canary[0]:
		case <-canary[1]:
		case <-again:
		}
	}
}

// pushes remembers what one stream was told.
type pushes struct {
	active bool // what was known at last
	last   time.Time
}

// due says whether true is to be pushed for what was found at now, and takes it for done; and after
// what pause to look again, 0 for no sooner than something changes. What is not known changes nothing.
func (p *pushes) due(found activity, err error, now time.Time) (due bool, pause time.Duration) {
	if err != nil {
		return false, pushInterval
	}
	next := p.last.Add(pushInterval)
	due = found != idle && !p.active || found == held && !now.Before(next)
	p.active = found != idle
	if due {
		p.last, next = now, now.Add(pushInterval)
	}
	if found == held {
		pause = next.Sub(now)
	}
	return due, pause
}
