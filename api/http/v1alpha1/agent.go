package v1alpha1

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Group and kind of KEDA's ScaledObject in owner references.
const (
	scaledObjectGroup = "keda.sh"
	scaledObjectKind  = "ScaledObject"
)

// ScaledObjectOf returns the name of the ScaledObject that controls an HTTPScaledObject, and from one of whose
// triggers it was created. It is empty if none does. The UID is not compared, so that a ScaledObject that is
// deleted and applied again keeps its previous objects.
func ScaledObjectOf(object metav1.Object) string {
	controller := metav1.GetControllerOfNoCopy(object)
	if controller == nil || controller.Kind != scaledObjectKind ||
		!strings.HasPrefix(controller.APIVersion, scaledObjectGroup+"/") {
		return ""
	}
	return controller.Name
}

// Annotations and labels of the agent, which creates HTTPScaledObjects from the triggers of ScaledObjects.
const (
	// AnnotationPrefix is the prefix of the annotations for trigger keys without a spec field. The trigger key
	// follows in kebab case: tlsSecretName becomes http.kedify.io/tls-secret-name.
	AnnotationPrefix = "http.kedify.io/"
	// AnnotationTriggerProblems is set on a ScaledObject. It contains the validation errors of its triggers, and
	// is absent if there are none. Only KEDA writes the conditions of a ScaledObject.
	AnnotationTriggerProblems = "http.kedify.io/trigger-problems"
	// AnnotationAutowireUndo is set on an Ingress, HTTPRoute, VirtualService or Route with backends that reference Service
	// kedify-proxy instead of their original Service, and on a Service that selects the proxies instead of the application.
	// It contains the JSON patch (RFC 6902) that restores the original and removes the annotation.
	AnnotationAutowireUndo = "http.kedify.io/autowire-undo"
	// AnnotationAutowireHold is set on a restored Ingress, HTTPRoute, VirtualService, Route or Service that the agent
	// leaves unchanged, temporarily or permanently. It contains the time and the reason. Removing it ends the pause.
	AnnotationAutowireHold = "http.kedify.io/autowire-hold"
	// AnnotationAutowireAccept is set by users on an Ingress, HTTPRoute, VirtualService or Route. It lists annotations of
	// the object, or of the Services in it, that do not prevent autowiring, separated by commas. Filters of an HTTPRoute
	// are listed by the kind and name of their object, such as Middleware/compress, or by their type. For a
	// VirtualService it can be uriRegexRewrite, for a Route httpHeaders and reencrypt.
	AnnotationAutowireAccept = "http.kedify.io/autowire-accept"
	// AnnotationProxyImage, AnnotationProxyReplicas and AnnotationProxyResources are set on a Namespace. They
	// override the agent's flags of the same names for the proxies of the namespace. The last is a YAML or JSON
	// object with requests and limits. On the Deployment that the agent applies, AnnotationProxyReplicas is the
	// number that was last configured.
	AnnotationProxyImage     = "http.kedify.io/proxy-image"
	AnnotationProxyReplicas  = "http.kedify.io/proxy-replicas"
	AnnotationProxyResources = "http.kedify.io/proxy-resources"
	// AnnotationProxyPod, AnnotationProxyService and AnnotationProxyEnvoyConfig are set on a Namespace. They override the
	// agent's flags of the same names: settings of the proxies' Pods and of Service kedify-proxy, and an addition to
	// Envoy's bootstrap, each as a YAML or JSON object.
	AnnotationProxyPod         = "http.kedify.io/proxy-pod"
	AnnotationProxyService     = "http.kedify.io/proxy-service"
	AnnotationProxyEnvoyConfig = "http.kedify.io/proxy-envoy-config"
	// AnnotationProxyMaxReplicas is set on a Namespace. It is the maximum number of proxies up to which KEDA
	// scales them. It overrides the agent's flag, and "0" disables scaling.
	AnnotationProxyMaxReplicas = "http.kedify.io/proxy-max-replicas"
	// AnnotationProxyTargetConnections is set on a Namespace. It is the number of connections with clients for each proxy,
	// above which KEDA adds proxies. It overrides the agent's flag, and "0" disables it. It has no effect without a
	// maximum number of proxies.
	AnnotationProxyTargetConnections = "http.kedify.io/proxy-target-connections"
	// AnnotationProxyUnneeded is set on the Deployment of proxies, and on a fallback Service, that nothing needs any more.
	// It contains the time since when (RFC 3339).
	AnnotationProxyUnneeded = "http.kedify.io/proxy-unneeded-since"
	// AnnotationProxyApplied is set on each object of the proxies that the agent applies. It contains the hash of
	// the applied object.
	AnnotationProxyApplied = "http.kedify.io/proxy-applied"
	// AnnotationProxyBootstrap is set on the proxies' Pods. It contains the hash of their bootstrap, so that a new
	// bootstrap replaces the Pods.
	AnnotationProxyBootstrap = "http.kedify.io/proxy-bootstrap"
	// LabelManagedBy and ManagedByAgent identify the objects that the agent creates.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	ManagedByAgent = "kedify-http-agent"
)

// Condition types in HTTPScaledObjectStatus.Conditions that the agent writes, in addition to those of the interceptor.
const (
	// ConditionTriggerAccepted is True if the object matches the trigger that it was created from. If it is False,
	// the object matches the last valid version of the trigger.
	ConditionTriggerAccepted = "TriggerAccepted"
	// ConditionAutowired is True if the backends for the object in Ingresses, HTTPRoutes, VirtualServices and Routes
	// reference Service kedify-proxy, and its Service of AnnotationAutowireService selects the proxies. It is absent if
	// the object does not request autowiring.
	ConditionAutowired = "Autowired"
	// ConditionProxyInstalled reports why the agent does not install the proxies that the object needs. It is
	// absent if nothing prevents the installation.
	ConditionProxyInstalled = "ProxyInstalled"
)

// Reasons of ConditionTriggerAccepted, and of Events on ScaledObjects.
const (
	// ReasonTriggerAccepted means that the trigger is valid.
	ReasonTriggerAccepted = "TriggerAccepted"
	// ReasonKeyIgnored means that a key of the metadata is unknown, has an unsupported value, or has no effect
	// together with others. The rest of the trigger applies.
	ReasonKeyIgnored = "KeyIgnored"
	// ReasonInvalidTrigger means that the trigger's metadata defines no route.
	ReasonInvalidTrigger = "InvalidTrigger"
	// ReasonInvalidName means that the HTTPScaledObject's name is invalid, or already used by another trigger.
	ReasonInvalidName = "InvalidName"
	// ReasonServiceNotSet means that neither the trigger nor the target defines the Service.
	ReasonServiceNotSet = "ServiceNotSet"
	// ReasonServiceMismatch means that the trigger and the Rollout define different Services. The trigger's is
	// used.
	ReasonServiceMismatch = "ServiceMismatch"
	// ReasonNameInUse means that an HTTPScaledObject of that name belongs to another owner.
	ReasonNameInUse = "NameInUse"
	// ReasonWriteRejected means that the API server rejected a write of the agent: a quota, a policy, a webhook, or a CRD
	// that lacks a field.
	ReasonWriteRejected = "WriteRejected"
	// ReasonWriteForbidden means that the agent's ServiceAccount lacks the permission for a write.
	ReasonWriteForbidden = "WriteForbidden"
	// ReasonConverted is the reason of an Event: a trigger's type was changed to external-push.
	ReasonConverted = "Converted"
)

// Reasons of ConditionAutowired, and of Events on Ingresses, HTTPRoutes, VirtualServices, Routes and Services.
const (
	// ReasonWired means that the requests are routed through the proxies. It is the only reason with status True.
	ReasonWired = "Wired"
	// ReasonUnwired is the reason of an Event: backends reference their original Services again.
	ReasonUnwired = "Unwired"
	// ReasonSelectorAdded is the reason of an Event: a Service without a selector has that of its fallback Service.
	ReasonSelectorAdded = "SelectorAdded"
	// ReasonNoMatchingBackend means that no Ingress, HTTPRoute, VirtualService or Route has a backend for the object, or
	// that no client of its Service uses one of its hosts.
	ReasonNoMatchingBackend = "NoMatchingBackend"
	// ReasonNotProgrammed means that a Ready proxy has not acknowledged the object, or its AnnotationAutowireSettings, yet,
	// or that the object does not use its fallback Service yet.
	ReasonNotProgrammed = "NotProgrammed"
	// ReasonProxyUnavailable means that Service kedify-proxy has no ready endpoint or lacks its port, or recently
	// had none.
	ReasonProxyUnavailable = "ProxyUnavailable"
	// ReasonNoCertificate means that the backends require TLS, and the proxies have no certificate for the object.
	ReasonNoCertificate = "NoCertificate"
	// ReasonBackendRevertedByOther means that another field manager restored the original backends.
	ReasonBackendRevertedByOther = "BackendRevertedByOther"
	// ReasonManagedByTrafficRouter means that a traffic router of a Rollout manages the object: the plugin
	// argoproj-labs/gatewayAPI for an HTTPRoute, nginx or alb for an Ingress, istio for a VirtualService, the plugin
	// argoproj-labs/openshift for a Route. Or OpenShift has created the Route for an Ingress.
	ReasonManagedByTrafficRouter = "ManagedByTrafficRouter"
	// ReasonInvalidRestoreRecord means that an object's annotation AnnotationAutowireUndo is unreadable.
	ReasonInvalidRestoreRecord = "InvalidRestoreRecord"
	// ReasonNotGranted means that HTTPRoutes of the object's namespace may not reference the shared fleet's
	// Service: the ReferenceGrant is missing, or so new that some Gateways may not have observed it.
	ReasonNotGranted = "NotGranted"
	// ReasonPermissionMissing means that the agent may not read VirtualServices, Routes, or the IngressClasses,
	// BackendTLSPolicies or DestinationRules, which decide how Ingress controllers, Gateways and Istio use a Service.
	ReasonPermissionMissing = "PermissionMissing"
	// ReasonUnsupportedSetting means that the object requests something that this version does not support.
	ReasonUnsupportedSetting = "UnsupportedSetting"
	// ReasonUnsupportedAnnotation means that an annotation of an Ingress, HTTPRoute, Route or Service changes the
	// requests, or their destination, in a way that the agent cannot follow.
	ReasonUnsupportedAnnotation = "UnsupportedAnnotation"
	// ReasonUnsupportedFilter means that a filter of an HTTPRoute, a rewrite of a VirtualService, or a header of a Route
	// may change the requests in a way that the agent cannot determine.
	ReasonUnsupportedFilter = "UnsupportedFilter"
	// ReasonRequestMismatch means that the Ingress controller or Gateway rewrites the requests, and the object does
	// not match all of the rewritten ones; or that the proxies would send them to another object with a more specific
	// host or path prefix.
	ReasonRequestMismatch = "RequestMismatch"
	// ReasonProtocolMismatch means that the Ingress controller uses another protocol to the application than the
	// proxies would use, or that the proxies would receive HTTP/1.1 for an application that uses HTTP/2.
	ReasonProtocolMismatch = "ProtocolMismatch"
	// ReasonAffinityMissing means that the Ingress, HTTPRoute or DestinationRule has session affinity that the agent cannot
	// take over, and the object has none.
	ReasonAffinityMissing = "AffinityMissing"
	// ReasonServiceTypeMismatch means that the load balancer cannot use Service kedify-proxy because of its type.
	ReasonServiceTypeMismatch = "ServiceTypeMismatch"
)

// Reasons of ConditionProxyInstalled, in addition to ReasonWriteRejected, ReasonWriteForbidden, and ReasonNameInUse for an object that the
// agent does not manage.
const (
	// ReasonNotManagedByAgent means that Service kedify-proxy is not managed by the agent: the proxies are left to
	// its owner. It is the only reason with status True.
	ReasonNotManagedByAgent = "NotManagedByAgent"
	// ReasonInvalidProxySettings means that an annotation of the Namespace is invalid. The agent uses its own
	// setting.
	ReasonInvalidProxySettings = "InvalidProxySettings"
)
