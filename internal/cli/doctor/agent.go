package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	httpv1beta1 "github.com/kedify/argo-rollouts-plugin/api/http/v1beta1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/proxies"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
)

// installAgentFix installs the agent.
const installAgentFix = "kubectl http-canary install --components agent, or kubectl apply --server-side " +
	"--force-conflicts -k config/agent"

// agent checks that the agent exists if objects depend on it, that it is ready, and its webhook.
func agent(cluster *facts.Facts) []Finding {
	switch {
	case !cluster.HasRead(facts.Deployments):
		return nil
	case cluster.Agent == nil:
		return agentMissing(cluster)
	}
	if ready, ok := readiness(cluster.Agent); !ok {
		return []Finding{{
			Code: AgentNotReady, Severity: Error, Object: agentObject(cluster), Field: "status.readyReplicas",
			Message: ready + ": the agent creates no HTTPScaledObjects and proxies, and rewrites no Ingresses",
			Fix: fmt.Sprintf("see the log for what the agent waits for: kubectl -n %s logs deployment/%s",
				cluster.Agent.Namespace, cluster.Agent.Name),
		}}
	}
	return webhook(cluster)
}

// agentObject returns the object name of the agent's Deployment.
func agentObject(cluster *facts.Facts) string {
	if cluster.Agent == nil {
		return objectName("Deployment", httpv1alpha1.DefaultInterceptorNamespace, facts.AgentName)
	}
	return objectName("Deployment", cluster.Agent.Namespace, cluster.Agent.Name)
}

// agentMissing finds objects that depend on an agent that does not exist.
func agentMissing(cluster *facts.Facts) []Finding {
	finding := Finding{
		Code: AgentNotFound, Severity: Error, Object: agentObject(cluster),
		Message: "no Deployment has the labels app.kubernetes.io/part-of=kedify-http and " +
			"app.kubernetes.io/component=agent",
		Fix: installAgentFix,
	}
	for i := range cluster.HTTPScaledObjects {
		if object := &cluster.HTTPScaledObjects[i]; isManagedByAgent(object) {
			finding.Message += fmt.Sprintf(", but HTTPScaledObject %s/%s is managed by an agent: changes of its "+
				"trigger have no effect, and its proxies are unmanaged",
				object.Namespace, object.Name)
			return []Finding{finding}
		}
	}
	if cluster.Webhook != nil {
		finding.Message += fmt.Sprintf(", but MutatingWebhookConfiguration %s exists: the API server rejects "+
			"ScaledObjects with a trigger of type %s",
			cluster.Webhook.Name, facts.TriggerType)
		finding.Fix += "; or delete the MutatingWebhookConfiguration"
		return []Finding{finding}
	}
	return nil
}

// isManagedByAgent reports whether the agent has created an object.
func isManagedByAgent(object *httpv1alpha1.HTTPScaledObject) bool {
	return object.Labels[httpv1alpha1.LabelManagedBy] == httpv1alpha1.ManagedByAgent
}

// webhook checks the webhook of a running agent.
func webhook(cluster *facts.Facts) []Finding {
	address, isSet := flagValue(cluster.Agent, "webhook-address")
	if !cluster.HasRead(facts.Webhook) || isSet && address == "" {
		return nil
	}
	name := cmp.Or(valueOnly(flagValue(cluster.Agent, "webhook-configuration")), facts.AgentName)
	object := objectName("MutatingWebhookConfiguration", "", name)
	if cluster.Webhook == nil {
		return []Finding{{
			Code: WebhookNotFound, Severity: Warning, Object: object,
			Message: "does not exist: triggers are converted only after KEDA has reported an error, and kubectl " +
				"apply does not validate them",
			Fix: installAgentFix + "; or start the agent with --webhook-address=",
		}}
	}
	for i, hook := range cluster.Webhook.Webhooks {
		finding := Finding{
			Code: WebhookNotReady, Severity: Error, Object: object,
			Field: fmt.Sprintf("webhooks[%d].clientConfig", i),
		}
		const refused = ": the API server rejects ScaledObjects with a trigger of type " + facts.TriggerType
		service := hook.ClientConfig.Service
		isOld := cluster.Now.Sub(cluster.Webhook.CreationTimestamp.Time) > gracePeriod
		switch {
		case service != nil && cluster.HasRead(facts.Services) &&
			cluster.Service(service.Namespace, service.Name) == nil:
			finding.Message = fmt.Sprintf("Service %s/%s does not exist%s", service.Namespace, service.Name, refused)
			finding.Fix = installAgentFix
		case len(hook.ClientConfig.CABundle) == 0 && isOld:
			finding.Message = "caBundle is empty, although the agent sets it" + refused
			finding.Fix = fmt.Sprintf("see the log of the agent for the reason: kubectl -n %s logs deployment/%s. A "+
				"tool that applies the MutatingWebhookConfiguration must not set caBundle (docs/reference/agent.md)",
				cluster.Agent.Namespace, cluster.Agent.Name)
		default:
			continue
		}
		return []Finding{finding}
	}
	return nil
}

// valueOnly returns the first of two values.
func valueOnly(text string, _ bool) string { return text }

// flagValue returns the value of a flag in a Deployment, set as an argument or by the environment; false if it is not
// set.
func flagValue(deployment *appsv1.Deployment, flag string) (string, bool) {
	for _, container := range deployment.Spec.Template.Spec.Containers {
		for i, argument := range container.Args {
			if value, ok := strings.CutPrefix(argument, "--"+flag+"="); ok {
				return value, true
			}
			if argument == "--"+flag && i+1 < len(container.Args) {
				return container.Args[i+1], true
			}
		}
		variable := "KEDIFY_AGENT_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
		for _, env := range container.Env {
			if env.Name == variable {
				return env.Value, true
			}
		}
	}
	return "", false
}

// isEnabled reports whether a boolean flag of the agent is true, which is the default.
func isEnabled(cluster *facts.Facts, flag string) bool {
	text, isSet := flagValue(cluster.Agent, flag)
	enabled, err := strconv.ParseBool(text)
	return !isSet || err != nil || enabled
}

// installsProxies reports whether the agent exists and installs proxies for an object.
func installsProxies(cluster *facts.Facts, object *httpv1alpha1.HTTPScaledObject) bool {
	return cluster.Agent != nil && isEnabled(cluster, "install-proxies") && agentServes(cluster, object.Namespace) &&
		proxies.NeedsProxy(object)
}

// agentServes reports whether the agent watches a namespace.
func agentServes(cluster *facts.Facts, namespace string) bool {
	list, _ := flagValue(cluster.Agent, "namespaces")
	return list == "" || slices.Contains(strings.Split(list, ","), namespace)
}

// agentRequirements adds the permissions of the agent, in the namespaces that have objects for it.
func agentRequirements(cluster *facts.Facts, account types.NamespacedName, add func(requirement)) {
	const fix = "apply config/agent/rbac.yaml with this ServiceAccount as the subject"
	for _, namespace := range agentNamespaces(cluster) {
		require := func(optionalEffect, group, resource, name string, verbs ...string) {
			for _, verb := range verbs {
				add(requirement{
					permission: facts.Permission{
						Account: account, Verb: verb, Group: group, Resource: resource,
						Name: name, Namespace: namespace,
					},
					code: AgentForbidden, optionalEffect: optionalEffect,
					effect: "the agent fails with Forbidden", fix: fix,
				})
			}
		}
		require("", "keda.sh", "scaledobjects", "", "list", "watch", "patch")
		require("", httpv1alpha1.Group, httpv1alpha1.Resource, "", "list", "watch", "create", "patch", "delete")
		require("", httpv1alpha1.Group, httpv1alpha1.Resource+"/status", "", "patch")
		require("", "argoproj.io", "rollouts", "", "list", "watch")
		require("", "", "services", "", "list", "watch")
		if isEnabled(cluster, "autowire") {
			require("the agent rewrites no Ingresses", "networking.k8s.io", "ingresses", "", "list", "watch", "patch")
		}
		if isEnabled(cluster, "install-proxies") {
			require("the agent installs no proxies", "apps", "deployments", facts.ProxyService, "create", "patch",
				"delete")
			require("the agent installs no proxies for InterceptorRoutes, and removes none", httpv1beta1.Group,
				httpv1beta1.Resource, "", "list", "watch")
		}
	}
	if cluster.Webhook != nil {
		add(requirement{
			permission: facts.Permission{
				Account: account, Verb: "patch", Group: "admissionregistration.k8s.io",
				Resource: "mutatingwebhookconfigurations", Name: cluster.Webhook.Name,
			},
			code: AgentForbidden,
			effect: "the API server does not trust its webhook and rejects ScaledObjects with a trigger of type " +
				facts.TriggerType, fix: fix,
		})
	}
}

// agentNamespaces returns the namespaces that the agent watches and that have objects for it.
func agentNamespaces(cluster *facts.Facts) []string {
	var all []string
	add := func(namespace string) {
		if agentServes(cluster, namespace) && !slices.Contains(all, namespace) {
			all = append(all, namespace)
		}
	}
	for _, object := range cluster.ScaledByRequests() {
		add(object.Namespace)
	}
	for i := range cluster.HTTPScaledObjects {
		if object := &cluster.HTTPScaledObjects[i]; isManagedByAgent(object) {
			add(object.Namespace)
		}
	}
	return all
}
