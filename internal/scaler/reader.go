package scaler

import (
	"errors"

	"k8s.io/apimachinery/pkg/types"
)

// Figure is the demand for one HTTPScaledObject: summed over all proxies, all interceptors and all
// of its backends.
type Figure struct {
	// RequestRate is the number of requests a second, averaged over the object's window.
	RequestRate float64
	// RateError says why RequestRate is but a lower bound while the rest is known; nil if it is known.
	RateError error
	// Concurrency is the number of requests in flight, Held among them.
	Concurrency float64
	// Held is the number of requests that wait for a first replica.
	Held int
}

// ErrNoObject says that there is no such HTTPScaledObject.
var ErrNoObject = errors.New("there is no such HTTPScaledObject")

// Reader tells the demand for HTTPScaledObjects. Its methods are called at once from many
// goroutines.
type Reader interface {
	// Demand returns the newest figure from memory, and waits for nothing.
	//
	// An error says that the figure is not known: ErrNoObject, or anything else where some proxy or interceptor is not heard from. The figure beside such an error is a lower
	// bound, what the others have counted: it may prove that there is demand, never that there is
	// none.
	Demand(object types.NamespacedName) (Figure, error)
	// Changed returns a channel that is closed when the object's figure has changed; one that was
	// taken before a call of Demand misses nothing after it. What has to be told at once is that a
	// request is held; the rest may be late by a second.
	Changed(object types.NamespacedName) <-chan struct{}
}

// Canaries says where a canary is under way.
type Canaries interface {
	// UnderWay says whether the target of an HTTPScaledObject has to keep a replica because of a
	// canary. An error says that it is not known; it is ErrNoObject where there is no such object.
	UnderWay(object types.NamespacedName) (bool, error)
	// Changes returns channels of which one is closed when UnderWay may say something else; one that
	// is nil never is. Taken before a call of UnderWay, they miss nothing after it but that the objects
	// cannot be watched any more, or can again.
	Changes(object types.NamespacedName) [2]<-chan struct{}
}
