package v1alpha1

const (
	// AnnotationRouting with the value "none" means that no request is routed to the object: its spec.hosts,
	// pathPrefixes, headers, Service and port have no effect, and the requests that external proxies report are its
	// demand, see AnnotationExternalProxyMetricKey. The agent sets it for a trigger of type kedify-envoy-http.
	AnnotationRouting = AnnotationPrefix + "routing"
	// RoutingNone is the only value of AnnotationRouting with an effect.
	RoutingNone = "none"
	// UnroutedHost is the host of an object with RoutingNone. No client can request it (RFC 2606), so an interceptor
	// of an earlier release, which ignores the annotation, routes nothing either.
	UnroutedHost = "external-proxy.invalid"
)

// IsUnrouted reports whether no request is routed to an object, by AnnotationRouting.
func IsUnrouted(object *HTTPScaledObject) bool {
	return object.Annotations[AnnotationRouting] == RoutingNone
}
