package model

import (
	"cmp"
	"time"
)

// EnvoySettings are settings of Envoy in the place of the proxy's defaults. What has its zero value is the default.
type EnvoySettings struct {
	// Route is about requests, and Cluster about the connections to Pods.
	Route   RouteSettings   `json:",omitzero"`
	Cluster ClusterSettings `json:",omitzero"`
}

// Given is a value that may be zero and yet not the default.
type Given[T comparable] struct {
	// Value counts only where IsGiven.
	Value   T
	IsGiven bool
}

// MaxRetryCodes is how many status codes RouteTuning.RetryCodes has room for.
const MaxRetryCodes = 10

// RouteSettings are settings of Envoy's RouteAction.
type RouteSettings struct {
	// Timeout bounds a request with all its tries to the end of the response; 0 is no bound, and the default.
	Timeout Given[time.Duration] `json:",omitzero"`
	// IdleTimeout is how long a request may be silent in both directions.
	IdleTimeout time.Duration `json:",omitempty"`
	// RetryOn are the conditions under which a request is tried again, with commas between them.
	RetryOn string `json:",omitempty"`
	// RetryCodes are the status codes that condition retriable-status-codes is about; 0 is none.
	RetryCodes [MaxRetryCodes]uint32 `json:",omitzero"`
	// Retries is how often a request is tried again.
	Retries Given[uint32] `json:",omitzero"`
	// PerTryTimeout bounds one try to the headers of the response, where the object itself says nothing about it.
	PerTryTimeout time.Duration `json:",omitempty"`
	// BackOff is the pause before a request is tried again.
	BackOff BackOff `json:",omitzero"`
}

// BackOff is a pause that grows, by chance up to Base at first and up to Max at last; Max of 0 is ten times Base.
type BackOff struct{ Base, Max time.Duration }

// ClusterSettings are settings of Envoy's Cluster.
type ClusterSettings struct {
	// ConnectTimeout bounds a connection attempt.
	ConnectTimeout time.Duration `json:",omitempty"`
	// Balance says which Pod gets a request.
	Balance Balance `json:",omitzero"`
	// MaxConnections, MaxPendingRequests, MaxRequests and MaxRetries are circuit breakers, in each proxy.
	MaxConnections, MaxPendingRequests, MaxRequests, MaxRetries uint32 `json:",omitempty"`
}

// Balance is a policy with its settings.
type Balance struct {
	// Policy is Envoy's name of it.
	Policy string
	// ChoiceCount is how many Pods LEAST_REQUEST compares.
	ChoiceCount uint32 `json:",omitempty"`
	// SlowStart is how long a new Pod gets fewer requests, at first MinWeight percent of its share.
	SlowStart time.Duration  `json:",omitempty"`
	MinWeight Given[float64] `json:",omitzero"`
}

// Over is the Tuning with a wider one's settings where it has none itself. Both may be nil, which is none.
func (t *EnvoySettings) Over(wider *EnvoySettings) *EnvoySettings {
	if t == nil || wider == nil || *t == (EnvoySettings{}) {
		return cmp.Or(wider, t)
	}
	r, c := wider.Route, wider.Cluster
	return &EnvoySettings{
		Route: RouteSettings{
			Timeout: cmp.Or(t.Route.Timeout, r.Timeout), IdleTimeout: cmp.Or(t.Route.IdleTimeout, r.IdleTimeout),
			RetryOn: cmp.Or(t.Route.RetryOn, r.RetryOn), RetryCodes: cmp.Or(t.Route.RetryCodes, r.RetryCodes),
			Retries: cmp.Or(t.Route.Retries, r.Retries), PerTryTimeout: cmp.Or(t.Route.PerTryTimeout, r.PerTryTimeout),
			BackOff: cmp.Or(t.Route.BackOff, r.BackOff),
		},
		Cluster: ClusterSettings{
			ConnectTimeout:     cmp.Or(t.Cluster.ConnectTimeout, c.ConnectTimeout),
			Balance:            cmp.Or(t.Cluster.Balance, c.Balance),
			MaxConnections:     cmp.Or(t.Cluster.MaxConnections, c.MaxConnections),
			MaxPendingRequests: cmp.Or(t.Cluster.MaxPendingRequests, c.MaxPendingRequests),
			MaxRequests:        cmp.Or(t.Cluster.MaxRequests, c.MaxRequests),
			MaxRetries:         cmp.Or(t.Cluster.MaxRetries, c.MaxRetries),
		},
	}
}

// Equal says whether two Tunings, of which both may be nil, are the same.
func (t *EnvoySettings) Equal(other *EnvoySettings) bool { return t.orNone() == other.orNone() }

// orNone is the Tuning as a value.
func (t *EnvoySettings) orNone() EnvoySettings {
	if t == nil {
		return EnvoySettings{}
	}
	return *t
}

// OfRoute are the settings for requests. A nil Tuning has none.
func (t *EnvoySettings) OfRoute() RouteSettings { return t.orNone().Route }

// OfCluster are the settings for connections. A nil Tuning has none.
func (t *EnvoySettings) OfCluster() ClusterSettings { return t.orNone().Cluster }
