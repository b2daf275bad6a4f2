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
	// oldestKEDA is the first version that is tested: those before it scale to zero at once when a scaler says that
	// nothing is to be done (kedacore/keda#6986).
	oldestKEDA = "2.18.0"
)

// autoscaling examines KEDA, the scaler, and the ScaledObjects that scale by HTTP requests.
func autoscaling(cluster *facts.Facts) []Finding {
	objects := cluster.ScaledByRequests()
	if len(objects) == 0 && cluster.Scaler == nil && cluster.Agent == nil {
		return nil
	}
	var found []Finding
	if cluster.Knows(facts.Deployments) {
		keda, works := operator(cluster)
		found = append(found, keda...)
		if works {
			found = append(found, scaler(cluster, objects)...)
		}
	}
	for _, object := range objects {
		found = append(found, scaledObject(cluster, object)...)
	}
	return found
}

// operator examines KEDA, and says whether it works at all.
func operator(cluster *facts.Facts) ([]Finding, bool) {
	_, isDefined := cluster.Definitions[facts.ScaledObjectsDefinition]
	if cluster.Operator == nil || cluster.Knows(facts.Definitions) && !isDefined {
		missing := "no Deployment has the label app.kubernetes.io/name=keda-operator"
		if cluster.Operator != nil {
			missing = "there is no CustomResourceDefinition " + facts.ScaledObjectsDefinition
		}
		return []Finding{{
			Code: KEDANotFound, Severity: Error, Object: "Deployment keda/keda-operator",
			Message: missing + ": KEDA is not installed, and nothing is scaled by requests",
			Remedy:  "install KEDA " + oldestKEDA + " or later",
		}}, false
	}
	object := named("Deployment", cluster.Operator.Namespace, cluster.Operator.Name)
	if ready, is := readiness(cluster.Operator); !is {
		return []Finding{{
			Code: KEDANotReady, Severity: Error, Object: object, Field: "status.readyReplicas", Message: ready + ": nothing is scaled by requests",
			Remedy: fmt.Sprintf("kubectl -n %s logs deployment/%s", cluster.Operator.Namespace, cluster.Operator.Name),
		}}, false
	}
	if found := kedaVersion(cluster); found != nil && found.LessThan(version.MustParseGeneric(oldestKEDA)) {
		return []Finding{{
			Code: KEDATooOld, Severity: Error, Object: object,
			Message: fmt.Sprintf("KEDA %s scales to zero at once when a stream says that there is nothing to do (kedacore/keda#6986)", found),
			Remedy:  "update KEDA to " + oldestKEDA + " or later",
		}}, true
	}
	return nil, true
}

// kedaVersion is the version of KEDA by its image, or the label of its manifests; nil where neither tells.
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

// scaler examines the scaler where a trigger names it.
func scaler(cluster *facts.Facts, objects []*facts.ScaledObject) []Finding {
	namespace := ""
	for _, object := range objects {
		for _, trigger := range object.Spec.Triggers {
			if rest, is := strings.CutPrefix(trigger.Metadata["scalerAddress"], facts.ScalerService+"."); is && namespace == "" {
				namespace, _, _ = strings.Cut(rest, ":")
				namespace, _, _ = strings.Cut(namespace, ".")
			}
		}
	}
	if namespace == "" {
		return nil
	}
	object := named("Deployment", namespace, facts.ScalerService)
	if cluster.Scaler == nil || cluster.Scaler.Namespace != namespace {
		return []Finding{{
			Code: ScalerNotFound, Severity: Error, Object: object,
			Message: fmt.Sprintf("triggers name %s.%s, and no Deployment there has the label app.kubernetes.io/component=scaler", facts.ScalerService, namespace),
			Remedy:  "kubectl apply --server-side -k config/scaler",
		}}
	}
	if ready, is := readiness(cluster.Scaler); !is {
		return []Finding{{
			Code: ScalerNotReady, Severity: Error, Object: object, Field: "status.readyReplicas",
			Message: ready + ": KEDA gets no answer, and keeps the replicas as they are",
			Remedy:  fmt.Sprintf("kubectl -n %s logs deployment/%s: it is ready when every interceptor has answered", namespace, cluster.Scaler.Name),
		}}
	}
	return nil
}

// scaledObject tells what KEDA, the agent and the HorizontalPodAutoscaler say against a ScaledObject.
func scaledObject(cluster *facts.Facts, object *facts.ScaledObject) []Finding {
	var found []Finding
	name := named("ScaledObject", object.Namespace, object.Name)
	isReady := false
	for _, condition := range object.Status.Conditions {
		isReady = isReady || condition.Type == "Ready" && condition.Status == string(corev1.ConditionTrue)
		if condition.Type == "Ready" && condition.Status == string(corev1.ConditionFalse) && !unconverted(object) {
			found = append(found, Finding{
				Code: ScaledObjectNotReady, Severity: Error, Object: name, Field: "status.conditions[Ready]",
				Message: fmt.Sprintf("%s: %s", condition.Reason, condition.Message),
				Remedy:  fmt.Sprintf("kubectl -n %s describe scaledobject %s: its events have what the scaler said (docs/how-to/scale-with-keda.md)", object.Namespace, object.Name),
			})
		}
	}
	if unconverted(object) && !isReady {
		found = append(found, Finding{
			Code: TriggerNotConverted, Severity: Error, Object: name, Field: "spec.triggers",
			Message: "it has a trigger of type " + facts.TriggerType + ", which a stock KEDA does not know",
			Remedy:  converter(cluster),
		})
	}
	if problems := object.Annotations[httpv1alpha1.AnnotationTriggerProblems]; problems != "" {
		found = append(found, Finding{
			Code: TriggerMistaken, Severity: Error, Object: name, Field: "spec.triggers", Message: problems,
			Remedy: "correct what it names (docs/reference/configuration.md has all keys)",
		})
	}
	return append(found, autoscaler(cluster, object)...)
}

// unconverted says whether a trigger has the type that only the agent knows.
func unconverted(object *facts.ScaledObject) bool {
	for _, trigger := range object.Spec.Triggers {
		if trigger.Type == facts.TriggerType {
			return true
		}
	}
	return false
}

// autoscaler tells what the HorizontalPodAutoscaler of a ScaledObject has been unable to do for longer than patience.
// It is off while there are no replicas (ScalingDisabled).
func autoscaler(cluster *facts.Facts, object *facts.ScaledObject) []Finding {
	key := types.NamespacedName{Namespace: object.Namespace, Name: cmp.Or(object.Status.HPAName, "keda-hpa-"+object.Name)}
	at := slices.IndexFunc(cluster.Autoscalers, func(h autoscalingv2.HorizontalPodAutoscaler) bool {
		return h.Namespace == key.Namespace && h.Name == key.Name
	})
	if at < 0 {
		return nil
	}
	var found []Finding
	for _, condition := range cluster.Autoscalers[at].Status.Conditions {
		isAbout := condition.Type == autoscalingv2.ScalingActive || condition.Type == autoscalingv2.AbleToScale
		if !isAbout || condition.Status != corev1.ConditionFalse || condition.Reason == "ScalingDisabled" ||
			cluster.Now.Sub(condition.LastTransitionTime.Time) < patience {
			continue
		}
		found = append(found, Finding{
			Code: AutoscalerNotActive, Severity: Error, Object: named("HorizontalPodAutoscaler", key.Namespace, key.Name),
			Field: fmt.Sprintf("status.conditions[%s]", condition.Type), Message: fmt.Sprintf("%s: %s", condition.Reason, condition.Message),
			Remedy: "look at the scaler and at KEDA's metrics server: kubectl get apiservice v1beta1.external.metrics.k8s.io",
		})
	}
	return found
}

// converter is what to do where nobody has converted a trigger.
func converter(cluster *facts.Facts) string {
	if cluster.Agent == nil {
		return installAgent + ": the agent makes " + facts.PushType + " of it"
	}
	return fmt.Sprintf("the agent makes %s of it: kubectl -n %s logs deployment/%s, and look at its --namespaces", facts.PushType, cluster.Agent.Namespace, cluster.Agent.Name)
}
