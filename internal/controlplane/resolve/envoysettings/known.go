package envoysettings

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// Paths of settings that depend on one another.
const (
	pathBackOff    = "route.retry_policy.retry_back_off.base_interval"
	pathBackOffMax = "route.retry_policy.retry_back_off.max_interval"
	pathPolicy     = "cluster.lb_policy"
	pathBreakers   = "cluster.circuit_breakers.thresholds[0]."
)

// Policies of Balance.
const (
	roundRobin   = "ROUND_ROBIN"
	leastRequest = "LEAST_REQUEST"
	random       = "RANDOM"
)

// Setting is one that may be changed.
type Setting struct {
	// Path is the ConfigMap's key and Envoy's names below it, with dots.
	Path string
	// Allowed says which values are.
	Allowed string
}

// setting is a Setting with what its value does. set says whether a text is one of the values.
type setting struct {
	Setting

	set func(tuning *model.Tuning, text string) bool
}

// Known are all Settings.
func Known() []Setting {
	var all []Setting
	for _, each := range known() {
		all = append(all, each.Setting)
	}
	return all
}

// known are all settings, those of routes first.
func known() []setting {
	return slices.Concat(ofRoutes(), ofClusters(), ofBalance("round_robin_lb_config", roundRobin), ofBalance("least_request_lb_config", leastRequest))
}

// ofRoutes are the settings of routes.
func ofRoutes() []setting {
	return []setting{
		duration("route.timeout", 0, 24*time.Hour, func(t *model.Tuning, d time.Duration) {
			t.Route.Timeout = model.Given[time.Duration]{Value: d, IsGiven: true}
		}),
		duration("route.idle_timeout", time.Second, 24*time.Hour, func(t *model.Tuning, d time.Duration) { t.Route.IdleTimeout = d }),
		list("route.retry_policy.retry_on", conditions(), func(t *model.Tuning, text string) { t.Route.RetryOn = text }),
		number("route.retry_policy.num_retries", 0, 10, func(t *model.Tuning, n uint32) { t.Route.Retries = model.Given[uint32]{Value: n, IsGiven: true} }),
		duration("route.retry_policy.per_try_timeout", time.Millisecond, 24*time.Hour, func(t *model.Tuning, d time.Duration) { t.Route.PerTryTimeout = d }),
		duration(pathBackOff, time.Millisecond, time.Minute, func(t *model.Tuning, d time.Duration) { t.Route.BackOff.Base = d }),
		duration(pathBackOffMax, time.Millisecond, time.Minute, func(t *model.Tuning, d time.Duration) { t.Route.BackOff.Max = d }),
		codes("route.retry_policy.retriable_status_codes", func(t *model.Tuning, codes [model.MaxRetryCodes]uint32) { t.Route.RetryCodes = codes }),
	}
}

// ofClusters are the settings of clusters.
func ofClusters() []setting {
	const most = 1_000_000
	return []setting{
		duration("cluster.connect_timeout", 100*time.Millisecond, 5*time.Minute, func(t *model.Tuning, d time.Duration) { t.Cluster.ConnectTimeout = d }),
		number(pathBreakers+"max_connections", 1, most, func(t *model.Tuning, n uint32) { t.Cluster.MaxConnections = n }),
		number(pathBreakers+"max_pending_requests", 1, most, func(t *model.Tuning, n uint32) { t.Cluster.MaxPendingRequests = n }),
		number(pathBreakers+"max_requests", 1, most, func(t *model.Tuning, n uint32) { t.Cluster.MaxRequests = n }),
		number(pathBreakers+"max_retries", 1, most, func(t *model.Tuning, n uint32) { t.Cluster.MaxRetries = n }),
		list(pathPolicy, []string{roundRobin, leastRequest, random}, func(t *model.Tuning, text string) { t.Cluster.Balance.Policy = text }, 1),
	}
}

// ofBalance are the settings of one policy. The policy comes before them, in the order of their paths.
func ofBalance(field, policy string) []setting {
	at := "cluster." + field + "."
	all := []setting{
		duration(at+"slow_start_config.slow_start_window", time.Second, time.Hour, func(t *model.Tuning, d time.Duration) { t.Cluster.Balance.SlowStart = d }),
		percent(at+"slow_start_config.min_weight_percent.value", func(t *model.Tuning, share float64) {
			t.Cluster.Balance.MinWeight = model.Given[float64]{Value: share, IsGiven: true}
		}),
	}
	if policy == leastRequest {
		all = append(all, number(at+"choice_count", 2, 10, func(t *model.Tuning, n uint32) { t.Cluster.Balance.ChoiceCount = n }))
	}
	for i := range all {
		set := all[i].set
		all[i].Allowed += ", with lb_policy: " + policy
		all[i].set = func(t *model.Tuning, text string) bool {
			// Without a policy the contradiction is told later.
			fits := t.Cluster.Balance.Policy == policy || t.Cluster.Balance.Policy == ""
			return fits && set(t, text)
		}
	}
	return all
}

// conditions are those under which Envoy tries a request again.
func conditions() []string {
	return []string{
		"5xx", "gateway-error", "reset", "reset-before-request", "connect-failure", "refused-stream", "retriable-4xx", "retriable-status-codes",
		"cancelled", "deadline-exceeded", "internal", "resource-exhausted", "unavailable",
	}
}

// duration is a setting that is a time.
func duration(path string, least, most time.Duration, set func(*model.Tuning, time.Duration)) setting {
	return setting{
		Setting{path, fmt.Sprintf("a time from %v to %v, such as %v", least, most, min(most, 10*time.Second))},
		func(t *model.Tuning, text string) bool {
			value, err := time.ParseDuration(text)
			if err != nil || value < least || value > most {
				return false
			}
			set(t, value)
			return true
		},
	}
}

// number is a setting that is a whole number.
func number(path string, least, most uint32, set func(*model.Tuning, uint32)) setting {
	return setting{
		Setting{path, fmt.Sprintf("a whole number from %d to %d", least, most)},
		func(t *model.Tuning, text string) bool {
			value, err := strconv.ParseUint(text, 10, 32)
			if err != nil || value < uint64(least) || value > uint64(most) {
				return false
			}
			set(t, uint32(value))
			return true
		},
	}
}

// percent is a setting that is a share in percent.
func percent(path string, set func(*model.Tuning, float64)) setting {
	return setting{
		Setting{path, "a number from 0 to 100"},
		func(t *model.Tuning, text string) bool {
			value, err := strconv.ParseFloat(text, 64)
			if isShare := value >= 0 && value <= 100; err != nil || !isShare { // It may be no number at all.
				return false
			}
			set(t, value)
			return true
		},
	}
}

// list is a setting that is one or several words; most bounds how many, if it is there.
func list(path string, words []string, set func(*model.Tuning, string), most ...int) setting {
	allowed := "some of "
	if len(most) > 0 {
		allowed = "one of "
	}
	return setting{
		Setting{path, allowed + strings.Join(words, ", ")},
		func(t *model.Tuning, text string) bool {
			var found []string
			for word := range strings.SplitSeq(text, ",") {
				word = strings.TrimSpace(word)
				if !slices.Contains(words, word) {
					return false
				}
				found = append(found, word)
			}
			if len(most) > 0 && len(found) > most[0] {
				return false
			}
			set(t, strings.Join(found, ","))
			return true
		},
	}
}

// codes is a setting that is a list of status codes.
func codes(path string, set func(*model.Tuning, [model.MaxRetryCodes]uint32)) setting {
	return setting{
		Setting{path, fmt.Sprintf("up to %d numbers from 400 to 599", model.MaxRetryCodes)},
		func(t *model.Tuning, text string) bool {
			var found []uint32
			for word := range strings.SplitSeq(text, ",") {
				value, err := strconv.ParseUint(word, 10, 32)
				if err != nil || value < 400 || value > 599 {
					return false
				}
				found = append(found, uint32(value))
			}
			if len(found) > model.MaxRetryCodes {
				return false
			}
			var all [model.MaxRetryCodes]uint32
			copy(all[:], found)
			set(t, all)
			return true
		},
	}
}
