package metrics

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// ErrUnknown is in the chain of errors about unknown demand. Unknown demand must not be treated as zero.
var ErrUnknown = errors.New("demand is unknown")

// Value is the demand for one object, over all proxies and replicas.
type Value struct {
	// Metric is the metric that the object scales by, and Target its value per replica of the workload.
	Metric Metric
	Target int
	// RateTarget is the target of the request rate if the object scales by both metrics, otherwise 0.
	RateTarget int
	// RequestRate is requests per second over the window.
	RequestRate float64
	// RateError is set if the object scales by concurrency and its concurrency is known, but RequestRate is only a
	// lower bound: a proxy has not reported for long enough. It is nil, or has ErrUnknown in its chain.
	RateError error
	// Concurrency is the number of active requests, including the queued ones.
	Concurrency float64
	// Backends are the totals of the last minute for each of the Services that the object's requests are split between.
	Backends map[string]Totals
	// Queued is the number of requests that wait for a first endpoint.
	Queued int
}

// Amount returns the value of the metric that the object scales by.
func (v Value) Amount() float64 {
	if v.Metric == Concurrency {
		return v.Concurrency
	}
	return v.RequestRate
}

// Merge returns the demand for an object from the Reports of all replicas. absent are the names of replicas without a
// Report; errors list them in addition to another reason.
//
// The Value is known if every proxy that serves the object reports to exactly one replica that has the object. The
// requests of a proxy that reports to none are not counted, and those of a proxy that reports to two, while its stream
// moves, are counted twice. Otherwise the error has ErrUnknown in its chain and names what is missing. A draining proxy
// counts as long as it serves.
//
// If metrics of proxies are missing, the Value returned with the error is a lower bound, the count of all others. If
// counts may be wrong, it contains only the metrics with their targets, and the queued requests.
func Merge(key model.Key, reports []Report, absent []string) (Value, error) {
	name := key.String()
	value, err := merge(key, name, reports, absent)
	return value.withQueued(name, reports), err
}

// MergeConnections returns the number of connections between clients and the proxies of a fleet from the Reports of all
// replicas. absent are the names of replicas without a Report. If a serving proxy reports to no replica, or a proxy to
// two, the error has ErrUnknown in its chain and names it.
func MergeConnections(fleet model.Fleet, reports []Report, absent []string) (float64, error) {
	var sum float64
	var serving, reporting []string
	for _, report := range reports {
		sum += report.Connections[fleet]
		serving = append(serving, report.Fleets[fleet].Serving...)
		reporting = append(reporting, report.Fleets[fleet].Reporting...)
	}
	reasons := append(withoutMetrics(fleet, sortedSet(serving), reporting), duplicates(fleet, reporting)...)
	if len(reasons) == 0 {
		return sum, nil
	}
	return 0, fmt.Errorf("connections of the proxies of namespace %s: %w", fleet, unknownBecause(absent, reasons))
}

// merge is Merge without queued requests. name is the object's name in Reports.
func merge(key model.Key, name string, reports []Report, absent []string) (Value, error) {
	var value Value
	var reporting, serving, warmingProxies, inconsistent []string
	var fleet model.Fleet
	isKnown := false
	for _, report := range reports {
		object, ok := report.Objects[name]
		if !ok {
			continue
		}
		if isKnown && object.Fleet != fleet {
			return Value{}, unknown(key, absent, fmt.Sprintf("replicas report different fleets: %s and %s", fleet, object.Fleet))
		}
		isKnown, fleet = true, object.Fleet
		value.Metric, value.Target, value.RateTarget = object.Metric, object.Target, object.RateTarget
		value.RequestRate += object.RequestRate
		value.Concurrency += object.Concurrency
		warmingProxies = append(warmingProxies, object.Warming...)
		if object.Problem != "" {
			inconsistent = append(inconsistent, object.Problem)
		}
	}
	if !isKnown {
		return Value{}, unknown(key, absent, "no interceptor has reported it")
	}
	for _, report := range reports {
		serving = append(serving, report.Fleets[fleet].Serving...)
		if _, ok := report.Objects[name]; ok {
			reporting = append(reporting, report.Fleets[fleet].Reporting...)
		}
	}
	value.RequestRate += pastRate(name, reports, reporting)
	value.Backends = backendsOf(name, reports)
	inconsistent = append(inconsistent, duplicates(fleet, reporting)...)
	missing := withoutMetrics(fleet, sortedSet(serving), reporting)
	if noRate := warming(fleet, warmingProxies); value.Metric != Concurrency {
		missing = append(missing, noRate...)
	} else if len(noRate) > 0 {
		value.RateError = unknown(key, absent, noRate...)
	}
	switch {
	case len(inconsistent) > 0:
		settings := Value{Metric: value.Metric, Target: value.Target, RateTarget: value.RateTarget}
		return settings, unknown(key, absent, sortedSet(append(inconsistent, missing...))...)
	case len(missing) > 0:
		return value, unknown(key, absent, sortedSet(missing)...)
	}
	return value, nil
}

// backendsOf returns the totals of the object's backends, summed over all replicas.
func backendsOf(name string, reports []Report) map[string]Totals {
	var backends map[string]Totals
	for _, report := range reports {
		for service, more := range report.Objects[name].Backends {
			if backends == nil {
				backends = map[string]Totals{}
			}
			sum := backends[service]
			sum.add(&more)
			backends[service] = sum
		}
	}
	return backends
}

// pastRate returns the rate of removed proxies that no longer report to any replica.
func pastRate(name string, reports []Report, reporting []string) (rate float64) {
	for _, report := range reports {
		for proxy, proxyRate := range report.Objects[name].Past {
			if !slices.Contains(reporting, proxy) {
				rate += proxyRate
			}
		}
	}
	return rate
}

// withoutMetrics returns a problem for each serving proxy of a fleet that reports to no replica.
func withoutMetrics(fleet model.Fleet, serving, reporting []string) (problems []string) {
	if len(serving) == 0 {
		return []string{fmt.Sprintf("fleet %s has no proxy that serves", fleet)}
	}
	for _, name := range serving {
		if !slices.Contains(reporting, name) {
			problems = append(problems, fmt.Sprintf("proxy %s/%s sends no metrics", fleet, name))
		}
	}
	return problems
}

// duplicates returns a problem for each proxy of a fleet that reports to more than one replica.
func duplicates(fleet model.Fleet, reporting []string) (problems []string) {
	slices.Sort(reporting)
	for i := 1; i < len(reporting); i++ {
		if reporting[i] == reporting[i-1] {
			problems = append(
				problems, fmt.Sprintf("proxy %s/%s sends metrics to two replicas (transient)", fleet, reporting[i]),
			)
		}
	}
	return problems
}

// warming returns a problem for each proxy of a fleet that has no rate yet.
func warming(fleet model.Fleet, proxies []string) (problems []string) {
	for _, name := range sortedSet(proxies) {
		problems = append(problems, fmt.Sprintf("proxy %s/%s has sent fewer than two flushes", fleet, name))
	}
	return problems
}

// sortedSet returns texts sorted, without duplicates.
func sortedSet(texts []string) []string {
	sorted := slices.Sorted(slices.Values(texts))
	return slices.Compact(sorted)
}

// unknown returns the error for unknown demand for an object.
func unknown(key model.Key, absent []string, reasons ...string) error {
	return fmt.Errorf("%s: %w", key, unknownBecause(absent, reasons))
}

// unknownBecause returns ErrUnknown with its reasons.
func unknownBecause(absent, reasons []string) error {
	if len(absent) > 0 {
		reasons = append(reasons, "no report from interceptor "+strings.Join(absent, ", "))
	}
	return fmt.Errorf("%w: %s", ErrUnknown, strings.Join(reasons, "; "))
}
