package view

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics"
	"github.com/kedify/argo-rollouts-plugin/internal/model/managedroute"
)

// MaxEndpoints limits the addresses of endpoints in a Backend.
const MaxEndpoints = 100

// Facts are what a Detail contains in addition to a Source.
type Facts struct {
	// Demand and Totals are the results of DemandOf.
	Demand Demand
	Totals map[string]metrics.Totals
	// History are the changes of the split.
	History []Point
	// Workload is what was read from the API server.
	Workload Workload
	// Reports and Absent are as in Detail.
	Reports, Absent []string
}

// Workload is what was read about the workload of an object.
type Workload struct {
	Rollout  *Rollout
	Replicas *Replicas
	// Desired are the weights of Services in the status of the Rollout.
	Desired map[string]int32
	Events  []Event
	// Notes are reasons why parts are missing.
	Notes []string
}

// Details returns everything about an object.
func Details(source Source, facts Facts) Detail {
	detail := Detail{
		Object: rowOf(source, facts.Demand), Conditions: conditionsOf(source.Object.Status.Conditions),
		Backends: backendsOf(source, facts), Routes: routesOf(source),
		History: list(facts.History), Rollout: facts.Workload.Rollout, Replicas: facts.Workload.Replicas,
		Events: list(facts.Workload.Events), Notes: list(facts.Workload.Notes),
		Reports: list(facts.Reports), Absent: list(facts.Absent),
	}
	if report := source.Object.Status.DataPlane; report != nil {
		detail.ReportedBy = report.ReportedBy
	}
	return detail
}

// list returns a list that is not nil, so that JSON has [] and not null.
func list[T any](items []T) []T {
	if items == nil {
		return []T{}
	}
	return items
}

// conditionsOf returns the conditions of a status.
func conditionsOf(conditions []metav1.Condition) []Condition {
	out := make([]Condition, 0, len(conditions))
	for _, condition := range conditions {
		out = append(out, Condition{
			Type: condition.Type, Status: string(condition.Status), Reason: condition.Reason, Message: condition.Message,
			Since: condition.LastTransitionTime.UTC(),
		})
	}
	return out
}

// backendsOf returns the sides of the split, or the only Service.
func backendsOf(source Source, facts Facts) []Backend {
	weights := splitOf(source)
	if weights == nil && source.Route != nil {
		weights = []Weight{{Service: source.Route.Backends[0].Service.Name, Written: 1, Active: 1}}
	}
	sum := 0.0
	for _, totals := range facts.Totals {
		sum += totals.Requests
	}
	backends := make([]Backend, 0, len(weights))
	for i, weight := range weights {
		backend := Backend{Weight: weight, Role: roleOf(i), Endpoints: []string{}}
		if source.Route != nil && i < len(source.Route.Backends) {
			published := source.Route.Backends[i]
			backend.Port, backend.Protocol = published.Port, string(published.Protocol)
			for _, address := range source.Endpoints[i].Ready[:min(len(source.Endpoints[i].Ready), MaxEndpoints)] {
				backend.Endpoints = append(backend.Endpoints, address.String())
			}
			backend.Ready, backend.Draining = len(source.Endpoints[i].Ready), len(source.Endpoints[i].Draining)
		}
		if desired, isKnown := facts.Workload.Desired[weight.Service]; isKnown {
			backend.Desired = &desired
		}
		if totals, isCounted := facts.Totals[weight.Service]; isCounted {
			backend.Observed = observedOf(totals, sum)
		}
		backends = append(backends, backend)
	}
	return backends
}

// roleOf returns the role of the Service at an index of a split.
func roleOf(index int) Role {
	roles := []Role{RoleStable, RoleCanary}
	if index < len(roles) {
		return roles[index]
	}
	return RoleExperiment
}

// observedOf returns the counts of a side. sum is the number of requests of all sides.
func observedOf(totals metrics.Totals, sum float64) *Observed {
	const percent, median, high, highest = 100, 0.5, 0.95, 0.99
	observed := &Observed{
		Requests: totals.Requests, Errors: totals.Errors,
		P50: round(totals.Times.Quantile(median)), P95: round(totals.Times.Quantile(high)),
		P99: round(totals.Times.Quantile(highest)),
	}
	if sum > 0 {
		observed.Percent = percent * totals.Requests / sum
	}
	return observed
}

// routesOf returns the published header and mirror routes.
func routesOf(source Source) []ManagedRoute {
	routes := []ManagedRoute{}
	if source.Route == nil {
		return routes
	}
	for _, managed := range source.Route.Managed {
		route := ManagedRoute{Name: managed.Name, MirrorPercent: managed.MirrorPercent, Matches: []string{}}
		for _, match := range managed.Matches {
			route.Matches = append(route.Matches, describe(match))
		}
		routes = append(routes, route)
	}
	return routes
}

// describe describes a condition on requests.
func describe(match managedroute.Match) string {
	var parts []string
	add := func(what string, condition managedroute.StringMatch) {
		if condition.Type != "" {
			parts = append(parts, fmt.Sprintf("%s %s %q", what, strings.ToLower(string(condition.Type)), condition.Value))
		}
	}
	add("method", match.Method)
	add("path", match.Path)
	for _, header := range match.Headers {
		add("header "+header.Name, header.StringMatch)
	}
	if len(parts) == 0 {
		return "every request"
	}
	return strings.Join(slices.Clip(parts), " and ")
}
