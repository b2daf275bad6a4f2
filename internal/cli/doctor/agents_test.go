package doctor_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
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
	return change(func(f *facts.Facts) {
		meta.SetStatusCondition(&f.HTTPScaledObjects[0].Status.Conditions, metav1.Condition{
			Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: "the object belongs to another owner",
		})
	})
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
