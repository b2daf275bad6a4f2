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
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/observation"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve/certificates"
	"github.com/kedify/argo-rollouts-plugin/internal/kube/truncate"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
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
	readiness := ready(seen, taken)
	if metav1.HasAnnotation(object.ObjectMeta, httpv1alpha1.AnnotationStatus) {
		readiness.Message += elsewhere
	}
	all := []metav1.Condition{accepted(seen), readiness, programmed(seen, taken)}
	// These are there where something is wrong, or was.
	optional := []metav1.Condition{scalingMetric(object), envoySettings(seen.EnvoySettings)}
	if !seen.Page.IsUnknown {
		optional = append(optional, waitingPage(seen.Page))
	}
	for _, condition := range optional {
		if condition.Status == metav1.ConditionFalse || meta.FindStatusCondition(status.Conditions, condition.Type) != nil {
			all = append(all, condition)
		}
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

// ownersConditions are the types of the conditions about the object as its owner wrote it. Events tell of these.
func ownersConditions() []string {
	return []string{
		httpv1alpha1.ConditionAccepted, httpv1alpha1.ConditionScalingMetricAccepted, httpv1alpha1.ConditionWaitingPageAccepted,
		httpv1alpha1.ConditionTLSReady, httpv1alpha1.ConditionEnvoySettingsAccepted,
	}
}

// met is a condition that is True.
func met(kind, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: reason, Message: message}
}

// unmet is a condition that is False.
func unmet(kind, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: truncate.Text(message, maxMessage)}
}

// accepted judges the object as its owner wrote it.
func accepted(seen observation.Outcome) metav1.Condition {
	if len(seen.Problems) > 0 {
		return unmet(httpv1alpha1.ConditionAccepted, seen.Problems[0].Reason, messages(seen.Problems))
	}
	return met(httpv1alpha1.ConditionAccepted, httpv1alpha1.ReasonAccepted,
		"The object is understood and every Service that it names can be routed to.")
}

// elsewhere tells whoever looks for the report in vain where it is.
const elsewhere = " The CustomResourceDefinition had no place for all of this status: what it lacks is in the annotation " +
	httpv1alpha1.AnnotationStatus + ". To have it here, install config/crd."

// ready tells what of the object is in force.
func ready(seen observation.Outcome, taken Taken) metav1.Condition {
	const kind = httpv1alpha1.ConditionReady
	switch {
	case seen.Failure != "":
		return unmet(kind, httpv1alpha1.ReasonPublishFailed,
			"The interceptor could not publish the route, which is a bug in it: "+seen.Failure+". "+inForce(seen.Served))
	case len(seen.Problems) > 0:
		return unmet(kind, httpv1alpha1.ReasonNotAccepted, "See the condition "+httpv1alpha1.ConditionAccepted+". "+inForce(seen.Served))
	case taken.Refusal != "":
		return unmet(kind, httpv1alpha1.ReasonRefusedByProxy,
			"A proxy refused the route and keeps what it had, which is a bug in the interceptor: "+taken.Refusal)
	case taken.Proxies.Ready == 0:
		return met(kind, httpv1alpha1.ReasonServing, noProxy)
	default:
		return met(kind, httpv1alpha1.ReasonServing, "The route is published to the proxies.")
	}
}

// programmed tells whether the proxies have the object as it is.
func programmed(seen observation.Outcome, taken Taken) metav1.Condition {
	const kind = httpv1alpha1.ConditionProgrammed
	switch {
	case !seen.IsAccepted() || taken.Refusal != "":
		return unmet(kind, httpv1alpha1.ReasonNotReady, "See the condition "+httpv1alpha1.ConditionReady+".")
	case taken.Proxies.Ready == 0:
		return unmet(kind, httpv1alpha1.ReasonNoReadyProxy, "No proxy is Ready. See the condition "+httpv1alpha1.ConditionReady+".")
	case taken.isUnacked():
		return unmet(kind, httpv1alpha1.ReasonPending,
			"Not every Ready proxy has acknowledged the object; status.dataPlane.proxies has the numbers.")
	default:
		return met(kind, httpv1alpha1.ReasonProgrammed, "Every Ready proxy has acknowledged the object.")
	}
}

// scalingMetric tells whether the demand for the object can be measured as it asks.
func scalingMetric(object *httpv1alpha1.HTTPScaledObject) metav1.Condition {
	const kind = httpv1alpha1.ConditionScalingMetricAccepted
	if _, err := metrics.SpecOf(object); err != nil {
		return unmet(kind, httpv1alpha1.ReasonInvalidScalingMetric,
			err.Error()+". Until then the demand is unknown, and the workload keeps its replicas.")
	}
	return met(kind, httpv1alpha1.ReasonScalingMetricAccepted, "The scaling metric is understood.")
}

// waitingPage tells whether a browser is shown the page that the object names.
func waitingPage(state observation.PageState) metav1.Condition {
	const kind = httpv1alpha1.ConditionWaitingPageAccepted
	if state.Reason != "" {
		return unmet(kind, state.Reason, state.Message+". Until then the interceptor's own page is shown.")
	}
	return met(kind, httpv1alpha1.ReasonWaitingPageAccepted, "The waiting page is as the object asks for it.")
}

// envoySettings tells whether the ConfigMaps with settings of Envoy for the object are in force.
func envoySettings(mistake string) metav1.Condition {
	if mistake != "" {
		return unmet(httpv1alpha1.ConditionEnvoySettingsAccepted, httpv1alpha1.ReasonInvalidEnvoySettings, mistake)
	}
	return met(httpv1alpha1.ConditionEnvoySettingsAccepted, httpv1alpha1.ReasonEnvoySettingsAccepted, "The settings of Envoy are in force.")
}

// tlsReady tells whether the proxies answer TLS as the object asks for it.
func tlsReady(seen certificates.State) metav1.Condition {
	const kind = httpv1alpha1.ConditionTLSReady
	switch {
	case len(seen.Problems) > 0:
		return unmet(kind, seen.Problems[0].Reason, messages(seen.Problems))
	case seen.IsPending:
		pending := unmet(kind, httpv1alpha1.ReasonSecretPending, fmt.Sprintf("Secret %q has not been read yet.", seen.Secret))
		pending.Status = metav1.ConditionUnknown
		return pending
	default:
		return met(kind, httpv1alpha1.ReasonTLSReady, fmt.Sprintf("The proxies answer TLS with the certificate in Secret %q, which ends at %s.",
			seen.Secret, seen.Expires.UTC().Format(time.RFC3339)))
	}
}

// inForce tells the owner of a route that is not up to date what happens to requests meanwhile.
func inForce(served bool) string {
	if served {
		return "Requests are routed as last published."
	}
	return "No request is routed to the object."
}

// messages joins what is wrong with an object to one text.
func messages(problems []model.Problem) string {
	var texts []string
	for _, problem := range problems {
		texts = append(texts, problem.Message)
	}
	return strings.Join(texts, "; ")
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
