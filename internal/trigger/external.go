package trigger

import (
	"maps"
	"slices"
)

// externalKeys returns the table of the keys of a TypeEnvoyHTTP trigger.
func externalKeys() []key {
	names := []string{KeyGranularity, KeyWindow, KeyExternalProxyMetricKey, KeyExternalProxySources}
	return append(scalingKeys(), slices.DeleteFunc(otherKeys(), func(k key) bool {
		return !slices.Contains(names, k.name)
	})...)
}

// ExternalKeys returns all keys of a TypeEnvoyHTTP trigger, as Keys does for a TypeHTTP trigger.
func ExternalKeys() []Key { return published(externalKeys()) }

// ParseExternal parses the metadata of an IsExternal trigger, as Parse does for other ones. It sets the metric and the
// external proxies only. Keys that select requests have no effect: the user's Envoys route them.
func ParseExternal(metadata map[string]string) (Trigger, []Problem) {
	parsed, problems := parseTable(metadata, externalKeys())
	if parsed.ExternalProxyMetricKey == "" {
		problems = append(problems, Problem{
			Key: KeyExternalProxyMetricKey,
			Fix: "is required: set it to the name of the cluster of this application in your Envoys",
		})
	} else if !hasValue(metadata, KeyExternalProxySources) {
		problems = append(problems, Problem{
			Key: KeyExternalProxySources, Ignored: true,
			Fix: "missing, so no Envoy may report requests, and the application keeps its replicas: set it to the addresses " +
				"or CIDRs of your Envoys, such as 10.0.0.0/8",
		})
	}
	problems = append(problems, parsed.windowProblems()...)
	return parsed, append(problems, slices.Concat(uselessKeys(metadata), unknownKeys(metadata, keys()))...)
}

// uselessKeys returns the problems of keys that only TypeHTTP has, sorted.
func uselessKeys(metadata map[string]string) []Problem {
	used, all := knownNames(externalKeys()), knownNames(keys())
	var problems []Problem
	for _, name := range slices.Sorted(maps.Keys(metadata)) {
		if hasValue(metadata, name) && slices.Contains(all, name) && !slices.Contains(used, name) {
			problems = append(problems, Problem{
				Key: name, Value: metadata[name], Ignored: true,
				Fix: "has no effect with type " + TypeEnvoyHTTP + ", because your Envoys route the requests; remove it, or use " +
					"type " + TypeHTTP,
			})
		}
	}
	return problems
}
