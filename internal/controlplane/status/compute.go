package status

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	httpv1beta1 "github.com/kedify/argo-rollouts-plugin/api/http/v1beta1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/ingest"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve/certificates"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve/interceptorroute"
	"github.com/kedify/argo-rollouts-plugin/internal/kube/truncate"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/model/sources"
	"github.com/kedify/argo-rollouts-plugin/internal/model/split"
)

// noProxy is the message about a route that is published without a proxy to serve it.
const noProxy = "The route is published, but no proxy is Ready to serve it: Service kedify-proxy of the namespace " +
	"has no ready endpoint, or that of the interceptor's namespace for an object with the annotation " +
	httpv1alpha1.AnnotationFleet + ": " + httpv1alpha1.FleetShared + "."

// maxMessage is the longest message of a condition, in bytes; the schema of metav1.Condition allows 32768.
const maxMessage = 4096

// Compute returns the status that object should have. A condition keeps its transition time while its status stays the
// same, and the data-plane report keeps its writer. So Compute returns exactly the present status if nothing has
// changed. now is the transition time of changed conditions, cut to the second as Kubernetes stores it. writer is the
// name of the replica in a changed report.
func Compute(
	object *httpv1alpha1.HTTPScaledObject, outcome ingest.Outcome, acks Acks, writer string, now time.Time,
) httpv1alpha1.HTTPScaledObjectStatus {
	status := *object.Status.DeepCopy()
	// A condition without a time has the format of older CRDs of the HTTP add-on.
	status.Conditions = slices.DeleteFunc(status.Conditions, func(condition metav1.Condition) bool {
		return condition.LastTransitionTime.IsZero()
	})
	readiness := ready(outcome, acks)
	if !interceptorroute.IsConverted(object) {
		status.TargetWorkload = targetWorkload(object.Spec.ScaleTargetRef)
		status.TargetService = targetService(object.Spec.ScaleTargetRef)
		status.Canary = canaryPercentage(outcome.WeightedBackends)
		if metav1.HasAnnotation(object.ObjectMeta, httpv1alpha1.AnnotationStatus) {
			readiness.Message += inAnnotation
		}
	}
	all := []metav1.Condition{
		accepted(outcome), readiness, programmed(outcome, acks, interceptorroute.IsConverted(object)),
	}
	if httpv1alpha1.IsUnrouted(object) && outcome.Failure == "" && len(outcome.Problems) == 0 {
		all = unrouted()
		meta.RemoveStatusCondition(&status.Conditions, httpv1alpha1.ConditionProgrammed)
	}
	// These exist only while they are False, or after they were.
	optional := []metav1.Condition{
		scalingMetric(object), externalSources(object), scalingFields(object), envoySettings(outcome.EnvoySettings),
		hostsUncontested(outcome.Warnings), fieldsSupported(object.Spec.Converted),
	}
	if !outcome.Page.IsUnknown {
		optional = append(optional, waitingPage(outcome.Page))
	}
	for _, condition := range optional {
		if condition.Status == metav1.ConditionFalse ||
			meta.FindStatusCondition(status.Conditions, condition.Type) != nil {
			all = append(all, condition)
		}
	}
	if outcome.TLS == nil {
		meta.RemoveStatusCondition(&status.Conditions, httpv1alpha1.ConditionTLSReady)
	} else {
		all = append(all, tlsReady(*outcome.TLS))
	}
	for _, condition := range all {
		condition.ObservedGeneration = object.Generation
		condition.LastTransitionTime = metav1.NewTime(now.Truncate(time.Second))
		meta.SetStatusCondition(&status.Conditions, condition)
	}
	status.DataPlane = dataPlane(object, outcome, acks, writer)
	return status
}

// eventConditions returns the types of the conditions about the configuration by the object's owner. Their changes are
// Events.
func eventConditions() []string {
	return []string{
		httpv1alpha1.ConditionAccepted, httpv1alpha1.ConditionScalingMetricAccepted,
		httpv1alpha1.ConditionExternalSourcesLimited,
		httpv1alpha1.ConditionWaitingPageAccepted, httpv1alpha1.ConditionHostsUncontested,
		httpv1alpha1.ConditionTLSReady, httpv1alpha1.ConditionEnvoySettingsAccepted,
		httpv1beta1.ConditionFieldsSupported,
	}
}

// met returns a condition that is True.
func met(kind, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: reason, Message: message}
}

// unmet returns a condition that is False.
func unmet(kind, reason, message string) metav1.Condition {
	return metav1.Condition{
		Type: kind, Status: metav1.ConditionFalse, Reason: reason,
		Message: truncate.Text(message, maxMessage),
	}
}

// accepted returns the condition that the object is valid.
func accepted(outcome ingest.Outcome) metav1.Condition {
	if len(outcome.Problems) > 0 {
		return unmet(httpv1alpha1.ConditionAccepted, outcome.Problems[0].Reason, messages(outcome.Problems))
	}
	return met(httpv1alpha1.ConditionAccepted, httpv1alpha1.ReasonAccepted,
		"Accepted; all referenced Services were resolved.")
}

// inAnnotation is added to the message of an object with status fields in an annotation.
const inAnnotation = " The installed CustomResourceDefinition lacks fields of this status; they are in " +
	"the annotation " + httpv1alpha1.AnnotationStatus + ". To have them here, install config/crd."

// ready returns the condition that the object is published and no proxy rejected it.
func ready(outcome ingest.Outcome, acks Acks) metav1.Condition {
	const kind = httpv1alpha1.ConditionReady
	switch {
	case outcome.Failure != "":
		return unmet(kind, httpv1alpha1.ReasonPublishFailed,
			"The interceptor could not publish the route; this is a bug in the interceptor: "+outcome.Failure+". "+
				requestRouting(outcome.Served))
	case len(outcome.Problems) > 0:
		return unmet(kind, httpv1alpha1.ReasonNotAccepted,
			"See the condition "+httpv1alpha1.ConditionAccepted+". "+requestRouting(outcome.Served))
	case acks.Rejection != "":
		return unmet(kind, httpv1alpha1.ReasonRejectedByProxy,
			"A proxy rejected the route and keeps its previous configuration; this is a bug in the interceptor: "+
				acks.Rejection)
	case acks.Proxies.Ready == 0:
		return met(kind, httpv1alpha1.ReasonServing, noProxy)
	default:
		return met(kind, httpv1alpha1.ReasonServing, "The route is published to the proxies.")
	}
}

// unrouted returns the conditions of an object to which no request is routed. No proxy has to acknowledge it.
func unrouted() []metav1.Condition {
	const message = "No request is routed to the object, because of its annotation " + httpv1alpha1.AnnotationRouting +
		"; those that external proxies report are its demand."
	return []metav1.Condition{
		met(httpv1alpha1.ConditionAccepted, httpv1alpha1.ReasonAccepted, message),
		met(httpv1alpha1.ConditionReady, httpv1alpha1.ReasonUnrouted, message),
	}
}

// programmed returns the condition that every Ready proxy has acknowledged the object. isConverted is true for an
// InterceptorRoute.
func programmed(outcome ingest.Outcome, acks Acks, isConverted bool) metav1.Condition {
	const kind = httpv1alpha1.ConditionProgrammed
	switch {
	case !outcome.IsAccepted() || acks.Rejection != "":
		return unmet(kind, httpv1alpha1.ReasonNotReady, "See the condition "+httpv1alpha1.ConditionReady+".")
	case acks.Proxies.Ready == 0:
		return unmet(kind, httpv1alpha1.ReasonNoReadyProxy,
			"No proxy is Ready. See the condition "+httpv1alpha1.ConditionReady+".")
	case acks.isIncomplete():
		return unmet(kind, httpv1alpha1.ReasonNotAcknowledged,
			"Not every Ready proxy has acknowledged the object; "+reportField(isConverted)+" has the numbers.")
	default:
		return met(kind, httpv1alpha1.ReasonProgrammed, "Every Ready proxy has acknowledged the object.")
	}
}

// reportField returns where the report about the proxies is.
func reportField(isConverted bool) string {
	if isConverted {
		return "the annotation " + httpv1alpha1.AnnotationStatus
	}
	return "status.dataPlane.proxies"
}

// fieldsSupported returns the condition that an InterceptorRoute uses no field without an effect. converted is nil for
// an HTTPScaledObject.
func fieldsSupported(converted *httpv1alpha1.ConvertedSpec) metav1.Condition {
	const kind = httpv1beta1.ConditionFieldsSupported
	if converted != nil && len(converted.Unsupported) > 0 {
		return unmet(kind, httpv1beta1.ReasonUnsupportedField, strings.Join(converted.Unsupported, "; "))
	}
	return met(kind, httpv1beta1.ReasonFieldsSupported, "Every field of the object has an effect.")
}

// scalingMetric returns the condition that the scaling metric of the object is valid.
func scalingMetric(object *httpv1alpha1.HTTPScaledObject) metav1.Condition {
	const kind = httpv1alpha1.ConditionScalingMetricAccepted
	if _, err := metrics.SpecOf(object); err != nil {
		return unmet(kind, httpv1alpha1.ReasonInvalidScalingMetric,
			err.Error()+". Until then the demand is unknown, and the workload keeps its replicas.")
	}
	return met(kind, httpv1alpha1.ReasonScalingMetricAccepted, "The scaling metric is valid.")
}

// externalSources returns the condition that not every address may report the demand for the object.
func externalSources(object *httpv1alpha1.HTTPScaledObject) metav1.Condition {
	const kind = httpv1alpha1.ConditionExternalSourcesLimited
	if spec, _ := metrics.SpecOf(object); sources.IsAny(spec.ExternalSources) {
		return unmet(kind, httpv1alpha1.ReasonAnyAddressAccepted, fmt.Sprintf(
			"annotation %s contains every address: any Pod may report any demand for cluster %.80q, and so scale the "+
				"workload: list only the addresses of your proxies.",
			httpv1alpha1.AnnotationExternalProxySources, spec.ExternalKey))
	}
	return met(kind, httpv1alpha1.ReasonExternalSourcesLimited, "The addresses of external proxies are limited.")
}

// waitingPage returns the condition that the waiting page of the object can be served.
func waitingPage(state ingest.PageState) metav1.Condition {
	const kind = httpv1alpha1.ConditionWaitingPageAccepted
	if state.Reason != "" {
		return unmet(kind, state.Reason, state.Message+". Until then the interceptor's own page is shown.")
	}
	return met(kind, httpv1alpha1.ReasonWaitingPageAccepted, "The waiting page is valid.")
}

// envoySettings returns the condition that the ConfigMaps with Envoy settings for the object are valid. problem is ""
// if they are.
func envoySettings(problem string) metav1.Condition {
	if problem != "" {
		return unmet(httpv1alpha1.ConditionEnvoySettingsAccepted, httpv1alpha1.ReasonInvalidEnvoySettings, problem)
	}
	return met(httpv1alpha1.ConditionEnvoySettingsAccepted, httpv1alpha1.ReasonEnvoySettingsAccepted,
		"The Envoy settings are applied.")
}

// hostsUncontested returns the condition that no other namespace claims a host of the object.
func hostsUncontested(warnings []model.Problem) metav1.Condition {
	const kind = httpv1alpha1.ConditionHostsUncontested
	if len(warnings) > 0 {
		return unmet(kind, warnings[0].Reason, messages(warnings))
	}
	return met(kind, httpv1alpha1.ReasonHostsUncontested, "No other namespace claims a host of the object.")
}

// tlsReady returns the condition that the proxies can serve TLS for the object.
func tlsReady(state certificates.State) metav1.Condition {
	const kind = httpv1alpha1.ConditionTLSReady
	switch {
	case len(state.Problems) > 0:
		return unmet(kind, state.Problems[0].Reason, messages(state.Problems))
	case state.IsPending:
		pending := unmet(kind, httpv1alpha1.ReasonSecretPending,
			fmt.Sprintf("Secret %q has not been read yet.", state.Secret))
		pending.Status = metav1.ConditionUnknown
		return pending
	default:
		return met(kind, httpv1alpha1.ReasonTLSReady,
			fmt.Sprintf("The proxies serve TLS with the certificate in Secret %q, valid until %s.",
				state.Secret, state.Expires.UTC().Format(time.RFC3339)))
	}
}

// requestRouting describes the routing of requests while the present version of an object isn't published.
func requestRouting(served bool) string {
	if served {
		return "Requests are routed as last published."
	}
	return "No request is routed to the object."
}

// messages joins the messages of problems.
func messages(problems []model.Problem) string {
	var texts []string
	for _, problem := range problems {
		texts = append(texts, problem.Message)
	}
	return strings.Join(texts, "; ")
}

// targetWorkload returns the workload as apiVersion/Kind/name, "" if the object has none. The defaults are those of the
// HTTP add-on.
func targetWorkload(ref httpv1alpha1.ScaleTargetRef) string {
	if ref.Name == "" {
		return ""
	}
	return fmt.Sprintf("%s/%s/%s", cmp.Or(ref.APIVersion, "apps/v1"), cmp.Or(ref.Kind, "Deployment"), ref.Name)
}

// targetService returns the Service and its port, by number or by name.
func targetService(ref httpv1alpha1.ScaleTargetRef) string {
	port := ref.PortName
	if ref.Port != 0 {
		port = strconv.Itoa(int(ref.Port))
	}
	return ref.Service + ":" + port
}

// canaryPercentage returns the percentage of the requests that the canary of a published split receives, "" without a
// canary. It is the second backend.
func canaryPercentage(weightedBackends string) string {
	backends, err := split.Parse(weightedBackends)
	if err != nil || len(backends) < 2 { // The text is empty without a canary.
		return ""
	}
	sum := uint64(0)
	for _, backend := range backends {
		sum += uint64(backend.Weight)
	}
	return strconv.FormatFloat(math.Round(float64(backends[1].Weight)*10_000/float64(sum))/100, 'f', -1, 64) + "%"
}
