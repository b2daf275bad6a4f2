// Package observation is what a pass over the watched objects finds out: what package ingest hands to
// its observers, which know nothing of one another.
package observation

import (
	discoveryv1 "k8s.io/api/discovery/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding/page"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve/certificates"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// Observer is told the outcome of every pass.
type Observer interface {
	// Observe takes note of a pass and returns at once. It is called from one goroutine, after the
	// publication and before the next one. Nobody may change what a Pass refers to.
	Observe(Pass)
}

// Pass is the outcome of one pass.
type Pass struct {
	// Objects are the HTTPScaledObjects of which anything is new since the pass before, their statuses
	// included.
	Objects map[model.Key]Object
	// Proxies are those of each fleet, all of them as they are now.
	Proxies map[model.Fleet][]model.Proxy
	// Replicas are the EndpointSlices of the Service that all replicas of the interceptor are behind.
	Replicas []*discoveryv1.EndpointSlice
}

// Object is what is known of one HTTPScaledObject.
type Object struct {
	// ScaledObject is the object as it is now, nil when it is gone; then the rest is the zero value.
	ScaledObject *httpv1alpha1.HTTPScaledObject
	// Fleet is the fleet that serves it.
	Fleet model.Fleet
	// Outcome is what became of it.
	Outcome Outcome
	// InForce is what is published of it: of this pass, or of the last pass that could be published.
	InForce model.Config
	// Page is what a browser is shown while it has no replica, if it asks for that.
	Page page.Page
}

// Outcome is what became of one HTTPScaledObject.
type Outcome struct {
	// Problems are the user's mistakes in it, in the order in which they should be read.
	Problems []model.Problem
	// Served says that InForce has a route of it, in its present or in its last good version.
	Served bool
	// Failure says why its present version could not be published although nothing is wrong with it: a bug
	// of the interceptor. "" when it could.
	Failure string
	// WeightedBackends is how requests are shared by InForce, as a text of package split; "" where its own
	// Service gets all of them.
	WeightedBackends string
	// ManagedRoutes are the header and mirror routes of InForce, as a text of package managedroute; "" where
	// there are none.
	ManagedRoutes string
	// StableHashes are the pod-template-hashes of the ready Pods behind its stable Service, sorted; empty
	// when some are not known.
	StableHashes []string
	// Page is what is known of the ConfigMap with its waiting page.
	Page PageState
	// WrittenAt is the resource version of the last change of its spec or its annotations, or of a change
	// that may have been one; "" when none was seen. A report must not be older.
	WrittenAt string
	// EnvoySettings says what is wrong with a ConfigMap with settings of Envoy for it, "" for nothing.
	EnvoySettings string
	// TLS is what became of its certificate, nil for an object without one. Nothing else here depends on that.
	TLS *certificates.State
}

// PageState is what is known of a ConfigMap that an object names.
type PageState struct {
	// IsUnknown says that ConfigMaps have not been listed yet.
	IsUnknown bool
	// Reason is why the page cannot be used: one of the reasons of condition WaitingPageAccepted in package
	// api/http/v1alpha1, "" for a page that can, or where none is named. Message is for the user.
	Reason, Message string
}

// IsAccepted says whether the configuration in force has the object as it is.
func (o Outcome) IsAccepted() bool { return o.Served && o.Failure == "" && len(o.Problems) == 0 }
