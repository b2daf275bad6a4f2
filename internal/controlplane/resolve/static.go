package resolve

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/model/managedroute"
	"github.com/kedify/argo-rollouts-plugin/internal/model/staticresponse"
)

// Limits of the static responses of one HTTPScaledObject. Each combination of its hosts, path prefixes and their
// matches is a route in every proxy, with a copy of the body.
const (
	// MaxStaticRoutes is the maximum number of these routes.
	MaxStaticRoutes = 4096
	// MaxStaticBytes is the maximum number of bytes of all bodies of these routes.
	MaxStaticBytes = 1 << 20
	// defaultNamespaceStaticBytes is the default of Options.MaxStaticBytes.
	defaultNamespaceStaticBytes = 8 << 20
)

// errBody means that the ConfigMap of a body cannot be used.
var errBody = errors.New("no body")

// maxStaticBytes returns the maximum number of bytes of the bodies of a namespace.
func (o Options) maxStaticBytes() int { return cmp.Or(o.MaxStaticBytes, defaultNamespaceStaticBytes) }

// ConfigMap is a ConfigMap with bodies of static responses.
type ConfigMap struct {
	// Data are the bodies by key.
	Data map[string]string
	// Problem is why the ConfigMap cannot be used, with the fix; "" if it can.
	Problem string
}

// ConfigMaps are the ConfigMaps that HTTPScaledObjects name, by namespace and name. One that was not read yet is not
// contained. A missing ConfigMap has a Problem.
type ConfigMaps map[model.Key]*ConfigMap

// Equal reports whether all fields are equal. Both may be nil.
func (c *ConfigMap) Equal(other *ConfigMap) bool {
	if c == nil || other == nil {
		return c == other
	}
	if c.Problem != other.Problem || len(c.Data) != len(other.Data) {
		return false
	}
	for key, text := range c.Data {
		if value, exists := other.Data[key]; !exists || value != text {
			return false
		}
	}
	return true
}

// staticTexts are the parsed annotations about static responses of one object.
type staticTexts struct {
	routes         []staticresponse.Route
	placeholder    *staticresponse.Response
	routesErr      error
	placeholderErr error
}

// parseStatic parses the annotations about static responses.
func parseStatic(object *httpv1alpha1.HTTPScaledObject) staticTexts {
	var parsed staticTexts
	if text, isPresent := object.Annotations[httpv1alpha1.AnnotationStaticResponses]; isPresent {
		parsed.routes, parsed.routesErr = staticresponse.Parse(text)
	}
	if text, isPresent := object.Annotations[httpv1alpha1.AnnotationPlaceholderResponse]; isPresent {
		response, err := staticresponse.ParseResponse(text)
		if parsed.placeholderErr = err; err == nil {
			parsed.placeholder = &response
		}
	}
	return parsed
}

// staticBytes returns the number of bytes of the bodies that an object may have in a proxy. It is MaxStaticBytes for
// annotations with an issue and for a ConfigMap that was not read yet, because the published bodies stay active then.
func staticBytes(object *httpv1alpha1.HTTPScaledObject, texts staticTexts, read ConfigMaps) int {
	routes, isPending, err := texts.resolveRoutes(object.Namespace, read)
	placeholder, isPlaceholderPending, placeholderErr := texts.resolvePlaceholder(object.Namespace, read)
	if err != nil || placeholderErr != nil || isPending || isPlaceholderPending {
		return MaxStaticBytes
	}
	_, bytes := staticResponses{routes, placeholder}.size(nil)
	return min(bytes*CountMatches(object.Spec), MaxStaticBytes)
}

// StaticConfigMaps returns the ConfigMaps that the static responses of an object name, sorted and without duplicates.
func StaticConfigMaps(object *httpv1alpha1.HTTPScaledObject) []model.Key {
	return parseStatic(object).configMaps(object.Namespace)
}

// configMaps returns the ConfigMaps, sorted and without duplicates.
func (t staticTexts) configMaps(namespace string) []model.Key {
	var names []string
	for _, route := range t.routes {
		names = append(names, route.Response.ConfigMaps()...)
	}
	if t.placeholder != nil {
		names = append(names, t.placeholder.ConfigMaps()...)
	}
	var keys []model.Key
	for _, name := range distinct(names) {
		keys = append(keys, model.Key{Namespace: namespace, Name: name})
	}
	return keys
}

// staticResponses are the static responses of one object.
type staticResponses struct {
	routes      []model.StaticRoute
	placeholder *model.StaticResponse
}

// staticOf returns the static responses that an object requests, and the issues. matches is the number of the object's
// Matches, and managed are its header and mirror routes. If an annotation has an issue, or one of its ConfigMaps was not
// read yet, what it requests stays as published.
func staticOf(
	object *httpv1alpha1.HTTPScaledObject, texts staticTexts, options objectOptions, matches int,
	managed []managedroute.Route, published []model.Route,
) (staticResponses, []issue) {
	if options.isOverStatic {
		return staticResponses{}, []issue{{httpv1alpha1.ReasonInvalidStaticResponses, fmt.Sprintf(
			"%s: namespace %q: the limit of %d KiB for the bodies of all static responses is exceeded, and older objects take "+
				"precedence: use smaller bodies, fewer hosts or path prefixes, or another namespace", staticFields(object),
			object.Namespace, options.maxStaticBytes()>>10)}}
	}
	var previous staticResponses
	read := options.configMaps
	if len(published) > 0 {
		previous = staticResponses{published[0].Static, published[0].Placeholder}
	}
	var issues []issue
	current, isPending, err := texts.resolveRoutes(object.Namespace, read)
	if err != nil || isPending {
		current = previous.routes
	}
	if err != nil {
		issues = append(issues, issue{
			httpv1alpha1.ReasonInvalidStaticResponses,
			staticField(object, httpv1alpha1.AnnotationStaticResponses, "spec.staticRoutes") + err.Error(),
		})
	}
	placeholder, isPending, err := texts.resolvePlaceholder(object.Namespace, read)
	if err != nil || isPending {
		placeholder = previous.placeholder
	}
	if err != nil {
		issues = append(issues, issue{
			httpv1alpha1.ReasonInvalidPlaceholderResponse,
			staticField(object, httpv1alpha1.AnnotationPlaceholderResponse, "spec.coldStart.placeholder.response") +
				err.Error(),
		})
	}
	static, limitIssues := limitStatic(staticFields(object), staticResponses{current, placeholder}, previous, matches,
		managed)
	return static, append(issues, limitIssues...)
}

// staticField returns the field of an object with static responses: an annotation, or the field of an InterceptorRoute
// that was converted to it.
func staticField(object *httpv1alpha1.HTTPScaledObject, annotation, field string) string {
	if object.Spec.Converted != nil {
		return field
	}
	return "annotation " + annotation
}

// staticFields returns the fields of an issue about all static responses of an object.
func staticFields(object *httpv1alpha1.HTTPScaledObject) string {
	if object.Spec.Converted != nil {
		return "spec.staticRoutes and spec.coldStart.placeholder.response"
	}
	return "annotations " + httpv1alpha1.AnnotationStaticResponses + " and " + httpv1alpha1.AnnotationPlaceholderResponse
}

// limitStatic returns the current static responses, or the previous ones with an issue about fields if those exceed a
// limit, or none if these do, too: the number of the object's Matches or of its header routes may have increased.
func limitStatic(
	fields string, current, previous staticResponses, matches int, managed []managedroute.Route,
) (staticResponses, []issue) {
	problem := current.limitProblem(fields, matches, managed)
	if problem == "" {
		return current, nil
	}
	issues := []issue{{httpv1alpha1.ReasonInvalidStaticResponses, problem}}
	if previous.limitProblem(fields, matches, managed) == "" {
		return previous, issues
	}
	return staticResponses{}, issues
}

// limitProblem returns which limit the static responses in fields exceed, with the fix, "" for none.
func (s staticResponses) limitProblem(fields string, matches int, managed []managedroute.Route) string {
	routes, bytes := s.size(managed)
	switch {
	case routes*matches > MaxStaticRoutes:
		return fmt.Sprintf("%s: %d routes for each of %d combinations of host and path prefix exceed the limit of %d: use "+
			"fewer matches or content types, or split the object", fields, routes, matches, MaxStaticRoutes)
	case bytes*matches > MaxStaticBytes:
		return fmt.Sprintf("%s: bodies of %d bytes for each of %d combinations of host and path prefix exceed the limit of %d "+
			"bytes: use smaller bodies or fewer matches, or split the object", fields, bytes, matches, MaxStaticBytes)
	}
	return ""
}

// size returns the number of routes for each Match of the object, and the bytes of their bodies.
func (s staticResponses) size(managed []managedroute.Route) (routes, bytes int) {
	add := func(response model.StaticResponse, count, forwarded int) {
		choices := response.Choices()
		routes += count * max(len(choices), forwarded)
		for _, choice := range choices {
			bytes += count * len(choice.Body.Text)
		}
	}
	for _, route := range s.routes {
		forwarded := 0
		if route.Mode == model.StaticWhenUnavailable {
			forwarded = 1 + managedroute.CountMatches(managed)
		}
		add(route.Response, len(route.Matches), forwarded)
	}
	if s.placeholder != nil {
		add(*s.placeholder, 1, 0)
	}
	return routes, bytes
}

// resolveRoutes returns the static routes with their bodies. isPending is true if a ConfigMap was not read yet. The
// error begins with a colon or an index.
func (t staticTexts) resolveRoutes(namespace string, read ConfigMaps) (
	routes []model.StaticRoute, isPending bool, err error,
) {
	if t.routesErr != nil {
		return nil, false, prefixed(t.routesErr)
	}
	for i, route := range t.routes {
		response, isWaiting, err := read.resolve(namespace, route.Response)
		if err != nil {
			return nil, false, fmt.Errorf("[%d]: %w", i, err)
		}
		isPending = isPending || isWaiting
		routes = append(routes, model.StaticRoute{Matches: route.Matches, Mode: route.Mode, Response: response})
	}
	return routes, isPending, nil
}

// resolvePlaceholder is resolveRoutes for the placeholder.
func (t staticTexts) resolvePlaceholder(namespace string, read ConfigMaps) (
	placeholder *model.StaticResponse, isPending bool, err error,
) {
	switch {
	case t.placeholderErr != nil:
		return nil, false, prefixed(t.placeholderErr)
	case t.placeholder == nil:
		return nil, false, nil
	}
	response, isPending, err := read.resolve(namespace, *t.placeholder)
	if err != nil {
		return nil, false, prefixed(err)
	}
	return &response, isPending, nil
}

// prefixed returns the error behind a colon, unless it begins with an index.
func prefixed(err error) error {
	if err.Error()[0] == '[' {
		return err
	}
	return fmt.Errorf(": %w", err)
}

// resolve returns a response with its bodies. isPending is true if a ConfigMap was not read yet.
func (c ConfigMaps) resolve(
	namespace string, response staticresponse.Response,
) (resolved model.StaticResponse, isPending bool, err error) {
	for _, name := range response.ConfigMaps() {
		if c[model.Key{Namespace: namespace, Name: name}] == nil {
			return model.StaticResponse{}, true, nil
		}
	}
	resolved, err = response.Resolve(func(ref staticresponse.Ref) (string, error) {
		configMap := c[model.Key{Namespace: namespace, Name: ref.Name}]
		text, exists := configMap.Data[ref.Key]
		switch {
		case configMap.Problem != "":
			return "", fmt.Errorf("%w: ConfigMap %q in namespace %q: %s", errBody, ref.Name, namespace, configMap.Problem)
		case !exists:
			return "", fmt.Errorf("%w: ConfigMap %q in namespace %q has no key %q: add it, or name one of its keys", errBody,
				ref.Name, namespace, ref.Key)
		}
		return text, nil
	})
	return resolved, false, err
}

// isPending reports whether one of the ConfigMaps was not read yet.
func (c ConfigMaps) isPending(keys []model.Key) bool {
	return slices.ContainsFunc(keys, func(key model.Key) bool { return c[key] == nil })
}
