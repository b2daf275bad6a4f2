package autowire

import (
	"fmt"
	"slices"
	"strings"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
)

// supportedFilterTypes returns the types of filters (HTTPRouteFilterType) whose effect on the requests that the proxies
// receive is known. URLRewrite is compared with the triggers. With RequestRedirect, the Gateway answers. RequestMirror
// copies requests to a backend that the agent does not change. The others change headers, change responses, or reject
// requests.
func supportedFilterTypes() []string {
	return []string{
		"", "URLRewrite", "RequestHeaderModifier", "ResponseHeaderModifier", "RequestRedirect", "RequestMirror", "CORS",
		"ExternalAuth",
	}
}

// extensionRef is the type of filters that an implementation of the Gateway API defines.
const extensionRef = "ExtensionRef"

// filter is a filter of an HTTPRoute, or a rewrite of a VirtualService, whose effect on requests the agent cannot
// determine.
type filter struct {
	// name is its entry in annotation http.kedify.io/autowire-accept: kind and name of the referenced object, or the
	// filter's type.
	name string
	// text describes it, for messages.
	text string
}

// unsupportedFilters returns the filters of a rule and of a backendRef whose effect on requests the agent cannot
// determine.
func unsupportedFilters(rule, backendRef []apis.HTTPRouteFilter) []filter {
	var unsupported []filter
	for _, candidate := range slices.Concat(rule, backendRef) {
		ref := candidate.ExtensionRef
		switch {
		case ref != nil:
			name := ref.Kind + "/" + ref.Name
			unsupported = append(unsupported, filter{name: name, text: "filter " + extensionRef + " " + name})
		case !slices.Contains(supportedFilterTypes(), candidate.Type):
			unsupported = append(unsupported, filter{name: candidate.Type, text: "filter " + candidate.Type})
		case setsHost(candidate.RequestHeaderModifier):
			text := "filter " + candidate.Type + " with header Host"
			unsupported = append(unsupported, filter{name: candidate.Type, text: text})
		}
	}
	return unsupported
}

// setsHost reports whether a filter sets header Host. The Gateway API leaves the effect to the implementation.
func setsHost(modifier *apis.HTTPHeaderFilter) bool {
	return modifier != nil && slices.ContainsFunc(slices.Concat(modifier.Set, modifier.Add),
		func(header apis.HTTPHeader) bool {
			return isHostHeader(header.Name)
		})
}

// isHostHeader reports whether a header is the host of a request.
func isHostHeader(name string) bool {
	return strings.EqualFold(name, "Host") || strings.EqualFold(name, ":authority")
}

// filterBlocker returns why the proxies cannot replace a backend of an object because of a filter.
func (b *backend) filterBlocker(object *Object) (reason, message string) {
	for _, unsupported := range b.filters {
		if !object.accepts(unsupported.name) {
			return httpv1alpha1.ReasonUnsupportedFilter, fmt.Sprintf(
				"%s may change its requests in a way that the agent cannot determine; remove it, or list %s in annotation "+
					"%s of the %s if it changes neither host nor path, and answers no request that the application must "+
					"receive", unsupported.text, unsupported.name, httpv1alpha1.AnnotationAutowireAccept, kindNames()[object.kind])
		}
	}
	return "", ""
}
