package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/version"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
)

const (
	// oldestKEDA is the oldest supported version. Older versions scale to zero immediately when a scaler reports
	// inactivity (kedacore/keda#6986).
	oldestKEDA = "2.18.0"
)

// autoscaling checks KEDA, the scaler, and the ScaledObjects that scale by HTTP requests.
func autoscaling(cluster *facts.Facts) []Finding {
	objects := cluster.ScaledByRequests()
	if len(objects) == 0 && cluster.Scaler == nil && cluster.Agent == nil {
		return nil
	}
	var findings []Finding
	if cluster.HasRead(facts.Deployments) {
		keda, works := kedaOperator(cluster)
		findings = append(findings, keda...)
		if works {
			findings = append(findings, scaler(cluster, objects)...)
		}
	}
	for _, object := range objects {
		findings = append(findings, scaledObject(cluster, object)...)
	}
	return findings
}

// kedaOperator checks KEDA, and reports whether it works.
func kedaOperator(cluster *facts.Facts) ([]Finding, bool) {
	_, isDefined := cluster.CRDs[facts.ScaledObjectsCRD]
	if cluster.Operator == nil || cluster.HasRead(facts.CRDs) && !isDefined {
		missing := "no Deployment has the label app.kubernetes.io/name=keda-operator"
		if cluster.Operator != nil {
			missing = "no CustomResourceDefinition " + facts.ScaledObjectsCRD
		}
		return []Finding{{
			Code: KEDANotFound, Severity: Error, Object: "Deployment keda/keda-operator",
			Message: missing + ": KEDA is not installed, so nothing is scaled by requests",
			Fix:     "install KEDA " + oldestKEDA + " or later",
		}}, false
	}
	object := objectName("Deployment", cluster.Operator.Namespace, cluster.Operator.Name)
	if ready, isReady := readiness(cluster.Operator); !isReady {
		return []Finding{{
			Code: KEDANotReady, Severity: Error, Object: object, Field: "status.readyReplicas",
			Message: ready + ": nothing is scaled by requests",
			Fix: fmt.Sprintf("see the log: kubectl -n %s logs deployment/%s", cluster.Operator.Namespace,
				cluster.Operator.Name),
		}}, false
	}
	if installed := kedaVersion(cluster); installed != nil && installed.LessThan(version.MustParseGeneric(oldestKEDA)) {
		return []Finding{{
			Code: KEDATooOld, Severity: Error, Object: object,
			Message: fmt.Sprintf("KEDA %s scales to zero immediately, without cooldownPeriod, when a push scaler "+
				"reports inactivity (kedacore/keda#6986)", installed),
			Fix: "update KEDA to " + oldestKEDA + " or later",
		}}, true
	}
	return nil, true
}

// kedaVersion returns the version of KEDA from its image or its version label, or nil if neither has it.
func kedaVersion(cluster *facts.Facts) *version.Version {
	var texts []string
	for _, container := range cluster.Operator.Spec.Template.Spec.Containers {
		image, _, _ := strings.Cut(container.Image, "@")
		texts = append(texts, image[strings.LastIndex(image, ":")+1:])
	}
	for _, text := range append(texts, cluster.Operator.Labels["app.kubernetes.io/version"]) {
		if read, err := version.ParseGeneric(text); err == nil {
			return read
		}
	}
	return nil
}

// scaler checks the scaler if a trigger references it.
func scaler(cluster *facts.Facts, objects []*facts.ScaledObject) []Finding {
	namespace := ""
	for _, object := range objects {
		for _, trigger := range object.Spec.Triggers {
			if rest, ok := strings.CutPrefix(trigger.Metadata["scalerAddress"], facts.ScalerService+"."); ok &&
				namespace == "" {
				namespace, _, _ = strings.Cut(rest, ":")
				namespace, _, _ = strings.Cut(namespace, ".")
			}
		}
	}
	if namespace == "" {
		return nil
	}
	object := objectName("Deployment", namespace, facts.ScalerService)
	if cluster.Scaler == nil || cluster.Scaler.Namespace != namespace {
		return []Finding{{
			Code: ScalerNotFound, Severity: Error, Object: object,
			Message: fmt.Sprintf("triggers reference Service %s.%s, but no Deployment in that namespace has the "+
				"label app.kubernetes.io/component=scaler", facts.ScalerService, namespace),
			Fix: "kubectl apply --server-side -k config/scaler",
		}}
	}
	if ready, ok := readiness(cluster.Scaler); !ok {
		return []Finding{{
			Code: ScalerNotReady, Severity: Error, Object: object, Field: "status.readyReplicas",
			Message: ready + ": KEDA gets no metrics and keeps the current replicas",
			Fix: fmt.Sprintf("see the log: kubectl -n %s logs deployment/%s. It is ready once every interceptor "+
				"has responded", namespace, cluster.Scaler.Name),
		}}
	}
	return nil
}

// scaledObject reports the problems of a ScaledObject according to KEDA, the agent and the HorizontalPodAutoscaler.
func scaledObject(cluster *facts.Facts, object *facts.ScaledObject) []Finding {
	var findings []Finding
	name := objectName("ScaledObject", object.Namespace, object.Name)
	isReady := false
	for _, condition := range object.Status.Conditions {
		isReady = isReady || condition.Type == "Ready" && condition.Status == string(corev1.ConditionTrue)
		if condition.Type == "Ready" && condition.Status == string(corev1.ConditionFalse) &&
			unconvertedType(object) == "" {
			findings = append(findings, Finding{
				Code: ScaledObjectNotReady, Severity: Error, Object: name, Field: "status.conditions[Ready]",
				Message: fmt.Sprintf("%s: %s", condition.Reason, condition.Message),
				Fix: fmt.Sprintf("see its events for the error of the scaler: kubectl -n %s describe "+
					"scaledobject %s (docs/how-to/scale-with-keda.md)", object.Namespace, object.Name),
			})
		}
	}
	if unconvertedType(object) != "" && !isReady {
		findings = append(findings, Finding{
			Code: TriggerNotConverted, Severity: Error, Object: name, Field: "spec.triggers",
			Message: "a trigger has type " + unconvertedType(object) + ", which KEDA does not support by itself",
			Fix:     conversionFix(cluster),
		})
	}
	if problems := object.Annotations[httpv1alpha1.AnnotationTriggerProblems]; problems != "" {
		findings = append(findings, Finding{
			Code: TriggerInvalid, Severity: Error, Object: name, Field: "spec.triggers", Message: problems,
			Fix: "correct the fields that the message names (docs/reference/configuration.md lists all keys)",
		})
	}
	return append(findings, autoscaler(cluster, object)...)
}

// unconvertedType returns the first type of the triggers that only the agent supports, "" if there is none.
func unconvertedType(object *facts.ScaledObject) string {
	for _, trigger := range object.Spec.Triggers {
		if facts.IsUserType(trigger.Type) {
			return trigger.Type
		}
	}
	return ""
}

// autoscaler reports conditions of the HorizontalPodAutoscaler of a ScaledObject that have been False for longer than
// gracePeriod. ScalingDisabled is normal at zero replicas.
func autoscaler(cluster *facts.Facts, object *facts.ScaledObject) []Finding {
	key := types.NamespacedName{
		Namespace: object.Namespace,
		Name:      cmp.Or(object.Status.HPAName, "keda-hpa-"+object.Name),
	}
	at := slices.IndexFunc(cluster.Autoscalers, func(h autoscalingv2.HorizontalPodAutoscaler) bool {
		return h.Namespace == key.Namespace && h.Name == key.Name
	})
	if at < 0 {
		return nil
	}
	var findings []Finding
	for _, condition := range cluster.Autoscalers[at].Status.Conditions {
		isAbout := condition.Type == autoscalingv2.ScalingActive || condition.Type == autoscalingv2.AbleToScale
		if !isAbout || condition.Status != corev1.ConditionFalse || condition.Reason == "ScalingDisabled" ||
			cluster.Now.Sub(condition.LastTransitionTime.Time) < gracePeriod {
			continue
		}
		findings = append(findings, Finding{
			Code: AutoscalerNotActive, Severity: Error,
			Object:  objectName("HorizontalPodAutoscaler", key.Namespace, key.Name),
			Field:   fmt.Sprintf("status.conditions[%s]", condition.Type),
			Message: fmt.Sprintf("%s: %s", condition.Reason, condition.Message),
			Fix:     "check the scaler and the KEDA metrics server: kubectl get apiservice v1beta1.external.metrics.k8s.io",
		})
	}
	return findings
}

// conversionFix returns the fix for an unconverted trigger.
func conversionFix(cluster *facts.Facts) string {
	if cluster.Agent == nil {
		return installAgentFix + ": the agent converts the trigger to type " + facts.PushType
	}
	return fmt.Sprintf("the agent should convert it to type %s: see kubectl -n %s logs deployment/%s, and check its "+
		"flag --namespaces", facts.PushType, cluster.Agent.Namespace, cluster.Agent.Name)
}
