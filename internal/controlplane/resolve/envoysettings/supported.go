package envoysettings

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// Paths of settings that depend on each other.
const (
	pathBackOff    = "route.retry_policy.retry_back_off.base_interval"
	pathBackOffMax = "route.retry_policy.retry_back_off.max_interval"
	pathPolicy     = "cluster.lb_policy"
	pathBreakers   = "cluster.circuit_breakers.thresholds[0]."
	pathMaxRetries = pathBreakers + "max_retries"
	pathOutliers   = "cluster.outlier_detection."
	// pathMaxEjection is at least the base ejection time.
	pathMaxEjection = pathOutliers + "max_ejection_time"
)

// Policies of Balance.
const (
	roundRobin   = "ROUND_ROBIN"
	leastRequest = "LEAST_REQUEST"
	random       = "RANDOM"
)

// Setting is a supported setting.
type Setting struct {
	// Path is the ConfigMap's key, followed by Envoy's field names, separated by dots.
	Path string
	// Allowed describes the allowed values.
	Allowed string
}

// setting is a Setting with its implementation. set applies a value and reports whether it is allowed.
type setting struct {
	Setting

	set func(settings *model.EnvoySettings, text string) bool
}

// Supported returns all settings.
func Supported() []Setting {
	var all []Setting
	for _, supported := range supportedSettings() {
		all = append(all, supported.Setting)
	}
	return all
}

// supportedSettings returns all settings, those of routes first.
func supportedSettings() []setting {
	return slices.Concat(routeSettings(), clusterSettings(), balanceSettings("round_robin_lb_config", roundRobin),
		balanceSettings("least_request_lb_config", leastRequest), failureSettings(), tlsSettings())
}

// routeSettings returns the settings of routes.
func routeSettings() []setting {
	return []setting{
		timeout("route.timeout", 0, 24*time.Hour, func(t *model.EnvoySettings, limit model.Timeout) {
			t.Route.Timeout = model.Given[time.Duration](limit)
		}),
		timeout("route.idle_timeout", time.Second, 24*time.Hour,
			func(t *model.EnvoySettings, limit model.Timeout) { t.Route.IdleTimeout = limit }),
		list("route.retry_policy.retry_on", retryConditions(),
			func(t *model.EnvoySettings, text string) { t.Route.RetryOn = text }),
		number("route.retry_policy.num_retries", 0, 10,
			func(t *model.EnvoySettings, n uint32) { t.Route.Retries = model.Given[uint32]{Value: n, IsGiven: true} }),
		timeout("route.retry_policy.per_try_timeout", time.Millisecond, 24*time.Hour,
			func(t *model.EnvoySettings, limit model.Timeout) { t.Route.PerTryTimeout = limit }),
		duration(pathBackOff, time.Millisecond, time.Minute,
			func(t *model.EnvoySettings, d time.Duration) { t.Route.BackOff.Base = d }),
		duration(pathBackOffMax, time.Millisecond, time.Minute,
			func(t *model.EnvoySettings, d time.Duration) { t.Route.BackOff.Max = d }),
		codes("route.retry_policy.retriable_status_codes",
			func(t *model.EnvoySettings, codes [model.MaxRetryCodes]uint32) { t.Route.RetryCodes = codes }),
		// Envoy itself has no such field: it is max_stream_duration of the clusters of mirrored requests.
		timeout("route.request_mirror_policies[0].timeout", 100*time.Millisecond, 24*time.Hour,
			func(t *model.EnvoySettings, limit model.Timeout) { t.Route.MirrorTimeout = limit }),
	}
}

// clusterSettings returns the settings of clusters.
func clusterSettings() []setting {
	const most = 1_000_000
	return []setting{
		timeout("cluster.connect_timeout", 100*time.Millisecond, 5*time.Minute,
			func(t *model.EnvoySettings, limit model.Timeout) { t.Cluster.ConnectTimeout = limit }),
		number(pathBreakers+"max_connections", 1, most,
			func(t *model.EnvoySettings, n uint32) { t.Cluster.MaxConnections = n }),
		number(pathBreakers+"max_pending_requests", 1, most,
			func(t *model.EnvoySettings, n uint32) { t.Cluster.MaxPendingRequests = n }),
		number(pathBreakers+"max_requests", 1, most, func(t *model.EnvoySettings, n uint32) { t.Cluster.MaxRequests = n }),
		number(pathMaxRetries, 1, most, func(t *model.EnvoySettings, n uint32) { t.Cluster.MaxRetries = n }),
		list(pathPolicy, []string{roundRobin, leastRequest, random},
			func(t *model.EnvoySettings, text string) { t.Cluster.Balance.Policy = text }, 1),
	}
}

// balanceSettings returns the settings of one load balancing policy. The policy itself precedes them in the order of
// paths.
func balanceSettings(field, policy string) []setting {
	prefix := "cluster." + field + "."
	all := []setting{
		duration(prefix+"slow_start_config.slow_start_window", time.Second, time.Hour,
			func(t *model.EnvoySettings, d time.Duration) { t.Cluster.Balance.SlowStart = d }),
		percent(prefix+"slow_start_config.min_weight_percent.value", func(t *model.EnvoySettings, share float64) {
			t.Cluster.Balance.MinWeight = model.Given[float64]{Value: share, IsGiven: true}
		}),
	}
	if policy == leastRequest {
		all = append(all, number(prefix+"choice_count", 2, 10,
			func(t *model.EnvoySettings, n uint32) { t.Cluster.Balance.ChoiceCount = n }))
	}
	for i := range all {
		set := all[i].set
		all[i].Allowed += ", with lb_policy: " + policy
		all[i].set = func(t *model.EnvoySettings, text string) bool {
			// Function conflicts reports a missing policy.
			fits := t.Cluster.Balance.Policy == policy || t.Cluster.Balance.Policy == ""
			return fits && set(t, text)
		}
	}
	return all
}

// failureSettings returns the settings for endpoints to which connections fail.
func failureSettings() []setting {
	const mostRetries, mostFailures, mostEjected = 1_000_000, 1000, 99
	return []setting{
		percent(pathBreakers+"retry_budget.budget_percent.value", func(t *model.EnvoySettings, share float64) {
			t.Cluster.RetryBudget.Percent = model.Given[float64]{Value: share, IsGiven: true}
		}),
		number(pathBreakers+"retry_budget.min_retry_concurrency", 0, mostRetries, func(t *model.EnvoySettings, n uint32) {
			t.Cluster.RetryBudget.MinConcurrency = model.Given[uint32]{Value: n, IsGiven: true}
		}),
		number(pathOutliers+"consecutive_local_origin_failure", 0, mostFailures, func(t *model.EnvoySettings, n uint32) {
			t.Cluster.Outliers.Failures = model.Given[uint32]{Value: n, IsGiven: true}
		}),
		number(pathOutliers+"max_ejection_percent", 0, mostEjected, func(t *model.EnvoySettings, n uint32) {
			t.Cluster.Outliers.MaxPercent = model.Given[uint32]{Value: n, IsGiven: true}
		}),
		duration(pathOutliers+"interval", time.Second, time.Hour,
			func(t *model.EnvoySettings, d time.Duration) { t.Cluster.Outliers.Interval = d }),
		duration(pathOutliers+"base_ejection_time", time.Second, time.Hour,
			func(t *model.EnvoySettings, d time.Duration) { t.Cluster.Outliers.Base = d }),
		duration(pathMaxEjection, time.Second, time.Hour,
			func(t *model.EnvoySettings, d time.Duration) { t.Cluster.Outliers.Max = d }),
	}
}

// retryConditions returns the values of Envoy's retry_on.
func retryConditions() []string {
	return []string{
		"5xx", "gateway-error", "reset", "reset-before-request", "connect-failure", "refused-stream", "retriable-4xx",
		"retriable-status-codes",
		"cancelled", "deadline-exceeded", "internal", "resource-exhausted", "unavailable",
	}
}

// duration returns a setting with a duration as value.
func duration(path string, least, most time.Duration, set func(*model.EnvoySettings, time.Duration)) setting {
	return setting{
		Setting{path, fmt.Sprintf("a time from %v to %v, such as %v", least, most, min(most, 10*time.Second))},
		func(t *model.EnvoySettings, text string) bool {
			value, err := time.ParseDuration(text)
			if err != nil || value < least || value > most {
				return false
			}
			set(t, value)
			return true
		},
	}
}

// timeout returns a setting with a time limit as value, or 0s for none.
func timeout(path string, least, most time.Duration, set func(*model.EnvoySettings, model.Timeout)) setting {
	given := func(t *model.EnvoySettings, limit time.Duration) { set(t, model.TimeoutOf(limit)) }
	limited := duration(path, least, most, given)
	return setting{
		Setting{path, limited.Allowed + ", or 0s for no limit"},
		func(t *model.EnvoySettings, text string) bool {
			if value, err := time.ParseDuration(text); err == nil && value == 0 {
				given(t, 0)
				return true
			}
			return limited.set(t, text)
		},
	}
}

// number returns a setting with an integer as value.
func number(path string, least, most uint32, set func(*model.EnvoySettings, uint32)) setting {
	return setting{
		Setting{path, fmt.Sprintf("a whole number from %d to %d", least, most)},
		func(t *model.EnvoySettings, text string) bool {
			value, err := strconv.ParseUint(text, 10, 32)
			if err != nil || value < uint64(least) || value > uint64(most) {
				return false
			}
			set(t, uint32(value))
			return true
		},
	}
}

// percent returns a setting with a percentage as value.
func percent(path string, set func(*model.EnvoySettings, float64)) setting {
	return setting{
		Setting{path, "a number from 0 to 100"},
		func(t *model.EnvoySettings, text string) bool {
			value, err := strconv.ParseFloat(text, 64)
			if isPercentage := value >= 0 && value <= 100; err != nil || !isPercentage { // The negation is false for NaN too.
				return false
			}
			set(t, value)
			return true
		},
	}
}

// list returns a setting with one or more words as value; most, if given, is the maximum number of words.
func list(path string, words []string, set func(*model.EnvoySettings, string), most ...int) setting {
	allowed := "one or more of "
	if len(most) > 0 {
		allowed = "one of "
	}
	return setting{
		Setting{path, allowed + strings.Join(words, ", ")},
		func(t *model.EnvoySettings, text string) bool {
			var values []string
			for word := range strings.SplitSeq(text, ",") {
				word = strings.TrimSpace(word)
				if !slices.Contains(words, word) {
					return false
				}
				values = append(values, word)
			}
			if len(most) > 0 && len(values) > most[0] {
				return false
			}
			set(t, strings.Join(values, ","))
			return true
		},
	}
}

// codes returns a setting with a list of status codes as value.
func codes(path string, set func(*model.EnvoySettings, [model.MaxRetryCodes]uint32)) setting {
	return setting{
		Setting{path, fmt.Sprintf("up to %d numbers from 400 to 599", model.MaxRetryCodes)},
		func(t *model.EnvoySettings, text string) bool {
			var values []uint32
			for word := range strings.SplitSeq(text, ",") {
				value, err := strconv.ParseUint(word, 10, 32)
				if err != nil || value < 400 || value > 599 {
					return false
				}
				values = append(values, uint32(value))
			}
			if len(values) > model.MaxRetryCodes {
				return false
			}
			var all [model.MaxRetryCodes]uint32
			copy(all[:], values)
			set(t, all)
			return true
		},
	}
}
