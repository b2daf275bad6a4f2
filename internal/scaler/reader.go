package scaler

import (
	"errors"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// ErrNoObject means that neither an HTTPScaledObject nor an InterceptorRoute of the name exists.
var ErrNoObject = errors.New("HTTPScaledObject or InterceptorRoute not found")

// Reader returns the demand for HTTPScaledObjects. Its methods are safe for concurrent use.
type Reader interface {
	// Demand returns the latest demand from memory, without blocking.
	//
	// An error means that the demand is unknown: ErrNoObject, or another error if the metrics of a proxy or an
	// interceptor are missing. The Value returned with such an error is a lower bound, the count of all others: it can
	// prove that there is demand, but not that there is none.
	Demand(object model.Key) (metrics.Value, error)
	// Connections returns the number of connections between clients and the proxies of a fleet. An error means that it is
	// unknown.
	Connections(fleet model.Fleet) (float64, error)
	// Changed returns a channel that is closed when the demand for the object changes. A channel obtained before a call
	// of Demand reports every change after that call: queued requests at once, anything else within a second.
	Changed(object model.Key) <-chan struct{}
}

// Canaries reports canaries in progress.
type Canaries interface {
	// InProgress reports whether the target of an HTTPScaledObject has to keep a replica because of a canary. An error
	// means that this is unknown; it is ErrNoObject if the object does not exist.
	InProgress(object types.NamespacedName) (bool, error)
	// Changes returns channels, one of which is closed when the result of InProgress may change; a nil channel never
	// is. Channels obtained before a call of InProgress report every change after that call, except that watching the
	// objects fails or works again.
	Changes(object types.NamespacedName) [2]<-chan struct{}
}
