package metrics

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// ErrUnknown is in the chain of errors that say why a figure is not known. Nobody may take it for zero.
var ErrUnknown = errors.New("demand is unknown")

// Value is the demand for one object, over all proxies and replicas.
type Value struct {
	// Metric is the measure that decides, and Target its value per replica of the workload.
	Metric Metric
	Target int
	// RequestRate is requests per second over the window.
	RequestRate float64
	// RateError says why RequestRate is but a lower bound where concurrency decides and is known: proxies
	// are not heard for long enough. It is nil, or has ErrUnknown in its chain.
	RateError error
	// Concurrency is requests in flight, Held among them.
	Concurrency float64
	// Backends are what each of the Services that share the object's requests was asked in the last minute.
	Backends map[string]Totals
	// Held is requests that wait for a first endpoint.
	Held int
}

// Amount is the value of the measure that decides.
func (v Value) Amount() float64 {
	if v.Metric == Concurrency {
		return v.Concurrency
	}
	return v.RequestRate
}

// Merge is the demand for an object, from the Reports of all replicas. absent are replicas whose Report
// is missing; they are named where something else is.
//
// The Value is known when every proxy that takes the object's requests is heard by exactly one
// replica that knows the object: one that nobody hears has requests that nobody counts, and the requests of
// one that two hear, while its stream goes from one to the other, are counted twice. Otherwise the error has
// ErrUnknown in its chain and names what is missing. A proxy that is about to go away takes requests for as
// long as it serves.
//
// The Value beside an error is a lower bound where proxies are missing, what the others have counted.
// Where something may be counted twice, or not at all, it is the requests that are held.
func Merge(key model.Key, reports []Report, absent []string) (Value, error) {
	name := key.String()
	value, err := merge(key, name, reports, absent)
	return value.withHeld(name, reports), err
}

// merge is Merge for what is not held. name is what Reports call the object.
func merge(key model.Key, name string, reports []Report, absent []string) (Value, error) {
	var value Value
	var heard, serving, unpaced, wrong []string
	var fleet model.Fleet
	isKnown := false
	for _, report := range reports {
		object, has := report.Objects[name]
		if !has {
			continue
		}
		if isKnown && object.Fleet != fleet {
			return Value{}, unknown(key, absent, fmt.Sprintf("replicas disagree whether fleet %s or %s serves it", fleet, object.Fleet))
		}
		isKnown, fleet = true, object.Fleet
		value.Metric, value.Target = object.Metric, object.Target
		value.RequestRate += object.RequestRate
		value.Concurrency += object.Concurrency
		unpaced = append(unpaced, object.Unpaced...)
		if object.Problem != "" {
			wrong = append(wrong, object.Problem)
		}
	}
	if !isKnown {
		return Value{}, unknown(key, absent, "no replica of the interceptor knows it")
	}
	for _, report := range reports {
		serving = append(serving, report.Fleets[fleet].Serving...)
		if _, counts := report.Objects[name]; counts {
			heard = append(heard, report.Fleets[fleet].Heard...)
		}
	}
	value.RequestRate += past(name, reports, heard)
	value.Backends = backendsOf(name, reports)
	wrong = append(wrong, twice(fleet, heard)...)
	missed := missing(fleet, sortedSet(serving), heard)
	if young := tooYoung(fleet, unpaced); value.Metric != Concurrency {
		missed = append(missed, young...)
	} else if len(young) > 0 {
		value.RateError = unknown(key, absent, young...)
	}
	switch {
	case len(wrong) > 0:
		return Value{}, unknown(key, absent, sortedSet(append(wrong, missed...))...)
	case len(missed) > 0:
		return value, unknown(key, absent, sortedSet(missed)...)
	}
	return value, nil
}

// backendsOf is what the object's backends were asked, over all replicas.
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

// past is the rate of the proxies that nobody hears any more.
func past(name string, reports []Report, heard []string) (rate float64) {
	for _, report := range reports {
		for proxy, each := range report.Objects[name].Past {
			if !slices.Contains(heard, proxy) {
				rate += each
			}
		}
	}
	return rate
}

// missing says which proxies of a fleet nobody counts.
func missing(fleet model.Fleet, serving, heard []string) (problems []string) {
	if len(serving) == 0 {
		return []string{fmt.Sprintf("fleet %s has no proxy that serves", fleet)}
	}
	for _, name := range serving {
		if !slices.Contains(heard, name) {
			problems = append(problems, fmt.Sprintf("proxy %s/%s sends no metrics", fleet, name))
		}
	}
	return problems
}

// twice says which proxies of a fleet are counted more than once.
func twice(fleet model.Fleet, heard []string) (problems []string) {
	slices.Sort(heard)
	for i := 1; i < len(heard); i++ {
		if heard[i] == heard[i-1] {
			problems = append(problems, fmt.Sprintf("proxy %s/%s sends metrics to two replicas, for a moment", fleet, heard[i]))
		}
	}
	return problems
}

// tooYoung says which proxies of a fleet tell no rate yet.
func tooYoung(fleet model.Fleet, unpaced []string) (problems []string) {
	for _, name := range sortedSet(unpaced) {
		problems = append(problems, fmt.Sprintf("proxy %s/%s is heard for less than two flushes", fleet, name))
	}
	return problems
}

// sortedSet returns texts sorted and once each.
func sortedSet(texts []string) []string {
	sorted := slices.Sorted(slices.Values(texts))
	return slices.Compact(sorted)
}

// unknown is the error that a figure is not known.
func unknown(key model.Key, absent []string, reasons ...string) error {
	if len(absent) > 0 {
		reasons = append(reasons, "no answer from interceptor "+strings.Join(absent, ", "))
	}
	return fmt.Errorf("HTTPScaledObject %s: %w: %s", key, ErrUnknown, strings.Join(reasons, "; "))
}
