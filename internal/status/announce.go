package status

import (
	"context"
	"sync"
	"time"

	eventsv1 "k8s.io/api/events/v1"

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

// announcer has Events tell of Announcements, on each replica, elected or not: each has requests of its own. The name of an Event says
// what it tells and in which stretch of announceEvery, so that replicas that tell the same leave one.
type announcer struct {
	writer *writer
	events chan *eventsv1.Event

	mu      sync.Mutex
	told    map[telling]struct{} // in the present stretch
	stretch time.Time            // when that began
}

// telling is what was told of an object.
type telling struct {
	object ir.Key
	reason string
}

// Announce has an Event tell of something, at most once in five minutes for each object and reason. It returns at once.
func (r *Reporting) Announce(object ir.Key, is Announcement) {
	stretch := time.Now().Truncate(announceEvery)
	if r.announcer.isTold(telling{object, is.Reason}, stretch) {
		return
	}
	each, _ := r.writer.find(object)
	if each.object == nil {
		return
	}
	select {
	case r.announcer.events <- newEvent(each.object, is, holdAction, stretch, r.writer.Replica):
	default:
	}
}

// isTold says whether something was told in a stretch, and has it count as told.
func (a *announcer) isTold(is telling, stretch time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.stretch.Equal(stretch) {
		a.told, a.stretch = map[telling]struct{}{}, stretch
	}
	_, was := a.told[is]
	a.told[is] = struct{}{}
	return was
}

// run writes until ctx ends.
func (a *announcer) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case event := <-a.events:
			a.writer.createEvent(ctx, event)
		}
	}
}
