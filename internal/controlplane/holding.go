package controlplane

import (
	"time"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding/extauthz"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/ingest"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/xds"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// Holding passes objects, and the discovery streams of proxies with their ACKs, to the queue of requests. It is an
// xds.Callbacks and an ingest.Observer.
type Holding struct {
	// Server has the queue.
	Server *extauthz.Server
	// Timeout is how long a request waits if its object sets no timeout. 0 means as long as possible.
	Timeout time.Duration
}

// OnStreamOpen implements xds.Callbacks.
func (h *Holding) OnStreamOpen(stream xds.StreamState) { h.Server.Opened(stream.Address(), stream) }

// OnStreamClosed implements xds.Callbacks.
func (h *Holding) OnStreamClosed(stream xds.StreamState) { h.Server.Closed(stream.Address(), stream) }

// OnEndpointsAcked implements xds.Callbacks.
func (h *Holding) OnEndpointsAcked(stream xds.StreamState) { h.Server.EndpointsAcked(stream.Address()) }

// Observe implements ingest.Observer.
func (h *Holding) Observe(pass ingest.Pass) {
	workloads := make(map[model.Key]*holding.Workload, len(pass.Objects))
	for key, object := range pass.Objects {
		workloads[key] = h.workloadOf(key, object)
	}
	h.Server.SetWorkloads(workloads)
}

// workloadOf returns the workload of an object; nil if it has no routes.
func (h *Holding) workloadOf(key model.Key, object ingest.Object) *holding.Workload {
	if object.ScaledObject == nil || len(object.Published.Routes) == 0 {
		return nil
	}
	route := object.Published.Routes[0] // The routes of an object differ only in Match.
	timeout, fallbackTimeout := translate.HoldTimeouts(route, h.Timeout)
	workload := &holding.Workload{
		Fleet: route.Fleet, Timeout: timeout, FallbackTimeout: fallbackTimeout, HasFailover: route.Failover != nil,
		IsPaused:   httpv1alpha1.IsPausedAtZero(object.ScaledObject),
		HealthPath: httpv1alpha1.StaticHealthcheck(object.ScaledObject), Placeholder: route.Placeholder,
	}
	if httpv1alpha1.HasWaitingPage(object.ScaledObject) {
		workload.Page = &object.Page
	}
	for _, backend := range route.Backends {
		workload.Clusters = append(workload.Clusters, translate.ClusterName(key, backend.Service))
		workload.Endpoints = append(workload.Endpoints, len(object.Published.Services[backend.ServicePort()].Ready))
	}
	return workload
}
