package view

import (
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics"
)

// State is the state of an object, the first of those below that applies.
type State string

const (
	// Failed means that a condition is False: the object is invalid, or it is not served as written.
	Failed State = "failed"
	// Unserved means that no proxy of the fleet is Ready.
	Unserved State = "unserved"
	// Progressing means that a Ready proxy has not acknowledged the object.
	Progressing State = "progressing"
	// Canary means that requests are split between several Services.
	Canary State = "canary"
	// Idle means that no endpoint is ready.
	Idle State = "idle"
	// OK is the state of all other objects.
	OK State = "ok"
)

// Object is one row of the overview.
type Object struct {
	// Kind is HTTPScaledObject or InterceptorRoute.
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Hosts and Paths select the requests; empty for all.
	Hosts []string `json:"hosts,omitempty"`
	Paths []string `json:"paths,omitempty"`
	// Target is the workload, kind/name, "" for none. Service is its Service and port.
	Target  string `json:"target,omitempty"`
	Service string `json:"service"`
	// Fleet is the namespace of the proxies that serve the object.
	Fleet string `json:"fleet"`
	State State  `json:"state"`
	// Reason is the first condition that is False, type: reason; "" for none.
	Reason string `json:"reason,omitempty"`
	// Endpoints is the number of ready endpoints of all backends.
	Endpoints int `json:"endpoints"`
	// Proxies are the Ready proxies of all interceptors, and those that have acknowledged the object, as in its status.
	Proxies Proxies `json:"proxies"`
	// Split is the traffic split, stable first. It is empty without a canary.
	Split []Weight `json:"split,omitempty"`
	// IsEffective means that every Ready proxy splits the requests as the object says.
	IsEffective bool `json:"effective"`
	// Demand is the demand for the object, over all interceptors that have reported.
	Demand Demand `json:"demand"`
}

// Proxies are numbers of proxies.
type Proxies struct {
	Ready int32 `json:"ready"`
	Acked int32 `json:"acked"`
}

// Weight is the weight of one Service of a split.
type Weight struct {
	Service string `json:"service"`
	// Written is the weight in the annotation of the object, and Active the published one.
	Written uint32 `json:"written"`
	Active  uint32 `json:"active"`
}

// Demand is the demand for an object.
type Demand struct {
	// Metric is the metric that the object scales by, and Target its value per replica.
	Metric metrics.Metric `json:"metric,omitempty"`
	Target int            `json:"target,omitempty"`
	// RequestRate is requests per second, Concurrency the number of active requests, and Queued that of requests that
	// wait for a first endpoint.
	RequestRate float64 `json:"requestRate"`
	Concurrency float64 `json:"concurrency"`
	Queued      int     `json:"queued"`
	// IsActive means that there is any demand.
	IsActive bool `json:"active"`
	// Unknown is the reason why the values are only a lower bound; "" if they are exact.
	Unknown string `json:"unknown,omitempty"`
}

// Detail is everything about one object.
type Detail struct {
	Object

	// Conditions are those of the status.
	Conditions []Condition `json:"conditions"`
	// Backends are the Services of the split, or the only Service, stable first.
	Backends []Backend `json:"backends"`
	// Routes are the header and mirror routes.
	Routes []ManagedRoute `json:"routes"`
	// History are the changes of the split since the canary started, or since the interceptor did, oldest first.
	History []Point `json:"history"`
	// Rollout is the Rollout that the object scales, or of the same name as its target; nil if it is unknown.
	Rollout *Rollout `json:"rollout,omitempty"`
	// Replicas are those of the workload; nil if they are unknown.
	Replicas *Replicas `json:"replicas,omitempty"`
	// Events are those of the object and of the workload, newest first.
	Events []Event `json:"events"`
	// Notes are reasons why parts are missing.
	Notes []string `json:"notes"`
	// ReportedBy is the interceptor that wrote the status.
	ReportedBy string `json:"reportedBy,omitempty"`
	// Reports are the interceptors whose counts are included, and Absent those without a report.
	Reports []string `json:"reports"`
	Absent  []string `json:"absent"`
}

// Condition is a condition of the status.
type Condition struct {
	Type    string    `json:"type"`
	Status  string    `json:"status"`
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	Since   time.Time `json:"since"`
}

// Role is the role of a Service in a split.
type Role string

// The roles.
const (
	RoleStable     Role = "stable"
	RoleCanary     Role = "canary"
	RoleExperiment Role = "experiment"
)

// Backend is one side of a split.
type Backend struct {
	Weight

	Role Role `json:"role"`
	// Port is the number of the port of the Service, 0 if it does not exist. Protocol is what its endpoints speak.
	Port     uint32 `json:"port"`
	Protocol string `json:"protocol"`
	// Endpoints are addresses of ready endpoints, at most MaxEndpoints. Ready and Draining are the numbers of all.
	Endpoints []string `json:"endpoints"`
	Ready     int      `json:"ready"`
	Draining  int      `json:"draining"`
	// Desired is the weight in the status of the Rollout, nil if it is unknown.
	Desired *int32 `json:"desired,omitempty"`
	// Observed are the counts of Envoy of about the last minute, nil without a split.
	Observed *Observed `json:"observed,omitempty"`
}

// Observed are the counts of one side of a split.
type Observed struct {
	// Requests is the number of requests, Errors that of responses with status 500 to 599.
	Requests float64 `json:"requests"`
	Errors   float64 `json:"errors"`
	// Percent is the percentage of the requests of all sides, 0 without requests.
	Percent float64 `json:"percent"`
	// P50, P95 and P99 are quantiles of the response times in milliseconds.
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
}

// ManagedRoute is a header or mirror route.
type ManagedRoute struct {
	Name string `json:"name"`
	// MirrorPercent is the percentage of requests that is copied to the canary; 0 for a header route.
	MirrorPercent uint32 `json:"mirrorPercent,omitempty"`
	// Matches describe the requests: those that at least one of them matches.
	Matches []string `json:"matches"`
}

// Point is the split of an object from a time on.
type Point struct {
	Time time.Time `json:"time"`
	// Written and Active are percentages of the requests that do not go to the stable Service.
	Written float64 `json:"written"`
	Active  float64 `json:"active"`
	// Proxies are those of the status, and IsEffective is that of Object.
	Proxies     Proxies `json:"proxies"`
	IsEffective bool    `json:"effective"`
}

// Rollout is the state of a Rollout.
type Rollout struct {
	Name    string `json:"name"`
	Phase   string `json:"phase"`
	Message string `json:"message,omitempty"`
	// Step is the current step from 1, Steps their number. Current describes the step.
	Step    int    `json:"step"`
	Steps   int    `json:"steps"`
	Current string `json:"current,omitempty"`
	// IsPaused, IsAborted and IsPromoting are true in these states. Paused is the reason of a pause.
	IsPaused  bool   `json:"paused"`
	IsAborted bool   `json:"aborted"`
	Paused    string `json:"pauseReason,omitempty"`
}

// Replicas are numbers of Pods of a workload.
type Replicas struct {
	Desired   int32 `json:"desired"`
	Total     int32 `json:"total"`
	Updated   int32 `json:"updated"`
	Available int32 `json:"available"`
}

// Event is a Kubernetes Event.
type Event struct {
	Time    time.Time `json:"time"`
	Type    string    `json:"type"`
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	// About is the kind of the object, and By the component that reports.
	About string `json:"about"`
	By    string `json:"by,omitempty"`
	Count int32  `json:"count"`
}
