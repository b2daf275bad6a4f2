package controlplane

import (
	"slices"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/ingest"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics/sink"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// DemandObserver is an ingest.Observer that passes objects to a metric sink.
type DemandObserver struct {
	// Sink receives the objects.
	Sink *sink.Sink
}

// Observe implements ingest.Observer.
func (d DemandObserver) Observe(pass ingest.Pass) {
	if len(pass.Objects) > 0 {
		d.Sink.SetObjects(metricsObjects(pass.Objects))
	}
}

// metricsObjects converts objects for the metric sink; nil stands for a deleted object.
func metricsObjects(objects map[model.Key]ingest.Object) map[model.Key]*metrics.Object {
	out := make(map[model.Key]*metrics.Object, len(objects))
	for key, object := range objects {
		if object.ScaledObject == nil {
			out[key] = nil
			continue
		}
		spec, err := metrics.SpecOf(object.ScaledObject)
		converted := &metrics.Object{Fleet: object.Fleet, Spec: spec, Created: object.ScaledObject.CreationTimestamp.Time}
		if err != nil {
			converted.SpecError = err.Error()
		}
		for _, route := range object.Published.Routes {
			for _, backend := range route.Backends {
				if !slices.Contains(converted.Services, backend.Service.Name) {
					converted.Services = append(converted.Services, backend.Service.Name)
				}
			}
		}
		out[key] = converted
	}
	return out
}
