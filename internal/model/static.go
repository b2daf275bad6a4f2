package model

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// The limits of static responses. A proxy has a copy of a body for each of its routes.
const (
	// MinStaticStatus is the lowest status code. Envoy cannot give an informational response.
	MinStaticStatus = 200
	// MaxStaticStatus is the highest status code.
	MaxStaticStatus = 599
	// MaxStaticRoutes is the maximum number of StaticRoutes of a Route.
	MaxStaticRoutes = 32
	// MaxStaticMatches is the maximum number of the Matches of all its StaticRoutes.
	MaxStaticMatches = 128
	// MaxStaticHeaders is the maximum number of headers of a response.
	MaxStaticHeaders = 16
	// MaxStaticBodies is the maximum number of the variants of a body.
	MaxStaticBodies = 4
	// MaxStaticBody is the maximum length of a body in bytes, the same as of a waiting page.
	MaxStaticBody = 256 << 10
	// MaxMediaType is the maximum length of the media type of a body, without parameters, in bytes. Envoy limits the size
	// of the regular expression with it.
	MaxMediaType = 40
	// maxLocation is the maximum length of a redirect's location in bytes.
	maxLocation = 2048
)

// ErrStaticResponse means that a static response is invalid. The text of an error adds the field, the reason and the
// fix.
var ErrStaticResponse = errors.New("invalid static response")

// StaticResponse is a response that the proxies give themselves. The zero value is invalid; see Validate.
type StaticResponse struct {
	// Status is the status code: that of a redirect if Location is set, otherwise any from MinStaticStatus to
	// MaxStaticStatus.
	Status uint32
	// Headers are the headers of the response, sorted by name. Names are in lower case and unique.
	Headers []StaticHeader `json:",omitempty"`
	// Bodies are the variants of the body, at most one for each content type. The first one is for clients that prefer
	// none. Without any, the body is empty. A redirect has none.
	Bodies []StaticBody `json:",omitempty"`
	// Location is the target of a redirect, an absolute URL or an absolute path; "" for any other response. A target
	// without a path keeps path and query of the request.
	Location string `json:",omitempty"`
}

// StaticHeader is a header of a response.
type StaticHeader struct{ Name, Value string }

// StaticBody is a variant of a body.
type StaticBody struct {
	// ContentType is the value of the header Content-Type: a media type, with or without parameters.
	ContentType string
	// Text is the body.
	Text string
}

// StaticMode is when a StaticRoute applies.
type StaticMode string

const (
	// StaticAlways means that no backend receives a request of the StaticRoute.
	StaticAlways StaticMode = "Always"
	// StaticWhenUnavailable means that the backends receive the requests while a ready endpoint exists. They are not
	// counted as demand.
	StaticWhenUnavailable StaticMode = "WhenUnavailable"
)

// StaticRoute is a part of the requests of a Route that gets a static response.
type StaticRoute struct {
	// Matches are the requests: those that match at least one of them.
	Matches []StaticMatch
	// Mode is when the proxies give the response.
	Mode StaticMode
	// Response is the response.
	Response StaticResponse
}

// StaticMatch is a condition on requests in addition to Route.Match. The zero value matches all of them.
type StaticMatch struct {
	// Host is a normalized host, "" for all hosts.
	Host Host `json:",omitempty"`
	// PathPrefix is a normalized path prefix, and Path an exact path. At most one of them is set.
	PathPrefix string `json:",omitempty"`
	Path       string `json:",omitempty"`
	// PathRegex is a regular expression (RE2) for the whole path, without the query; "" for none.
	PathRegex string `json:",omitempty"`
	// Headers must all match. They are sorted by name, and names are unique.
	Headers []Header `json:",omitempty"`
}

// IsUnavailable reports whether no backend that may receive requests of a Route has a ready endpoint.
func IsUnavailable(route Route, services map[ServicePort]Endpoints) bool {
	for i, weight := range EffectiveWeights(route.Backends, services) {
		if weight > 0 && len(services[route.Backends[i].ServicePort()].Ready) > 0 {
			return false
		}
	}
	return true
}

// HasUncountedRequests reports whether backends may receive requests of the Route that are not counted as demand.
func (r Route) HasUncountedRequests() bool {
	return slices.ContainsFunc(r.Static, func(s StaticRoute) bool { return s.Mode == StaticWhenUnavailable })
}

// Bytes returns the number of bytes of all bodies.
func (s StaticResponse) Bytes() int {
	total := 0
	for _, body := range s.Bodies {
		total += len(body.Text)
	}
	return total
}

// Equal reports whether all fields are equal.
func (s StaticResponse) Equal(other StaticResponse) bool {
	return s.Status == other.Status && s.Location == other.Location &&
		slices.Equal(s.Headers, other.Headers) && slices.Equal(s.Bodies, other.Bodies)
}

// Equal reports whether all fields are equal.
func (s StaticRoute) Equal(other StaticRoute) bool {
	return s.Mode == other.Mode && slices.EqualFunc(s.Matches, other.Matches, StaticMatch.Equal) &&
		s.Response.Equal(other.Response)
}

// Equal reports whether all fields are equal.
func (m StaticMatch) Equal(other StaticMatch) bool {
	return m.Host == other.Host && m.PathPrefix == other.PathPrefix && m.Path == other.Path &&
		m.PathRegex == other.PathRegex && slices.Equal(m.Headers, other.Headers)
}

// equalStatic reports whether the static responses of two Routes are equal.
func (r Route) equalStatic(other Route) bool {
	isSamePlaceholder := r.Placeholder == other.Placeholder ||
		r.Placeholder != nil && other.Placeholder != nil && r.Placeholder.Equal(*other.Placeholder)
	return isSamePlaceholder && slices.EqualFunc(r.Static, other.Static, StaticRoute.Equal)
}

// Validate checks a response whose headers are sorted. The error wraps ErrStaticResponse.
func (s StaticResponse) Validate() error {
	if len(s.Headers) > MaxStaticHeaders {
		return invalidStatic("headers: %d exceed the limit of %d: remove some", len(s.Headers), MaxStaticHeaders)
	}
	for i, header := range s.Headers {
		if i > 0 && s.Headers[i-1].Name == header.Name {
			return invalidStatic("headers: %q is a duplicate, because names are case-insensitive: keep one", header.Name)
		}
		if err := header.validate(); err != nil {
			return err
		}
	}
	if s.Location != "" {
		return s.validateRedirect()
	}
	if s.Status < MinStaticStatus || s.Status > MaxStaticStatus {
		return invalidStatic("statusCode: %d is not a status of a response: use a number from %d to %d", s.Status,
			MinStaticStatus, MaxStaticStatus)
	}
	return s.validateBodies()
}

// validateBodies checks the variants of a body.
func (s StaticResponse) validateBodies() error {
	if len(s.Bodies) > MaxStaticBodies {
		return invalidStatic("body: %d content types exceed the limit of %d: remove some", len(s.Bodies), MaxStaticBodies)
	}
	seen := map[string]struct{}{}
	for _, body := range s.Bodies {
		mediaType, err := MediaType(body.ContentType)
		if err != nil {
			return err
		}
		if _, isDuplicate := seen[mediaType]; isDuplicate {
			return invalidStatic("body: content type %q is a duplicate: keep one", mediaType)
		}
		seen[mediaType] = struct{}{}
		if len(body.Text) > MaxStaticBody {
			return invalidStatic("body: %d bytes exceed the limit of %d: make it smaller, or load its resources from "+
				"elsewhere", len(body.Text), MaxStaticBody)
		}
		if s.Status == 204 || s.Status == 205 || s.Status == 304 {
			return invalidStatic("body: a response with status %d has none: remove it, or use another statusCode", s.Status)
		}
	}
	return nil
}

// validateRedirect checks a redirect.
func (s StaticResponse) validateRedirect() error {
	if len(s.Bodies) > 0 {
		return invalidStatic("body: a redirect has none: remove body, or redirect")
	}
	switch s.Status {
	case 301, 302, 303, 307, 308:
	default:
		return invalidStatic("statusCode: %d is not one of a redirect: use 301, 302, 303, 307 or 308", s.Status)
	}
	for _, header := range s.Headers {
		if header.Name == "location" {
			return invalidStatic("headers: %q is also the target of the redirect: remove it", header.Name)
		}
	}
	_, err := ParseLocation(s.Location)
	return err
}

// ParseLocation parses the target of a redirect. The error wraps ErrStaticResponse.
func ParseLocation(text string) (*url.URL, error) {
	isOther := func(c rune) bool { return c <= ' ' || c >= 0x7f || c == '\\' }
	target, err := url.Parse(text)
	switch {
	case len(text) > maxLocation:
		return nil, invalidStatic("redirect: it is longer than %d characters", maxLocation)
	case err != nil || strings.ContainsFunc(text, isOther):
		return nil, invalidStatic("redirect: %.80q is not a URL: use one such as https://shop.example.com, or a path such "+
			"as /new, and percent-encode spaces and what is not ASCII", text)
	case target.User != nil || target.Fragment != "" || strings.HasSuffix(text, "#"):
		return nil, invalidStatic("redirect: %.80q: remove the user and the fragment", text)
	case target.Scheme == "" && target.Host == "" && strings.HasPrefix(target.Path, "/"):
		return target, nil
	case target.Host == "" || target.Scheme != "http" && target.Scheme != "https":
		return nil, invalidStatic("redirect: %.80q: begin with https://, http:// or /", text)
	}
	if _, err := ParseHost(target.Host); err != nil || strings.HasPrefix(target.Host, "*") {
		return nil, invalidStatic("redirect: %.80q: the host is not a host name", text)
	}
	return target, nil
}

// MediaType returns the type and subtype of the value of a header Content-Type, in lower case. The error wraps
// ErrStaticResponse.
func MediaType(contentType string) (string, error) {
	text, _, _ := strings.Cut(contentType, ";")
	name := strings.ToLower(strings.TrimSpace(text))
	main, sub, _ := strings.Cut(name, "/")
	isOther := func(c rune) bool { return !isTokenChar(c) || c == '*' }
	header := StaticHeader{Name: "content-type", Value: contentType}
	if len(name) > MaxMediaType {
		return "", invalidStatic("contentType: %.80q is longer than %d characters: use a shorter one", name, MaxMediaType)
	}
	if main == "" || sub == "" || strings.ContainsFunc(main, isOther) || strings.ContainsFunc(sub, isOther) ||
		header.validate() != nil || len(contentType) > maxHeaderName {
		return "", invalidStatic("contentType: %.80q is not a content type: use one such as text/html; charset=utf-8 or "+
			"application/json", contentType)
	}
	return name, nil
}

// validate checks a header.
func (h StaticHeader) validate() error {
	if _, err := ParseHeader(h.Name, &h.Value); err != nil {
		return invalidStatic("headers: %.80q: %w", h.Name, err)
	}
	switch {
	case h.Name != strings.ToLower(h.Name):
		return invalidStatic("headers: %.80q is not in lower case", h.Name)
	case slices.Contains(reservedHeaders(), h.Name):
		return invalidStatic("headers: %q is set by the proxies: remove it", h.Name)
	}
	return nil
}

// reservedHeaders returns the headers of a response that describe the connection or the body, sorted.
func reservedHeaders() []string {
	return []string{
		"connection", "content-encoding", "content-length", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade",
	}
}

// ParseStaticHeaders returns headers in the form of StaticResponse.Headers. Validate reports invalid and duplicate ones.
func ParseStaticHeaders(headers map[string]string) []StaticHeader {
	parsed := make([]StaticHeader, 0, len(headers))
	for name, value := range headers {
		parsed = append(parsed, StaticHeader{Name: strings.ToLower(name), Value: value})
	}
	slices.SortFunc(parsed, func(a, b StaticHeader) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Value, b.Value))
	})
	return slices.Clip(parsed)
}

// invalidStatic returns an error that wraps ErrStaticResponse.
func invalidStatic(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrStaticResponse}, args...)...)
}
