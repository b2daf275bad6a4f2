package resolve

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// timeoutsOf returns the timeouts in spec.timeouts and in annotations. If an annotation has an issue, the published
// timeout stays active.
func timeoutsOf(object *httpv1alpha1.HTTPScaledObject, published []model.Route) (model.Timeouts, []issue) {
	var previous, timeouts model.Timeouts
	if len(published) > 0 {
		previous = published[0].Timeouts
	}
	if spec := object.Spec.Timeouts; spec != nil {
		timeouts.ResponseHeader, timeouts.ColdStart = timeoutOf(spec.ResponseHeader), timeoutOf(spec.ConditionWait)
	}
	var issues []issue
	read := func(annotation string, previous model.Timeout) model.Timeout {
		timeout, err := annotatedTimeout(object, annotation)
		if err == nil {
			return timeout
		}
		issues = append(issues, issue{httpv1alpha1.ReasonInvalidTimeout, err.Error()})
		return previous
	}
	timeouts.Request = read(httpv1alpha1.AnnotationRequestTimeout, previous.Request)
	if converted := object.Spec.Converted; converted != nil && timeoutOf(converted.RequestTimeout).IsGiven {
		timeouts.Request = timeoutOf(converted.RequestTimeout)
	}
	timeouts.Idle = read(httpv1alpha1.AnnotationIdleTimeout, previous.Idle)
	return timeouts, issues
}

// timeoutOf converts one timeout. A missing or negative duration means the default, and 0 that there is no limit.
func timeoutOf(duration *metav1.Duration) model.Timeout {
	if duration == nil || duration.Duration < 0 {
		return model.Timeout{}
	}
	return model.TimeoutOf(duration.Duration)
}

// annotatedTimeout parses a timeout in an annotation. A missing or empty one means the default.
func annotatedTimeout(object *httpv1alpha1.HTTPScaledObject, annotation string) (model.Timeout, error) {
	text := strings.TrimSpace(object.Annotations[annotation])
	if text == "" {
		return model.Timeout{}, nil
	}
	limit, err := time.ParseDuration(text)
	if err != nil || limit < 0 {
		return model.Timeout{}, fmt.Errorf("annotation %s: %.40q is not a duration of at least 0s: write one such as 30s or "+
			"10m, 0s for no limit, or remove the annotation", annotation, text)
	}
	return model.TimeoutOf(limit), nil
}
