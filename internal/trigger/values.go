package trigger

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// list splits a value at its commas and checks every element. An empty element is a mistake, but
// for one after the last comma. There is at least one element without an error.
func list(value string, check func(string) error) ([]string, error) {
	var elements []string
	for element := range strings.SplitSeq(strings.TrimSuffix(value, ","), ",") {
		element = strings.TrimSpace(element)
		if element == "" {
			return nil, errors.New("has nothing between two commas")
		}
		if err := check(element); err != nil {
			return nil, fmt.Errorf("%.*q: %w", shownValue, element, err)
		}
		elements = append(elements, element)
	}
	return elements, nil
}

// oneOf reads a value of a fixed set.
func oneOf[T ~string](field func(*Trigger) *T, allowed ...T) func(*Trigger, string) error {
	return func(t *Trigger, value string) error {
		for _, each := range allowed {
			if value == string(each) {
				*field(t) = each
				return nil
			}
		}
		return fmt.Errorf("use one of %s", quoted(allowed))
	}
}

// quoted lists values.
func quoted[T ~string](values []T) string {
	var out []string
	for _, value := range values {
		out = append(out, string(value))
	}
	return strings.Join(out, ", ")
}

// duration reads a positive time.
func duration(field func(*Trigger) *time.Duration) func(*Trigger, string) error {
	return func(t *Trigger, value string) error {
		parsed, err := time.ParseDuration(value)
		if err != nil || parsed <= 0 {
			return errors.New("use a time with its unit, longer than zero, such as 1s or 1m30s")
		}
		*field(t) = parsed
		return nil
	}
}

// serviceName reads the name of a Service.
func serviceName(field func(*Trigger) *string) func(*Trigger, string) error {
	return func(t *Trigger, value string) error {
		if !isDNSLabel(value) {
			return errors.New("use the name of a Service of the same namespace: " + labelRule)
		}
		*field(t) = value
		return nil
	}
}

// maxName is the longest name of an object, in bytes (RFC 1123 as Kubernetes reads it).
const maxName = 253

// objectName reads the name of an object.
func objectName(kind string, field func(*Trigger) *string) func(*Trigger, string) error {
	return func(t *Trigger, value string) error {
		if !isObjectName(value) {
			return fmt.Errorf("use the name of a %s of the same namespace: lower-case letters, digits, "+
				"hyphens and dots", kind)
		}
		*field(t) = value
		return nil
	}
}

// isObjectName says whether text is a DNS-1123 subdomain, as names of most objects are.
func isObjectName(text string) bool {
	if len(text) > maxName {
		return false
	}
	for label := range strings.SplitSeq(text, ".") {
		if !isDNSLabel(label) {
			return false
		}
	}
	return true
}

// labelRule is what a DNS-1123 label is, in words.
const labelRule = "at most 63 lower-case letters, digits and hyphens"

// isDNSLabel says whether text is a DNS-1123 label.
func isDNSLabel(text string) bool {
	const maxLabel = 63
	if text == "" || len(text) > maxLabel || text[0] == '-' || text[len(text)-1] == '-' {
		return false
	}
	return strings.Trim(text, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}
