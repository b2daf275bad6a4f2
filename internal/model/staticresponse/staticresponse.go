// Package staticresponse is the codec of the annotations http.kedify.io/static-responses and
// http.kedify.io/placeholder-response: the responses that the proxies give themselves. Users and the agent write them
// and the interceptor reads them, all by this package.
//
// The text is YAML, so JSON is valid too. The size of a text is limited before it is parsed, because any tenant can
// write one. A body may be in a ConfigMap, which Response.Resolve reads.
package staticresponse

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/model/managedroute"
)

// The limits of a text.
const (
	// MaxBytes is the maximum length of a text in bytes. Longer bodies are in ConfigMaps.
	MaxBytes = 64 << 10
	// maxHeaders is the maximum number of headers of a match, equal to that of an HTTPScaledObject.
	maxHeaders = 16
	// maxConfigMapName is the maximum length of the name of a ConfigMap, and of a key of its data.
	maxConfigMapName = 253
)

// The defaults of a response.
const (
	defaultStatus, defaultRedirect = 503, 302
	defaultType                    = "text/plain; charset=utf-8"
)

// The errors of Parse and ParseResponse. Each returned error wraps one of these, or model.ErrStaticResponse,
// model.ErrHost, model.ErrPathPrefix, model.ErrHeader or managedroute.ErrRegex; its text adds the field, the value and the fix.
var (
	// ErrTooLong means that the text is longer than MaxBytes. It was not parsed.
	ErrTooLong = errors.New("text is too long")
	// ErrSyntax means that the text is not YAML with exactly the known keys.
	ErrSyntax = errors.New("invalid YAML")
	// ErrMatch means that a match is invalid.
	ErrMatch = errors.New("invalid match")
)

// Route is a StaticRoute whose bodies may be in ConfigMaps.
type Route struct {
	Matches  []model.StaticMatch
	Mode     model.StaticMode
	Response Response
}

// Response is a StaticResponse whose bodies may be in ConfigMaps.
type Response struct {
	model.StaticResponse

	// refs are the ConfigMaps of the Bodies, by index.
	refs []Ref
}

// Ref is a key of the data of a ConfigMap in the namespace of the object; the zero value for a body in the text.
type Ref struct {
	Name string `yaml:"name"`
	Key  string `yaml:"key"`
}

// ConfigMaps returns the names of the ConfigMaps of the response.
func (r Response) ConfigMaps() []string {
	var names []string
	for _, ref := range r.refs {
		if ref.Name != "" {
			names = append(names, ref.Name)
		}
	}
	return names
}

// Resolve returns the response with the bodies that read returns for ConfigMaps, and validates it.
func (r Response) Resolve(read func(Ref) (string, error)) (model.StaticResponse, error) {
	resolved := r.StaticResponse
	resolved.Bodies = slices.Clone(resolved.Bodies)
	for i, ref := range r.refs {
		if ref == (Ref{}) {
			continue
		}
		text, err := read(ref)
		if err != nil {
			return model.StaticResponse{}, fmt.Errorf("bodyFromConfigMap: %w", err)
		}
		resolved.Bodies[i].Text = text
	}
	if err := resolved.Validate(); err != nil {
		return model.StaticResponse{}, err
	}
	return resolved, nil
}

// Parse parses the text of annotation http.kedify.io/static-responses and validates it, except for bodies in
// ConfigMaps. After an error the result is nil.
func Parse(text string) ([]Route, error) {
	var entries []routeText
	if err := decode(text, &entries); err != nil {
		return nil, err
	}
	if len(entries) > model.MaxStaticRoutes {
		return nil, fmt.Errorf("%w: %d responses exceed the limit of %d: remove some", ErrSyntax, len(entries),
			model.MaxStaticRoutes)
	}
	matches := 0
	routes := make([]Route, 0, len(entries))
	for i, entry := range entries {
		route, err := entry.parse()
		if err != nil {
			return nil, fmt.Errorf("[%d]: %w", i, err)
		}
		routes, matches = append(routes, route), matches+len(route.Matches)
	}
	if matches > model.MaxStaticMatches {
		return nil, fmt.Errorf("%w: %d matches in all responses exceed the limit of %d: remove some", ErrMatch, matches,
			model.MaxStaticMatches)
	}
	return routes, nil
}

// ParseResponse parses the text of annotation http.kedify.io/placeholder-response and validates it, except for bodies
// in ConfigMaps. After an error the result is the zero value.
func ParseResponse(text string) (Response, error) {
	var entry responseText
	if err := decode(text, &entry); err != nil {
		return Response{}, err
	}
	response, err := entry.parse()
	if err != nil {
		return Response{}, err
	}
	if target, _ := model.ParseLocation(response.Location); response.Location != "" && target.Path == "" {
		return Response{}, fmt.Errorf("%w: redirect: %.80q has no path, and a placeholder cannot keep that of the request: "+
			"add one, such as /", model.ErrStaticResponse, response.Location)
	}
	return response, nil
}

// parse converts and validates one route.
func (t routeText) parse() (Route, error) {
	route := Route{Mode: model.StaticMode(t.Mode)}
	switch route.Mode {
	case "":
		route.Mode = model.StaticAlways
	case model.StaticAlways, model.StaticWhenUnavailable:
	default:
		return Route{}, fmt.Errorf("%w: mode %.80q: write %s or %s", ErrSyntax, t.Mode, model.StaticAlways,
			model.StaticWhenUnavailable)
	}
	for i, text := range t.Match {
		match, err := text.parse()
		if err != nil {
			return Route{}, fmt.Errorf("match[%d]: %w", i, err)
		}
		route.Matches = append(route.Matches, match)
	}
	if t.Match == nil {
		route.Matches = []model.StaticMatch{{}}
	}
	if len(route.Matches) == 0 {
		return Route{}, fmt.Errorf("%w: the list is empty: add one, or remove the key for all requests", ErrMatch)
	}
	var err error
	route.Response, err = t.responseText.parse()
	return route, err
}

// parse converts and validates one match.
func (t matchText) parse() (match model.StaticMatch, err error) {
	if t.Host != "" {
		if match.Host, err = model.ParseHost(t.Host); err != nil {
			return match, fmt.Errorf("host %.80q: %w", t.Host, err)
		}
	}
	if t.Path != "" && t.PathPrefix != "" {
		return match, fmt.Errorf("%w: path and pathPrefix are both set: remove one", ErrMatch)
	}
	if t.PathPrefix != "" {
		if match.PathPrefix, err = model.ParsePathPrefix(t.PathPrefix); err != nil {
			return match, fmt.Errorf("pathPrefix %.80q: %w", t.PathPrefix, err)
		}
	}
	if t.Path != "" {
		if _, err = model.ParsePathPrefix(t.Path); err != nil {
			return match, fmt.Errorf("path %.80q: %w", t.Path, err)
		}
		match.Path = t.Path
	}
	if t.PathRegex != "" {
		if err = managedroute.ValidateRegex(t.PathRegex); err != nil {
			return match, fmt.Errorf("pathRegex: %w", err)
		}
		match.PathRegex = t.PathRegex
	}
	match.Headers, err = parseHeaders(t.Headers)
	return match, err
}

// parseHeaders converts the headers of a match.
func parseHeaders(texts []headerText) ([]model.Header, error) {
	if len(texts) > maxHeaders {
		return nil, fmt.Errorf("%w: %d headers exceed the limit of %d: remove some", ErrMatch, len(texts), maxHeaders)
	}
	var headers []model.Header
	for i, text := range texts {
		header, err := model.ParseHeader(text.Name, text.Value)
		if err != nil {
			return nil, fmt.Errorf("headers[%d] %.80q: %w", i, text.Name, err)
		}
		headers = append(headers, header)
	}
	slices.SortFunc(headers, model.Header.Compare)
	for i := 1; i < len(headers); i++ {
		if headers[i].Name == headers[i-1].Name {
			return nil, fmt.Errorf("%w: header %q is a duplicate, because names are case-insensitive: keep one", ErrMatch,
				headers[i].Name)
		}
	}
	return headers, nil
}

// parse converts and validates one response.
func (t responseText) parse() (Response, error) {
	response := Response{StaticResponse: model.StaticResponse{
		Status: defaultStatus, Headers: model.ParseStaticHeaders(t.Headers), Location: t.Redirect,
	}}
	if t.Redirect != "" {
		response.Status = defaultRedirect
	}
	if t.StatusCode != nil {
		response.Status = *t.StatusCode
	}
	bodies := t.Bodies
	isSingle := t.Body != nil || t.BodyFromConfigMap != nil || t.ContentType != ""
	switch {
	case isSingle && t.Bodies != nil:
		return Response{}, fmt.Errorf("%w: bodies and body, bodyFromConfigMap or contentType are both set: move them to "+
			"bodies", model.ErrStaticResponse)
	case isSingle:
		bodies = []bodyText{t.bodyText}
	}
	for i, text := range bodies {
		body, ref, err := text.parse()
		if err != nil && t.Bodies != nil {
			return Response{}, fmt.Errorf("bodies[%d]: %w", i, err)
		} else if err != nil {
			return Response{}, err
		}
		response.Bodies, response.refs = append(response.Bodies, body), append(response.refs, ref)
	}
	return response, response.Validate()
}

// parse converts one body.
func (t bodyText) parse() (body model.StaticBody, ref Ref, err error) {
	body.ContentType = t.ContentType
	switch {
	case t.Body != nil && t.BodyFromConfigMap != nil:
		return body, ref, fmt.Errorf("%w: body and bodyFromConfigMap are both set: remove one", model.ErrStaticResponse)
	case t.Body == nil && t.BodyFromConfigMap == nil:
		return body, ref, fmt.Errorf("%w: neither body nor bodyFromConfigMap is set: add one", model.ErrStaticResponse)
	case t.Body != nil:
		body.Text = *t.Body
	default:
		ref = *t.BodyFromConfigMap
		if err := ref.validate(); err != nil {
			return body, ref, err
		}
	}
	if body.ContentType == "" {
		body.ContentType = typeOf(ref.Key)
	}
	return body, ref, nil
}

// validate checks the reference to a ConfigMap.
func (r Ref) validate() error {
	isNameChar := func(c rune) bool {
		return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '.'
	}
	isKeyChar := func(c rune) bool { return isNameChar(c) || c >= 'A' && c <= 'Z' || c == '_' }
	isOther := func(is func(rune) bool) func(rune) bool { return func(c rune) bool { return !is(c) } }
	switch {
	case r.Name == "" || len(r.Name) > maxConfigMapName || strings.ContainsFunc(r.Name, isOther(isNameChar)):
		return fmt.Errorf("%w: bodyFromConfigMap.name: %.80q is not the name of a ConfigMap: use lower-case letters, digits, "+
			"hyphens and dots", model.ErrStaticResponse, r.Name)
	case r.Key == "" || len(r.Key) > maxConfigMapName || strings.ContainsFunc(r.Key, isOther(isKeyChar)):
		return fmt.Errorf("%w: bodyFromConfigMap.key: %.80q is not a key of a ConfigMap: use letters, digits, hyphens, "+
			"underscores and dots",
			model.ErrStaticResponse, r.Key)
	}
	return nil
}

// typeOf returns the content type of a body in a ConfigMap by the extension of its key.
func typeOf(key string) string {
	switch extension := strings.ToLower(path.Ext(key)); extension {
	case ".html", ".htm":
		return "text/html; charset=utf-8"
	case ".json":
		return "application/json"
	case ".xml":
		return "application/xml"
	case ".svg":
		return "image/svg+xml"
	case ".css":
		return "text/css; charset=utf-8"
	default:
		return defaultType
	}
}
