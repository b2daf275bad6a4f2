package status

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	eventsv1 "k8s.io/api/events/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/ir"
)

const (
	// pace is the shortest time between two rounds of writing.
	pace = 100 * time.Millisecond
	// retryAfter is the time after which a round with failures is repeated when no new Report comes first.
	retryAfter = 2 * time.Second
	// parallelWrites is how many objects are written at a time, so that 1000 new ones take seconds and the API server notices little.
	parallelWrites = 8
	// writeDeadline bounds one request.
	writeDeadline = 10 * time.Second
)

// ErrGone is in the chain of a Client's error when the object no longer exists, or another object has its name.
var ErrGone = errors.New("the object is gone")

// Client is what the Writer needs of the API server.
type Client interface {
	// ApplyStatus makes status the status of the object that has this name and this UID. An error with ErrGone says that there is none.
	ApplyStatus(ctx context.Context, object *httpv1alpha1.HTTPScaledObject, status httpv1alpha1.HTTPScaledObjectStatus) error
	// CreateEvent stores event. That an Event of its name exists already is no error.
	CreateEvent(ctx context.Context, event *eventsv1.Event) error
}

// Report is what one pass over all HTTPScaledObjects found out.
type Report struct {
	// Objects are all HTTPScaledObjects. The Writer reads them and changes none.
	Objects []*httpv1alpha1.HTTPScaledObject
	// Observations are what was found out, by object.
	Observations map[ir.Key]Observation
}

// Writer writes the status of HTTPScaledObjects. Report may be called at any time, from one goroutine; Run writes.
type Writer struct {
	client   Client
	instance string
	logger   *slog.Logger
	writes   *prometheus.CounterVec
	now      func() time.Time

	mu     sync.Mutex
	latest *Report
	news   chan struct{} // holds one element when latest was not yet looked at

	// done is what Run has last done about an object. Only Run uses it, one Run at a time.
	done map[types.UID]deed
}

// deed is the outcome of one successful write, or of one comparison that found nothing to write.
type deed struct {
	resourceVersion string
	seen            Observation
	accepted        metav1.Condition
}

// NewWriter returns a Writer. instance is the name of this replica, for Events. now is the clock for transition times.
func NewWriter(client Client, instance string, now func() time.Time, registerer prometheus.Registerer, logger *slog.Logger) (*Writer, error) {
	writes := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "kedify", Subsystem: "status", Name: "writes_total",
		Help: "Requests that wrote a status or an Event, by kind and result.",
	}, []string{"kind", "result"})
	if err := registerer.Register(writes); err != nil {
		return nil, err
	}
	return &Writer{client: client, instance: instance, now: now, logger: logger, writes: writes, news: make(chan struct{}, 1)}, nil
}

// Report takes note of the outcome of a pass and returns at once. The Writer keeps report; nobody may change it afterwards.
func (w *Writer) Report(report Report) {
	w.mu.Lock()
	w.latest = &report
	w.mu.Unlock()
	w.wake()
}

// Run writes until ctx ends, beginning with the latest Report. Two calls must not overlap.
func (w *Writer) Run(ctx context.Context) {
	w.done = map[types.UID]deed{} // Another replica may have written since the last time.
	w.wake()
	retry := time.NewTimer(retryAfter)
	defer retry.Stop()
	retry.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.news:
		case <-retry.C:
		}
		w.mu.Lock()
		latest := w.latest
		w.mu.Unlock()
		if latest == nil {
			continue
		}
		if !w.round(ctx, latest) {
			retry.Reset(retryAfter)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pace):
		}
	}
}

// wake makes Run look at the latest Report.
func (w *Writer) wake() {
	select {
	case w.news <- struct{}{}:
	default:
	}
}

// round brings every object of a report up to date and says whether all writes succeeded.
func (w *Writer) round(ctx context.Context, report *Report) bool {
	var group errgroup.Group
	group.SetLimit(parallelWrites)
	var mu sync.Mutex // for done
	present := make(map[types.UID]bool, len(report.Objects))
	for _, object := range report.Objects {
		present[object.UID] = true
		seen := report.Observations[ir.Key{Namespace: object.Namespace, Name: object.Name}]
		mu.Lock()
		last, known := w.done[object.UID]
		mu.Unlock()
		if known && last.resourceVersion == object.ResourceVersion && last.seen.equal(seen) {
			continue
		}
		group.Go(func() error {
			now, err := w.bringUpToDate(ctx, object, seen, last)
			if err != nil {
				return err
			}
			mu.Lock()
			w.done[object.UID] = now
			mu.Unlock()
			return nil
		})
	}
	err := group.Wait()
	for uid := range w.done {
		if !present[uid] {
			delete(w.done, uid)
		}
	}
	return err == nil
}

// bringUpToDate writes one object's status if it differs, and tells of it by an Event if that is worth one. last is what was done about the object before,
// the zero value if nothing was.
func (w *Writer) bringUpToDate(ctx context.Context, object *httpv1alpha1.HTTPScaledObject, seen Observation, last deed) (deed, error) {
	now := w.now()
	status := Compute(object, seen, now)
	is := meta.FindStatusCondition(status.Conditions, httpv1alpha1.ConditionAccepted)
	done := deed{resourceVersion: object.ResourceVersion, seen: seen, accepted: *is}
	stale := last.resourceVersion == object.ResourceVersion // What was written since is not in object yet.
	if !stale && apiequality.Semantic.DeepEqual(object.Status, status) {
		return done, nil
	}
	if err := w.write(ctx, "status", func(ctx context.Context) error { return w.client.ApplyStatus(ctx, object, status) }); err != nil {
		if errors.Is(err, ErrGone) {
			return done, nil
		}
		w.logger.WarnContext(ctx, "cannot write the status; trying again",
			"namespace", object.Namespace, "httpScaledObject", object.Name, "after", retryAfter, "error", err)
		return deed{}, err
	}
	was := last.accepted
	if before := meta.FindStatusCondition(object.Status.Conditions, httpv1alpha1.ConditionAccepted); was.Type == "" && before != nil {
		was = *before
	}
	if event := eventFor(object, was, *is, w.instance, now); event != nil {
		if err := w.write(ctx, "event", func(ctx context.Context) error { return w.client.CreateEvent(ctx, event) }); err != nil {
			// The condition says the same and stays, so nothing is lost that would be worth another try.
			w.logger.WarnContext(ctx, "cannot create the event", "namespace", object.Namespace, "httpScaledObject", object.Name, "error", err)
		}
	}
	return done, nil
}

// write makes one request within its deadline and counts it.
func (w *Writer) write(ctx context.Context, kind string, request func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, writeDeadline)
	defer cancel()
	err := request(ctx)
	result := "ok"
	if err != nil {
		result = "error"
	}
	w.writes.WithLabelValues(kind, result).Inc()
	return err
}
