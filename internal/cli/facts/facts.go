package facts

import (
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/router/gatewayapi/route"
)

// Names by which parts are found, as their manifests have them.
const (
	// ConfigMapName is where the Argo Rollouts controller is told of plugins, in its own namespace.
	ConfigMapName = "argo-rollouts-config"
	// PluginsKey is the key there for the plugins that route traffic.
	PluginsKey = "trafficRouterPlugins"
	// ProxyService is the Service whose endpoints are the proxies of a namespace.
	ProxyService = "kedify-proxy"
	// AgentName is the name of the agent's Deployment, and of its MutatingWebhookConfiguration.
	AgentName = "kedify-http-agent"
	// ScalerService is the Service by which KEDA reaches the scaler.
	ScalerService = "keda-add-ons-http-external-scaler"
	// TriggerType is the type of the guides' triggers, which a webhook of the agent makes into PushType: that is what a
	// stock KEDA knows.
	TriggerType = "kedify-http"
	PushType    = "external-push"
	// HTTPScaledObjectsDefinition and ScaledObjectsDefinition are CustomResourceDefinitions.
	HTTPScaledObjectsDefinition = httpv1alpha1.Resource + "." + httpv1alpha1.Group
	ScaledObjectsDefinition     = "scaledobjects.keda.sh"
	// TrialLabel is on the namespace of a throw-away canary, beside the label of who has made it, and the annotation TrialUntil says when that has given up for
	// certain, as RFC 3339 has times.
	TrialLabel = "http.kedify.io/try"
	TrialUntil = "http.kedify.io/try-until"
)

// Part is a sort of objects that is read as a whole.
type Part string

// The parts that are read.
const (
	Deployments       Part = "Deployments"
	Plugins           Part = "ConfigMap " + ConfigMapName
	Pods              Part = "Pods of the Argo Rollouts controller"
	Nodes             Part = "Nodes"
	Definitions       Part = "CustomResourceDefinitions"
	Rollouts          Part = "Rollouts"
	Services          Part = "Services"
	EndpointSlices    Part = "EndpointSlices"
	HTTPScaledObjects Part = "HTTPScaledObjects"
	Routes            Part = "routes of the Gateway API"
	ScaledObjects     Part = "ScaledObjects"
	Autoscalers       Part = "HorizontalPodAutoscalers"
	Reviews           Part = "SubjectAccessReviews"
	Webhook           Part = "MutatingWebhookConfigurations"
	Trials            Part = "Namespaces"
	Lease             Part = "Lease " + httpv1alpha1.DefaultInterceptorLease
)

// Facts is what was read of a cluster, each part at its own time. A pointer is nil where there is no such object.
type Facts struct {
	// Now is when the reading began.
	Now time.Time
	// Unread are the parts that could not be read, by why. Of these nothing is known: that an object is not among
	// the others does not mean that it is not in the cluster.
	Unread map[Part]error

	// Controller is that of Argo Rollouts, Plugins its ConfigMap, Pods its Pods.
	Controller *appsv1.Deployment
	Plugins    *corev1.ConfigMap
	Pods       []corev1.Pod
	Nodes      []corev1.Node

	// Interceptor, Scaler, Agent and Operator (KEDA's) are Deployments of the data path and of autoscaling.
	Interceptor, Scaler, Agent, Operator *appsv1.Deployment
	// Webhook is the agent's.
	Webhook *admissionregistrationv1.MutatingWebhookConfiguration
	// Definitions are those that were looked for and found, by name.
	Definitions map[string]Definition

	Rollouts []Rollout
	// Services are the Services, by name.
	Services map[types.NamespacedName]*corev1.Service
	// Ready counts the ready endpoints of Services.
	Ready             map[types.NamespacedName]int
	HTTPScaledObjects []httpv1alpha1.HTTPScaledObject
	// Marks are the Rollouts that HTTPScaledObjects are marked with as the owners of their weights.
	Marks         map[types.NamespacedName]Mark
	Routes        []Route
	ScaledObjects []ScaledObject
	Autoscalers   []autoscalingv2.HorizontalPodAutoscaler

	// Lease is the one that interceptors renew.
	Lease *coordinationv1.Lease
	// Trials are the namespaces of throw-away canaries.
	Trials []metav1.PartialObjectMetadata

	// Allowed are the answers to questions about permissions.
	Allowed map[Question]bool
}

// Knows says whether a part was read.
func (f *Facts) Knows(part Part) bool { return f.Unread[part] == nil }

// Definition is what matters of a CustomResourceDefinition.
type Definition struct {
	metav1.ObjectMeta

	// Served are the versions that the API server serves.
	Served []string
	// StatusFields are the names of the fields of the status, of all served versions.
	StatusFields []string
}

// Route is a route of the Gateway API as it was read.
type Route struct {
	Kind    route.Kind
	Name    types.NamespacedName
	Labels  map[string]string
	Content map[string]any // the whole object, its numbers as int64 and float64
}

// Mark is a Rollout as it is marked on an object.
type Mark struct {
	Rollout types.NamespacedName
	UID     types.UID // that it had then
}

// Question is one about the permission of a ServiceAccount. The field Namespace is empty for all namespaces.
type Question struct {
	// Account is the ServiceAccount that is asked about.
	Account types.NamespacedName
	// Verb, Group and Resource are what it wants to do; Resource may have a subresource behind a slash.
	Verb, Group, Resource string
	// Namespace is where.
	Namespace string
	// Name is the object's; empty for any.
	Name string
}

// Sent is what one Envoy has sent for an HTTPScaledObject since its start.
type Sent struct {
	// Proxy is the name of its Pod.
	Proxy string
	// Requests are counted by the name of the Service that they were sent to.
	Requests map[string]int64
	// Problem says why they are not known.
	Problem error
}

// ScaledObject is what matters of one of KEDA's.
type ScaledObject struct {
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		ScaleTargetRef struct {
			APIVersion string `json:"apiVersion"`
			Kind       string `json:"kind"`
			Name       string `json:"name"`
		} `json:"scaleTargetRef"`
		Triggers []struct {
			Type     string            `json:"type"`
			Metadata map[string]string `json:"metadata"`
		} `json:"triggers"`
	} `json:"spec"`
	Status struct {
		Conditions []struct {
			Type    string `json:"type"`
			Status  string `json:"status"`
			Reason  string `json:"reason"`
			Message string `json:"message"`
		} `json:"conditions"`
		HPAName string `json:"hpaName"`
	} `json:"status"`
}

// ScaledByRequests are the ScaledObjects with a trigger that the scaler answers.
func (f *Facts) ScaledByRequests() []*ScaledObject {
	var all []*ScaledObject
	for i := range f.ScaledObjects {
		for _, trigger := range f.ScaledObjects[i].Spec.Triggers {
			if trigger.Type == TriggerType || trigger.Type == PushType && strings.HasPrefix(trigger.Metadata["scalerAddress"], ScalerService+".") {
				all = append(all, &f.ScaledObjects[i])
				break
			}
		}
	}
	return all
}
