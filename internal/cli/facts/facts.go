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

// Names of objects in the manifests of the components.
const (
	// ConfigMapName is the ConfigMap with the plugins of the Argo Rollouts controller, in the controller's namespace.
	ConfigMapName = "argo-rollouts-config"
	// PluginsKey is its key for traffic router plugins.
	PluginsKey = "trafficRouterPlugins"
	// ProxyService is the Service whose endpoints are the proxies of a namespace.
	ProxyService = "kedify-proxy"
	// AgentName is the name of the agent's Deployment and MutatingWebhookConfiguration.
	AgentName = "kedify-http-agent"
	// ScalerService is the Service at which KEDA reaches the scaler.
	ScalerService = "keda-add-ons-http-external-scaler"
	// TriggerType and EnvoyTriggerType are the trigger types that users write. The agent's webhook converts them to
	// PushType, which KEDA supports.
	TriggerType      = "kedify-http"
	EnvoyTriggerType = "kedify-envoy-http"
	PushType         = "external-push"
	// HTTPScaledObjectsCRD and ScaledObjectsCRD are CustomResourceDefinitions.
	HTTPScaledObjectsCRD = httpv1alpha1.Resource + "." + httpv1alpha1.Group
	ScaledObjectsCRD     = "scaledobjects.keda.sh"
	// TrialLabel is a label on the namespace of a throwaway canary. Annotation TrialUntil is the deadline of the
	// command, in RFC 3339.
	TrialLabel = "http.kedify.io/try"
	TrialUntil = "http.kedify.io/try-until"
)

// Resource is a kind of object that is read as a whole.
type Resource string

// The resources that are read.
const (
	Deployments       Resource = "Deployments"
	Plugins           Resource = "ConfigMap " + ConfigMapName
	Pods              Resource = "Pods of the Argo Rollouts controller"
	Nodes             Resource = "Nodes"
	CRDs              Resource = "CustomResourceDefinitions"
	Rollouts          Resource = "Rollouts"
	Services          Resource = "Services"
	EndpointSlices    Resource = "EndpointSlices"
	HTTPScaledObjects Resource = "HTTPScaledObjects"
	InterceptorRoutes Resource = "InterceptorRoutes"
	Routes            Resource = "routes of the Gateway API"
	ScaledObjects     Resource = "ScaledObjects"
	Autoscalers       Resource = "HorizontalPodAutoscalers"
	Reviews           Resource = "SubjectAccessReviews"
	Webhook           Resource = "MutatingWebhookConfigurations"
	Trials            Resource = "Namespaces"
	Lease             Resource = "Lease " + httpv1alpha1.DefaultInterceptorLease
	CA                Resource = "ConfigMap " + httpv1alpha1.InterceptorCA
)

// Facts are the objects that were read from a cluster, each resource at its own time. A pointer is nil if the object
// does not exist.
type Facts struct {
	// Now is the time at which the reading began.
	Now time.Time
	// Unread contains the resources that could not be read, with the error. A missing object of such a resource may
	// exist in the cluster.
	Unread map[Resource]error

	// Controller is the Deployment of the Argo Rollouts controller, Plugins its ConfigMap, and Pods its Pods.
	Controller *appsv1.Deployment
	Plugins    *corev1.ConfigMap
	Pods       []corev1.Pod
	Nodes      []corev1.Node

	// Interceptor, Scaler, Agent and Operator (KEDA's) are the Deployments of the data plane and of autoscaling.
	Interceptor, Scaler, Agent, Operator *appsv1.Deployment
	// Others are the Deployments of products that must not run next to the components: see [OtherProduct].
	Others []*appsv1.Deployment
	// Proxies are the Deployments of proxies by namespace.
	Proxies map[string]*appsv1.Deployment
	// Webhook is the webhook of the agent.
	Webhook *admissionregistrationv1.MutatingWebhookConfiguration
	// CRDs contains the CustomResourceDefinitions that were looked up and exist, by name.
	CRDs map[string]CRD

	Rollouts []Rollout
	// Services contains the Services by name.
	Services map[types.NamespacedName]*corev1.Service
	// ReadyEndpoints contains the number of ready endpoints of each Service.
	ReadyEndpoints    map[types.NamespacedName]int
	HTTPScaledObjects []httpv1alpha1.HTTPScaledObject
	// InterceptorRoutes are the InterceptorRoutes, see NewInterceptorRoute. They are read only if a Rollout references one,
	// and for cleanup.
	InterceptorRoutes []httpv1alpha1.HTTPScaledObject
	// Owners contains the owner of the weights of each HTTPScaledObject with an owner annotation, and RouteOwners that of
	// each InterceptorRoute.
	Owners, RouteOwners map[types.NamespacedName]Owner

	Routes        []Route
	ScaledObjects []ScaledObject
	Autoscalers   []autoscalingv2.HorizontalPodAutoscaler

	// CA is the ConfigMap with the CAs that sign the certificate of the interceptor.
	CA *corev1.ConfigMap
	// Lease is the Lease of the interceptors.
	Lease *coordinationv1.Lease
	// Trials are the namespaces of throwaway canaries.
	Trials []metav1.PartialObjectMetadata

	// Allowed contains the results of the reviewed permissions.
	Allowed map[Permission]bool
	// UserAllowed contains the results of the reviewed permissions of the user, whose Account is empty. It is nil unless
	// an installation is prepared.
	UserAllowed map[Permission]bool
	// ServerVersion is the version of the API server, such as v1.34.5. It is empty unless an installation is prepared.
	ServerVersion string
}

// HasRead reports whether a resource was read.
func (f *Facts) HasRead(resource Resource) bool { return f.Unread[resource] == nil }

// CRD contains the required fields of a CustomResourceDefinition.
type CRD struct {
	metav1.ObjectMeta

	// Served contains the served versions.
	Served []string
	// StatusFields contains the names of the status fields of all served versions.
	StatusFields []string
}

// Route is a Gateway API route.
type Route struct {
	Kind    route.Kind
	Name    types.NamespacedName
	Labels  map[string]string
	Content map[string]any // the complete object; numbers are int64 or float64
}

// Owner is the Rollout in an owner annotation.
type Owner struct {
	Rollout types.NamespacedName
	UID     types.UID // the UID at the time of writing
}

// Permission is a permission of a ServiceAccount.
type Permission struct {
	// Account is the ServiceAccount.
	Account types.NamespacedName
	// Verb, Group and Resource are the requested access; Resource may be followed by a slash and a subresource.
	Verb, Group, Resource string
	// Namespace is empty for all namespaces.
	Namespace string
	// Name is the name of the object; empty for any.
	Name string
}

// ProxyRequests are the requests that one proxy has sent for an HTTPScaledObject since its start.
type ProxyRequests struct {
	// Proxy is the name of the Pod.
	Proxy string
	// Requests contains the number of requests by the name of the destination Service.
	Requests map[string]int64
	// Err is the reason why the numbers are unknown.
	Err error
}

// ScaledObject contains the required fields of a KEDA ScaledObject.
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

// ScaledByRequests returns the ScaledObjects with a trigger that the scaler serves.
func (f *Facts) ScaledByRequests() []*ScaledObject {
	var all []*ScaledObject
	for i := range f.ScaledObjects {
		for _, trigger := range f.ScaledObjects[i].Spec.Triggers {
			if IsUserType(trigger.Type) || trigger.Type == PushType &&
				strings.HasPrefix(trigger.Metadata["scalerAddress"], ScalerService+".") {
				all = append(all, &f.ScaledObjects[i])
				break
			}
		}
	}
	return all
}

// IsUserType reports whether a type of triggers is one that only this project supports.
func IsUserType(triggerType string) bool {
	return triggerType == TriggerType || triggerType == EnvoyTriggerType
}
