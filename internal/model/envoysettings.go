package model

import (
	"cmp"
	"time"
)

// EnvoySettings replace the proxy's default settings of Envoy. A zero value means the default.
type EnvoySettings struct {
	// Route applies to requests, and Cluster to the connections to Pods.
	Route   RouteSettings   `json:",omitzero"`
	Cluster ClusterSettings `json:",omitzero"`
}

// Given is an optional value that may be zero.
type Given[T comparable] struct {
	// Value is valid only if IsGiven is true.
	Value   T
	IsGiven bool
}

// MaxRetryCodes is the maximum number of RouteSettings.RetryCodes.
const MaxRetryCodes = 10

// RouteSettings are settings of Envoy's RouteAction.
type RouteSettings struct {
	// Timeout is the time from the end of the request to the end of the response, with all retries; 0 means no limit and
	// is the default.
	Timeout Given[time.Duration] `json:",omitzero"`
	// IdleTimeout is how long a request may be idle in both directions.
	IdleTimeout Timeout `json:",omitzero"`
	// RetryOn are the conditions for a retry, separated by commas.
	RetryOn string `json:",omitempty"`
	// RetryCodes are the status codes of condition retriable-status-codes; 0 marks an unused element.
	RetryCodes [MaxRetryCodes]uint32 `json:",omitzero"`
	// Retries is the maximum number of retries of a request.
	Retries Given[uint32] `json:",omitzero"`
	// PerTryTimeout is the time of one try up to the response headers. The object's own timeout takes precedence.
	PerTryTimeout Timeout `json:",omitzero"`
	// BackOff is the pause before a retry.
	BackOff BackOff `json:",omitzero"`
	// MirrorTimeout is the time from the start of a mirrored request to the end of its response, for which no client
	// waits.
	MirrorTimeout Timeout `json:",omitzero"`
}

// BackOff is a random, growing pause, at first up to Base and finally up to Max. Max of 0 means ten times Base.
type BackOff struct{ Base, Max time.Duration }

// ClusterSettings are settings of Envoy's Cluster.
type ClusterSettings struct {
	// ConnectTimeout is the timeout of a connection attempt.
	ConnectTimeout Timeout `json:",omitzero"`
	// Balance selects the Pod of a request.
	Balance Balance `json:",omitzero"`
	// MaxConnections, MaxPendingRequests, MaxRequests and MaxRetries are the circuit breakers of each proxy.
	MaxConnections, MaxPendingRequests, MaxRequests, MaxRetries uint32 `json:",omitempty"`
	// RetryBudget replaces MaxRetries. At most one of them is set.
	RetryBudget RetryBudget `json:",omitzero"`
	// Outliers is the ejection of Pods to which connections fail.
	Outliers Outliers `json:",omitzero"`
	// TLS is the verification of the certificates of applications.
	TLS UpstreamTLS `json:",omitzero"`
}

// UpstreamTLS configures how proxies verify the certificates of applications with TLS. Without a CA they verify none.
type UpstreamTLS struct {
	// CA are the trusted certificates in PEM.
	CA string `json:",omitempty"`
	// Name is a DNS name that the certificate must contain, and NameSuffix the end of such a name, with its leading dot.
	// At most one of them is set, and only together with CA. If neither is set, any certificate of the CA is valid.
	Name       string `json:",omitempty"`
	NameSuffix string `json:",omitempty"`
}

// RetryBudget limits the concurrent retries of a proxy to Percent of its active requests, or to MinConcurrency if that
// is more.
type RetryBudget struct {
	Percent        Given[float64] `json:",omitzero"`
	MinConcurrency Given[uint32]  `json:",omitzero"`
}

// DefaultEjection is the default of Outliers.Base.
const DefaultEjection = 30 * time.Second

// Outliers configures the ejection of a Pod after consecutive failures to connect.
type Outliers struct {
	// Failures is the number of consecutive failures; 0 disables ejection.
	Failures Given[uint32] `json:",omitzero"`
	// MaxPercent is the maximum percentage of a Service's Pods that are ejected at a time. Below 100, one always remains.
	MaxPercent Given[uint32] `json:",omitzero"`
	// Interval is the time between checks for Pods whose ejection ends.
	Interval time.Duration `json:",omitempty"`
	// Base is the time of a first ejection, and Max that of a Pod that is ejected again and again.
	Base, Max time.Duration `json:",omitempty"`
}

// Balance is a load balancing policy with its options.
type Balance struct {
	// Policy is Envoy's name of the policy.
	Policy string
	// ChoiceCount is the number of Pods that LEAST_REQUEST compares.
	ChoiceCount uint32 `json:",omitempty"`
	// SlowStart is how long a new Pod receives fewer requests, starting with MinWeight percent of its weight.
	SlowStart time.Duration  `json:",omitempty"`
	MinWeight Given[float64] `json:",omitzero"`
}

// Over returns the settings, completed by those of a wider scope. Both may be nil, which means no settings.
func (t *EnvoySettings) Over(wider *EnvoySettings) *EnvoySettings {
	if t == nil || wider == nil || *t == (EnvoySettings{}) {
		return cmp.Or(wider, t)
	}
	r, c := wider.Route, wider.Cluster
	limitsRetries := t.Cluster.MaxRetries > 0 || t.Cluster.RetryBudget != RetryBudget{}
	if limitsRetries {
		c.MaxRetries, c.RetryBudget = 0, RetryBudget{}
	}
	return &EnvoySettings{
		Route: RouteSettings{
			Timeout: cmp.Or(t.Route.Timeout, r.Timeout), IdleTimeout: cmp.Or(t.Route.IdleTimeout, r.IdleTimeout),
			RetryOn: cmp.Or(t.Route.RetryOn, r.RetryOn), RetryCodes: cmp.Or(t.Route.RetryCodes, r.RetryCodes),
			Retries: cmp.Or(t.Route.Retries, r.Retries), PerTryTimeout: cmp.Or(t.Route.PerTryTimeout, r.PerTryTimeout),
			BackOff: cmp.Or(t.Route.BackOff, r.BackOff), MirrorTimeout: cmp.Or(t.Route.MirrorTimeout, r.MirrorTimeout),
		},
		Cluster: ClusterSettings{
			ConnectTimeout:     cmp.Or(t.Cluster.ConnectTimeout, c.ConnectTimeout),
			Balance:            cmp.Or(t.Cluster.Balance, c.Balance),
			MaxConnections:     cmp.Or(t.Cluster.MaxConnections, c.MaxConnections),
			MaxPendingRequests: cmp.Or(t.Cluster.MaxPendingRequests, c.MaxPendingRequests),
			MaxRequests:        cmp.Or(t.Cluster.MaxRequests, c.MaxRequests),
			MaxRetries:         cmp.Or(t.Cluster.MaxRetries, c.MaxRetries),
			RetryBudget:        cmp.Or(t.Cluster.RetryBudget, c.RetryBudget),
			Outliers:           cmp.Or(t.Cluster.Outliers, c.Outliers),
			TLS:                cmp.Or(t.Cluster.TLS, c.TLS),
		},
	}
}

// Equal reports whether two EnvoySettings are equal. Both may be nil.
func (t *EnvoySettings) Equal(other *EnvoySettings) bool { return t.orNone() == other.orNone() }

// orNone returns the settings as a value.
func (t *EnvoySettings) orNone() EnvoySettings {
	if t == nil {
		return EnvoySettings{}
	}
	return *t
}

// OfRoute returns the settings of routes, the zero value for nil.
func (t *EnvoySettings) OfRoute() RouteSettings { return t.orNone().Route }

// OfCluster returns the settings of clusters, the zero value for nil.
func (t *EnvoySettings) OfCluster() ClusterSettings { return t.orNone().Cluster }
