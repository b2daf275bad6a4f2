package controlplane

import (
	"time"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding/extauthz"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/observation"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/xds"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// Holding joins what holds requests with the rest: it hears of objects, of the streams of proxies and of
// what they confirm there. It is an xds.Callbacks and an observation.Observer.
type Holding struct {
	// Checks answers the proxies.
	Checks *extauthz.Server
	// Patience is how long a request waits whose object says nothing about it.
	Patience time.Duration
}

// OnStreamOpen implements [xds.Callbacks].
func (h *Holding) OnStreamOpen(stream xds.StreamState) { h.Checks.Opened(stream.Address(), stream) }

// OnStreamClosed implements [xds.Callbacks].
func (h *Holding) OnStreamClosed(stream xds.StreamState) { h.Checks.Closed(stream.Address(), stream) }

// OnEndpointsAcked implements [xds.Callbacks].
func (h *Holding) OnEndpointsAcked(stream xds.StreamState) { h.Checks.Confirmed(stream.Address()) }

// Held are the requests that are held, as a metricsink.Sink asks for them.
func (h *Holding) Held() (held map[model.Key]metrics.Held, urgent <-chan struct{}) {
	counts, urgent := h.Checks.Counts()
	held = make(map[model.Key]metrics.Held, len(counts))
	for key, count := range counts {
		held[key] = metrics.Held{Waiting: count.Waiting, Counted: count.Caught}
	}
	return held, urgent
}

// Observe is observation.Observer's.
func (h *Holding) Observe(pass observation.Pass) {
	apps := make(map[model.Key]*holding.App, len(pass.Objects))
	for key, object := range pass.Objects {
		apps[key] = h.appOf(key, object)
	}
	h.Checks.SetApps(apps)
}

// appOf says what there is to know of an object to hold its requests; nil for one that has none.
func (h *Holding) appOf(key model.Key, object observation.Object) *holding.App {
	if object.ScaledObject == nil || len(object.InForce.Routes) == 0 {
		return nil
	}
	route := object.InForce.Routes[0] // Those of an object differ in their Match alone.
	timeouts := route.Timeouts
	if route.Failover != nil {
		timeouts.ColdStart = route.Failover.Timeout
	}
	patience, caught := translate.Patience(timeouts, h.Patience)
	app := &holding.App{
		Fleet: route.Fleet, Patience: patience, CaughtPatience: caught, FailsOver: route.Failover != nil,
		IsPaused:   httpv1alpha1.IsPausedAtZero(object.ScaledObject),
		HealthPath: httpv1alpha1.StaticHealthcheck(object.ScaledObject),
	}
	if httpv1alpha1.HasWaitingPage(object.ScaledObject) {
		app.Page = &object.Page
	}
	for _, backend := range route.Backends {
		app.Clusters = append(app.Clusters, translate.ClusterName(key, backend.Service))
	}
	return app
}
