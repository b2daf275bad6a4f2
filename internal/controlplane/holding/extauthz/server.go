// Package extauthz queues requests at zero replicas: it implements Envoy's external authorization service over package
// holding. Envoy sends a Check for each request to a backend without ready endpoints, and forwards the request when the
// call returns OK.
//
// A call ends in one of these ways:
//
//   - The proxy has ACKed a ready endpoint: the request is released, and its response gets ColdStartHeader.
//   - The proxy answers at once, or at the deadline: 503 with Retry-After and the reason, 200 to a probe, or the
//     placeholder of the object.
//   - At the deadline the request goes to the failover Service of the object.
//   - The client disconnects: Envoy cancels the call, and the request is removed from the queue.
//   - The proxy has connected to another replica, or this one stops: status Unavailable. Envoy then retries the call at
//     the other replica.
package extauthz

import (
	"context"
	"net/netip"
	"sync"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/status"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding/page"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

const (
	// streamTimeout is how long a call waits for a discovery stream of its proxy: after a restart the call may arrive
	// first, and when a proxy has moved to another replica the call must be retried at that
	// replica.
	streamTimeout = 2 * time.Second
)

// Options are the settings of a Server. All except Trace are required.
type Options struct {
	// Limits are the limits of queued requests.
	Limits holding.Limits
	// Notify reports an Event of a workload. It is called with a lock held, and must not block.
	Notify func(workload model.Key, reason holding.Reason)
	// Registerer registers the metrics.
	Registerer prometheus.Registerer
	// Trace starts the span of a queued request, see Wait. nil means that requests are not traced.
	Trace func(ctx context.Context, wait Wait) (end func(Result))
}

// Stream is the discovery stream of a proxy.
type Stream interface {
	// Number increases from stream to stream.
	Number() uint64
	// Fleet is the proxy's fleet.
	Fleet() string
	// Serves reports whether the proxy has ACKed an endpoint of a cluster that accepts requests. It may wait for a step of
	// the proxy's session, so no lock is held when it is called.
	Serves(cluster string) bool
}

// Server is the service. Make it with New. It is safe for concurrent use.
type Server struct {
	metrics *metrics
	notify  func(model.Key, holding.Reason)
	closed  chan struct{}
	synced  chan struct{} // closed at the first SetWorkloads

	mu        sync.Mutex // guards the fields below
	queue     *holding.Queue
	running   *admission
	streams   map[netip.Addr][]Stream     // of a proxy, in the order of their numbers
	addresses map[netip.Addr][]netip.Addr // all addresses of a proxy with several, by each of them
	opened    chan struct{}               // closed and replaced when a stream opens
	calls     map[holding.Waiter]call
	// unservedSince is since when requests of a workload are queued without one being released. Only entries of
	// workloads with queued requests are valid.
	unservedSince map[model.Key]time.Time

	pacers    map[netip.Addr]*proxyPacer // those that are not full
	pageViews map[slot]*pageView
	trace     func(context.Context, Wait) func(Result) // nil if requests are not traced
	// ready are the ready endpoints of clusters that have some. It is empty if requests are not traced.
	ready   map[string]readiness
	changed chan struct{} // closed and replaced when a workload gets its first queued request
}

// call is a queued call for a workload. done receives its outcome; it is nil for a page view, whose call has ended.
type call struct {
	workload model.Key
	cluster  string
	done     chan outcome
}

// outcome is the result of a queued call.
type outcome struct {
	isReleased bool
	isMoved    bool // the proxy has no stream at this replica any more
	decision   holding.Decision
	page       page.Page // with the decision holding.Page
	// placeholder is the response with the decision holding.Placeholder, and accept the header Accept of the request.
	placeholder *model.StaticResponse
	accept      string
	// cause is why a request was released, and ready are the ready endpoints of its cluster.
	cause Cause
	ready readiness
}

// proxyPacer is the Pacer of a proxy. due is the timer of the next refill, nil while that runs.
type proxyPacer struct {
	holding.Pacer

	due *time.Timer
}

// slot identifies the requests of one proxy for one cluster.
type slot struct {
	proxy   netip.Addr
	cluster string
}

// New returns a Server without workloads and streams. The error is that of Options.Registerer.
func New(options Options) (*Server, error) {
	s := &Server{
		notify: options.Notify,
		closed: make(chan struct{}), synced: make(chan struct{}),
		queue: holding.NewQueue(options.Limits), running: newAdmission(options.Limits), streams: map[netip.Addr][]Stream{}, opened: make(chan struct{}),
		calls: map[holding.Waiter]call{}, unservedSince: map[model.Key]time.Time{},
		pacers: map[netip.Addr]*proxyPacer{}, pageViews: map[slot]*pageView{}, changed: make(chan struct{}),
		trace: options.Trace, ready: map[string]readiness{},
	}
	var err error
	s.metrics, err = newMetrics(options.Registerer, s)
	return s, err
}

// Close ends all calls, including later ones; proxies retry them at other replicas. Further calls have no effect.
func (s *Server) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.closed:
		return
	default:
	}
	close(s.closed)
	for _, pacer := range s.pacers {
		pacer.due.Stop()
	}
	for _, view := range s.pageViews {
		view.expiry.Stop()
	}
}

// SetWorkloads adds, changes and removes workloads; nil removes one. Calls wait for the first SetWorkloads.
func (s *Server) SetWorkloads(changed map[model.Key]*holding.Workload) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, workload := range changed {
		var evicted map[holding.Waiter]holding.Decision
		s.trackEndpoints(key, workload)
		if workload == nil {
			evicted = s.queue.RemoveWorkload(key)
			delete(s.unservedSince, key)
		} else {
			evicted = s.queue.SetWorkload(key, *workload)
		}
		for waiter, decision := range evicted {
			s.respond(waiter, outcome{decision: decision})
		}
	}
	select {
	case <-s.synced:
	default:
		close(s.synced)
	}
}

// Counts returns the queued requests of each workload at this replica, and a channel that is closed when a workload
// gets its first queued request.
func (s *Server) Counts() (map[model.Key]holding.Count, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queue.Counts(), s.changed
}

// longestUnserved returns the longest time for which requests of a workload are queued without one being released. It is
// 0 if none is queued.
func (s *Server) longestUnserved() (longest time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for key := range s.queue.Counts() {
		longest = max(longest, now.Sub(s.unservedSince[key]))
	}
	return longest
}

// answer returns the response to a request, which may wait for it.
func (s *Server) answer(ctx context.Context, request holding.Request) (*authv3.CheckResponse, error) {
	start := time.Now()
	stream, at, err := s.streamOf(ctx, request.Proxy)
	if err != nil {
		return nil, err
	}
	request.Proxy = at
	request.Fleet = model.Fleet(stream.Fleet())
	queued, result := s.enqueue(request, stream)
	if result != nil {
		s.metrics.count(*result, 0)
		return response(*result, false), nil
	}
	defer s.remove(queued.waiter)
	end := s.traceWait(ctx, request, queued, start)
	answer, traced, err := s.await(ctx, request, queued, start)
	end(traced)
	return answer, err
}

// await waits for the outcome of a queued request. It returns the response, and the Result for the trace.
func (s *Server) await(
	ctx context.Context, request holding.Request, queued queuedCall, start time.Time,
) (*authv3.CheckResponse, Result, error) {
	hasFailover := queued.workload.HasFailover
	timeout := time.NewTimer(timeoutOf(queued.workload, request))
	defer timeout.Stop()
	var result outcome
	select {
	case result = <-queued.done:
	case <-timeout.C:
		s.expire(request.Cluster, hasFailover)
		answer, err := expired(hasFailover)
		return answer, Result{Outcome: expiredOutcome(hasFailover)}, err
	case <-ctx.Done():
		s.metrics.cancel()
		return nil, Result{Outcome: outcomeCanceled}, status.FromContextError(ctx.Err()).Err()
	case <-s.closed:
		return nil, Result{Outcome: outcomeStopping}, errStopping()
	}
	if result.isMoved {
		return nil, Result{Outcome: outcomeMoved}, errMoved()
	}
	return response(result, true), result.traced(s.metrics.count(result, time.Since(start))), nil
}

// timeoutOf returns how long a request waits.
func timeoutOf(workload holding.Workload, request holding.Request) time.Duration {
	if request.IsViaFallback {
		return min(workload.Timeout, workload.FallbackTimeout)
	}
	return workload.Timeout
}

// queuedCall is a call of a queued request. done receives its outcome, and reason is why it waits.
type queuedCall struct {
	waiter   holding.Waiter
	done     chan outcome
	workload holding.Workload
	reason   WaitReason
}

// enqueue queues a request, or returns its outcome.
func (s *Server) enqueue(request holding.Request, stream Stream) (queued queuedCall, result *outcome) {
	isServed := stream.Serves(request.Cluster)
	s.mu.Lock()
	hadWaiter := s.queue.HasWaiter(request.Proxy, request.Cluster)
	queued, result = s.enqueueUnless(isServed, hadWaiter, request)
	s.mu.Unlock()
	// An ACK before the request was queued has released nothing. Any later ACK releases it.
	if !isServed && !hadWaiter && stream.Serves(request.Cluster) {
		s.release(request.Proxy, CauseAcknowledged)
	}
	return queued, result
}

// enqueueUnless is enqueue for a proxy that serves the request's cluster, or does not, and that has queued requests for
// it, or has none. The caller holds the lock.
func (s *Server) enqueueUnless(
	isServed, hadWaiter bool, request holding.Request,
) (queued queuedCall, result *outcome) {
	before := s.queue.Workloads()
	waiter, workload, decision := s.queue.Enqueue(request)
	switch {
	case (decision == holding.Page || decision == holding.Placeholder) && isServed:
		return queuedCall{}, &outcome{isReleased: true}
	case decision == holding.Page:
		return queuedCall{}, &outcome{decision: s.viewPage(request, *workload.Page), page: *workload.Page}
	case decision == holding.Placeholder:
		if !workload.IsPaused {
			s.wake(request, placeholderLifetime)
		}
		return queuedCall{}, &outcome{
			decision: decision, placeholder: workload.Placeholder, accept: request.Accept,
		}
	case decision == holding.Full:
		s.notifyOwner(request.Cluster, holding.Rejected)
		return queuedCall{}, &outcome{decision: decision}
	case decision != holding.Wait:
		return queuedCall{}, &outcome{decision: decision}
	case !hadWaiter && isServed:
		s.queue.Remove(waiter)
		return queuedCall{}, &outcome{isReleased: true}
	}
	done := make(chan outcome, 1)
	s.track(waiter, request.Cluster, before, done)
	return queuedCall{waiter, done, workload, s.waitReason(isServed, request.Cluster)}, nil
}

// track stores a queued call for a cluster, and reports a cold start if more workloads than before have queued requests.
// The caller holds the lock.
func (s *Server) track(waiter holding.Waiter, cluster string, before int, done chan outcome) {
	workload, _ := s.queue.OwnerOf(cluster)
	s.calls[waiter] = call{workload, cluster, done}
	if s.queue.Workloads() > before {
		s.unservedSince[workload] = time.Now()
		close(s.changed)
		s.changed = make(chan struct{})
		s.notify(workload, holding.ColdStart)
	}
}

// expire records that a request for a cluster has reached its deadline.
func (s *Server) expire(cluster string, hasFailover bool) {
	reason := holding.TimedOut
	if hasFailover {
		reason = holding.FailedOver
	}
	s.metrics.expire(hasFailover)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notifyOwner(cluster, reason)
}

// notifyOwner notifies about the workload that a cluster belongs to. The caller holds the lock.
func (s *Server) notifyOwner(cluster string, reason holding.Reason) {
	if workload, ok := s.queue.OwnerOf(cluster); ok {
		s.notify(workload, reason)
	}
}

// remove removes a queued request and its call.
func (s *Server) remove(waiter holding.Waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue.Remove(waiter)
	delete(s.calls, waiter)
}

// respond sends an outcome to the call of a request that was removed from the queue. The caller holds the lock.
func (s *Server) respond(waiter holding.Waiter, result outcome) {
	waiting, exists := s.calls[waiter]
	if !exists {
		return
	}
	if waiting.done != nil {
		result.ready = s.ready[waiting.cluster]
		waiting.done <- result
	}
	delete(s.calls, waiter)
	if result.isReleased {
		s.unservedSince[waiting.workload] = time.Now()
	}
}
