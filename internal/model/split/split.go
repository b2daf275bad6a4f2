// Package split is the codec of the annotation http.kedify.io/weighted-backends: how the requests of one HTTPScaledObject are shared between Services of
// its namespace. The router plugin writes the text, the interceptor reads it, and both use this package, so that they agree about every byte.
//
// The text is a YAML list of {service, weight}. The first entry is the stable Service. JSON is accepted, being YAML. What a text may hold is bounded before
// it is parsed, because any tenant can write one.
package split

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
)

// Limits of a weighted-backends text.
const (
	// MaxBytes is the longest accepted text, in bytes.
	MaxBytes = 4096
	// MaxBackends is the highest accepted number of entries.
	MaxBackends = 16
	// MaxWeightSum is the highest accepted sum of weights: Envoy refuses a route whose weighted clusters add up to more than an unsigned 32-bit number
	// holds (config.route.v3.WeightedCluster).
	MaxWeightSum = math.MaxUint32
)

// What can be wrong with a weighted-backends text. Every error of Parse and Validate is one of these by errors.Is; its text adds the entry and the value.
var (
	// ErrTooLong says that the text is longer than MaxBytes. Nothing of it was parsed.
	ErrTooLong = errors.New("text is too long")
	// ErrSyntax says that the text is not a YAML list of {service, weight} with exactly these keys.
	ErrSyntax = errors.New("not a YAML list of {service, weight}")
	// ErrAlias says that the text uses YAML anchors or aliases, with which a short text can describe a huge one.
	ErrAlias = errors.New("YAML anchors and aliases are not allowed")
	// ErrEmpty says that there is no entry.
	ErrEmpty = errors.New("no backend")
	// ErrTooMany says that there are more than MaxBackends entries.
	ErrTooMany = errors.New("too many backends")
	// ErrServiceName says that a Service name is not a DNS-1123 label, so it can be neither a Service nor one of another namespace.
	ErrServiceName = errors.New("not the name of a Service in this namespace (a DNS-1123 label)")
	// ErrDuplicate says that a Service is named twice.
	ErrDuplicate = errors.New("duplicate service")
	// ErrWeight says that a weight is not a whole number from 0 to MaxWeightSum, or that the weights add up to more.
	ErrWeight = errors.New("weight out of range")
	// ErrNoWeight says that every weight is zero, which would leave requests without a destination.
	ErrNoWeight = errors.New("all weights are zero")
)

// Backend is one Service with its share of the requests.
type Backend struct {
	// Service is the name of a Service in the namespace of the HTTPScaledObject.
	Service string
	// Weight is the share of the requests in parts of the sum of all weights; 0 means none.
	Weight uint32
}

// Validate checks what a split must be whatever its notation: 1 to MaxBackends entries, names that are DNS-1123 labels, none twice, a sum of weights from
// 1 to MaxWeightSum. The sum need not be 100.
func Validate(backends []Backend) error {
	switch {
	case len(backends) == 0:
		return ErrEmpty
	case len(backends) > MaxBackends:
		return fmt.Errorf("%w: %d, at most %d are allowed", ErrTooMany, len(backends), MaxBackends)
	}
	var sum uint64
	seen := make(map[string]bool, len(backends))
	for i, backend := range backends {
		if !isDNSLabel(backend.Service) {
			return fmt.Errorf("entry %d: service %.80q: %w", i+1, backend.Service, ErrServiceName)
		}
		if seen[backend.Service] {
			return fmt.Errorf("entry %d: %w %q", i+1, ErrDuplicate, backend.Service)
		}
		seen[backend.Service] = true
		sum += uint64(backend.Weight)
	}
	switch {
	case sum == 0:
		return ErrNoWeight
	case sum > MaxWeightSum:
		return fmt.Errorf("%w: the sum %d is above %d", ErrWeight, sum, uint64(MaxWeightSum))
	}
	return nil
}

// Hash identifies what a report is about: the text of the annotation, and that of the annotation managed-routes beside it. It is their SHA-256 as 64 lower-case
// hexadecimal digits, with a zero byte between them, or that of text alone where managed is empty; and empty where both are, which stands for absent
// annotations. Every byte counts: another notation of the same split has another hash.
func Hash(text, managed string) string {
	if managed != "" {
		text += "\x00" + managed // YAML knows no zero byte, so no text alone has this hash.
	}
	if text == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// isDNSLabel says whether name is a DNS label as RFC 1123 has it: 1 to 63 lower-case letters, digits and hyphens, with a letter or digit at both ends.
func isDNSLabel(name string) bool {
	if name == "" || len(name) > 63 || name[0] == '-' || name[len(name)-1] == '-' {
		return false
	}
	for _, c := range []byte(name) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}
