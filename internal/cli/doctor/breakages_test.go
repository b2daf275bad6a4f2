package doctor_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/doctor"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
)

// controllers are breakages of the controller and its configuration.
func controllers() []breakage {
	const wrongArchitecture = "use the release's file for the controller's nodes"
	return []breakage{
		{
			name: "no controller", change: change(func(f *facts.Facts) { f.Controller = nil }),
			code: doctor.ControllerNotFound, object: "Deployment argo-rollouts", fix: "install Argo Rollouts",
		},
		{
			name:   "the controller does not start",
			change: change(func(f *facts.Facts) { f.Controller.Status.ReadyReplicas = 0 }),
			code:   doctor.ControllerNotReady, object: controller, field: "status.readyReplicas", fix: "checksum of a ",
		},
		{
			name: "the controller was not restarted",
			change: change(func(f *facts.Facts) {
				f.Plugins.ManagedFields[0].Time = &metav1.Time{Time: f.Now.Add(-time.Minute)}
			}),
			code: doctor.ControllerOutdated, severity: doctor.Warning, object: controller,
			fix: "rollout restart deployment/argo-rollouts",
		},
		{
			name: "invalid YAML", change: edit("- name: \"kedify/http\"", "name: {"),
			code: doctor.PluginsMalformed, object: configMap, field: list, fix: "write a list",
		},
		{
			name: "a plugin instead of a list", change: change(func(f *facts.Facts) {
				f.Plugins.Data[facts.PluginsKey] = "name: kedify/http\nlocation: https://example.com/plugin\n"
			}),
			code: doctor.PluginsMalformed, object: configMap, field: list, fix: "write a list",
		},
		{
			name: "not registered", change: edit("kedify/http", "kedify/https"),
			code: doctor.PluginNotRegistered, object: configMap, field: list, fix: "add the entry of kedify/http",
		},
		{
			name:   "the second router is not registered",
			change: edit("argoproj-labs/gatewayAPI", "argoproj-labs/gatewayapi"),
			code:   doctor.PluginNotRegistered, object: configMap, field: list,
			fix: "add the entry of argoproj-labs/gatewayAPI",
		},
		{
			name: "a plugin name that prevents the controller from starting", change: edit("somebody/else", "somebody"),
			code: doctor.PluginNameMalformed, object: configMap, field: list + "[2].name", fix: "one slash",
		},
		{
			name: "a plugin twice", change: edit("somebody/else", "kedify/http"),
			code: doctor.PluginTwice, severity: doctor.Warning, object: configMap, field: list + "[2].name",
			fix: "remove one",
		},
		{
			name: "an unknown key", change: edit("sha256", "checksum"),
			code: doctor.PluginKeyUnknown, severity: doctor.Warning, object: configMap, field: list,
			fix: "the keys are name, location, sha256",
		},
		{
			name: "an invalid checksum", change: edit(strings.Repeat("1", 64), "<paste from checksums.txt>"),
			code: doctor.ChecksumMalformed, object: configMap, field: list + "[0].sha256", fix: "checksums.txt",
		},
		{
			name: "the checksum of another file", change: edit(strings.Repeat("2", 64), strings.Repeat("1", 64)),
			code: doctor.ChecksumRepeated, object: configMap, field: list + "[1].sha256", fix: "checksums.txt",
		},
		{
			name: "a path instead of a URL", change: edit("https://example.com/else", "/home/argo-rollouts/else"),
			code: doctor.LocationInvalid, object: configMap, field: list + "[2].location", fix: "https://",
		},
		{
			name:   "a file that does not exist",
			change: edit("https://example.com/else", "file:///home/argo-rollouts/plugin-bin/else"),
			code:   doctor.FileNotProvided, object: configMap, field: list + "[2].location", fix: "init container",
		},
		{
			name:   "a file for another architecture",
			change: edit("rollouts-plugin-kedify-linux-amd64", "rollouts-plugin-kedify-linux-arm64"),
			code:   doctor.ArchitectureMismatch, object: configMap, field: list + "[0].location", fix: wrongArchitecture,
		},
		{
			name:   "a file for another operating system",
			change: edit("gatewayapi-plugin-linux-amd64", "gatewayapi-plugin-darwin-amd64"),
			code:   doctor.ArchitectureMismatch, object: configMap, field: list + "[1].location", fix: wrongArchitecture,
		},
		{
			name: "nodes with different architectures",
			change: func(t *testing.T, f *facts.Facts) {
				t.Helper()
				edit("gatewayapi-plugin-linux-amd64", "gatewayapi-plugin")(t, f)
				other := corev1.Node{ObjectMeta: metav1.ObjectMeta{
					Name:   "two",
					Labels: map[string]string{"kubernetes.io/arch": "arm64"},
				}}
				other.Status.NodeInfo.Architecture = "arm64"
				f.Nodes = append(f.Nodes, other)
			},
			code: doctor.ArchitectureMixed, severity: doctor.Warning, object: configMap, field: list + "[0].location",
			fix: "nodeSelector",
		},
		{
			name: "nodes that may not be listed", change: change(func(f *facts.Facts) {
				f.Nodes, f.Unread[facts.Nodes] = nil, errors.New("nodes is forbidden")
			}),
			code: doctor.NotExamined, severity: doctor.Warning, object: "Nodes", fix: "as a user who may",
		},
		{
			name:   "the role is missing or names another ServiceAccount",
			change: denyController("patch", "httpscaledobjects"),
			code:   doctor.Forbidden, object: account, fix: "config/argo-rollouts/rbac.yaml",
		},
		{
			name: "no role at all", change: change(func(f *facts.Facts) {
				for question := range f.Allowed {
					f.Allowed[question] = question.Resource != "httpscaledobjects" ||
						question.Account.Name == facts.AgentName
				}
			}),
			code: doctor.Forbidden, object: account, fix: "config/argo-rollouts/rbac.yaml",
		},
		{
			name: "the role of the second router is missing", change: denyController("update", "httproutes"),
			code: doctor.Forbidden, object: account, fix: "config/argo-rollouts/gatewayapi/rbac.yaml",
		},
		{
			name: "the published plugin's role", change: denyController("watch", "httpscaledobjects"),
			code: doctor.ForbiddenInPart, severity: doctor.Warning, object: account,
			fix: "config/argo-rollouts/rbac.yaml",
		},
		{
			name: "Leases may not be read", change: denyController("get", "leases"),
			code: doctor.ForbiddenInPart, severity: doctor.Warning, object: account, fix: "install.yaml",
		},
	}
}

// applications are breakages of Rollouts and the data plane.
func applications() []breakage {
	return []breakage{
		{
			name: "another field path",
			change: rollout("web", func(r *v1alpha1.Rollout) {
				r.Spec.Strategy.Canary.TrafficRouting.Plugins = nil
				r.Annotations = map[string]string{
					corev1.LastAppliedConfigAnnotation: `{"spec":{"strategy":{"canary":{"trafficRouting":{"gatewayAPI":{}}}}}}`,
				}
			}),
			code: doctor.RouterMissing, object: "Rollout web/web",
			field: "spec.strategy.canary.trafficRouting.gatewayAPI",
			fix:   `plugins["argoproj-labs/gatewayAPI"]`,
		},
		{
			name: "no router", change: routing("shop", "", ""),
			code: doctor.RouterMissing, object: "Rollout shop/shop", field: "spec.strategy.canary.trafficRouting",
			fix: "kedify/http: {httpScaledObjectName",
		},
		{
			name: "a name that is similar", change: routing("web", "argoproj-labs/gatewayapi", `{"httpRoute": "web"}`),
			code: doctor.RouterNameWrong, object: "Rollout web/web", field: plugins + `["argoproj-labs/gatewayapi"]`,
			fix: "argoproj-labs/gatewayAPI",
		},
		{
			name:   "an unknown key in a Rollout",
			change: routing("shop", facts.HTTPRouter, `{"httpScaledObject": "shop"}`),
			code:   doctor.RouterConfig, object: "Rollout shop/shop", field: plugins + `["kedify/http"]`,
			fix: "httpScaledObjectName",
		},
		{
			name: "no route is referenced", change: routing("web", facts.GatewayRouter, `{"namespace": "web"}`),
			code: doctor.RouterConfig, object: "Rollout web/web", field: plugins + `["argoproj-labs/gatewayAPI"]`,
			fix: "httpRoute",
		},
		{
			name:   "no canary Service is referenced",
			change: rollout("shop", func(r *v1alpha1.Rollout) { r.Spec.Strategy.Canary.CanaryService = "" }),
			code:   doctor.RolloutServices, object: "Rollout shop/shop", field: "spec.strategy.canary",
			fix: "name the Service there",
		},
		{
			name:   "one Service for both",
			change: rollout("shop", func(r *v1alpha1.Rollout) { r.Spec.Strategy.Canary.CanaryService = "shop-stable" }),
			code:   doctor.RolloutServices, object: "Rollout shop/shop", field: "spec.strategy.canary.canaryService",
			fix: "second Service",
		},
		{
			name: "a Service that does not exist", change: change(func(f *facts.Facts) {
				delete(f.Services, types.NamespacedName{Namespace: "shop", Name: "shop-canary"})
			}),
			code: doctor.ServiceNotFound, object: "Rollout shop/shop", field: "spec.strategy.canary.canaryService",
			fix: "create it",
		},
		{
			name: "no endpoint of stable", change: ready("web", "web-stable", 0),
			code: doctor.NoStableEndpoint, object: "Service web/web-stable", fix: "selector",
		},
		{
			name: "no endpoint of canary", change: ready("shop", "shop-canary", 0),
			code: doctor.NoCanaryEndpoint, object: "Service shop/shop-canary", fix: "why they are not ready",
		},
		{
			name: "a Rollout that the controller rejects", change: rollout("web", func(r *v1alpha1.Rollout) {
				r.Status.Phase = v1alpha1.RolloutPhaseDegraded
				r.Status.Conditions = []v1alpha1.RolloutCondition{{
					Type: v1alpha1.InvalidSpec, Status: corev1.ConditionTrue, Reason: "InvalidSpec",
					Message: `The Rollout "web" is invalid: spec.strategy.maxSurge: Invalid value: 0: MaxSurge and ` +
						`MaxUnavailable both can not be zero`,
				}}
			}),
			code: doctor.RolloutInvalid, object: "Rollout web/web", field: "spec", message: "MaxSurge and MaxUnavailable",
			fix: "the field that the message names",
		},
		{
			name: "a canary without a Pod", change: withoutPods(time.Minute, v1alpha1.CanaryStep{SetWeight: new(int32(20))}),
			code: doctor.CanaryNotStarted, object: "Rollout shop/shop", field: "status.updatedReplicas",
			fix: "kubectl -n argo-rollouts logs deployment/argo-rollouts | grep rollout=shop",
		},
		{
			name: "a first version without a Pod", change: func(t *testing.T, f *facts.Facts) {
				t.Helper()
				withoutPods(time.Minute)(t, f)
				rollout("shop", func(r *v1alpha1.Rollout) { r.Status.StableRS, r.Status.AvailableReplicas = "", 0 })(t, f)
				ready("shop", "shop-stable", 0)(t, f)
			},
			code: doctor.CanaryNotStarted, object: "Rollout shop/shop", field: "status.updatedReplicas",
			fix: "kubectl -n shop describe replicasets",
		},
		{
			name: "no ready proxy", change: ready("shop", facts.ProxyService, 0),
			code: doctor.NoReadyProxy, object: "Service shop/kedify-proxy", fix: "app=kedify-proxy",
		},
		{
			name: "a quota that rejects the proxies' Pods", change: func(t *testing.T, f *facts.Facts) {
				t.Helper()
				ready("shop", facts.ProxyService, 0)(t, f)
				f.Proxies = map[string]*appsv1.Deployment{"shop": {Status: appsv1.DeploymentStatus{
					Conditions: []appsv1.DeploymentCondition{
						{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionFalse, Message: "does not have minimum availability"},
						{
							Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate",
							Message: `pods "kedify-proxy-x" is forbidden: failed quota: team: must specify limits.cpu for: envoy`,
						},
					},
				}}}
			},
			code: doctor.NoReadyProxy, object: "Service shop/kedify-proxy", message: "must specify limits.cpu for: envoy",
			fix: "annotation http.kedify.io/proxy-resources of Namespace shop",
		},
		{
			name: "proxies that are starting", change: func(t *testing.T, f *facts.Facts) {
				t.Helper()
				ready("shop", facts.ProxyService, 0)(t, f)
				f.Proxies = map[string]*appsv1.Deployment{"shop": {Status: appsv1.DeploymentStatus{
					Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionFalse}},
				}}}
			},
			code: doctor.NoReadyProxy, object: "Service shop/kedify-proxy", message: "no ready endpoint",
			fix: "app=kedify-proxy",
		},
		{
			name: "no proxies", change: change(func(f *facts.Facts) {
				name := types.NamespacedName{Namespace: "shop", Name: facts.ProxyService}
				delete(f.Services, name)
				delete(f.ReadyEndpoints, name)
			}),
			code: doctor.NoReadyProxy, object: "Service shop/kedify-proxy", fix: "logs deployment/kedify-http-agent",
		},
		{
			name: "no proxies, and an object that the agent installs none for", change: change(func(f *facts.Facts) {
				f.HTTPScaledObjects[0].Labels = nil
				delete(f.Services, types.NamespacedName{Namespace: "shop", Name: facts.ProxyService})
				f.ReadyEndpoints[types.NamespacedName{Namespace: "shop", Name: facts.ProxyService}] = 0
			}),
			code: doctor.NoReadyProxy, object: "Service shop/kedify-proxy",
			fix: "annotate httpscaledobject shop http.kedify.io/traffic-autowire=",
		},
		{
			name: "no proxies, and no agent", change: change(func(f *facts.Facts) {
				f.Agent, f.Webhook, f.HTTPScaledObjects[0].Labels = nil, nil, nil
				delete(f.Services, types.NamespacedName{Namespace: "shop", Name: facts.ProxyService})
				f.ReadyEndpoints[types.NamespacedName{Namespace: "shop", Name: facts.ProxyService}] = 0
			}),
			code: doctor.NoReadyProxy, object: "Service shop/kedify-proxy",
			fix: "install --components proxy --proxy-namespace shop",
		},
		{
			name: "the CRD is missing", change: change(func(f *facts.Facts) {
				delete(f.CRDs, facts.HTTPScaledObjectsCRD)
				f.HTTPScaledObjects = nil
			}),
			code: doctor.CRDNotFound, object: "CustomResourceDefinition httpscaledobjects.http.keda.sh",
			fix: "config/crd",
		},
		{
			name: "the CRD of another owner", change: change(func(f *facts.Facts) {
				f.CRDs[facts.HTTPScaledObjectsCRD] = facts.CRD{
					ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app.kubernetes.io/managed-by": "Helm"}},
					Served:     []string{"v1alpha1"}, StatusFields: []string{"conditions"},
				}
			}),
			code: doctor.CRDOwnedByOther, severity: doctor.Warning,
			object: "CustomResourceDefinition httpscaledobjects.http.keda.sh", field: "spec.versions",
			fix: "config/crd",
		},
		{
			name: "the KEDA HTTP add-on", change: change(func(f *facts.Facts) {
				for _, name := range []string{"keda-add-ons-http-interceptor", "keda-add-ons-http-operator"} {
					f.Others = append(f.Others, otherDeployment("add-on", name, "http-add-on", "keda"))
				}
			}),
			code: doctor.OtherProductInstalled, object: "Deployment add-on/keda-add-ons-http-interceptor",
			message: "belongs to the KEDA HTTP add-on", fix: "docs/how-to/migrate.md",
		},
		{
			name: "Kedify's agent", change: change(func(f *facts.Facts) {
				f.Others = append(f.Others, otherDeployment("keda", "kedify-agent", "kedify-agent", ""))
			}),
			code: doctor.OtherProductInstalled, object: "Deployment keda/kedify-agent",
			message: "belongs to Kedify's agent", fix: "docs/how-to/migrate.md",
		},
		{
			name: "no interceptor", change: change(func(f *facts.Facts) { f.Interceptor = nil }),
			code: doctor.InterceptorNotFound, object: "Deployment keda/keda-add-ons-http-interceptor",
			fix: "config/interceptor",
		},
		{
			name:   "no ready interceptor",
			change: change(func(f *facts.Facts) { f.Interceptor.Status.ReadyReplicas = 0 }),
			code:   doctor.InterceptorNotReady, object: "Deployment keda/keda-add-ons-http-interceptor",
			field: "status.readyReplicas", fix: "component=interceptor",
		},
		{
			name:   "no certificate of the interceptor",
			change: change(func(f *facts.Facts) { f.CA = nil }),
			code:   doctor.InterceptorCertificateMissing, object: "ConfigMap keda/kedify-http-interceptor-ca",
			fix: "KEDIFY_INTERCEPTOR_INTERCEPTOR_TLS_SECRET=",
		},
		{
			name: "proxies without a token for an object with TLS", change: change(func(f *facts.Facts) {
				f.HTTPScaledObjects[0].Annotations[httpv1alpha1.AnnotationTLSSecretName] = "shop-tls"
				f.Proxies = map[string]*appsv1.Deployment{
					"shop": {ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "kedify-proxy"}},
				}
			}),
			code: doctor.ProxyWithoutToken, severity: doctor.Warning, object: "Deployment shop/kedify-proxy",
			fix: "delete these proxies",
		},
		{
			name: "an unknown mode of the proxies", change: change(func(f *facts.Facts) {
				service := f.Service("shop", "kedify-proxy")
				service.Annotations = map[string]string{httpv1alpha1.AnnotationProxyAuthentication: "none"}
			}),
			code: doctor.InvalidProxyAuthentication, severity: doctor.Warning, object: "Service shop/kedify-proxy",
			field: "metadata.annotations[http.kedify.io/proxy-authentication]", fix: "=permissive",
		},
		{
			name:   "an HTTPScaledObject that does not exist",
			change: change(func(f *facts.Facts) { f.HTTPScaledObjects = nil }),
			code:   doctor.HTTPScaledObjectNotFound, object: "Rollout shop/shop",
			field: plugins + `["kedify/http"].httpScaledObjectName`, fix: "create it",
		},
		{
			name: "an invalid HTTPScaledObject", change: change(func(f *facts.Facts) {
				conditions := f.HTTPScaledObjects[0].Status.Conditions
				conditions[0].Status, conditions[0].Reason = metav1.ConditionFalse, httpv1alpha1.ReasonServiceNotFound
				conditions[0].Message = `annotation http.kedify.io/weighted-backends: Service "shop-canary" not found in ` +
					`namespace "shop": create it or name another Service of the namespace`
				conditions[1].Status, conditions[1].Reason = metav1.ConditionFalse, httpv1alpha1.ReasonNotAccepted
			}),
			code: doctor.HTTPScaledObjectNotAccepted, object: "HTTPScaledObject shop/shop",
			field: "status.conditions[Accepted]", fix: "docs/reference/errors.md",
		},
		{
			// The agent sets no observedGeneration.
			name: "an HTTPScaledObject of an invalid trigger", change: change(func(f *facts.Facts) {
				f.HTTPScaledObjects[0].Status.Conditions = append(f.HTTPScaledObjects[0].Status.Conditions,
					metav1.Condition{
						Type: httpv1alpha1.ConditionTriggerAccepted, Status: metav1.ConditionFalse,
						Reason: httpv1alpha1.ReasonInvalidTrigger, Message: "spec.triggers[0].metadata.hosts is missing",
					})
			}),
			code: doctor.HTTPScaledObjectNotAccepted, object: "HTTPScaledObject shop/shop",
			field: "status.conditions[TriggerAccepted]", fix: "docs/reference/errors.md",
		},
		{
			name:   "an HTTPScaledObject without a report",
			change: change(func(f *facts.Facts) { f.HTTPScaledObjects[0].Status.Conditions = nil }),
			code:   doctor.HTTPScaledObjectUnreported, object: "HTTPScaledObject shop/shop", field: "status.conditions",
			fix: "--namespaces",
		},
		{
			name: "a route that does not exist", change: change(func(f *facts.Facts) { f.Routes = nil }),
			code: doctor.RouteNotFound, object: "Rollout web/web",
			field: plugins + `["argoproj-labs/gatewayAPI"].httpRoute`, fix: "namespace",
		},
		{
			name: "a route without the canary Service", change: change(func(f *facts.Facts) {
				rule := f.Routes[0].Content["spec"].(map[string]any)["rules"].([]any)[0].(map[string]any)
				rule["backendRefs"] = rule["backendRefs"].([]any)[:1]
			}),
			code: doctor.RouteWithoutRule, object: "HTTPRoute web/web", field: "spec.rules",
			fix: "add both to the backendRefs",
		},
		{
			name: "a route that is not accepted", change: routeCondition(0, "NotAllowedByListeners",
				"no listener of the Gateway allows routes of namespace web"),
			code: doctor.RouteNotAccepted, object: "HTTPRoute web/web", field: "status.parents[0].conditions[Accepted]",
			fix: "spec.parentRefs",
		},
		{
			name: "a route whose references are not resolved", change: routeCondition(1, "BackendNotFound",
				"Service web/web-canary not found"),
			code: doctor.RouteNotAccepted, object: "HTTPRoute web/web",
			field: "status.parents[0].conditions[ResolvedRefs]", fix: "spec.rules[].backendRefs",
		},
		{
			name:   "a route without a Gateway",
			change: change(func(f *facts.Facts) { delete(f.Routes[0].Content, "status") }),
			code:   doctor.RouteNotAccepted, severity: doctor.Warning, object: "HTTPRoute web/web",
			field: "status.parents", fix: "the Gateway has to exist",
		},
	}
}

// withoutPods lets the Rollout shop progress to a version without Pods, whose conditions were updated some time ago.
func withoutPods(ago time.Duration, steps ...v1alpha1.CanaryStep) func(*testing.T, *facts.Facts) {
	return func(t *testing.T, f *facts.Facts) {
		t.Helper()
		rollout("shop", func(r *v1alpha1.Rollout) {
			r.Spec.Strategy.Canary.Steps = steps
			r.Status = v1alpha1.RolloutStatus{
				Phase: v1alpha1.RolloutPhaseProgressing, StableRS: "1", CurrentPodHash: "2", AvailableReplicas: 2,
				CurrentStepIndex: new(int32(max(0, len(steps)-1))),
				Conditions:       []v1alpha1.RolloutCondition{{LastUpdateTime: metav1.NewTime(f.Now.Add(-ago))}},
			}
		})(t, f)
		ready("shop", "shop-canary", 0)(t, f)
	}
}

// routeCondition sets a condition of the route to False for its current generation.
func routeCondition(at int, reason, message string) func(*testing.T, *facts.Facts) {
	return change(func(f *facts.Facts) {
		parent := f.Routes[0].Content["status"].(map[string]any)["parents"].([]any)[0].(map[string]any)
		condition := parent["conditions"].([]any)[at].(map[string]any)
		condition["status"], condition["reason"], condition["observedGeneration"] = "False", reason, int64(4)
		condition["message"] = message
	})
}

// otherDeployment returns a Deployment of another product.
func otherDeployment(namespace, name, labelName, partOf string) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{
		facts.LabelName: labelName, facts.LabelPartOf: partOf,
	}}}
}

// TestOtherProductWithoutComponents: the routers alone may run next to other products.
func TestOtherProductWithoutComponents(t *testing.T) {
	t.Parallel()
	cluster := &facts.Facts{Others: []*appsv1.Deployment{otherDeployment("keda", "kedify-agent", "kedify-agent", "")}}
	for _, finding := range doctor.Examine(cluster) {
		if finding.Code == doctor.OtherProductInstalled {
			t.Errorf("finding %+v", finding)
		}
	}
}
