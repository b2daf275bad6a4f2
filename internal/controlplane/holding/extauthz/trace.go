package extauthz

import (
	"context"
	"net/netip"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// WaitReason is why a request is queued.
type WaitReason string

// Values of WaitReason.
const (
	// WaitNoEndpoint means that the backend has no ready endpoint.
	WaitNoEndpoint WaitReason = "no-endpoint"
	// WaitNotAcknowledged means that the backend has a ready endpoint, which the proxy has not acknowledged.
	WaitNotAcknowledged WaitReason = "endpoint-not-acknowledged"
	// WaitTurn means that the proxy has acknowledged a ready endpoint, and releases earlier requests first.
	WaitTurn WaitReason = "earlier-requests"
)

// Cause is why a request was released.
type Cause string

// Values of Cause.
const (
	// CauseAcknowledged means that the proxy has acknowledged a ready endpoint.
	CauseAcknowledged Cause = "endpoint-acknowledged"
	// CausePace means that the proxy has acknowledged a ready endpoint before, and the rate at which a proxy releases
	// requests permits the next ones.
	CausePace Cause = "release-rate"
)

// Outcomes of traced requests in addition to those of the metric.
const (
	outcomeStopping = "interceptor-stopping"
	outcomeMoved    = "proxy-moved"
)

// Wait is a request that is queued.
type Wait struct {
	// Since is when the call of the proxy arrived.
	Since time.Time
	// Workload is the object, Cluster the cluster of the request, and Proxy the address of the proxy.
	Workload model.Key
	Cluster  string
	Proxy    netip.Addr
	// Reason is why the request waits.
	Reason WaitReason
	// Queued is the number of queued requests of the workload, including this one.
	Queued int
	// IsViaFallback is true for a request via the fallback listener.
	IsViaFallback bool
}

// Result is how the wait of a request ended.
type Result struct {
	// Outcome is that of metric kedify_hold_requests_total, or proxy-moved or interceptor-stopping: then the proxy repeats
	// its call.
	Outcome string
	// Cause is why the request was released, "" if it was not.
	Cause Cause
	// Endpoints is the number of ready endpoints at the release, and ReadySince since when there are some. They are zero
	// if the request was not released.
	Endpoints  int
	ReadySince time.Time
}

// IsReleased reports whether the application receives the request.
func (r Result) IsReleased() bool { return r.Cause != "" }

// traced returns the Result of an outcome with its name.
func (o outcome) traced(name string) Result {
	if !o.isReleased {
		return Result{Outcome: name}
	}
	return Result{Outcome: name, Cause: o.cause, Endpoints: o.ready.endpoints, ReadySince: o.ready.since}
}

// readiness are the ready endpoints of a cluster.
type readiness struct {
	endpoints int
	since     time.Time // when the first of them was published
}

// trackEndpoints records the ready endpoints of a workload for traces. The caller holds the lock.
func (s *Server) trackEndpoints(key model.Key, workload *holding.Workload) {
	if s.trace == nil {
		return
	}
	counts := map[string]int{}
	if workload != nil {
		for i, cluster := range workload.Clusters[:min(len(workload.Clusters), len(workload.Endpoints))] {
			counts[cluster] = workload.Endpoints[i]
		}
	}
	for _, cluster := range s.queue.ClustersOf(key) {
		if counts[cluster] == 0 {
			delete(s.ready, cluster)
		}
	}
	for cluster, count := range counts {
		if count == 0 {
			continue
		}
		now, isKnown := s.ready[cluster]
		if now.endpoints = count; !isKnown {
			now.since = time.Now()
		}
		s.ready[cluster] = now
	}
}

// waitReason returns why a request is queued whose proxy serves its cluster, or does not. The caller holds the lock.
func (s *Server) waitReason(isServed bool, cluster string) WaitReason {
	if isServed {
		return WaitTurn
	}
	if _, isReady := s.ready[cluster]; isReady {
		return WaitNotAcknowledged
	}
	return WaitNoEndpoint
}

// traceWait starts the span of a queued request that arrived at a time. The caller must call end.
func (s *Server) traceWait(
	ctx context.Context, request holding.Request, queued queuedCall, arrived time.Time,
) (end func(Result)) {
	if s.trace == nil {
		return func(Result) {}
	}
	s.mu.Lock()
	key, _ := s.queue.OwnerOf(request.Cluster)
	count := s.queue.Waiting(key)
	s.mu.Unlock()
	return s.trace(ctx, Wait{
		Since: arrived, Workload: key, Cluster: request.Cluster, Proxy: request.Proxy, Reason: queued.reason,
		Queued: count, IsViaFallback: request.IsViaFallback,
	})
}
