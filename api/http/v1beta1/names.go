package v1beta1

import "time"

// DefaultFallbackReadiness is how long a request waits for the target if spec.coldStart.fallback is set and
// spec.timeouts.readiness is missing or 0s: without a limit there would be no time for the fallback.
const DefaultFallbackReadiness = 30 * time.Second

// The types of conditions are those of package v1alpha1, and these.
const (
	// ConditionFieldsSupported is False while the object uses a field that the interceptor does not implement. The rest
	// of the object is served. It is absent if the object never used one.
	ConditionFieldsSupported = "FieldsSupported"
)

// Reasons of conditions, in addition to those of package v1alpha1.
const (
	// ReasonNoRules means that spec.rules is empty, so that no request is routed to the object. It is a reason of
	// condition Accepted.
	ReasonNoRules = "NoRules"
	// ReasonHTTPScaledObjectExists means that an HTTPScaledObject with the same namespace and name is served instead of the
	// InterceptorRoute. It is a reason of condition Accepted.
	ReasonHTTPScaledObjectExists = "HTTPScaledObjectExists"
	// ReasonFieldsSupported means that the object no longer uses unsupported fields. It is the only reason of
	// ConditionFieldsSupported with status True.
	ReasonFieldsSupported = "FieldsSupported"
	// ReasonUnsupportedField means that the object uses a field that has no effect. The message names it. It is the only
	// reason of ConditionFieldsSupported with status False.
	ReasonUnsupportedField = "UnsupportedField"
)
