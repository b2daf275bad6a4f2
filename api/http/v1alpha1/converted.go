package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ConvertedSpec is what an InterceptorRoute of package v1beta1 has and an HTTPScaledObject does not. The interceptor
// converts InterceptorRoutes to HTTPScaledObjects with a ConvertedSpec, so that everything after the conversion
// handles one type. It is not part of the API.
type ConvertedSpec struct {
	// Rules select the requests. A request must match at least one of them. They replace hosts, pathPrefixes and headers
	// of the spec.
	Rules []Rule
	// RequestTimeout is spec.timeouts.request, nil if it is missing.
	RequestTimeout *metav1.Duration
	// FailoverTimeout is how long a request waits for the target before it goes to spec.coldStart.fallback.
	FailoverTimeout metav1.Duration
	// Unsupported describes the fields that have no effect, each with the fix.
	Unsupported []string
}

// Rule selects the requests that match one of its hosts, one of its path prefixes and all of its headers. A list that
// is empty matches every request.
type Rule struct {
	Hosts, PathPrefixes []string
	Headers             []Header
}
