package doctor

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
)

// The titles of the checks that manifests alone can pass.
const (
	titleNames         = "Rollouts name their routers correctly"
	titleConfiguration = "the configuration of the routers is valid"
	titleRoutes        = "routes exist and have both Services"
)

// rules returns the checks of an installation, in the order of the output. Each code belongs to one of them.
func rules() []rule {
	return slices.Concat(clusterRules(), controllerRules(), permissionRules(), applicationRules(), dataPlaneRules(),
		gatewayRules(), agentRules(), scalingRules())
}

// clusterRules are about what the user may read.
func clusterRules() []rule {
	return []rule{{
		category: Cluster, title: "all objects can be read", page: "reference/findings.md#notexamined",
		codes: []Code{NotExamined},
	}}
}

// controllerRules are about the Argo Rollouts controller and its plugins.
func controllerRules() []rule {
	const page = "how-to/install-plugins.md"
	hasController := func(cluster *facts.Facts) (string, bool) { return "", cluster.Controller != nil }
	return []rule{
		{
			category: ArgoRollouts, title: "the controller is ready and has read its plugin list", page: page,
			codes: []Code{ControllerNotFound, ControllerNotReady, ControllerOutdated},
			needs: []facts.Resource{facts.Deployments},
			detail: func(cluster *facts.Facts) (string, bool) {
				return deploymentDetail(cluster.Controller), cluster.Controller != nil
			},
		},
		{
			category: ArgoRollouts, title: "the plugin list is valid", page: page + "#option-b-an-existing-argo-rollouts",
			codes: []Code{PluginsMalformed, PluginNameMalformed, PluginKeyUnknown, PluginTwice},
			needs: []facts.Resource{facts.Deployments, facts.Plugins}, detail: hasController,
		},
		{
			category: ArgoRollouts, title: "the plugin files can be loaded", page: page,
			codes: []Code{
				LocationInvalid, FileNotProvided, ChecksumMalformed, ChecksumRepeated, ArchitectureMismatch, ArchitectureMixed,
			},
			needs: []facts.Resource{facts.Deployments, facts.Plugins}, detail: hasController,
		},
		{
			category: ArgoRollouts, title: "the routers of all Rollouts are registered", page: page,
			codes: []Code{PluginNotRegistered},
			needs: []facts.Resource{facts.Deployments, facts.Plugins, facts.Rollouts},
			detail: func(cluster *facts.Facts) (string, bool) {
				var used []string
				for _, name := range []string{facts.HTTPRouter, facts.GatewayRouter} {
					if cluster.AnyUses(name) {
						used = append(used, name)
					}
				}
				if len(used) == 0 {
					return noRollout, false
				}
				return strings.Join(used, ", "), cluster.Controller != nil
			},
		},
	}
}

// noRollout is the detail of a check that no Rollout needs.
const noRollout = "no Rollout uses a router of this project"

// permissionRules are about the ServiceAccounts of the components.
func permissionRules() []rule {
	needs := []facts.Resource{facts.Deployments, facts.Reviews}
	return []rule{
		{
			category: Permissions, title: "the controller has the permissions of the routers", needs: needs,
			page: "reference/kedify-http-router.md#permissions", codes: []Code{Forbidden}, detail: usesRouters,
		},
		{
			category: Permissions, title: "the agent has its permissions", needs: needs,
			page: "reference/agent.md", codes: []Code{AgentForbidden},
			detail: noAgent,
		},
		{
			category: Permissions, title: "KEDA may scale Rollouts", needs: append(needs, facts.ScaledObjects),
			page: "how-to/scale-with-keda.md", codes: []Code{ScaledRefKinds},
			detail: func(cluster *facts.Facts) (string, bool) {
				return scaledDetail(cluster), cluster.Operator != nil && len(cluster.ScaledByRequests()) > 0
			},
		},
		{
			category: Permissions, title: "optional permissions are granted", needs: needs,
			page: "reference/findings.md#forbiddeninpart", codes: []Code{ForbiddenInPart}, detail: usesRouters,
		},
	}
}

// usesRouters is the detail of a check that depends on Rollouts with a router of this project.
func usesRouters(cluster *facts.Facts) (string, bool) {
	if !cluster.AnyUses(facts.HTTPRouter) && !cluster.AnyUses(facts.GatewayRouter) {
		return noRollout, false
	}
	return "", true
}

// usesHTTP is the detail of a check of the data plane.
func usesHTTP(cluster *facts.Facts) (string, bool) {
	if !cluster.AnyUses(facts.HTTPRouter) {
		return "no Rollout uses " + facts.HTTPRouter, false
	}
	return "", true
}

// applicationRules are about Rollouts and their Services.
func applicationRules() []rule {
	const page = "reference/kedify-http-router.md"
	needs := []facts.Resource{facts.Rollouts}
	return []rule{
		{
			category: Applications, title: titleNames, page: page, needs: needs,
			codes: []Code{RouterNameWrong, RouterMissing},
			detail: func(cluster *facts.Facts) (string, bool) {
				_, applies := usesRouters(cluster)
				if !applies {
					return noRollout, false
				}
				var used []string
				for _, router := range []string{facts.HTTPRouter, facts.GatewayRouter} {
					if n := len(rolloutsUsing(cluster, router)); n > 0 {
						used = append(used, count(n, "Rollout")+" with "+router)
					}
				}
				return strings.Join(used, ", "), true
			},
		},
		{
			category: Applications, title: titleConfiguration, page: "reference/configuration.md",
			needs: needs, codes: []Code{RouterConfig, RolloutServices, RolloutInvalid}, detail: usesRouters,
		},
		{
			category: Applications, title: "stable and canary Services exist and have ready endpoints",
			page:  "explanation/concepts.md",
			needs: append(needs, facts.Services, facts.EndpointSlices),
			codes: []Code{ServiceNotFound, NoStableEndpoint, NoCanaryEndpoint}, detail: usesRouters,
		},
		{
			category: Applications, title: "canaries start", page: "reference/findings.md#canarynotstarted", needs: needs,
			codes: []Code{CanaryNotStarted}, detail: usesRouters,
		},
	}
}

// dataPlaneRules are about what applies the weights of kedify/http.
func dataPlaneRules() []rule {
	needs := []facts.Resource{facts.HTTPScaledObjects}
	return []rule{
		{
			category: DataPlane, title: "the CRD of HTTPScaledObjects is installed", page: "reference/status.md",
			needs: []facts.Resource{facts.CRDs}, codes: []Code{CRDNotFound, CRDOwnedByOther}, detail: usesHTTP,
		},
		{
			category: DataPlane, title: "no other product changes the same objects", page: "how-to/migrate.md",
			needs: []facts.Resource{facts.Deployments}, codes: []Code{OtherProductInstalled},
		},
		{
			category: DataPlane, title: "the interceptor is ready", page: "how-to/high-availability.md",
			needs: []facts.Resource{facts.Deployments}, codes: []Code{InterceptorNotFound, InterceptorNotReady},
			detail: func(cluster *facts.Facts) (string, bool) {
				if detail, applies := usesHTTP(cluster); !applies {
					return detail, false
				}
				return deploymentDetail(cluster.Interceptor), true
			},
		},
		{
			category: DataPlane, title: "proxies are ready", page: "how-to/proxies.md",
			needs: append(needs, facts.Services, facts.EndpointSlices), codes: []Code{NoReadyProxy, ProxyNotInstalled},
			detail: usesHTTP,
		},
		{
			category: DataPlane, title: "proxies and scalers connect to the interceptor", page: "how-to/interceptor-tls.md",
			needs: []facts.Resource{facts.Deployments, facts.CA},
			codes: []Code{ProxyWithoutToken, InvalidProxyAuthentication, InterceptorCertificateMissing}, detail: usesHTTP,
		},
		{
			category: DataPlane, title: "HTTPScaledObjects are served", page: "reference/errors.md", needs: needs,
			codes:  []Code{HTTPScaledObjectNotFound, HTTPScaledObjectNotAccepted, HTTPScaledObjectUnreported},
			detail: objectsDetail,
		},
		{
			category: DataPlane, title: "all settings of HTTPScaledObjects have an effect", page: "reference/configuration.md",
			needs: needs, detail: usesHTTP,
			codes: []Code{
				HostClaimedByOther, AnyAddressAccepted, WaitingPageNotAccepted, FieldsNotSupported, ScalingFieldsNotApplied,
				EnvoySettingsNotAccepted,
			},
		},
		{
			category: DataPlane, title: "certificates are active", page: "how-to/tls.md", needs: needs,
			codes: []Code{CertificateNotReady}, detail: usesHTTP,
		},
		{
			category: DataPlane, title: "Ingresses and routes lead to the proxies", page: "how-to/autowire.md", needs: needs,
			codes: []Code{NotWired}, detail: usesHTTP,
		},
	}
}

// objectsDetail counts the HTTPScaledObjects.
func objectsDetail(cluster *facts.Facts) (string, bool) {
	if detail, applies := usesHTTP(cluster); !applies {
		return detail, false
	}
	return count(len(cluster.HTTPScaledObjects), "HTTPScaledObject"), true
}

// gatewayRules are about the routes of argoproj-labs/gatewayAPI.
func gatewayRules() []rule {
	uses := func(cluster *facts.Facts) (string, bool) {
		if !cluster.AnyUses(facts.GatewayRouter) {
			return "no Rollout uses " + facts.GatewayRouter, false
		}
		return "", true
	}
	return []rule{
		{
			category: GatewayAPI, title: titleRoutes, page: "reference/gateway-api-router.md",
			needs: []facts.Resource{facts.Routes}, codes: []Code{RouteNotFound, RouteWithoutRule}, detail: uses,
		},
		{
			category: GatewayAPI, title: "Gateways accept the routes", page: "reference/gateway-api-providers.md",
			needs: []facts.Resource{facts.Routes}, codes: []Code{RouteNotAccepted}, detail: uses,
		},
	}
}

// noAgent is the detail of a check of the agent.
func noAgent(cluster *facts.Facts) (string, bool) {
	if cluster.Agent == nil {
		return "the agent is not installed", false
	}
	return "", true
}

// agentRules are about the agent and its webhook.
func agentRules() []rule {
	return []rule{
		{
			category: Agent, title: "the agent is ready", page: "reference/agent.md",
			needs: []facts.Resource{facts.Deployments}, codes: []Code{AgentNotFound, AgentNotReady},
			detail: func(cluster *facts.Facts) (string, bool) {
				if detail, applies := noAgent(cluster); !applies {
					return detail, false
				}
				return deploymentDetail(cluster.Agent), true
			},
		},
		{
			category: Agent, title: "its webhook is ready", page: "reference/agent.md",
			needs: []facts.Resource{facts.Webhook, facts.Services}, codes: []Code{WebhookNotFound, WebhookNotReady},
			detail: noAgent,
		},
	}
}

// scalingRules are about KEDA, the scaler and the objects that they scale.
func scalingRules() []rule {
	const page = "how-to/scale-with-keda.md"
	needs := []facts.Resource{facts.Deployments, facts.ScaledObjects}
	scaled := func(cluster *facts.Facts) (string, bool) {
		return scaledDetail(cluster), len(cluster.ScaledByRequests()) > 0
	}
	return []rule{
		{
			category: Autoscaling, title: "KEDA is ready", page: page, needs: needs,
			codes: []Code{KEDANotFound, KEDATooOld, KEDANotReady},
			detail: func(cluster *facts.Facts) (string, bool) {
				isUsed := len(cluster.ScaledByRequests()) > 0 || cluster.Scaler != nil || cluster.Agent != nil
				if !isUsed || cluster.Operator == nil {
					return "no component of this project uses KEDA", false
				}
				detail := deploymentDetail(cluster.Operator)
				if installed := kedaVersion(cluster); installed != nil {
					detail += ", version " + installed.String()
				}
				return detail, true
			},
		},
		{
			category: Autoscaling, title: "the scaler is ready", page: page, needs: needs,
			codes: []Code{ScalerNotFound, ScalerNotReady},
			detail: func(cluster *facts.Facts) (string, bool) {
				if detail, applies := scaled(cluster); !applies {
					return detail, false
				}
				return deploymentDetail(cluster.Scaler), true
			},
		},
		{
			category: Autoscaling, title: "triggers are valid and converted", page: "reference/configuration.md", needs: needs,
			codes: []Code{TriggerNotConverted, TriggerInvalid}, detail: scaled,
		},
		{
			category: Autoscaling, title: "ScaledObjects are ready and autoscalers active", page: page,
			needs: append(needs, facts.Autoscalers), codes: []Code{ScaledObjectNotReady, AutoscalerNotActive}, detail: scaled,
		},
	}
}

// scaledDetail counts the ScaledObjects that scale by requests.
func scaledDetail(cluster *facts.Facts) string {
	if len(cluster.ScaledByRequests()) == 0 {
		return "no ScaledObject scales by HTTP requests"
	}
	return count(len(cluster.ScaledByRequests()), "ScaledObject")
}

// deploymentDetail describes a Deployment; it is empty if the Deployment does not exist.
func deploymentDetail(deployment *appsv1.Deployment) string {
	if deployment == nil {
		return ""
	}
	ready, _ := readiness(deployment)
	return deployment.Namespace + "/" + deployment.Name + ", " + ready
}
