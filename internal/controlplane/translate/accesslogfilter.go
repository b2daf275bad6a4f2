package translate

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
)

// Conditions of AccessLog.Filter.
const (
	// conditionStatus is true for a response with at least a status, such as status>=500.
	conditionStatus = "status>="
	// conditionDuration is true for a request that takes at least a time, such as duration>=1s.
	conditionDuration = "duration>="
	// conditionFlag is true for a response with a response flag of Envoy, such as flag=UH.
	conditionFlag = "flag="
	// conditionAnyFlag is true for a response with any response flag.
	conditionAnyFlag = "any-flag"
	// conditionGRPCError is true for a gRPC response with another status than OK.
	conditionGRPCError = "grpc-error"
)

const (
	minStatus, maxStatus = 100, 599
	// maxLoggedDuration is the longest time of conditionDuration.
	maxLoggedDuration = 24 * time.Hour
	// perMillion are the units of a percentage: a sample can be as small as 0.0001 %.
	perMillion = 1_000_000
)

const filterFlag, samplingFlag = "--access-log-filter", "--access-log-sampling"

// filter returns the filter of the access log, nil if all requests are logged.
func (a AccessLog) filter() (*accesslogv3.AccessLogFilter, error) {
	var conditions []*accesslogv3.AccessLogFilter
	for _, text := range a.Filter {
		condition, err := conditionOf(text)
		if err != nil {
			return nil, err
		}
		conditions = append(conditions, condition)
	}
	sample, err := a.sample()
	if err != nil {
		return nil, err
	}
	switch {
	case len(conditions) > 0 && sample == perMillion:
		return nil, accessLogError(samplingFlag, "at 100, "+filterFlag+" has no effect", "use less than 100")
	case sample == perMillion:
		return nil, nil //nolint:nilnil // no filter
	case sample > 0 || len(conditions) == 0:
		conditions = append(conditions, sampled(sample))
	}
	if len(conditions) == 1 {
		return conditions[0], nil
	}
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_OrFilter{
		OrFilter: &accesslogv3.OrFilter{Filters: conditions},
	}}, nil
}

// sample returns the number of requests of a million that are logged if no condition is true.
func (a AccessLog) sample() (uint32, error) {
	switch {
	case a.Sampling == "" && len(a.Filter) == 0:
		return perMillion, nil
	case a.Sampling == "":
		return 0, nil
	}
	value, err := strconv.ParseFloat(a.Sampling, 64)
	if err != nil || !(value >= 0 && value <= percent) {
		return 0, accessLogError(samplingFlag, fmt.Sprintf("%q is no percentage", a.Sampling), "use 0 to 100, such as 0.5")
	}
	sample := uint32(math.Round(value * perMillion / percent))
	if isNone, isAll := sample == 0, sample == perMillion; isNone && value > 0 || isAll && value < percent {
		return 0, accessLogError(samplingFlag, a.Sampling+" is between two steps of 0.0001",
			"use a multiple of 0.0001")
	}
	return sample, nil
}

// sampled returns the filter that is true for a random sample, independently of the request ID, which clients can set.
func sampled(count uint32) *accesslogv3.AccessLogFilter {
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_RuntimeFilter{
		RuntimeFilter: &accesslogv3.RuntimeFilter{
			RuntimeKey: noRuntimeKey, UseIndependentRandomness: true,
			PercentSampled: &typev3.FractionalPercent{Numerator: count, Denominator: typev3.FractionalPercent_MILLION},
		},
	}}
}

// noRuntimeKey is a key that the API requires. No proxy has a value for it.
const noRuntimeKey = "kedify.none"

// conditionOf returns the filter of a condition.
func conditionOf(text string) (*accesslogv3.AccessLogFilter, error) {
	invalid := func(problem, fix string) error {
		return accessLogError(filterFlag, fmt.Sprintf("%q: %s", text, problem), fix)
	}
	if value, isStatus := strings.CutPrefix(text, conditionStatus); isStatus {
		status, err := strconv.ParseUint(value, 10, 16)
		if err != nil || status < minStatus || status > maxStatus {
			return nil, invalid("no status", fmt.Sprintf("use a number from %d to %d", minStatus, maxStatus))
		}
		return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_StatusCodeFilter{
			StatusCodeFilter: &accesslogv3.StatusCodeFilter{Comparison: atLeast(uint32(status))},
		}}, nil
	}
	if value, isDuration := strings.CutPrefix(text, conditionDuration); isDuration {
		duration, err := time.ParseDuration(value)
		if err != nil || duration < time.Millisecond || duration > maxLoggedDuration {
			return nil, invalid("no time", "use a time from 1ms to 24h, such as 1s")
		}
		return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_DurationFilter{
			DurationFilter: &accesslogv3.DurationFilter{Comparison: atLeast(uint32(duration.Milliseconds()))}, //nolint:gosec // up to a day
		}}, nil
	}
	if flag, isFlag := strings.CutPrefix(text, conditionFlag); isFlag {
		filter := flagFilter(flag)
		if validate(filter) != nil {
			return nil, invalid("no response flag of Envoy", "use one such as UH, UF, UT or NR")
		}
		return filter, nil
	}
	switch text {
	case conditionAnyFlag:
		return flagFilter(), nil
	case conditionGRPCError:
		return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_GrpcStatusFilter{
			GrpcStatusFilter: &accesslogv3.GrpcStatusFilter{
				Statuses: []accesslogv3.GrpcStatusFilter_Status{accesslogv3.GrpcStatusFilter_OK}, Exclude: true,
			},
		}}, nil
	}
	return nil, invalid("no condition", "use one of "+strings.Join(slices.Concat(
		[]string{conditionStatus + "500", conditionDuration + "1s", conditionFlag + "UH"},
		[]string{conditionAnyFlag, conditionGRPCError}), ", "))
}

// atLeast returns the comparison with a value.
func atLeast(value uint32) *accesslogv3.ComparisonFilter {
	return &accesslogv3.ComparisonFilter{
		Op: accesslogv3.ComparisonFilter_GE, Value: &corev3.RuntimeUInt32{DefaultValue: value, RuntimeKey: noRuntimeKey},
	}
}
