package v1alpha1

import "time"

// Annotations on an HTTPScaledObject.
const (
	// AnnotationWeightedBackends splits the object's traffic between Services of its namespace: a YAML list of
	// {service, weight}, the stable Service first. The router plugin writes it during a canary and removes it
	// afterwards. Without it, spec.scaleTargetRef.service receives every request. Package internal/model/split
	// reads and writes its text.
	AnnotationWeightedBackends = "http.kedify.io/weighted-backends"
	// AnnotationWeightedBackendsOwner is the Rollout that wrote AnnotationWeightedBackends, as "namespace/name
	// uid". The router plugin writes and removes both together. It rejects a second Rollout while the first one
	// exists and references this object.
	AnnotationWeightedBackendsOwner = "http.kedify.io/weighted-backends-owner"
	// AnnotationManagedRoutes contains the header and mirror routes of a canary, in order: requests that go to the
	// canary regardless of the weights, and requests that are mirrored to it. The canary is the second entry of
	// AnnotationWeightedBackends, which is always set as well. The router plugin writes and removes both. Package
	// internal/model/managedroute reads and writes its text.
	AnnotationManagedRoutes = "http.kedify.io/managed-routes"
	// AnnotationStickiness decides which entry of AnnotationWeightedBackends receives the requests of a client, so
	// that a client stays on one version during a canary: a YAML mapping, {cookie: {…}}, {header: name} or
	// {sourceAddress: {}}. It has no effect without AnnotationWeightedBackends. The router plugin writes and removes
	// both. Package internal/model/affinity reads and writes its text.
	AnnotationStickiness = "http.kedify.io/stickiness"
	// AnnotationSessionAffinity decides which Pod receives the requests of a client, so that a client stays on one
	// Pod; its form is that of AnnotationStickiness. During a canary it also decides which version, unless
	// AnnotationStickiness does. Without it, the stable Service's sessionAffinity ClientIP means {sourceAddress: {}}.
	AnnotationSessionAffinity = "http.kedify.io/session-affinity"
	// AnnotationAutowireSettings contains what autowiring has taken over from the Ingresses, HTTPRoutes, DestinationRules
	// and Services of the application: a JSON object with protocol h2c for Service ports that select no protocol, and sessionAffinity in
	// the form of AnnotationSessionAffinity, which has precedence. The agent writes it before it wires a backend, and
	// removes it after it has restored the last one. Package internal/model/inherited reads and writes its text.
	AnnotationAutowireSettings = "http.kedify.io/autowire-settings"
	// AnnotationRequestTimeout is the maximum time from the end of a request to the end of the response, with all retries,
	// as a Go duration. 0s means no limit. Without it, the Envoy setting route.timeout applies, otherwise no limit.
	AnnotationRequestTimeout = "http.kedify.io/request-timeout"
	// AnnotationIdleTimeout is how long a request, or a WebSocket, may be without a byte in either direction, as a Go
	// duration. Then the answer is 408 if the request is incomplete, and 504 otherwise. 0s means no limit. Without it, the
	// Envoy setting route.idle_timeout applies, otherwise an hour.
	AnnotationIdleTimeout = "http.kedify.io/idle-timeout"
	// AnnotationStaticResponses contains the requests of the object that the proxies answer themselves, such as by a
	// maintenance page or a redirect: a YAML list, of which the first match applies. Package
	// internal/model/staticresponse reads its text.
	AnnotationStaticResponses = "http.kedify.io/static-responses"
	// AnnotationPlaceholderResponse is the response to all other requests while the target has no ready endpoint. They
	// wake it, and do not wait for it. It is a YAML mapping, which package internal/model/staticresponse reads.
	AnnotationPlaceholderResponse = "http.kedify.io/placeholder-response"
	// AnnotationKeepActive is "false" if the target may scale to zero during a canary. Otherwise it keeps at least
	// one replica until then, because a Rollout without replicas still advances through its timed steps.
	AnnotationKeepActive = "http.kedify.io/keep-active-during-canary"
	// AnnotationFleet selects the proxies that serve the object. Without it, they are those of its namespace.
	// FleetShared is the only value.
	AnnotationFleet = "http.kedify.io/fleet"
	// FleetShared is the value of AnnotationFleet for the proxies of the interceptor's namespace.
	FleetShared = "shared"
	// InterceptorTLSSecret is the default name of the Secret with the interceptor's certificate, and InterceptorCA that of
	// the ConfigMap with the CAs that sign it. Both are in the interceptor's namespace.
	InterceptorTLSSecret = "kedify-http-interceptor-tls" //nolint:gosec // It is a name.
	InterceptorCA        = "kedify-http-interceptor-ca"
	// InterceptorCAKey is the key of the CAs in that ConfigMap, in PEM.
	InterceptorCAKey = "ca.crt"
	// AnnotationProxyAuthentication is set on Service kedify-proxy. It selects whether the proxies of the fleet must prove
	// by a token that they belong to it. It overrides the interceptor's flag --proxy-authentication.
	AnnotationProxyAuthentication = "http.kedify.io/proxy-authentication"
	// ProxyAuthenticationPermissive is the value for a fleet that serves proxies without a token, too. These receive no
	// private keys.
	ProxyAuthenticationPermissive = "permissive"
	// ProxyAuthenticationStrict is the value for a fleet that serves only proxies with a valid token.
	ProxyAuthenticationStrict = "strict"
	// ReasonInvalidProxyAuthentication is the reason of an Event on Service kedify-proxy: its annotation
	// AnnotationProxyAuthentication is neither of both values. The fleet is strict until it is corrected.
	ReasonInvalidProxyAuthentication = "InvalidProxyAuthentication"
	// AnnotationAllowedNamespaces lists, separated by commas, the namespaces whose HTTPScaledObjects in the shared
	// fleet may have routes of this object's hosts and of the hosts below its wildcards. AllNamespaces stands for
	// all. It counts on the object that owns the host: the oldest one with the host or a wildcard above it.
	AnnotationAllowedNamespaces = "http.kedify.io/allowed-namespaces"
	// AllNamespaces is the entry of AnnotationAllowedNamespaces for all namespaces.
	AllNamespaces = "*"
	// AnnotationStatus contains, as JSON of HTTPScaledObjectStatus, the status fields that the installed CRD
	// lacks, and the object's UID as uid. The CRDs of the KEDA HTTP add-on and of Kedify's chart lack some. The
	// interceptor writes and removes it; StatusOf reads it.
	AnnotationStatus = "http.kedify.io/status"
	// AnnotationFallbackService names the Service that selects the application's Pods while autowiring has taken over the
	// Service of AnnotationAutowireService. The proxies forward to it. Without it, that is spec.scaleTargetRef.service. The
	// agent creates the Service if it does not exist.
	AnnotationFallbackService = "http.kedify.io/fallback-service"
	// AnnotationAutowireService names the Service that clients call, if autowiring may take it over: "service" is in
	// AnnotationTrafficAutowire. It differs from spec.scaleTargetRef.service, to which the proxies forward.
	AnnotationAutowireService = "http.kedify.io/autowire-service"
	// AnnotationExternalProxyMetricKey is the name of a cluster of external proxies. The requests that the proxies
	// at the addresses of AnnotationExternalProxySources report for it are counted instead of those for the
	// object's own clusters.
	AnnotationExternalProxyMetricKey = "http.kedify.io/external-proxy-metric-key"
	// AnnotationExternalProxySources lists, separated by commas, the IP addresses and CIDRs of the external proxies
	// that may report the cluster of AnnotationExternalProxyMetricKey. Without it, none may. 0.0.0.0/0 and ::/0 let
	// any Pod report any demand for the object.
	AnnotationExternalProxySources = "http.kedify.io/external-proxy-sources"
	// AnnotationTLSSecretName references a Secret of type kubernetes.io/tls in the object's namespace. The proxies
	// use its certificate and private key to serve TLS for the object's hosts.
	AnnotationTLSSecretName = "http.kedify.io/tls-secret-name" //nolint:gosec // It is the name of a name.
	// AnnotationTrafficAutowire lists the kinds of routing objects that may be pointed at the proxy; "false" means
	// none.
	AnnotationTrafficAutowire = "http.kedify.io/traffic-autowire"
	// AnnotationSkipScaledObjectCreation prevents an upstream HTTP add-on operator from creating a ScaledObject
	// for the object. It is set on objects that were created from a ScaledObject.
	AnnotationSkipScaledObjectCreation = "httpscaledobject.keda.sh/skip-scaledobject-creation"
)

// Condition types in HTTPScaledObjectStatus.Conditions.
const (
	// ConditionAccepted is True if the object and its annotations are valid and every referenced Service can be
	// routed to. While it is False, the last valid route stays active.
	ConditionAccepted = "Accepted"
	// ConditionReady is True if the object's hosts are served: the object is accepted, and its route has been
	// published to the proxies. Printer column ACTIVE shows this condition.
	ConditionReady = "Ready"
	// ConditionProgrammed is True if every Ready proxy of the object's fleet has acknowledged the current object,
	// and at least one proxy is Ready. Name and meaning are those of the Gateway API.
	ConditionProgrammed = "Programmed"
	// ConditionHostsUncontested is False while HTTPScaledObjects of other namespaces claim hosts of the object in the
	// shared fleet. No request is routed to them, and the object is served regardless. It is absent if no host was
	// ever claimed.
	ConditionHostsUncontested = "HostsUncontested"
	// ConditionTLSReady is True if the proxies serve TLS for every host of the object with the certificate in the
	// Secret of AnnotationTLSSecretName, and the certificate covers the hosts. It is absent if the object
	// references no Secret. Plain HTTP requests are routed regardless.
	ConditionTLSReady = "TLSReady"
	// ConditionScalingMetricAccepted is False if spec.scalingMetric is invalid. Then the demand for the object is
	// unknown, and its workload keeps its replicas. Requests are routed regardless. It is absent if the metric was
	// never invalid.
	ConditionScalingMetricAccepted = "ScalingMetricAccepted"
	// ConditionExternalSourcesLimited is False if AnnotationExternalProxySources contains every address, so that any
	// Pod may report any demand for the object. It is absent if it never did.
	ConditionExternalSourcesLimited = "ExternalSourcesLimited"
	// ConditionWaitingPageAccepted is False if the ConfigMap with the object's waiting page is unusable. Then the
	// interceptor's default page is shown. It is absent if the page was never invalid.
	ConditionWaitingPageAccepted = "WaitingPageAccepted"
	// ConditionScalingFieldsApplied is False if the spec contains fields about scaling that no component applies, because
	// the ScaledObject has their settings. It is a warning: requests are routed, and the workload scales as the
	// ScaledObject says. It is absent if there never were such fields.
	ConditionScalingFieldsApplied = "ScalingFieldsApplied"
	// ConditionEnvoySettingsAccepted is False if a ConfigMap with Envoy settings for the object is invalid. Its
	// previous settings stay active. It is absent if they were never invalid.
	ConditionEnvoySettingsAccepted = "EnvoySettingsAccepted"
)

// Reasons of ConditionAccepted.
const (
	// ReasonAccepted means that the object is valid. It is the only reason with status True.
	ReasonAccepted = "Accepted"
	// ReasonInvalidWeightedBackends means that AnnotationWeightedBackends is invalid: syntax, size, aliases,
	// duplicates, names or weights.
	ReasonInvalidWeightedBackends = "InvalidWeightedBackends"
	// ReasonInvalidManagedRoutes means that AnnotationManagedRoutes is invalid, has no canary, or results in too
	// many routes.
	ReasonInvalidManagedRoutes = "InvalidManagedRoutes"
	// ReasonInvalidStickiness means that AnnotationStickiness is invalid. The weights are applied regardless.
	ReasonInvalidStickiness = "InvalidStickiness"
	// ReasonInvalidSessionAffinity means that AnnotationSessionAffinity is invalid.
	ReasonInvalidSessionAffinity = "InvalidSessionAffinity"
	// ReasonInvalidTimeout means that AnnotationRequestTimeout or AnnotationIdleTimeout is no duration of at least 0s. The
	// previous timeout stays active.
	ReasonInvalidTimeout = "InvalidTimeout"
	// ReasonInvalidStaticResponses means that AnnotationStaticResponses or a ConfigMap that it names is invalid, or that
	// its responses are too many or too large. The previous responses stay active.
	ReasonInvalidStaticResponses = "InvalidStaticResponses"
	// ReasonInvalidPlaceholderResponse means that AnnotationPlaceholderResponse or a ConfigMap that it names is invalid. The
	// previous response stays active.
	ReasonInvalidPlaceholderResponse = "InvalidPlaceholderResponse"
	// ReasonInvalidSpec means that a field of the spec passes the schema but is invalid, such as an unparsable
	// duration or a number that is too large.
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonInvalidHosts means that spec.hosts is empty or contains an invalid host name. The valid hosts are served, and
	// the previous ones stay active.
	ReasonInvalidHosts = "InvalidHosts"
	// ReasonInvalidPathPrefixes means that spec.pathPrefixes contains something other than an absolute path. The valid
	// prefixes are served, and the previous ones stay active.
	ReasonInvalidPathPrefixes = "InvalidPathPrefixes"
	// ReasonInvalidHeaders means that spec.headers contains a name or value that HTTP does not allow (RFC 9110,
	// section 5).
	ReasonInvalidHeaders = "InvalidHeaders"
	// ReasonServiceNotFound means that a referenced Service does not exist in the object's namespace.
	ReasonServiceNotFound = "ServiceNotFound"
	// ReasonServiceUnsupported means that a referenced Service has no endpoints by design, such as one of type
	// ExternalName.
	ReasonServiceUnsupported = "ServiceUnsupported"
	// ReasonPortNotFound means that a referenced Service lacks spec.scaleTargetRef.port or portName.
	ReasonPortNotFound = "PortNotFound"
	// ReasonInvalidFleet means that AnnotationFleet has an unknown value.
	ReasonInvalidFleet = "InvalidFleet"
	// ReasonNamespaceLimit means that the namespace has more HTTPScaledObjects, or more hosts in them, than the
	// operator allows. The oldest ones are served.
	ReasonNamespaceLimit = "NamespaceLimit"
	// ReasonRouteConflict means that an older HTTPScaledObject of the same fleet has the same host, path prefix and
	// headers, or that a host belongs to another namespace of the shared fleet.
	ReasonRouteConflict = "RouteConflict"
	// ReasonInvalidAllowedNamespaces means that AnnotationAllowedNamespaces is too long or contains an entry that is
	// not the name of a namespace. The valid entries are active.
	ReasonInvalidAllowedNamespaces = "InvalidAllowedNamespaces"
)

// Reasons of ConditionHostsUncontested.
const (
	// ReasonHostsUncontested means that no other namespace claims a host of the object any more. It is the only
	// reason with status True.
	ReasonHostsUncontested = "HostsUncontested"
	// ReasonHostClaimedByOther means that an HTTPScaledObject of another namespace claims a host of the object, and
	// no request is routed to it there. The message names it.
	ReasonHostClaimedByOther = "HostClaimedByOther"
)

// Reasons of ConditionScalingMetricAccepted.
const (
	// ReasonScalingMetricAccepted means that the metric is valid again. It is the only reason with status True.
	ReasonScalingMetricAccepted = "ScalingMetricAccepted"
	// ReasonInvalidScalingMetric means that spec.scalingMetric has two metrics, or an invalid number or duration, or
	// that AnnotationExternalProxySources is invalid, or missing next to an external key.
	ReasonInvalidScalingMetric = "InvalidScalingMetric"
)

// Reasons of ConditionExternalSourcesLimited.
const (
	// ReasonExternalSourcesLimited means that not every address may report any more. It is the only reason with
	// status True.
	ReasonExternalSourcesLimited = "ExternalSourcesLimited"
	// ReasonAnyAddressAccepted means that any address may report the demand for the object.
	ReasonAnyAddressAccepted = "AnyAddressAccepted"
)

// Reasons of ConditionScalingFieldsApplied.
const (
	// ReasonScalingFieldsApplied means that the spec contains no such field any more. It is the only reason with status
	// True.
	ReasonScalingFieldsApplied = "ScalingFieldsApplied"
	// ReasonFieldsNotApplied means that the message lists the fields, with those of the ScaledObject to set instead.
	ReasonFieldsNotApplied = "FieldsNotApplied"
)

// Reasons of ConditionWaitingPageAccepted.
const (
	// ReasonWaitingPageAccepted means that the page is valid again. It is the only reason with status True.
	ReasonWaitingPageAccepted = "WaitingPageAccepted"
	// ReasonWaitingPageNotFound means that the ConfigMap does not exist in the object's namespace, or lacks the
	// label by which the interceptor finds it.
	ReasonWaitingPageNotFound = "WaitingPageNotFound"
	// ReasonInvalidWaitingPage means that the ConfigMap lacks the page, has a page that is too large, or has another
	// invalid key.
	ReasonInvalidWaitingPage = "InvalidWaitingPage"
)

// Reasons of ConditionEnvoySettingsAccepted.
const (
	// ReasonEnvoySettingsAccepted means that the settings are valid again. It is the only reason with status True.
	ReasonEnvoySettingsAccepted = "EnvoySettingsAccepted"
	// ReasonInvalidEnvoySettings means that a setting in a ConfigMap is unknown or has a value that is not
	// allowed.
	ReasonInvalidEnvoySettings = "InvalidEnvoySettings"
)

// Reasons of Events on HTTPScaledObjects about requests while the workload is scaled to zero, each at most once in
// five minutes.
const (
	// ReasonColdStart means that a request waits for the first ready endpoint, and none waited before.
	ReasonColdStart = "ColdStart"
	// ReasonQueueLimitReached means that a request was rejected because the queue is full.
	ReasonQueueLimitReached = "QueueLimitReached"
	// ReasonColdStartTimeout means that a queued request timed out.
	ReasonColdStartTimeout = "ColdStartTimeout"
	// ReasonColdStartFailover means that the Service in spec.coldStartTimeoutFailoverRef received a request that
	// timed out.
	ReasonColdStartFailover = "ColdStartFailover"
)

// Reasons of ConditionTLSReady.
const (
	// ReasonTLSReady means that the proxies serve TLS for every host of the object. It is the only reason with status True.
	ReasonTLSReady = "TLSReady"
	// ReasonSecretPending means that the Secret has not been read yet. It is the only reason with status Unknown.
	ReasonSecretPending = "SecretPending"
	// ReasonInvalidSecretName means that AnnotationTLSSecretName is not a valid object name.
	ReasonInvalidSecretName = "InvalidSecretName"
	// ReasonSecretNotFound means that the Secret does not exist in the object's namespace.
	ReasonSecretNotFound = "SecretNotFound"
	// ReasonSecretUnreadable means that the interceptor cannot read the Secret, usually because it lacks
	// permission or was started without TLS. A certificate that it read before stays active.
	ReasonSecretUnreadable = "SecretUnreadable"
	// ReasonInvalidSecret means that the Secret has no matching certificate and key that proxies can use. The last
	// valid ones stay active.
	ReasonInvalidSecret = "InvalidSecret"
	// ReasonCertificateConflict means that a host of the object is served with the certificate of an older object with the
	// same host.
	ReasonCertificateConflict = "CertificateConflict"
	// ReasonHostNotCovered means that the certificate does not cover a host of the object. It is used regardless,
	// and clients that verify it reject it.
	ReasonHostNotCovered = "HostNotCovered"
)

// Reasons of ConditionProgrammed.
const (
	// ReasonProgrammed means that every Ready proxy has acknowledged the object. It is the only reason with status
	// True.
	ReasonProgrammed = "Programmed"
	// ReasonNotAcknowledged means that a Ready proxy has not acknowledged the object yet.
	ReasonNotAcknowledged = "NotAcknowledged"
	// ReasonNoReadyProxy means that no proxy of the object's fleet is Ready.
	ReasonNoReadyProxy = "NoReadyProxy"
	// ReasonNotReady means that ConditionReady is False; see that condition.
	ReasonNotReady = "NotReady"
)

// Reasons of ConditionReady.
const (
	// ReasonServing means that the route is published to the proxies. Of the reasons with status True, it is the one of
	// objects with a route.
	ReasonServing = "Serving"
	// ReasonUnrouted means that the object has no route, by annotation http.kedify.io/routing. The status is True.
	ReasonUnrouted = "Unrouted"
	// ReasonNotAccepted means that ConditionAccepted is False; see that condition.
	ReasonNotAccepted = "NotAccepted"
	// ReasonPublishFailed means that the route could not be published; the last valid route stays active.
	ReasonPublishFailed = "PublishFailed"
	// ReasonRejectedByProxy means that a proxy rejected the route (NACK) and keeps the previous one. It is a bug of
	// the interceptor; the message has the proxy's address and its error.
	ReasonRejectedByProxy = "RejectedByProxy"
)

// The Lease (coordination.k8s.io/v1) that shows whether status.dataPlane is current. Its holder writes the reports of
// all interceptors. While the Lease is not renewed, status.dataPlane is outdated.
const (
	// DefaultInterceptorNamespace is the default namespace of the interceptors and their Lease.
	DefaultInterceptorNamespace = "keda"
	// DefaultInterceptorLease is the default name of the Lease. It is also the Lease for the election of the
	// status writer.
	DefaultInterceptorLease = "kedify-http-interceptor"
	// LeaseRenewInterval is how often the holder renews the Lease (spec.renewTime).
	LeaseRenewInterval = 5 * time.Second
	// LeaseFreshness is how long a reader considers the Lease current after it observed a change of
	// spec.renewTime: three renewals. Readers use the observed changes and not the time in the field, because
	// clocks differ between machines.
	LeaseFreshness = 15 * time.Second
)
