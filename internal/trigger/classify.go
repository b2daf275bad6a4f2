package trigger

import (
	"maps"
	"slices"
	"strings"
)

// The types of triggers in ScaledObjects.
const (
	// TypeHTTP is the type that users write. Stock KEDA does not support it.
	TypeHTTP = "kedify-http"
	// TypeEnvoyHTTP is a type that users write for a workload behind Envoys of their own: the requests that these report
	// are its demand, and this project routes none of them. See ParseExternal.
	TypeEnvoyHTTP = "kedify-envoy-http"
	// TypePush is KEDA's type for scalers that it calls over gRPC and that can activate a workload.
	TypePush = "external-push"
	// TypePull is KEDA's type for scalers that it calls over gRPC and that cannot activate a workload.
	TypePull = "external"
)

// The keys of a TypePush trigger that select no requests.
const (
	// KeyScalerAddress is KEDA's key for the scaler's address, host:port.
	KeyScalerAddress = "scalerAddress"
	// KeyHTTPScaledObject is the name of the trigger's HTTPScaledObject.
	KeyHTTPScaledObject = "httpScaledObject"
	// KeyInterceptorRoute is the name of the trigger's InterceptorRoute. It defines the metrics and their targets. It takes
	// precedence over KeyHTTPScaledObject, as in the KEDA HTTP add-on.
	KeyInterceptorRoute = "interceptorRoute"
	// KeyProxyConnections is the number of connections with clients for each proxy of the ScaledObject's namespace. A
	// trigger with it scales these proxies, and has no HTTPScaledObject.
	KeyProxyConnections = "proxyConnections"
	// KeyConvertedFrom marks a trigger that was converted; its value is TypeHTTP or TypeEnvoyHTTP.
	KeyConvertedFrom = "convertedFrom"
)

// Class is what a trigger of a ScaledObject is for this project.
type Class int

// The Classes.
const (
	// Unrelated is a trigger of another scaler, or one that scales proxies.
	Unrelated Class = iota
	// Unconverted is a TypeHTTP or TypeEnvoyHTTP trigger, which KEDA cannot parse yet.
	Unconverted
	// Managed is a TypePush trigger with the keys of a TypeHTTP trigger, converted or written by a user, or one that was
	// converted from TypeEnvoyHTTP.
	Managed
	// Reference is a TypePush trigger that selects no requests and only configures scaling. Its HTTPScaledObject, the one
	// that it names or the one with the ScaledObject's name, is created by the user, as in the KEDA HTTP add-on.
	Reference
	// OtherScaler is a TypePush trigger that selects requests, for a scaler at another address.
	OtherScaler
)

// Classify returns the Class of a trigger by its type and metadata. address is the address of this project's scaler. A
// TypePush trigger is Managed by its KeyConvertedFrom or by that address.
func Classify(triggerType string, metadata map[string]string, address string) Class {
	switch {
	case IsUserType(triggerType):
		return Unconverted
	case triggerType != TypePush:
		return Unrelated
	case IsUserType(metadata[KeyConvertedFrom]):
		return Managed
	case hasValue(metadata, KeyProxyConnections):
		return Unrelated
	case !sameAddress(metadata[KeyScalerAddress], address):
		if hasValue(metadata, KeyHosts) {
			return OtherScaler
		}
		return Unrelated
	case !hasRoutingKeys(metadata):
		return Reference
	default:
		return Managed
	}
}

// IsUserType reports whether a type of triggers is one that only this project supports, TypeHTTP or TypeEnvoyHTTP.
func IsUserType(triggerType string) bool {
	return triggerType == TypeHTTP || triggerType == TypeEnvoyHTTP
}

// IsExternal reports whether a trigger is of TypeEnvoyHTTP, or was converted from it.
func IsExternal(triggerType string, metadata map[string]string) bool {
	return triggerType == TypeEnvoyHTTP || triggerType == TypePush && metadata[KeyConvertedFrom] == TypeEnvoyHTTP
}

// IsOfInterceptorRoute reports whether a trigger names an InterceptorRoute.
func IsOfInterceptorRoute(metadata map[string]string) bool {
	return hasValue(metadata, KeyInterceptorRoute)
}

// InterceptorRouteOf returns the name of the InterceptorRoute that a TypePush trigger names for this project's scaler, at
// address; empty for none.
func InterceptorRouteOf(triggerType string, metadata map[string]string, address string) string {
	if triggerType != TypePush || !sameAddress(metadata[KeyScalerAddress], address) {
		return ""
	}
	return strings.TrimSpace(metadata[KeyInterceptorRoute])
}

// ObjectName returns the name of a trigger's HTTPScaledObject: KeyHTTPScaledObject in the metadata, otherwise fallback.
// For a TypePush trigger the fallback is always the ScaledObject's name: KEDA sends the scaler the metadata of one
// trigger, but not its index.
func ObjectName(metadata map[string]string, fallback string) string {
	if hasValue(metadata, KeyHTTPScaledObject) {
		return strings.TrimSpace(metadata[KeyHTTPScaledObject])
	}
	return fallback
}

// hasRoutingKeys reports whether metadata has a key, possibly misspelled, that selects requests or their destination.
func hasRoutingKeys(metadata map[string]string) bool {
	routing := []string{KeyHosts, KeyPathPrefixes, KeyHeaders, KeyService, KeyPort, KeyPortName}
	for name := range metadata {
		if hasValue(metadata, name) && (slices.Contains(routing, name) || closestName(name, routing) != "") {
			return true
		}
	}
	return false
}

// sameAddress reports whether two addresses belong to the same Service: name.namespace, with or without the cluster's
// DNS suffix (https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/).
func sameAddress(a, b string) bool {
	short := func(address string) string {
		host, port, _ := strings.Cut(strings.ToLower(strings.TrimSpace(address)), ":")
		host, _, _ = strings.Cut(strings.TrimSuffix(host, ".")+".", ".svc.")
		return strings.TrimSuffix(host, ".") + ":" + port
	}
	return short(a) == short(b)
}

// ConversionMetadata returns the keys to add when a trigger of a user's type becomes a TypePush trigger: KeyConvertedFrom,
// the scaler's address unless it has one, and the name of its HTTPScaledObject.
func ConversionMetadata(triggerType string, metadata map[string]string, address, name string) map[string]string {
	added := map[string]string{KeyConvertedFrom: triggerType, KeyHTTPScaledObject: name}
	if !hasValue(metadata, KeyScalerAddress) {
		added[KeyScalerAddress] = address
	}
	return added
}

// unknownKeys returns the problems of keys that are not in a table, sorted.
func unknownKeys(metadata map[string]string, table []key) []Problem {
	names := knownNames(table)
	var problems []Problem
	for _, name := range slices.Sorted(maps.Keys(metadata)) {
		if slices.Contains(names, name) {
			continue
		}
		fix := "unknown key, ignored; remove it"
		if name == KeyInterceptorRoute && hasValue(metadata, name) {
			fix = "the scaler uses the metrics of this InterceptorRoute, not those of the trigger's HTTPScaledObject; remove it, " +
				"or all keys that select requests"
		} else if similar := closestName(name, names); similar != "" {
			fix = "unknown key, ignored; did you mean " + similar + "?"
		}
		problems = append(problems, Problem{Key: name, Value: metadata[name], Fix: fix, Ignored: true})
	}
	return problems
}

// isMisspelled reports whether a key has no value, but an unknown key is similar to it.
func isMisspelled(metadata map[string]string, name string) bool {
	if hasValue(metadata, name) {
		return false
	}
	names := knownNames(keys())
	for written := range metadata {
		if hasValue(metadata, written) && !slices.Contains(names, written) && closestName(written, names) == name {
			return true
		}
	}
	return false
}

// knownNames returns the keys of a table, and all other keys of a TypePush trigger. KEDA itself parses some of them
// (pkg/scalers/external_scaler.go).
func knownNames(table []key) []string {
	names := []string{
		KeyScalerAddress, KeyHTTPScaledObject, KeyConvertedFrom, "enableTLS", "unsafeSsl",
	}
	for _, k := range table {
		names = append(names, k.name)
	}
	return names
}

// closestName returns the name that is most similar to a misspelled one, or "" if none is similar enough.
func closestName(misspelled string, names []string) string {
	const maxDistance = 2
	best, closest := maxDistance+1, ""
	for _, name := range names {
		limit := min(maxDistance, len(name)/3)
		distance := editDistance(strings.ToLower(misspelled), strings.ToLower(name))
		if distance <= limit && distance < best {
			best, closest = distance, name
		}
	}
	return closest
}

// editDistance returns the minimum number of bytes to insert, delete or replace to convert a to b, for names of up to
// 64 bytes; otherwise the length of the longer one.
func editDistance(a, b string) int {
	const maxLength = 64
	if len(a) > maxLength || len(b) > maxLength {
		return max(len(a), len(b))
	}
	row := make([]int, len(b)+1) // distances from the processed prefix of a to each prefix of b
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
