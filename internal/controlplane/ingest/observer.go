package ingest

import (
	"context"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding/page"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve/certificates"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/server"
)

// Observer receives the outcome of every pass. Observers do not depend on each other.
type Observer interface {
	// Observe records a pass and returns without blocking. The loop calls it from one goroutine, after the publication
	// of the pass and before the next pass. Nothing that a Pass refers to may be modified.
	Observe(Pass)
}

// observe passes a Pass to an Observer. If it panics, it receives each object separately, so that the panic costs only
// the object that is the reason.
func (l *Loop) observe(ctx context.Context, observer Observer, pass Pass) {
	err := server.Recovered(func() error {
		observer.Observe(pass)
		return nil
	})
	if err == nil {
		return
	}
	l.reportFailure(ctx, stageObserve, err)
	alone := pass
	for key, object := range pass.Objects {
		alone.Objects = map[model.Key]Object{key: object}
		if err := server.Recovered(func() error {
			observer.Observe(alone)
			return nil
		}); err != nil {
			l.reportFailure(ctx, stageObserve, err, "httpScaledObject", key)
		}
	}
}

// Pass is the outcome of one pass.
type Pass struct {
	// Objects are the HTTPScaledObjects that changed since the previous pass, in any respect, status included.
	Objects map[model.Key]Object
	// Proxies are the current proxies of every fleet, also of fleets that did not change. The list is empty for a fleet
	// whose Service kedify-proxy has no endpoints. A fleet without the Service is not contained.
	Proxies map[model.Fleet][]model.Proxy
	// Replicas are the EndpointSlices of the Service that selects all replicas of the interceptor.
	Replicas []*discoveryv1.EndpointSlice
	// InvalidFleets are the Services of proxies whose settings changed in this pass and are invalid.
	InvalidFleets []*resolve.Service
	// Started is when the pass began, at most Options.Interval after the watch delivered the change, and Published is
	// when its resources were published.
	Started, Published time.Time
}

// Object is the state of one HTTPScaledObject after a pass.
type Object struct {
	// ScaledObject is the current object: an HTTPScaledObject or a converted InterceptorRoute. It is nil for a deleted
	// object; all other fields are zero then.
	ScaledObject *httpv1alpha1.HTTPScaledObject
	// Superseded is the InterceptorRoute, converted, of the same namespace and name, nil if there is none. It is not
	// served while ScaledObject exists.
	Superseded *httpv1alpha1.HTTPScaledObject
	// Fleet is the fleet that serves it.
	Fleet model.Fleet
	// Outcome is the result of the pass for this object.
	Outcome Outcome
	// Published is the published configuration of the object: from this pass, or from the last pass whose publication
	// succeeded.
	Published model.Config
	// Page is the waiting page that browsers receive while the workload has no ready endpoint, if the object enables one.
	Page page.Page
}

// Outcome is the result of a pass for one HTTPScaledObject.
type Outcome struct {
	// Problems are the user's errors in the object, in display order.
	Problems []model.Problem
	// Warnings are those to the owner of the object, in display order. The object is served regardless.
	Warnings []model.Problem
	// Served is true if Published contains a route of the object, from its current or from its last valid version.
	Served bool
	// Failure is the reason why the current version could not be published although it is valid: a bug of the
	// interceptor. It is "" after a successful publication.
	Failure string
	// WeightedBackends is the traffic split of Published, encoded by package split. It is "" if all requests go to the
	// object's own Service.
	WeightedBackends string
	// ManagedRoutes are the header and mirror routes of Published, encoded by package managedroute. It is "" if there
	// are none.
	ManagedRoutes string
	// Stickiness and SessionAffinity are those of Published, encoded by package affinity; "" for none.
	Stickiness, SessionAffinity string
	// StableHashes are the pod-template-hashes of the ready Pods of the stable Service, sorted. It is empty if at least
	// one hash is unknown.
	StableHashes []string
	// Page is the state of the ConfigMap with the waiting page.
	Page PageState
	// WrittenAt is the resource version of the last observed change that may have affected the spec or the annotations,
	// "" if no such change was observed. A status report must not be based on an older version.
	WrittenAt string
	// EnvoySettings is the error in a ConfigMap with Envoy settings that applies to the object, "" if there is none.
	EnvoySettings string
	// TLS is the state of the object's certificate, nil for an object without TLS. No other field depends on it.
	TLS *certificates.State
}

// PageState is the state of a ConfigMap with a waiting page that an object names.
type PageState struct {
	// IsUnknown is true until the first list of ConfigMaps has completed.
	IsUnknown bool
	// Reason is why the page cannot be used: a reason of condition WaitingPageAccepted in package api/http/v1alpha1. It
	// is "" for a usable page and for an object that names none. Message is the explanation for the user.
	Reason, Message string
}

// IsAccepted reports whether the published configuration contains the object's current version.
func (o Outcome) IsAccepted() bool { return o.Served && o.Failure == "" && len(o.Problems) == 0 }
