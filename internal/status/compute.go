package status

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/certificates"
	"github.com/kedify/argo-rollouts-plugin/internal/demand"
	"github.com/kedify/argo-rollouts-plugin/internal/ir"
	"github.com/kedify/argo-rollouts-plugin/internal/observation"
)

// noProxy tells that a route is published, and nobody is there to serve it.
const noProxy = "The route is published, but no proxy is Ready to serve it: Service kedify-proxy of the namespace has no ready endpoint, or that of the " +
	"interceptor's namespace for an object with the annotation " + httpv1alpha1.AnnotationFleet + ": " + httpv1alpha1.FleetShared + "."

// maxMessage is the longest message of a condition, in bytes; the schema of metav1.Condition allows 32768.
const maxMessage = 4096

// Compute returns the status that object should have: what it has now, brought up to date. A condition keeps its transition time while its status stays the
// same, and the data-plane report its writer, so that Compute returns exactly the present status when nothing has changed. now is the transition time of
// what did change, cut to the second, which is how Kubernetes stores it; writer is who reports it.
func Compute(object *httpv1alpha1.HTTPScaledObject, seen observation.Outcome, taken Taken, writer string, now time.Time) httpv1alpha1.HTTPScaledObjectStatus {
	status := *object.Status.DeepCopy()
	// One without a time is of another form, which older definitions of the HTTP add-on have.
	status.Conditions = slices.DeleteFunc(status.Conditions, func(condition metav1.Condition) bool {
		return condition.LastTransitionTime.IsZero()
	})
	status.TargetWorkload = targetWorkload(object.Spec.ScaleTargetRef)
	status.TargetService = targetService(object.Spec.ScaleTargetRef)
	all := []metav1.Condition{accepted(seen), ready(seen, taken, isAnnotated(object)), programmed(seen, taken)}
	metric := scalingMetric(object)
	if metric.Status == metav1.ConditionFalse || meta.FindStatusCondition(status.Conditions, metric.Type) != nil {
		all = append(all, metric)
	}
	page := waitingPage(seen.Page)
	wasPage := meta.FindStatusCondition(status.Conditions, page.Type) != nil
	if !seen.Page.IsUnknown && (page.Status == metav1.ConditionFalse || wasPage) {
		all = append(all, page)
	}
	settings := envoySettings(seen.EnvoySettings)
	if settings.Status == metav1.ConditionFalse || meta.FindStatusCondition(status.Conditions, settings.Type) != nil {
		all = append(all, settings)
	}
	if seen.TLS == nil {
		meta.RemoveStatusCondition(&status.Conditions, httpv1alpha1.ConditionTLSReady)
	} else {
		all = append(all, tlsReady(*seen.TLS))
	}
	for _, condition := range all {
		condition.ObservedGeneration = object.Generation
		condition.LastTransitionTime = metav1.NewTime(now.Truncate(time.Second))
		meta.SetStatusCondition(&status.Conditions, condition)
	}
	status.DataPlane = dataPlane(object, seen, taken, writer)
	return status
}

// accepted judges the object as its owner wrote it.
func accepted(seen observation.Outcome) metav1.Condition {
	condition := metav1.Condition{
		Type:    httpv1alpha1.ConditionAccepted,
		Status:  metav1.ConditionTrue,
		Reason:  httpv1alpha1.ReasonAccepted,
		Message: "The object is understood and every Service that it names can be routed to.",
	}
	if len(seen.Problems) > 0 {
		condition.Status = metav1.ConditionFalse
		condition.Reason = seen.Problems[0].Reason
		condition.Message = messages(seen.Problems)
	}
	return condition
}

// elsewhere tells whoever looks for the report in vain where it is.
const elsewhere = " The CustomResourceDefinition had no place for all of this status: what it lacks is in the annotation " +
	httpv1alpha1.AnnotationStatus + ". To have it here, install config/crd."

// isAnnotated says whether a part of the object's status is in an annotation.
func isAnnotated(object *httpv1alpha1.HTTPScaledObject) bool {
	_, is := object.Annotations[httpv1alpha1.AnnotationStatus]
	return is
}

// ready tells what of the object is in force.
func ready(seen observation.Outcome, taken Taken, isAnnotated bool) metav1.Condition {
	condition := metav1.Condition{Type: httpv1alpha1.ConditionReady, Status: metav1.ConditionFalse}
	switch {
	case seen.Failure != "":
		condition.Reason = httpv1alpha1.ReasonPublishFailed
		condition.Message = shorten("The interceptor could not publish the route, which is a bug in it: "+seen.Failure+". "+inForce(seen.Served), maxMessage)
	case len(seen.Problems) > 0:
		condition.Reason = httpv1alpha1.ReasonNotAccepted
		condition.Message = "See the condition " + httpv1alpha1.ConditionAccepted + ". " + inForce(seen.Served)
	case taken.Refusal != "":
		condition.Reason = httpv1alpha1.ReasonRefusedByProxy
		condition.Message = shorten("A proxy refused the route and keeps what it had, which is a bug in the interceptor: "+taken.Refusal, maxMessage)
	default:
		condition.Status = metav1.ConditionTrue
		condition.Reason = httpv1alpha1.ReasonServing
		condition.Message = "The route is published to the proxies."
		if taken.Proxies.Ready == 0 {
			condition.Message = noProxy
		}
	}
	if isAnnotated {
		condition.Message += elsewhere
	}
	return condition
}

// programmed tells whether the proxies have the object as it is.
func programmed(seen observation.Outcome, taken Taken) metav1.Condition {
	condition := metav1.Condition{Type: httpv1alpha1.ConditionProgrammed, Status: metav1.ConditionFalse}
	switch {
	case !seen.IsAccepted() || taken.Refusal != "":
		condition.Reason = httpv1alpha1.ReasonNotReady
		condition.Message = "See the condition " + httpv1alpha1.ConditionReady + "."
	case taken.Proxies.Ready == 0:
		condition.Reason = httpv1alpha1.ReasonNoReadyProxy
		condition.Message = "No proxy is Ready. See the condition " + httpv1alpha1.ConditionReady + "."
	case taken.isUnacked():
		condition.Reason = httpv1alpha1.ReasonPending
		condition.Message = "Not every Ready proxy has acknowledged the object; status.dataPlane.proxies has the numbers."
	default:
		condition.Status = metav1.ConditionTrue
		condition.Reason = httpv1alpha1.ReasonProgrammed
		condition.Message = "Every Ready proxy has acknowledged the object."
	}
	return condition
}

// scalingMetric tells whether the demand for the object can be measured as it asks.
func scalingMetric(object *httpv1alpha1.HTTPScaledObject) metav1.Condition {
	condition := metav1.Condition{
		Type:    httpv1alpha1.ConditionScalingMetricAccepted,
		Status:  metav1.ConditionTrue,
		Reason:  httpv1alpha1.ReasonScalingMetricAccepted,
		Message: "The scaling metric is understood.",
	}
	if _, err := demand.SpecOf(object); err != nil {
		condition.Status = metav1.ConditionFalse
		condition.Reason = httpv1alpha1.ReasonInvalidScalingMetric
		condition.Message = err.Error() + ". Until then the demand is unknown, and the workload keeps its replicas."
	}
	return condition
}

// waitingPage tells whether a browser is shown the page that the object names.
func waitingPage(state observation.PageState) metav1.Condition {
	condition := metav1.Condition{
		Type:    httpv1alpha1.ConditionWaitingPageAccepted,
		Status:  metav1.ConditionTrue,
		Reason:  httpv1alpha1.ReasonWaitingPageAccepted,
		Message: "The waiting page is as the object asks for it.",
	}
	if state.Reason != "" {
		condition.Status = metav1.ConditionFalse
		condition.Reason = state.Reason
		condition.Message = shorten(state.Message+". Until then the interceptor's own page is shown.", maxMessage)
	}
	return condition
}

// envoySettings tells whether the ConfigMaps with settings of Envoy for the object are in force.
func envoySettings(mistake string) metav1.Condition {
	condition := metav1.Condition{
		Type:    httpv1alpha1.ConditionEnvoySettingsAccepted,
		Status:  metav1.ConditionTrue,
		Reason:  httpv1alpha1.ReasonEnvoySettingsAccepted,
		Message: "The settings of Envoy are in force.",
	}
	if mistake != "" {
		condition.Status = metav1.ConditionFalse
		condition.Reason = httpv1alpha1.ReasonInvalidEnvoySettings
		condition.Message = shorten(mistake, maxMessage)
	}
	return condition
}

// tlsReady tells whether the proxies answer TLS as the object asks for it.
func tlsReady(seen certificates.State) metav1.Condition {
	condition := metav1.Condition{
		Type:   httpv1alpha1.ConditionTLSReady,
		Status: metav1.ConditionTrue,
		Reason: httpv1alpha1.ReasonTLSReady,
		Message: fmt.Sprintf("The proxies answer TLS with the certificate in Secret %q, which ends at %s.",
			seen.Secret, seen.Expires.UTC().Format(time.RFC3339)),
	}
	switch {
	case len(seen.Problems) > 0:
		condition.Status, condition.Reason = metav1.ConditionFalse, seen.Problems[0].Reason
		condition.Message = messages(seen.Problems)
	case seen.IsPending:
		condition.Status, condition.Reason = metav1.ConditionUnknown, httpv1alpha1.ReasonSecretPending
		condition.Message = fmt.Sprintf("Secret %q has not been read yet.", seen.Secret)
	}
	return condition
}

// inForce tells the owner of a route that is not up to date what happens to requests meanwhile.
func inForce(served bool) string {
	if served {
		return "Requests are routed as last published."
	}
	return "No request is routed to the object."
}

// messages joins what is wrong with an object to one text.
func messages(problems []ir.Problem) string {
	var texts []string
	for _, problem := range problems {
		texts = append(texts, problem.Message)
	}
	return shorten(strings.Join(texts, "; "), maxMessage)
}

// targetWorkload names the workload as apiVersion/Kind/name, "" when the object names none. The defaults are those of the HTTP add-on.
func targetWorkload(ref httpv1alpha1.ScaleTargetRef) string {
	if ref.Name == "" {
		return ""
	}
	return fmt.Sprintf("%s/%s/%s", cmp.Or(ref.APIVersion, "apps/v1"), cmp.Or(ref.Kind, "Deployment"), ref.Name)
}

// targetService names the Service and its port, by number or by name.
func targetService(ref httpv1alpha1.ScaleTargetRef) string {
	port := ref.PortName
	if ref.Port != 0 {
		port = strconv.Itoa(int(ref.Port))
	}
	return ref.Service + ":" + port
}

// shorten cuts text to at most limit bytes, between characters, and marks the cut.
func shorten(text string, limit int) string {
	const mark = "…"
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit-len(mark)], "") + mark
}
