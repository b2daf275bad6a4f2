package v1alpha1

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The ScaledObject of KEDA, as owner references name it.
const (
	scaledObjectGroup = "keda.sh"
	scaledObjectKind  = "ScaledObject"
)

// ScaledObjectOf is the name of the ScaledObject that controls an HTTPScaledObject: the one of whose triggers it is one's. It is empty where none does. The UID
// doesn't count, so that a ScaledObject that is deleted and applied again has the objects of before.
func ScaledObjectOf(object metav1.Object) string {
	controller := metav1.GetControllerOfNoCopy(object)
	if controller == nil || controller.Kind != scaledObjectKind || !strings.HasPrefix(controller.APIVersion, scaledObjectGroup+"/") {
		return ""
	}
	return controller.Name
}

// What the agent writes: the controller that makes HTTPScaledObjects from the triggers of
// ScaledObjects.
const (
	// AnnotationPrefix begins the annotations that carry what a trigger says and the spec has no
	// field for. The key of the trigger follows in kebab case: tlsSecretName becomes
	// http.kedify.io/tls-secret-name.
	AnnotationPrefix = "http.kedify.io/"
	// AnnotationTriggerProblems is written on a ScaledObject: the mistakes in its triggers, in
	// words. It is absent when there are none. The conditions of a ScaledObject are KEDA's alone.
	AnnotationTriggerProblems = "http.kedify.io/trigger-problems"
	// AnnotationAutowireUndo is written on an Ingress or HTTPRoute with backends that name Service kedify-proxy in
	// place of their own: the JSON patch (RFC 6902) that gives them their own back and removes the annotation.
	AnnotationAutowireUndo = "http.kedify.io/autowire-undo"
	// AnnotationAutowireHold is written on an Ingress or HTTPRoute that has its own backends back for a time, or
	// for good: since when, and why. Whoever removes it ends that.
	AnnotationAutowireHold = "http.kedify.io/autowire-hold"
	// AnnotationProxyImage, AnnotationProxyReplicas and AnnotationProxyResources are read on a Namespace: what its
	// proxies have in place of the agent's flags of the same names. The last is a YAML or JSON object with
	// requests and limits. On the Deployment that the agent applies, AnnotationProxyReplicas says how many it
	// was last asked for.
	AnnotationProxyImage     = "http.kedify.io/proxy-image"
	AnnotationProxyReplicas  = "http.kedify.io/proxy-replicas"
	AnnotationProxyResources = "http.kedify.io/proxy-resources"
	// AnnotationProxyMaxReplicas is read on a Namespace: how many proxies there may be at most, so that KEDA scales them.
	// It counts before the agent's flag, and "0" has nobody scale them.
	AnnotationProxyMaxReplicas = "http.kedify.io/proxy-max-replicas"
	// AnnotationProxyUnneeded is written on the Deployment of proxies that nothing needs any more: since when
	// (RFC 3339).
	AnnotationProxyUnneeded = "http.kedify.io/proxy-unneeded-since"
	// AnnotationProxyApplied is written on each object of the proxies that the agent applies: the hash of what it
	// applied.
	AnnotationProxyApplied = "http.kedify.io/proxy-applied"
	// AnnotationProxyBootstrap is written on the proxies' Pods: the hash of their bootstrap, so that a new one
	// replaces them.
	AnnotationProxyBootstrap = "http.kedify.io/proxy-bootstrap"
	// LabelManagedBy and ManagedByAgent tell objects that the agent made.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	ManagedByAgent = "kedify-http-agent"
)

// Condition types in HTTPScaledObjectStatus.Conditions that the agent writes, beside those of the
// interceptor.
const (
	// ConditionTriggerAccepted is True when the object says what the trigger that it was made from
	// says. When it is False, the object is what the trigger last said that could be understood.
	ConditionTriggerAccepted = "TriggerAccepted"
	// ConditionAutowired is True when the backends of Ingresses and HTTPRoutes that the object is about name
	// Service kedify-proxy. It is absent where the object does not ask for that.
	ConditionAutowired = "Autowired"
	// ConditionProxyInstalled says what keeps the agent from installing the proxies that the object needs. It is
	// absent where nothing does.
	ConditionProxyInstalled = "ProxyInstalled"
)

// Reasons of ConditionTriggerAccepted, and of Events on ScaledObjects.
const (
	// ReasonTriggerAccepted says that there is nothing to complain about.
	ReasonTriggerAccepted = "TriggerAccepted"
	// ReasonKeyIgnored says that a key of the metadata is unknown or means nothing beside others.
	ReasonKeyIgnored = "KeyIgnored"
	// ReasonInvalidTrigger says that the trigger's metadata cannot be understood.
	ReasonInvalidTrigger = "InvalidTrigger"
	// ReasonInvalidName says that the HTTPScaledObject's name cannot be one, or is that of another
	// trigger.
	ReasonInvalidName = "InvalidName"
	// ReasonServiceUnknown says that neither the trigger nor the target names the Service.
	ReasonServiceUnknown = "ServiceUnknown"
	// ReasonServiceDisagrees says that the trigger names another Service than the Rollout. The
	// trigger's counts.
	ReasonServiceDisagrees = "ServiceDisagrees"
	// ReasonNameTaken says that an HTTPScaledObject of that name is not this ScaledObject's.
	ReasonNameTaken = "NameTaken"
	// ReasonRefused says that the API server refused what the agent wrote.
	ReasonRefused = "Refused"
	// ReasonConverted says, in an Event, that a trigger's type has become external-push.
	ReasonConverted = "Converted"
)

// Reasons of ConditionAutowired, and of Events on Ingresses and HTTPRoutes.
const (
	// ReasonWired says that the requests come by the proxies. It is the only reason with status True.
	ReasonWired = "Wired"
	// ReasonUnwired says, in an Event, that backends name their own Services again.
	ReasonUnwired = "Unwired"
	// ReasonNothingToWire says that no Ingress or HTTPRoute has a backend that the object is about.
	ReasonNothingToWire = "NothingToWire"
	// ReasonNotProgrammed says that a Ready proxy, or every one, does not have the object yet.
	ReasonNotProgrammed = "NotProgrammed"
	// ReasonProxyUnavailable says that Service kedify-proxy has no ready endpoint or lacks its port, or had
	// none a moment ago.
	ReasonProxyUnavailable = "ProxyUnavailable"
	// ReasonNoCertificate says that backends are spoken to over TLS, and the proxies have no certificate for the object.
	ReasonNoCertificate = "NoCertificate"
	// ReasonRestored says that somebody else wrote the original backends again.
	ReasonRestored = "Restored"
	// ReasonRouted says that a Rollout's router argoproj-labs/gatewayAPI shares the requests of the HTTPRoute.
	ReasonRouted = "Routed"
	// ReasonUndoUnreadable says that an object's annotation AnnotationAutowireUndo cannot be read.
	ReasonUndoUnreadable = "UndoUnreadable"
	// ReasonNotGranted says that Gateways do not let HTTPRoutes of the object's namespace name the shared fleet's Service:
	// the ReferenceGrant for that is missing, or so new that some may not have heard of it.
	ReasonNotGranted = "NotGranted"
	// ReasonNotCarriedOut says that the object asks for something that this version does not do.
	ReasonNotCarriedOut = "NotCarriedOut"
)

// Reasons of ConditionProxyInstalled, beside ReasonNameTaken, which is about an object that is not the agent's,
// and ReasonRefused.
const (
	// ReasonInstalledByHand says that Service kedify-proxy is not the agent's: the proxies are left to whoever
	// made it. It is the only reason with status True.
	ReasonInstalledByHand = "InstalledByHand"
	// ReasonInvalidProxySettings says that an annotation of the Namespace cannot be understood. The agent's own
	// setting counts.
	ReasonInvalidProxySettings = "InvalidProxySettings"
)
