package doctor_test

import (
	"cmp"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	httpv1beta1 "github.com/kedify/argo-rollouts-plugin/api/http/v1beta1"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/doctor"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
)

// tlsReady returns the condition TLSReady of the healthy HTTPScaledObject.
func tlsReady(f *facts.Facts) *metav1.Condition {
	return meta.FindStatusCondition(f.HTTPScaledObjects[0].Status.Conditions, httpv1alpha1.ConditionTLSReady)
}

// untrusted sets the condition TLSReady to False.
func untrusted(reason string) func(*testing.T, *facts.Facts) {
	return change(func(f *facts.Facts) {
		tlsReady(f).Status, tlsReady(f).Reason = metav1.ConditionFalse, reason
		tlsReady(f).Message = "Secret shop-tls, which annotation http.kedify.io/tls-secret-name names"
	})
}

// condition sets a condition of the HTTPScaledObject to False.
func condition(kind, reason string) func(*testing.T, *facts.Facts) {
	return conditionWith(kind, reason, "the object belongs to another owner")
}

// conditionWith is condition with a message.
func conditionWith(kind, reason, message string) func(*testing.T, *facts.Facts) {
	return change(func(f *facts.Facts) {
		meta.SetStatusCondition(&f.HTTPScaledObjects[0].Status.Conditions, metav1.Condition{
			Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: message,
		})
	})
}

// warnings are conditions of an object that is served.
func warnings() []breakage {
	const shop = "HTTPScaledObject shop/shop"
	return []breakage{
		{
			name: "another namespace claims a host",
			change: conditionWith(httpv1alpha1.ConditionHostsUncontested, httpv1alpha1.ReasonHostClaimedByOther,
				`HTTPScaledObject other/shop claims host "shop.example.com", and no request is routed to it there`),
			code: doctor.HostClaimedByOther, severity: doctor.Warning, object: shop,
			field: "status.conditions[HostsUncontested]", fix: "http.kedify.io/allowed-namespaces",
		},
		{
			name: "any address may report the demand",
			change: conditionWith(httpv1alpha1.ConditionExternalSourcesLimited, httpv1alpha1.ReasonAnyAddressAccepted,
				`annotation http.kedify.io/external-proxy-sources contains every address`),
			code: doctor.AnyAddressAccepted, severity: doctor.Warning, object: shop,
			field: "status.conditions[ExternalSourcesLimited]", fix: "http.kedify.io/external-proxy-sources",
		},
		{
			name: "a waiting page that is missing",
			change: conditionWith(httpv1alpha1.ConditionWaitingPageAccepted, httpv1alpha1.ReasonWaitingPageNotFound,
				`annotation http.kedify.io/cold-start-waiting-page-config-map-ref: ConfigMap "page" not found`),
			code: doctor.WaitingPageNotAccepted, severity: doctor.Warning, object: shop,
			field: "status.conditions[WaitingPageAccepted]", fix: "docs/how-to/scale-from-zero.md",
		},
		{
			name: "a field of an InterceptorRoute without an effect",
			change: conditionWith(httpv1beta1.ConditionFieldsSupported, httpv1beta1.ReasonUnsupportedField,
				`spec.staticRoutes[0].response.bodyFromConfigMap.key: the path of the request as the key is not supported`),
			code: doctor.FieldsNotSupported, severity: doctor.Warning, object: shop,
			field: "status.conditions[FieldsSupported]", fix: "docs/reference/interceptorroute.md",
		},
		{
			name: "fields that no component applies",
			change: conditionWith(httpv1alpha1.ConditionScalingFieldsApplied, httpv1alpha1.ReasonFieldsNotApplied,
				`no component applies spec.replicas.max: set maxReplicaCount of the ScaledObject`),
			code: doctor.ScalingFieldsNotApplied, severity: doctor.Warning, object: shop,
			field: "status.conditions[ScalingFieldsApplied]", fix: "docs/reference/configuration.md",
		},
		{
			name: "invalid Envoy settings",
			change: conditionWith(httpv1alpha1.ConditionEnvoySettingsAccepted, httpv1alpha1.ReasonInvalidEnvoySettings,
				`ConfigMap "envoy" in namespace "shop": unknown key "listener": use route or cluster`),
			code: doctor.EnvoySettingsNotAccepted, severity: doctor.Warning, object: shop,
			field: "status.conditions[EnvoySettingsAccepted]", fix: "docs/how-to/envoy-settings.md",
		},
	}
}

// agents are breakages of the agent, its objects, and certificates.
func agents() []breakage {
	const agent, account, webhook = "Deployment keda/kedify-http-agent", "ServiceAccount keda/kedify-http-agent", "MutatingWebhookConfiguration kedify-http-agent"
	const shop, certificate = "HTTPScaledObject shop/shop", "status.conditions[TLSReady]"
	return []breakage{
		{
			name: "the agent is missing", change: change(func(f *facts.Facts) { f.Agent = nil }),
			code: doctor.AgentNotFound, object: agent, fix: "install --components agent",
		},
		{
			name:   "the agent is missing, but its webhook exists",
			change: change(func(f *facts.Facts) { f.Agent, f.HTTPScaledObjects[0].Labels = nil, nil }),
			code:   doctor.AgentNotFound, object: agent, fix: "delete the MutatingWebhookConfiguration",
		},
		{
			name: "the agent is not ready", change: change(func(f *facts.Facts) { f.Agent.Status.ReadyReplicas = 0 }),
			code: doctor.AgentNotReady, object: agent, field: "status.readyReplicas",
			fix: "logs deployment/kedify-http-agent",
		},
		{
			name: "the agent's role is missing", change: denyAgent("patch", "scaledobjects"),
			code: doctor.AgentForbidden, object: account, fix: "config/agent/rbac.yaml",
		},
		{
			name: "the agent may not write its webhook", change: denyAgent("patch", "mutatingwebhookconfigurations"),
			code: doctor.AgentForbidden, object: account, fix: "config/agent/rbac.yaml",
		},
		{
			name: "the agent may not rewrite Ingresses", change: denyAgent("patch", "ingresses"),
			code: doctor.ForbiddenInPart, severity: doctor.Warning, object: account, fix: "config/agent/rbac.yaml",
		},
		{
			name: "the agent may not install proxies", change: denyAgent("create", "deployments"),
			code: doctor.ForbiddenInPart, severity: doctor.Warning, object: account, fix: "config/agent/rbac.yaml",
		},
		{
			name: "the agent's webhook is missing", change: change(func(f *facts.Facts) { f.Webhook = nil }),
			code: doctor.WebhookNotFound, severity: doctor.Warning, object: webhook, fix: "--webhook-address=",
		},
		{
			name:   "the webhook has no caBundle",
			change: change(func(f *facts.Facts) { f.Webhook.Webhooks[0].ClientConfig.CABundle = nil }),
			code:   doctor.WebhookNotReady, object: webhook, field: "webhooks[0].clientConfig", fix: "caBundle",
		},
		{
			name: "the webhook's Service is missing", change: change(func(f *facts.Facts) {
				delete(f.Services, types.NamespacedName{Namespace: "keda", Name: facts.AgentName})
			}),
			code: doctor.WebhookNotReady, object: webhook, field: "webhooks[0].clientConfig", fix: "config/agent",
		},
		{
			name:   "the names of the agent's proxies are in use",
			change: condition(httpv1alpha1.ConditionProxyInstalled, httpv1alpha1.ReasonNameInUse),
			code:   doctor.ProxyNotInstalled, object: shop, field: "status.conditions[ProxyInstalled]",
			fix: "docs/how-to/proxies.md",
		},
		{
			name:   "another tool has reverted the backends",
			change: condition(httpv1alpha1.ConditionAutowired, httpv1alpha1.ReasonBackendRevertedByOther),
			code:   doctor.NotWired, severity: doctor.Warning, object: shop, field: "status.conditions[Autowired]",
			fix: "trafficAutowire",
		},
		{
			name:   "a ReferenceGrant was refused",
			change: condition(httpv1alpha1.ConditionAutowired, httpv1alpha1.ReasonWriteRejected),
			code:   doctor.NotWired, severity: doctor.Warning, object: shop, field: "status.conditions[Autowired]",
			fix: "kedify-http-agent-grants",
		},
		{
			name: "a certificate's Secret does not exist", change: untrusted(httpv1alpha1.ReasonSecretNotFound),
			code: doctor.CertificateNotReady, object: shop, field: certificate,
			fix: "kubectl -n shop create secret tls shop-tls",
		},
		{
			name: "a certificate's Secret may not be read", change: untrusted(httpv1alpha1.ReasonSecretUnreadable),
			code: doctor.CertificateNotReady, object: shop, field: certificate,
			fix: "create rolebinding kedify-http-interceptor-tls --namespace=shop",
		},
		{
			name: "a certificate's Secret is not read", change: change(func(f *facts.Facts) {
				tlsReady(f).Status, tlsReady(f).Reason = metav1.ConditionUnknown, httpv1alpha1.ReasonSecretPending
				tlsReady(f).LastTransitionTime = metav1.NewTime(f.Now.Add(-2 * time.Minute))
			}),
			code: doctor.CertificateNotReady, object: shop, field: certificate, fix: "create rolebinding",
		},
		{
			name: "an invalid certificate", change: untrusted(httpv1alpha1.ReasonInvalidSecret),
			code: doctor.CertificateNotReady, object: shop, field: certificate, fix: "docs/how-to/tls.md",
		},
		{
			name: "a certificate for another host", change: untrusted(httpv1alpha1.ReasonHostNotCovered),
			code: doctor.CertificateNotReady, object: shop, field: certificate,
			fix: "certificate in Secret shop/shop-tls",
		},
		{
			name: "a host with the certificate of another object", change: untrusted(httpv1alpha1.ReasonCertificateConflict),
			code: doctor.CertificateNotReady, object: shop, field: certificate, fix: "the same Secret",
		},
	}
}

// declaredConditions returns the types of conditions in package v1alpha1 by the name of their constant.
func declaredConditions(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("../../../api/http/v1alpha1/*.go")
	if err != nil {
		t.Fatal(err)
	}
	conditions := map[string]string{}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range regexp.MustCompile(`(?m)^\s+(Condition\w+) += "(\w+)"`).FindAllStringSubmatch(string(source), -1) {
			conditions[match[1]] = match[2]
		}
	}
	return conditions
}

// TestEveryConditionIsReported sets each condition that the interceptor and the agent write to False. doctor reports a
// finding for each, except Programmed.
func TestEveryConditionIsReported(t *testing.T) {
	t.Parallel()
	reasons := map[string]string{ // for conditions that are False for other reasons in a healthy installation
		httpv1alpha1.ConditionAutowired: httpv1alpha1.ReasonBackendRevertedByOther,
	}
	declared := declaredConditions(t)
	if len(declared) < 12 {
		t.Errorf("found only %v", declared)
	}
	for constant, kind := range declared {
		if kind == httpv1alpha1.ConditionProgrammed {
			continue // It is False during each step of a canary; `status` shows it.
		}
		reason := cmp.Or(reasons[kind], "AnyOther")
		cluster := healthy(t)
		conditionWith(kind, reason, "the message")(t, cluster)
		field := "status.conditions[" + kind + "]"
		isReported := slices.ContainsFunc(doctor.Examine(cluster), func(finding doctor.Finding) bool {
			return finding.Field == field && finding.Message == reason+": the message"
		})
		if !isReported {
			t.Errorf("doctor does not report a False condition %s (%s)", kind, constant)
		}
	}
}
