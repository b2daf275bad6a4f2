package status

import (
	"context"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/ir"
)

const (
	// announceEvery is how often the same is told of an object.
	announceEvery = 5 * time.Minute
	// announceQueue is how many announcements wait to be written; what comes beyond is left out until it happens again.
	announceQueue = 256
	// holdAction is what the interceptor was doing when it announces something.
	holdAction = "Hold"
)

// Announcement is something that happens to the requests for an object, and that its status does not tell.
type Announcement struct {
	// Kind is corev1.EventTypeNormal or corev1.EventTypeWarning.
	Kind string
	// Reason is machine-readable, and Note for the object's owner. Nothing in it is a number that differs each time.
	Reason, Note string
}

// telling is what was told of an object.
type telling struct {
	object ir.Key
	reason string
}

// Announce has an Event tell of something, at most once in five minutes for each object and reason. It returns at once. Each replica tells, elected or not: each
// has requests of its own. The name of an Event says what it tells and in which stretch of announceEvery, so that replicas that tell the same leave one.
func (r *Reporting) Announce(object ir.Key, is Announcement) {
	stretch := time.Now().Truncate(announceEvery)
	if r.isTold(telling{object, is.Reason}, stretch) {
		return
	}
	each, _ := r.writer.find(object)
	if each.object == nil {
		return
	}
	select {
	case r.announced <- newEvent(each.object, is, holdAction, stretch, r.writer.Replica):
	default:
	}
}

// isTold says whether something was told in a stretch, and has it count as told.
func (r *Reporting) isTold(is telling, stretch time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.stretch.Equal(stretch) {
		r.told, r.stretch = map[telling]struct{}{}, stretch
	}
	_, was := r.told[is]
	r.told[is] = struct{}{}
	return was
}

// writeAnnounced writes what is announced until ctx ends.
func (r *Reporting) writeAnnounced(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case event := <-r.announced:
			r.writer.createEvent(ctx, event)
		}
	}
}
