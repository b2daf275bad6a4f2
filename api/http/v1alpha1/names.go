package v1alpha1

import "time"

// Annotations on an HTTPScaledObject.
const (
	// AnnotationWeightedBackends shares the object's requests between Services of its namespace: a YAML list of {service, weight}, the stable Service
	// first. The router plugin writes it during a canary and removes it afterwards; absent, every request goes to spec.scaleTargetRef.service.
	// Package internal/model/split reads and writes its text.
	AnnotationWeightedBackends = "http.kedify.io/weighted-backends"
	// AnnotationWeightedBackendsOwner names the Rollout that wrote AnnotationWeightedBackends, as "namespace/name uid". The router plugin writes and removes
	// both together, and refuses a second Rollout while the first one exists and names this object.
	AnnotationWeightedBackendsOwner = "http.kedify.io/weighted-backends-owner"
	// AnnotationManagedRoutes has the header and mirror routes of a canary, in order: which requests go to the canary whatever the weights, and of which ones it gets
	// copies. The canary is the second entry of AnnotationWeightedBackends, which is always there beside it, and the router plugin writes and removes both.
	// Package internal/model/managedroute reads and writes its text.
	AnnotationManagedRoutes = "http.kedify.io/managed-routes"
	// AnnotationKeepActive is "false" where the target may go to zero replicas while a canary is under way. Otherwise it keeps at least one until then: a
	// Rollout without replicas goes through its timed steps all the same.
	AnnotationKeepActive = "http.kedify.io/keep-active-during-canary"
	// AnnotationFleet says which proxies serve the object. Absent, they are those of its namespace; FleetShared is the only value.
	AnnotationFleet = "http.kedify.io/fleet"
	// FleetShared is the value of AnnotationFleet for the proxies of the interceptor's namespace.
	FleetShared = "shared"
	// AnnotationStatus holds, as JSON of HTTPScaledObjectStatus, those fields of the status for which the
	// installed CustomResourceDefinition has no place, as those of the KEDA HTTP add-on and of Kedify's
	// chart, and beside them the object's UID as uid. The interceptor writes and removes it; StatusOf reads
	// it.
	AnnotationStatus = "http.kedify.io/status"
	// AnnotationFallbackService names the real backend behind a Service that autowire has rewritten. Autowire rewrites no Service yet, so nothing acts on it.
	AnnotationFallbackService = "http.kedify.io/fallback-service"
	// AnnotationExternalProxyMetricKey is the name of a cluster of a proxy that is not ours. The requests that this proxy reports for it are counted in place of
	// those for the object's own clusters.
	AnnotationExternalProxyMetricKey = "http.kedify.io/external-proxy-metric-key"
	// AnnotationTLSSecretName names a Secret of the object's namespace, of type kubernetes.io/tls, with the certificate and the private key that the
	// proxies answer TLS with for the object's hosts.
	AnnotationTLSSecretName = "http.kedify.io/tls-secret-name" //nolint:gosec // It is the name of a name.
	// AnnotationTrafficAutowire lists the kinds of routing objects that may be pointed at the proxy; "false" means none.
	AnnotationTrafficAutowire = "http.kedify.io/traffic-autowire"
	// AnnotationSkipScaledObjectCreation keeps an upstream HTTP add-on operator from creating a ScaledObject of its own for the object. It is set on
	// objects that were themselves made from a ScaledObject.
	AnnotationSkipScaledObjectCreation = "httpscaledobject.keda.sh/skip-scaledobject-creation"
)

// Condition types in HTTPScaledObjectStatus.Conditions.
const (
	// ConditionAccepted is True when the object, its annotations included, is understood and every Service it names can be routed to. When it is False,
	// the last good route stays in force.
	ConditionAccepted = "Accepted"
	// ConditionReady is True when the object's hosts are served: it is accepted and its route has been published to the proxies. The ACTIVE printer
	// column shows this condition.
	ConditionReady = "Ready"
	// ConditionProgrammed is True when every Ready proxy of the object's fleet has acknowledged the object
	// as it is, and there is one. The name and the meaning are Gateway API's.
	ConditionProgrammed = "Programmed"
	// ConditionTLSReady is True when the proxies answer TLS for every host of the object with the certificate in the Secret that AnnotationTLSSecretName names, and
	// that covers them. It is absent where the object names none. Requests in clear text are routed all the same.
	ConditionTLSReady = "TLSReady"
	// ConditionScalingMetricAccepted is False when spec.scalingMetric means nothing: the demand for the object is unknown then, and its workload keeps
	// its replicas. Requests are routed all the same. It is absent where nothing was ever wrong.
	ConditionScalingMetricAccepted = "ScalingMetricAccepted"
	// ConditionWaitingPageAccepted is False when the ConfigMap with the object's waiting page cannot be used: the interceptor's own page is shown then. It is
	// absent where nothing was ever wrong.
	ConditionWaitingPageAccepted = "WaitingPageAccepted"
	// ConditionEnvoySettingsAccepted is False when a ConfigMap with settings of Envoy for the object cannot be used: what it said before stays in
	// force. It is absent where nothing was ever wrong.
	ConditionEnvoySettingsAccepted = "EnvoySettingsAccepted"
)

// Reasons of ConditionAccepted.
const (
	// ReasonAccepted says that there is nothing to complain about. It is the only reason with status True.
	ReasonAccepted = "Accepted"
	// ReasonInvalidWeightedBackends says that AnnotationWeightedBackends cannot be read: syntax, size, aliases, duplicates, names or weights.
	ReasonInvalidWeightedBackends = "InvalidWeightedBackends"
	// ReasonInvalidManagedRoutes says that AnnotationManagedRoutes cannot be read, names no canary, or makes too many routes.
	ReasonInvalidManagedRoutes = "InvalidManagedRoutes"
	// ReasonInvalidSpec says that a field of the spec passes the schema but has no meaning: a duration that is none, or a number that is too large.
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonInvalidHosts says that spec.hosts is empty or holds something that is not a host name.
	ReasonInvalidHosts = "InvalidHosts"
	// ReasonInvalidPathPrefixes says that spec.pathPrefixes holds something that is not an absolute path.
	ReasonInvalidPathPrefixes = "InvalidPathPrefixes"
	// ReasonInvalidHeaders says that spec.headers holds a name or value that HTTP does not allow (RFC 9110, section 5).
	ReasonInvalidHeaders = "InvalidHeaders"
	// ReasonServiceNotFound says that a named Service is not in the object's namespace.
	ReasonServiceNotFound = "ServiceNotFound"
	// ReasonServiceUnsupported says that a named Service has no endpoints to route to by design, such as one of type ExternalName.
	ReasonServiceUnsupported = "ServiceUnsupported"
	// ReasonPortNotFound says that a named Service lacks spec.scaleTargetRef.port or portName.
	ReasonPortNotFound = "PortNotFound"
	// ReasonInvalidFleet says that AnnotationFleet has a value that means nothing.
	ReasonInvalidFleet = "InvalidFleet"
	// ReasonNamespaceLimit says that the namespace has more HTTPScaledObjects, or more hosts in them, than the operator allows; the oldest ones are served.
	ReasonNamespaceLimit = "NamespaceLimit"
	// ReasonConflict says that an older HTTPScaledObject of the same fleet already has the same host, path prefix and headers.
	ReasonConflict = "Conflict"
)

// Reasons of ConditionScalingMetricAccepted.
const (
	// ReasonScalingMetricAccepted says that there is nothing to complain about any more. It is the only reason with status True.
	ReasonScalingMetricAccepted = "ScalingMetricAccepted"
	// ReasonInvalidScalingMetric says that spec.scalingMetric has two measures, or a number or duration that means nothing.
	ReasonInvalidScalingMetric = "InvalidScalingMetric"
)

// Reasons of ConditionWaitingPageAccepted.
const (
	// ReasonWaitingPageAccepted says that there is nothing to complain about any more. It is the only reason with status True.
	ReasonWaitingPageAccepted = "WaitingPageAccepted"
	// ReasonWaitingPageNotFound says that there is no such ConfigMap in the object's namespace, or that it has not the label by which the interceptor finds it.
	ReasonWaitingPageNotFound = "WaitingPageNotFound"
	// ReasonInvalidWaitingPage says that the ConfigMap lacks the page, that the page is too large, or that another key means nothing.
	ReasonInvalidWaitingPage = "InvalidWaitingPage"
)

// Reasons of ConditionEnvoySettingsAccepted.
const (
	// ReasonEnvoySettingsAccepted says that there is nothing to complain about any more. It is the only reason with status True.
	ReasonEnvoySettingsAccepted = "EnvoySettingsAccepted"
	// ReasonInvalidEnvoySettings says that a setting in a ConfigMap is unknown, or that its value is not among those allowed.
	ReasonInvalidEnvoySettings = "InvalidEnvoySettings"
)

// Reasons of Events on HTTPScaledObjects that tell of requests while the workload has no replica, each at most once in five minutes.
const (
	// ReasonColdStart says that a request waits for the first ready endpoint, and none did before.
	ReasonColdStart = "ColdStart"
	// ReasonTooManyHeld says that a request was refused because as many waited as may.
	ReasonTooManyHeld = "TooManyHeld"
	// ReasonColdStartTimeout says that a request has waited in vain.
	ReasonColdStartTimeout = "ColdStartTimeout"
	// ReasonColdStartFailover says that spec.coldStartTimeoutFailoverRef has answered one that has.
	ReasonColdStartFailover = "ColdStartFailover"
)

// Reasons of ConditionTLSReady.
const (
	// ReasonTLSReady says that there is nothing to complain about. It is the only reason with status True.
	ReasonTLSReady = "TLSReady"
	// ReasonSecretPending says that the Secret has not been read yet. It is the only reason with status Unknown.
	ReasonSecretPending = "SecretPending"
	// ReasonInvalidSecretName says that AnnotationTLSSecretName is not the name of an object.
	ReasonInvalidSecretName = "InvalidSecretName"
	// ReasonSecretNotFound says that there is no such Secret in the object's namespace.
	ReasonSecretNotFound = "SecretNotFound"
	// ReasonSecretUnreadable says that the interceptor cannot read the Secret, mostly because it may not, or that it was started without TLS. What it has
	// read before stays in force.
	ReasonSecretUnreadable = "SecretUnreadable"
	// ReasonInvalidSecret says that the Secret has no certificate and key that belong together and that proxies can use. The last good ones stay in
	// force.
	ReasonInvalidSecret = "InvalidSecret"
	// ReasonHostTaken says that a host of the object is answered with the certificate of an older object that has the same host.
	ReasonHostTaken = "HostTaken"
	// ReasonHostNotCovered says that the certificate is not for a host of the object. It is used all the same, and clients that check it refuse it.
	ReasonHostNotCovered = "HostNotCovered"
)

// Reasons of ConditionProgrammed.
const (
	// ReasonProgrammed says that every Ready proxy has acknowledged the object. It is the only reason with
	// status True.
	ReasonProgrammed = "Programmed"
	// ReasonPending says that a Ready proxy has not acknowledged the object yet.
	ReasonPending = "Pending"
	// ReasonNoReadyProxy says that no proxy of the object's fleet is Ready.
	ReasonNoReadyProxy = "NoReadyProxy"
	// ReasonNotReady says that ConditionReady is False; that condition tells why.
	ReasonNotReady = "NotReady"
)

// Reasons of ConditionReady.
const (
	// ReasonServing says that the route is published to the proxies. It is the only reason with status True.
	ReasonServing = "Serving"
	// ReasonNotAccepted says that ConditionAccepted is False; that condition tells why.
	ReasonNotAccepted = "NotAccepted"
	// ReasonPublishFailed says that the route could not be published; the last good route stays in force.
	ReasonPublishFailed = "PublishFailed"
	// ReasonRefusedByProxy says that a proxy refused the route (a NACK) and keeps what it had. It is a bug of the interceptor; the message has the proxy's
	// address and reason.
	ReasonRefusedByProxy = "RefusedByProxy"
)

// The Lease (coordination.k8s.io/v1) that shows that status.dataPlane is kept up to date. The interceptor that holds it writes the reports of all; while nobody
// renews it, what status.dataPlane says is history.
const (
	// DefaultInterceptorNamespace is the namespace of the interceptors and their Lease where nothing else is set.
	DefaultInterceptorNamespace = "keda"
	// DefaultInterceptorLease is the name of the Lease where nothing else is set. It is also the one by which the writer is elected.
	DefaultInterceptorLease = "kedify-http-interceptor"
	// LeaseRenewInterval is how often the holder renews the Lease (spec.renewTime).
	LeaseRenewInterval = 5 * time.Second
	// LeaseFreshness is how long a reader takes the Lease for a sign of life after it saw spec.renewTime change: three renewals. Readers go by the changes they
	// see, not by the time written there, because clocks of machines differ.
	LeaseFreshness = 15 * time.Second
)
