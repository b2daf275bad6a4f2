// Package split is the codec of the annotation http.kedify.io/weighted-backends: the traffic split of one
// HTTPScaledObject between Services of its namespace. The router plugin writes the annotation and the interceptor reads
// it. Both use this package, so the texts are byte-identical.
//
// The text is a YAML list of {service, weight}, so JSON is valid too. The first entry is the stable Service. The size
// of a text is limited before it is parsed, because any tenant can write one.
package split

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strings"
)

// The limits of a weighted-backends text.
const (
	// MaxBytes is the maximum length of a text in bytes.
	MaxBytes = 4096
	// MaxBackends is the maximum number of entries.
	MaxBackends = 16
	// MaxWeightSum is the maximum sum of weights: Envoy rejects a route whose weighted clusters add up to more than an
	// unsigned 32-bit number (config.route.v3.WeightedCluster).
	MaxWeightSum = math.MaxUint32
)

// The errors of Parse and Validate. Each returned error wraps one of these; its text adds the entry and the value.
var (
	// ErrTooLong means that the text is longer than MaxBytes. It was not parsed.
	ErrTooLong = errors.New("text is too long")
	// ErrSyntax means that the text is not a YAML list of {service, weight} with exactly these keys.
	ErrSyntax = errors.New("not a YAML list of {service, weight}")
	// ErrAlias means that the text contains YAML anchors or aliases, with which a short text can expand to a huge one.
	ErrAlias = errors.New("YAML anchors and aliases are not allowed")
	// ErrEmpty means that there is no entry.
	ErrEmpty = errors.New("no backend")
	// ErrTooMany means that there are more than MaxBackends entries.
	ErrTooMany = errors.New("too many backends")
	// ErrServiceName means that a Service name is not a DNS-1123 label. So a name can refer to no Service of another
	// namespace.
	ErrServiceName = errors.New("not the name of a Service in this namespace (a DNS-1123 label)")
	// ErrDuplicate means that a Service is listed twice.
	ErrDuplicate = errors.New("duplicate service")
	// ErrWeight means that a weight is not a whole number from 0 to MaxWeightSum, or that the sum of the weights is
	// greater.
	ErrWeight = errors.New("weight out of range")
	// ErrNoWeight means that all weights are zero, so that requests would have no destination.
	ErrNoWeight = errors.New("all weights are zero")
)

// Backend is one Service with its weight.
type Backend struct {
	// Service is the name of a Service in the namespace of the HTTPScaledObject.
	Service string
	// Weight is relative to the sum of all weights; 0 means no requests.
	Weight uint32
}

// Validate checks a split: 1 to MaxBackends entries, unique names that are DNS-1123 labels, and a sum of weights from 1
// to MaxWeightSum. The sum need not be 100.
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

// Hash identifies the content of a report: the texts of the annotations weighted-backends, managed-routes and
// stickiness of an object, in this order. The result is the SHA-256 of the texts with a zero byte between them, as 64
// lower-case hexadecimal digits. Empty texts at the end do not count, and the result is empty if all are. Each byte
// counts: another notation of the same split has another hash.
func Hash(texts ...string) string {
	for len(texts) > 0 && texts[len(texts)-1] == "" {
		texts = texts[:len(texts)-1]
	}
	if len(texts) == 0 {
		return ""
	}
	sum := sha256.Sum256([]byte(strings.Join(texts, "\x00"))) // YAML and JSON have no zero byte
	return hex.EncodeToString(sum[:])
}

// isDNSLabel reports whether name is a DNS label (RFC 1123): 1 to 63 lower-case letters, digits and hyphens, with a
// letter or digit at both ends.
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
