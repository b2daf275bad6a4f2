package resolve

import (
	"fmt"
	"time"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// failoverTimeout is the default of spec.coldStartTimeoutFailoverRef.timeoutSeconds, as the CustomResourceDefinition has it.
const failoverTimeout = 30 * time.Second

// failoverOf reads spec.coldStartTimeoutFailoverRef, and says what is wrong with it. It is nil where there is none, and with mistakes.
func failoverOf(object *httpv1alpha1.HTTPScaledObject, find finder) (*model.Failover, []mistake) {
	const field = "spec.coldStartTimeoutFailoverRef"
	ref := object.Spec.ColdStartTimeoutFailoverRef
	switch {
	case ref == nil:
		return nil, nil
	case ref.Service == object.Spec.ScaleTargetRef.Service:
		return nil, []mistake{{httpv1alpha1.ReasonInvalidSpec, fmt.Sprintf(
			"%s.service: %q is the Service that requests wait for; name another one of this namespace", field, ref.Service)}}
	case ref.TimeoutSeconds < 0:
		return nil, []mistake{{httpv1alpha1.ReasonInvalidSpec, fmt.Sprintf(
			"%s.timeoutSeconds is %d; set it to 1 or more, or remove it for %d", field, ref.TimeoutSeconds, int(failoverTimeout.Seconds()))}}
	}
	named := model.Key{Namespace: object.Namespace, Name: ref.Service}
	service, wrong := serviceOf(named, field+".service", find)
	if len(wrong) > 0 {
		return nil, wrong
	}
	port, missing := portOf(portRef{field, ref.Port, ref.PortName}, service)
	if missing != "" {
		return nil, []mistake{{httpv1alpha1.ReasonPortNotFound, missing}}
	}
	failover := &model.Failover{Service: named, Port: uint32(port.Number), Protocol: port.Protocol, Timeout: failoverTimeout}
	if ref.TimeoutSeconds > 0 {
		failover.Timeout = time.Duration(ref.TimeoutSeconds) * time.Second
	}
	return failover, nil
}
