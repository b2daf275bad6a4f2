package resolve

import (
	"cmp"
	"fmt"
	"time"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// failoverTimeout is the default of spec.coldStartTimeoutFailoverRef.timeoutSeconds in the CustomResourceDefinition.
const failoverTimeout = 30 * time.Second

// failoverOf parses spec.coldStartTimeoutFailoverRef, or spec.coldStart.fallback of an InterceptorRoute. The result is
// nil if the field is not set or has issues.
func failoverOf(object *httpv1alpha1.HTTPScaledObject, lookup serviceLookup) (*model.Failover, []issue) {
	field, serviceField := "spec.coldStartTimeoutFailoverRef", "service"
	if object.Spec.Converted != nil {
		field, serviceField = "spec.coldStart.fallback.service", "name"
	}
	ref := object.Spec.ColdStartTimeoutFailoverRef
	switch {
	case ref == nil:
		return nil, nil
	case ref.Service == object.Spec.ScaleTargetRef.Service:
		return nil, []issue{{httpv1alpha1.ReasonInvalidSpec, fmt.Sprintf(
			"%s.%s: %q is the Service that requests wait for: name another Service of the namespace",
			field, serviceField, ref.Service)}}
	case ref.TimeoutSeconds != nil && *ref.TimeoutSeconds < 0:
		return nil, []issue{{httpv1alpha1.ReasonInvalidSpec, fmt.Sprintf("%s.timeoutSeconds: %d is negative: set it to 1 or "+
			"more, to 0 for the time limit of objects without a failover, or remove it for the default of %d",
			field, *ref.TimeoutSeconds, int(failoverTimeout.Seconds()))}}
	}
	key := model.Key{Namespace: object.Namespace, Name: ref.Service}
	service, issues := serviceOf(key, field+"."+serviceField, lookup)
	if len(issues) > 0 {
		return nil, issues
	}
	port, problem := portOf(portRef{field, ref.Port, ref.PortName}, service)
	if problem != "" {
		return nil, []issue{{httpv1alpha1.ReasonPortNotFound, problem}}
	}
	failover := &model.Failover{
		Service: key, Port: uint32(port.Number), Protocol: cmp.Or(port.Protocol, model.HTTP1), Timeout: failoverTimeout,
	}
	if object.Spec.Converted != nil {
		failover.Timeout = object.Spec.Converted.FailoverTimeout.Duration
	} else if ref.TimeoutSeconds != nil {
		failover.Timeout = time.Duration(*ref.TimeoutSeconds) * time.Second
	}
	return failover, nil
}
