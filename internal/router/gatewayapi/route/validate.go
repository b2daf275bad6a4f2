package route

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// fullPercent is the percentage of a mirror route that mirrors every request.
const fullPercent = 100

// Limits of a header match (Gateway API, HTTPHeaderMatch).
const (
	maxHeaderName  = 256
	maxHeaderValue = 4096
)

// nameChars are the characters of a header name in addition to letters and digits (RFC 9110, section 5.6.2).
const nameChars = "!#$%&'*+-.^_`|~"

// validate checks everything in an Intent that does not depend on the route.
func (want Intent) validate() error {
	if want.Stable == "" || want.Canary == "" || want.Stable == want.Canary {
		return fmt.Errorf("%w: the stable Service is %q and the canary Service %q: name two Services", ErrInvalid,
			want.Stable, want.Canary)
	}
	if want.Weights != nil {
		if err := want.validateWeights(*want.Weights); err != nil {
			return err
		}
	}
	if want.ManagedRoutes == nil {
		return nil
	}
	if len(*want.ManagedRoutes) > 0 && !want.Kind.HeaderRoutes() {
		return fmt.Errorf("%w: a %s does not support header and mirror routes: remove setHeaderRoute and setMirrorRoute "+
			"from the steps, or use an HTTPRoute or a GRPCRoute", ErrUnsupported, want.Kind)
	}
	names := map[string]bool{}
	for _, route := range *want.ManagedRoutes {
		if route.Name == "" || names[route.Name] {
			return fmt.Errorf("%w: the managed route %q is a duplicate or has no name", ErrInvalid, route.Name)
		}
		names[route.Name] = true
		if err := want.validateManaged(route); err != nil {
			return fmt.Errorf("managed route %q: %w", route.Name, err)
		}
	}
	return nil
}

// validateWeights checks that all weights are in the API's range, and that no Service has two.
func (want Intent) validateWeights(weights Weights) error {
	all := append([]Destination{
		{Service: want.Stable, Weight: weights.Stable},
		{Service: want.Canary, Weight: weights.Canary},
	}, weights.Others...)
	seen := map[string]bool{}
	for _, destination := range all {
		if destination.Weight < 0 || destination.Weight > maxWeight {
			return fmt.Errorf("%w: the weight %d of Service %q: must be from 0 to %d", ErrInvalid, destination.Weight,
				destination.Service, maxWeight)
		}
		if destination.Service == "" || seen[destination.Service] {
			return fmt.Errorf("%w: Service %q has two weights or no name: use different Services for stable, canary and the "+
				"experiment's templates", ErrInvalid, destination.Service)
		}
		seen[destination.Service] = true
	}
	return nil
}

// validateManaged checks one managed route.
func (want Intent) validateManaged(route ManagedRoute) error {
	if route.Mirror == nil {
		if len(route.Header) == 0 {
			return fmt.Errorf("%w: a header route without matches", ErrInvalid)
		}
		return validateHeaders(route.Header)
	}
	mirror := route.Mirror
	switch {
	case len(mirror.Matches) == 0:
		return fmt.Errorf("%w: a mirror route without matches", ErrInvalid)
	case mirror.Percent < 0 || mirror.Percent > fullPercent:
		return fmt.Errorf("%w: the percentage %d: must be from 0 to 100", ErrInvalid, mirror.Percent)
	case mirror.Percent != fullPercent && !want.HasMirrorPercent:
		return fmt.Errorf("%w: the schema of %s in the cluster has no mirror percentage, so all requests would be mirrored "+
			"and not %d percent: install the CRDs of Gateway API v1.3 or later, or mirror 100 percent", ErrUnsupported, want.Kind,
			mirror.Percent)
	}
	for i, match := range mirror.Matches {
		if err := errors.Join(validateMethod(match.Method), validatePath(match.Path),
			validateHeaders(match.Headers)); err != nil {
			return fmt.Errorf("match[%d]: %w", i, err)
		}
	}
	return nil
}

// validateMethod checks a condition on the HTTP method.
func validateMethod(method *StringMatch) error {
	// Gateway API, HTTPMethod.
	methods := []string{"GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"}
	switch {
	case method == nil:
		return nil
	case method.Type != Exact:
		return fmt.Errorf("%w: the method is matched by %s: the Gateway API supports only exact method matches: write one "+
			"match for each method", ErrUnsupported, method.Type)
	case !slices.Contains(methods, method.Value):
		return fmt.Errorf("%w: the method %q: write one of %s", ErrInvalid, method.Value, strings.Join(methods, ", "))
	}
	return nil
}

// validatePath checks a condition on the path.
func validatePath(path *StringMatch) error {
	switch {
	case path == nil:
		return nil
	case path.Type == Regex && path.Value != "": // in the dialect of the implementation, which validates it
		return nil
	case !strings.HasPrefix(path.Value, "/"):
		return fmt.Errorf("%w: the path %q: must begin with a slash", ErrInvalid, path.Value)
	}
	return nil
}

// validateHeaders checks conditions on headers.
func validateHeaders(headers []HeaderMatch) error {
	for i, header := range headers {
		isInvalid := func(char rune) bool {
			isWord := char >= 'a' && char <= 'z' || char >= 'A' && char <= 'Z' || char >= '0' && char <= '9'
			return !isWord && !strings.ContainsRune(nameChars, char)
		}
		same := func(other HeaderMatch) bool { return strings.EqualFold(other.Name, header.Name) }
		_, value := headerValue(header)
		switch {
		case header.Name == "" || len(header.Name) > maxHeaderName || strings.ContainsFunc(header.Name, isInvalid):
			return fmt.Errorf("%w: the header name %.80q: write letters, digits and %s, at most %d", ErrInvalid, header.Name,
				nameChars, maxHeaderName)
		case slices.ContainsFunc(headers[:i], same):
			return fmt.Errorf("%w: header %q has two conditions, and a match can contain only one per header", ErrInvalid,
				header.Name)
		case header.Value == "" || len(value) > maxHeaderValue:
			return fmt.Errorf("%w: the value of header %q is empty or longer than %d bytes", ErrInvalid, header.Name,
				maxHeaderValue)
		}
	}
	return nil
}
