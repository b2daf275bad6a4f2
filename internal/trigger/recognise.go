package trigger

import (
	"maps"
	"slices"
	"strings"
)

// Types of triggers in ScaledObjects.
const (
	// TypeHTTP is the type that users write. A stock KEDA has no such type.
	TypeHTTP = "kedify-http"
	// TypePush is KEDA's type for scalers that it reaches over gRPC and that can wake it up.
	TypePush = "external-push"
)

// Keys of a TypePush trigger that are not about requests.
const (
	// KeyScalerAddress is KEDA's: where the scaler listens, as host:port.
	KeyScalerAddress = "scalerAddress"
	// KeyHTTPScaledObject names the trigger's HTTPScaledObject.
	KeyHTTPScaledObject = "httpScaledObject"
	// KeyConvertedFrom marks a trigger that was written as TypeHTTP; its value is that type.
	KeyConvertedFrom = "convertedFrom"
)

// Standing is what a trigger of a ScaledObject is to us.
type Standing int

// The Standings.
const (
	// Foreign is a trigger of another scaler.
	Foreign Standing = iota
	// Unconverted is one of TypeHTTP, which KEDA cannot read yet.
	Unconverted
	// Ours is one of TypePush with the keys of a TypeHTTP: converted, or written by hand.
	Ours
	// Reference is one of TypePush that says nothing of requests, but only what to scale by. Its
	// HTTPScaledObject, the one that it names or that of the ScaledObject's name, is its author's: the
	// way of the KEDA HTTP add-on.
	Reference
	// Elsewhere is one of TypePush that is about requests, for a scaler at another address.
	Elsewhere
)

// Recognise says what a trigger is to us, by its type and metadata. address is where our scaler
// listens. A TypePush trigger is ours by its mark, or by that address.
func Recognise(triggerType string, metadata map[string]string, address string) Standing {
	switch {
	case triggerType == TypeHTTP:
		return Unconverted
	case triggerType != TypePush:
		return Foreign
	case metadata[KeyConvertedFrom] == TypeHTTP:
		return Ours
	case !sameAddress(metadata[KeyScalerAddress], address):
		if has(metadata, KeyHosts) {
			return Elsewhere
		}
		return Foreign
	case !isAboutRequests(metadata):
		return Reference
	default:
		return Ours
	}
}

// ObjectName is the name of a trigger's HTTPScaledObject: the one that the metadata names, else otherwise.
// Of a TypePush trigger that is the ScaledObject's name, whoever asks: KEDA tells the scaler the metadata
// of one trigger, not which of several it is.
func ObjectName(metadata map[string]string, otherwise string) string {
	if has(metadata, KeyHTTPScaledObject) {
		return strings.TrimSpace(metadata[KeyHTTPScaledObject])
	}
	return otherwise
}

// isAboutRequests says whether metadata has a key that says which requests are meant and where they go,
// or one that is probably meant to be one.
func isAboutRequests(metadata map[string]string) bool {
	about := []string{KeyHosts, KeyPathPrefixes, KeyHeaders, KeyService, KeyPort, KeyPortName}
	for name := range metadata {
		if has(metadata, name) && (slices.Contains(about, name) || nearest(name, about) != "") {
			return true
		}
	}
	return false
}

// sameAddress says whether two addresses are of one Service: name.namespace, with or without what
// the cluster's DNS puts after it
// (https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/).
func sameAddress(a, b string) bool {
	short := func(address string) string {
		host, port, _ := strings.Cut(strings.ToLower(strings.TrimSpace(address)), ":")
		host, _, _ = strings.Cut(strings.TrimSuffix(host, ".")+".", ".svc.")
		return strings.TrimSuffix(host, ".") + ":" + port
	}
	return short(a) == short(b)
}

// Additions are the keys that a TypeHTTP trigger gets when its type becomes TypePush: its mark, the
// address of our scaler unless it has one, and the name of its HTTPScaledObject.
func Additions(metadata map[string]string, address, name string) map[string]string {
	added := map[string]string{KeyConvertedFrom: TypeHTTP, KeyHTTPScaledObject: name}
	if !has(metadata, KeyScalerAddress) {
		added[KeyScalerAddress] = address
	}
	return added
}

// unknown are the problems of keys that mean nothing to us, in their order.
func unknown(metadata map[string]string) []Problem {
	// Beside ours, those that KEDA takes of every TypePush trigger (pkg/scalers/external_scaler.go).
	names := []string{
		KeyScalerAddress, KeyHTTPScaledObject, KeyConvertedFrom, "enableTLS", "unsafeSsl",
	}
	for _, known := range keys() {
		names = append(names, known.name)
	}
	var problems []Problem
	for _, name := range slices.Sorted(maps.Keys(metadata)) {
		if slices.Contains(names, name) {
			continue
		}
		remedy := "is not known and counts for nothing; remove it"
		if meant := nearest(name, names); meant != "" {
			remedy = "is not known and counts for nothing; did you mean " + meant + "?"
		}
		problems = append(problems, Problem{name, metadata[name], remedy, true})
	}
	return problems
}

// nearest is the name that a misspelt one is probably meant to be, or empty.
func nearest(misspelt string, names []string) string {
	const maxDistance = 2
	best, found := maxDistance+1, ""
	for _, name := range names {
		limit := min(maxDistance, len(name)/3)
		distance := editDistance(strings.ToLower(misspelt), strings.ToLower(name))
		if distance <= limit && distance < best {
			best, found = distance, name
		}
	}
	return found
}

// editDistance is the least number of bytes to insert, delete or replace that make b of a, for
// names of a usual length; of others it is their length.
func editDistance(a, b string) int {
	const usual = 64
	if len(a) > usual || len(b) > usual {
		return max(len(a), len(b))
	}
	row := make([]int, len(b)+1) // of the part of a that was read, to each beginning of b
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
