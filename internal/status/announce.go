package status

import (
	"context"
	"log/slog"
	"sync"
	"time"

	eventsv1 "k8s.io/api/events/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
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
	client   Client
	instance string
	now      func() time.Time
	logger   *slog.Logger
	metrics  *metrics
	// find returns an object, nil when it is not known.
	find  func(ir.Key) *httpv1alpha1.HTTPScaledObject
	queue chan *eventsv1.Event

	mu   sync.Mutex
	told map[telling]struct{} // in the present stretch
	at   time.Time            // when that began
}

// telling is what was told of an object.
type telling struct {
	object ir.Key
	reason string
}

// newAnnouncer returns an announcer that has told nothing.
func newAnnouncer(options Options, counted *metrics, find func(ir.Key) *httpv1alpha1.HTTPScaledObject) *announcer {
	return &announcer{
		client: options.Client, instance: options.Replica, now: options.Now, logger: options.Logger,
		metrics: counted, find: find, queue: make(chan *eventsv1.Event, announceQueue),
	}
}

// Announce has an Event tell of something, at most once in five minutes for each object and reason. It returns at once.
func (r *Reporting) Announce(object ir.Key, is Announcement) { r.announcer.announce(object, is) }

func (a *announcer) announce(key ir.Key, is Announcement) {
	now := a.now()
	at := now.Truncate(announceEvery)
	if a.isTold(telling{key, is.Reason}, at) {
		return
	}
	object := a.find(key)
	if object == nil {
		return
	}
	event := newEvent(object, happening{is.Kind, is.Reason, is.Note, holdAction, at}, a.instance, now)
	select {
	case a.queue <- event:
	default:
	}
}

// isTold says whether something was told in the stretch that began at a time, and has it count as told.
func (a *announcer) isTold(is telling, at time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.told == nil || !a.at.Equal(at) {
		a.told, a.at = map[telling]struct{}{}, at
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
		case event := <-a.queue:
			a.write(ctx, event)
		}
	}
}

// write creates one Event. What fails is logged: it happens again, or is over.
func (a *announcer) write(ctx context.Context, event *eventsv1.Event) {
	ctx, cancel := context.WithTimeout(ctx, writeDeadline)
	defer cancel()
	result := "ok"
	if err := a.client.CreateEvent(ctx, event); err != nil {
		result = "error"
		a.logger.WarnContext(ctx, "cannot create the event", "namespace", event.Namespace,
			"httpScaledObject", event.Regarding.Name, "reason", event.Reason, "error", err)
	}
	a.metrics.writes.WithLabelValues("event", result).Inc()
}
