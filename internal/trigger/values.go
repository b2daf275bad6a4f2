package trigger

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// parseList splits a value at its commas and checks each element. It returns the valid elements and the errors of the
// others. Empty elements are errors, except after the last comma. Without an error there is at least one element. A
// list that is too long has no valid element.
func parseList(value string, check func(string) error) (valid []string, invalid []error) {
	hasEmpty, count := false, 0
	for element := range strings.SplitSeq(strings.TrimSuffix(value, ","), ",") {
		count++
		element = strings.TrimSpace(element)
		if element == "" {
			hasEmpty = true
			continue
		}
		if err := check(element); err != nil {
			invalid = append(invalid, fmt.Errorf("%.*q: %w", maxShownValue, element, err))
			continue
		}
		valid = append(valid, element)
	}
	if count > MaxElements {
		return nil, []error{fmt.Errorf("has %d elements, the limit is %d: use several ScaledObjects", count, MaxElements)}
	}
	if hasEmpty {
		invalid = append(invalid, errors.New("has an empty element between two commas"))
	}
	return valid, invalid
}

// joinErrors returns an error with the texts of at most three errors; nil for none.
func joinErrors(all []error) error {
	const limit = 3
	if len(all) < 2 {
		return errors.Join(all...)
	}
	var texts []string
	for _, err := range all[:min(limit, len(all))] {
		texts = append(texts, err.Error())
	}
	if more := len(all) - limit; more > 0 {
		texts = append(texts, fmt.Sprintf("%d more", more))
	}
	return errors.New(strings.Join(texts, "; "))
}

// readEnum parses a value of a fixed set.
func readEnum[T ~string](field func(*Trigger) *T, allowed ...T) func(*Trigger, string) error {
	return func(t *Trigger, value string) error {
		for _, candidate := range allowed {
			if value == string(candidate) {
				*field(t) = candidate
				return nil
			}
		}
		return fmt.Errorf("use one of %s", joinValues(allowed))
	}
}

// joinValues joins values for a message.
func joinValues[T ~string](values []T) string {
	var texts []string
	for _, value := range values {
		texts = append(texts, string(value))
	}
	return strings.Join(texts, ", ")
}

// readDuration parses a positive duration.
func readDuration(field func(*Trigger) *time.Duration) func(*Trigger, string) error {
	return func(t *Trigger, value string) error {
		parsed, err := time.ParseDuration(value)
		if err != nil || parsed <= 0 {
			return errors.New("use a positive duration, e.g. 1s or 1m30s")
		}
		*field(t) = parsed
		return nil
	}
}

// readTimeout parses a duration. Zero means no limit.
func readTimeout(field func(*Trigger) **time.Duration) func(*Trigger, string) error {
	return func(t *Trigger, value string) error {
		parsed, err := time.ParseDuration(value)
		if err != nil || parsed < 0 {
			return errors.New("use a duration, e.g. 30s or 10m, or 0s for no limit")
		}
		*field(t) = &parsed
		return nil
	}
}

// readServiceName parses the name of a Service.
func readServiceName(field func(*Trigger) *string) func(*Trigger, string) error {
	return func(t *Trigger, value string) error {
		if !isDNSLabel(value) {
			return errors.New("use the name of a Service of the same namespace: " + labelRule)
		}
		*field(t) = value
		return nil
	}
}

// maxName is the maximum length of an object's name in bytes (DNS-1123 subdomain).
const maxName = 253

// readObjectName parses the name of an object.
func readObjectName(kind string, field func(*Trigger) *string) func(*Trigger, string) error {
	return func(t *Trigger, value string) error {
		if !isObjectName(value) {
			return fmt.Errorf("use the name of a %s of the same namespace: lower-case letters, digits, hyphens and dots", kind)
		}
		*field(t) = value
		return nil
	}
}

// isObjectName reports whether text is a DNS-1123 subdomain, like the names of most objects.
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

// labelRule describes a DNS-1123 label.
const labelRule = "at most 63 lower-case letters, digits and hyphens"

// isDNSLabel reports whether text is a DNS-1123 label.
func isDNSLabel(text string) bool {
	const maxLabel = 63
	if text == "" || len(text) > maxLabel || text[0] == '-' || text[len(text)-1] == '-' {
		return false
	}
	return strings.Trim(text, letters+digits+"-") == ""
}
