package interceptorroute

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	httpv1beta1 "github.com/kedify/argo-rollouts-plugin/api/http/v1beta1"
)

// The elements of annotation http.kedify.io/static-responses: package internal/model/staticresponse reads them.
type (
	staticRoute struct {
		staticResponse

		Match []staticMatch                       `json:"match"`
		Mode  httpv1beta1.StaticRouteResponseMode `json:"mode,omitempty"`
	}
	staticMatch struct {
		Host       string                `json:"host,omitempty"`
		PathPrefix string                `json:"pathPrefix,omitempty"`
		Headers    []httpv1alpha1.Header `json:"headers,omitempty"`
	}
	staticResponse struct {
		StatusCode        int32                        `json:"statusCode"`
		Headers           map[string]string            `json:"headers,omitempty"`
		ContentType       string                       `json:"contentType,omitempty"`
		Body              *string                      `json:"body,omitempty"`
		BodyFromConfigMap *httpv1beta1.ConfigMapKeyRef `json:"bodyFromConfigMap,omitempty"`
	}
)

// setStatic sets the annotations of static responses by spec.staticRoutes and spec.coldStart.placeholder, which take
// precedence over the user's annotations. It records fields without an effect.
func setStatic(object *httpv1alpha1.HTTPScaledObject, from httpv1beta1.InterceptorRouteSpec) {
	var routes []staticRoute
	for i, route := range from.StaticRoutes {
		field := fmt.Sprintf("spec.staticRoutes[%d].response", i)
		response, problem := responseOf(route.Response, field, http.StatusOK)
		if problem != "" {
			object.Spec.Converted.Unsupported = append(object.Spec.Converted.Unsupported, problem)
			continue
		}
		converted := staticRoute{staticResponse: response, Mode: route.ResponseMode}
		if converted.Mode == "" {
			converted.Mode = httpv1beta1.StaticRouteResponseModeWhenUnavailable
		}
		for _, rule := range route.Rules {
			converted.Match = append(converted.Match, matchesOf(ruleOf(rule))...)
		}
		routes = append(routes, converted)
	}
	if len(routes) > 0 {
		setAnnotation(object, httpv1alpha1.AnnotationStaticResponses, routes)
	}
	if from.ColdStart == nil || from.ColdStart.Placeholder == nil || from.ColdStart.Placeholder.Response == nil {
		return
	}
	const field = "spec.coldStart.placeholder.response"
	response, problem := responseOf(*from.ColdStart.Placeholder.Response, field, http.StatusServiceUnavailable)
	if problem != "" {
		object.Spec.Converted.Unsupported = append(object.Spec.Converted.Unsupported, problem)
		return
	}
	setAnnotation(object, httpv1alpha1.AnnotationPlaceholderResponse, response)
}

// setAnnotation sets an annotation of the converted object to a value in JSON. The route keeps its own annotations.
func setAnnotation(object *httpv1alpha1.HTTPScaledObject, name string, value any) {
	text, err := json.Marshal(value)
	if err != nil { // No type above fails to marshal. If one ever does, the annotation is invalid, and that is reported.
		text = []byte(err.Error())
	}
	object.Annotations = maps.Clone(object.Annotations)
	metav1.SetMetaDataAnnotation(&object.ObjectMeta, name, string(text))
}

// matchesOf returns a match for each host and path prefix of a rule.
func matchesOf(rule httpv1alpha1.Rule) []staticMatch {
	hosts, prefixes := rule.Hosts, rule.PathPrefixes
	if len(hosts) == 0 {
		hosts = []string{anyHost}
	}
	if len(prefixes) == 0 {
		prefixes = []string{""}
	}
	var matches []staticMatch
	for _, host := range hosts {
		if host == anyHost {
			host = ""
		}
		for _, prefix := range prefixes {
			matches = append(matches, staticMatch{Host: host, PathPrefix: prefix, Headers: rule.Headers})
		}
	}
	return matches
}

// responseOf converts a response in a field. problem is why it cannot be converted, with the fix.
func responseOf(
	from httpv1beta1.StaticResponse, field string, defaultStatus int32,
) (response staticResponse, problem string) {
	if from.BodyFromConfigMap != nil && from.BodyFromConfigMap.Key == "" {
		return response, field + ".bodyFromConfigMap.key: the path of the request as the key is not supported, and the " +
			"response has no effect: set a key"
	}
	response = staticResponse{
		StatusCode: from.StatusCode, Body: from.Body, BodyFromConfigMap: from.BodyFromConfigMap,
		Headers: maps.Clone(from.Headers),
	}
	if response.StatusCode == 0 {
		response.StatusCode = defaultStatus
	}
	if from.Body == nil && from.BodyFromConfigMap == nil {
		return response, ""
	}
	maps.DeleteFunc(response.Headers, func(name, value string) bool {
		isType := strings.EqualFold(name, "Content-Type")
		if isType {
			response.ContentType = value
		}
		return isType
	})
	return response, ""
}
