package autowire

import (
	"fmt"
	"slices"
	"strings"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
)

// knownFilters returns the types of filters (HTTPRouteFilterType) after which the agent knows the requests that the
// proxies receive. URLRewrite is compared with the triggers. RequestRedirect answers itself. RequestMirror copies
// requests to a backend that the agent does not change. The others change responses, or reject requests.
func knownFilters() []string {
	return []string{
		"", "URLRewrite", "RequestHeaderModifier", "ResponseHeaderModifier", "RequestRedirect", "RequestMirror", "CORS",
		"ExternalAuth",
	}
}

// extensionRef is the type of filters that an implementation of the Gateway API defines.
const extensionRef = "ExtensionRef"

// filter is a filter of an HTTPRoute that may change requests in a way that the agent cannot determine.
type filter struct {
	// name is its entry in annotation http.kedify.io/autowire-accept: kind and name of the referenced object, or the
	// filter's type.
	name string
	// text describes it, for messages.
	text string
}

// unknownFilters returns the filters of a rule and of a backend in it that may change requests in an unknown way.
func unknownFilters(rule, backendRef []apis.HTTPRouteFilter) []filter {
	var unknown []filter
	for _, candidate := range slices.Concat(rule, backendRef) {
		ref := candidate.ExtensionRef
		switch {
		case ref != nil:
			name := ref.Kind + "/" + ref.Name
			unknown = append(unknown, filter{name: name, text: "filter " + extensionRef + " " + name})
		case !slices.Contains(knownFilters(), candidate.Type):
			unknown = append(unknown, filter{name: candidate.Type, text: "filter " + candidate.Type})
		case setsHost(candidate.RequestHeaderModifier):
			text := "filter " + candidate.Type + " with header Host"
			unknown = append(unknown, filter{name: candidate.Type, text: text})
		}
	}
	return unknown
}

// setsHost reports whether a filter sets header Host. The Gateway API leaves its effect to the implementation.
func setsHost(modifier *apis.HTTPHeaderFilter) bool {
	return modifier != nil && slices.ContainsFunc(slices.Concat(modifier.Set, modifier.Add),
		func(header apis.HTTPHeader) bool {
			return strings.EqualFold(header.Name, "Host") || strings.EqualFold(header.Name, ":authority")
		})
}

// filterBlocker returns why the proxies cannot replace a backend of an object because of a filter.
func (b *backend) filterBlocker(object *Object) (reason, message string) {
	for _, unknown := range b.filters {
		if !object.accepts(unknown.name) {
			return httpv1alpha1.ReasonUnsupportedFilter, fmt.Sprintf(
				"%s may change its requests in a way that the agent cannot determine; remove it, or list %s in annotation "+
					"%s of the %s if it changes neither host nor path, and answers no request that the application must "+
					"receive", unknown.text, unknown.name, httpv1alpha1.AnnotationAutowireAccept, kindNames()[object.kind])
		}
	}
	return "", ""
}
