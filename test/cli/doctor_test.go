package cli_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/internal/model/split"
	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// shopHash returns the hash of the annotation in testdata/applications.yaml.
func shopHash() string {
	return split.Hash(split.Format([]split.Backend{
		{Service: "shop-stable", Weight: 80},
		{Service: "shop-canary", Weight: 20},
	}), "")
}

func TestDoctorOnAHealthyInstallation(t *testing.T) {
	got := run(t, apiserver.AdminToken, "doctor")
	if got.code != 0 || got.err != "" || !strings.HasSuffix(got.out, "\nNo problems found.\n") ||
		strings.Count(got.out, "[ ok ]") < 20 || strings.Contains(got.out, "[fail]") || strings.Contains(got.out, "[warn]") {
		t.Errorf("%+v", got)
	}
}

// TestDoctorFindsEachBreakage makes each breakage on the API server, and reverts it.
func TestDoctorFindsEachBreakage(t *testing.T) {
	const stdRole = manifests + "argo-rollouts/rbac.yaml"
	config := "/api/v1/namespaces/argo-rollouts/configmaps/argo-rollouts-config"
	reapply := func(files ...string) func(*testing.T) {
		return func(t *testing.T) {
			t.Helper()
			if err := apiserver.ApplyFiles(t.Context(), shared.admin, "", files...); err != nil {
				t.Fatal(err)
			}
		}
	}
	patched := func(path, body string) func(*testing.T) {
		return func(t *testing.T) { t.Helper(); patch(t, path, body) }
	}
	plugins, applications := reapply("testdata/plugins.yaml"), reapply("testdata/applications.yaml")
	tests := []struct {
		name        string
		spoil, mend func(*testing.T)
		code        string
		exit        int
	}{
		{
			"not registered",
			patched(config,
				`data: {trafficRouterPlugins: "- {name: argoproj-labs/gatewayAPI, location: 'https://example.com/x'}"}`), plugins, "PluginNotRegistered", 3,
		},
		{
			"malformed plugins", patched(config, `data: {trafficRouterPlugins: "name: kedify/http"}`), plugins,
			"PluginsMalformed", 3,
		},
		{
			"an invalid checksum",
			patched(config,
				`data: {trafficRouterPlugins: "- {name: kedify/http, location: 'https://example.com/x', sha256: abc}\n`+
					`- {name: argoproj-labs/gatewayAPI, location: 'https://example.com/y'}"}`),
			plugins, "ChecksumMalformed", 3,
		},
		{
			"nodes of two platforms", func(t *testing.T) {
				t.Helper()
				node := map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{
					"name": "two", "labels": map[string]any{"kubernetes.io/arch": "arm64"},
				}}
				if err := apiserver.Create(t.Context(), shared.admin, "/api/v1/nodes", node); err != nil {
					t.Fatal(err)
				}
				patch(t, "/api/v1/nodes/two/status", "status: {nodeInfo: {architecture: arm64, operatingSystem: linux}}")
			}, func(t *testing.T) { t.Helper(); remove(t, "/api/v1/nodes/two") }, "ArchitectureMixed", 0,
		},
		{
			"no init container", patched(deployment("argo-rollouts", "argo-rollouts"),
				`spec: {template: {spec: {initContainers: null}}}`),
			func(t *testing.T) {
				t.Helper()
				if err := shared.patchFile(t.Context(), deployment("argo-rollouts", "argo-rollouts"),
					manifests+"argo-rollouts/deployment-patch.yaml"); err != nil {
					t.Fatal(err)
				}
			}, "FileNotProvided", 3,
		},
		{
			"no role", func(t *testing.T) { t.Helper(); remove(t, roleBinding("argo-rollouts-kedify-http")) },
			reapply(stdRole), "Forbidden", 3,
		},
		{
			"a role for another ServiceAccount",
			patched(roleBinding("argo-rollouts-kedify-http"),
				`subjects: [{kind: ServiceAccount, name: argo-rollouts, namespace: default}]`),
			func(t *testing.T) {
				t.Helper()
				patch(t, roleBinding("argo-rollouts-kedify-http"),
					`subjects: [{kind: ServiceAccount, name: argo-rollouts, namespace: argo-rollouts}]`)
			}, "Forbidden", 3,
		},
		{
			"the role of the second router",
			func(t *testing.T) { t.Helper(); remove(t, roleBinding("argo-rollouts-gateway-api")) },
			reapply(manifests + "argo-rollouts/gatewayapi/rbac.yaml"), "Forbidden", 3,
		},
		{
			"the published plugin's role",
			patched("/apis/rbac.authorization.k8s.io/v1/clusterroles/argo-rollouts-kedify-http",
				`rules: [{apiGroups: [http.keda.sh], resources: [httpscaledobjects], verbs: [get, patch]}]`),
			reapply(stdRole), "ForbiddenInPart", 0,
		},
		{
			"a mistyped router", patched(rolloutPath("web", "web"),
				`spec: {strategy: {canary: {trafficRouting: {plugins: {argoproj-labs/gatewayAPI: null, gatewayAPI: {httpRoute: web}}}}}}`),
			patched(rolloutPath("web", "web"),
				`spec: {strategy: {canary: {trafficRouting: {plugins: {gatewayAPI: null, argoproj-labs/gatewayAPI: {httpRoute: web, namespace: web}}}}}}`),
			"RouterNameWrong", 3,
		},
		{
			// The API server drops the field that the schema lacks, as it does for kubectl apply --validate=false.
			"another field path", patched(rolloutPath("web", "web"), `
metadata: {annotations: {kubectl.kubernetes.io/last-applied-configuration: '{"spec":{"strategy":{"canary":{"trafficRouting":{"gatewayAPI":{"httpRoute":"web"}}}}}}'}}
spec: {strategy: {canary: {trafficRouting: {plugins: null, gatewayAPI: {httpRoute: web}}}}}`),
			patched(rolloutPath("web", "web"), `
metadata: {annotations: {kubectl.kubernetes.io/last-applied-configuration: null}}
spec: {strategy: {canary: {trafficRouting: {plugins: {argoproj-labs/gatewayAPI: {httpRoute: web, namespace: web}}}}}}`),
			"RouterMissing", 3,
		},
		{
			"no canary endpoint", patched("/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices/shop-canary-1",
				`endpoints: []`), applications, "NoCanaryEndpoint", 3,
		},
		{"no ready proxy", patched("/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices/kedify-proxy-1",
			`endpoints: []`), applications, "NoReadyProxy", 3},
		{"a missing Service", func(t *testing.T) {
			t.Helper()
			remove(t,
				"/api/v1/namespaces/web/services/web-canary")
		}, applications, "ServiceNotFound", 3},
		{
			"a route without the canary",
			patched(routePath("web", "web"), `spec: {rules: [{backendRefs: [{name: web-stable, port: 80}]}]}`),
			applications, "RouteWithoutRule", 3,
		},
		{
			"KEDA is too old", patched(deployment("keda", "keda-operator"),
				`metadata: {labels: {app.kubernetes.io/version: 2.17.0}}`),
			patched(deployment("keda", "keda-operator"), `metadata: {labels: {app.kubernetes.io/version: latest}}`),
			"KEDATooOld", 3,
		},
		{
			"scaledRefKinds without Rollouts", patched("/apis/rbac.authorization.k8s.io/v1/clusterroles/keda-operator",
				`rules: [{apiGroups: [apps], resources: [deployments, deployments/scale], verbs: [get, update]}]`),
			patched("/apis/rbac.authorization.k8s.io/v1/clusterroles/keda-operator",
				`rules: [{apiGroups: ["*"], resources: ["*"], verbs: [get]}, {apiGroups: ["*"], resources: ["*/scale"], verbs: [get, update]}]`), "ScaledRefKinds", 3,
		},
		{
			"an interceptor that is not ready",
			patched(deployment("keda", "keda-add-ons-http-interceptor")+"/status", `status: {readyReplicas: 0}`),
			patched(deployment("keda", "keda-add-ons-http-interceptor")+"/status", `status: {readyReplicas: 1}`),
			"InterceptorNotReady", 3,
		},
		{
			"no scaler", func(t *testing.T) {
				t.Helper()
				remove(t,
					deployment("keda", "keda-add-ons-http-external-scaler"))
			},
			func(t *testing.T) {
				t.Helper()
				reapply(manifests + "scaler/deployment.yaml")(t)
				patch(t, deployment("keda", "keda-add-ons-http-external-scaler")+"/status",
					`{status: {replicas: 1, readyReplicas: 1}}`)
			}, "ScalerNotFound", 3,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			test.spoil(t)
			defer func() {
				test.mend(t)
				awaitCodes(t, 0)
			}()
			awaitCodes(t, test.exit, test.code)
		})
	}
}

// TestDoctorNamesRejectedPods has a Deployment of proxies whose Pods a ResourceQuota rejects.
func TestDoctorNamesRejectedPods(t *testing.T) {
	if err := apiserver.ApplyFiles(t.Context(), shared.admin, "shop", manifests+"kedify-proxy/deployment.yaml"); err != nil {
		t.Fatal(err)
	}
	patch(t, deployment("shop", "kedify-proxy")+"/status", `status: {conditions: [{type: ReplicaFailure, status: "True",
  reason: FailedCreate, message: "pods \"kedify-proxy-x\" is forbidden: failed quota: team: must specify limits.cpu for: envoy"}]}`)
	patch(t, "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices/kedify-proxy-1", `endpoints: []`)
	defer func() {
		remove(t, deployment("shop", "kedify-proxy"))
		if err := apiserver.ApplyFiles(t.Context(), shared.admin, "", "testdata/applications.yaml"); err != nil {
			t.Error(err)
		}
		awaitCodes(t, 0)
	}()
	awaitCodes(t, 3, "NoReadyProxy")
	got := run(t, apiserver.AdminToken, "doctor")
	for _, part := range []string{"must specify limits.cpu for: envoy", "http.kedify.io/proxy-resources of Namespace shop"} {
		if !strings.Contains(got.out, part) {
			t.Errorf("doctor does not print %q:\n%s", part, got.out)
		}
	}
}

// TestDoctorFindsAgentProblems makes each breakage on the API server, and reverts it.
func TestDoctorFindsAgentProblems(t *testing.T) {
	agent, status := deployment("keda", "kedify-http-agent"), objectPath("shop", "shop")+"/status"
	reapply := func(t *testing.T, file string) {
		t.Helper()
		if err := apiserver.ApplyFiles(t.Context(), shared.admin, "", manifests+"agent/"+file); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		name        string
		spoil, mend func(*testing.T)
		code        string
		exit        int
	}{
		{
			"no agent", func(t *testing.T) { t.Helper(); remove(t, agent) },
			func(t *testing.T) {
				t.Helper()
				reapply(t, "deployment.yaml")
				patch(t, agent+"/status", `{status: {replicas: 1, readyReplicas: 1}}`)
			}, "AgentNotFound", 3,
		},
		{
			"an agent that is not ready",
			func(t *testing.T) { t.Helper(); patch(t, agent+"/status", `{status: {readyReplicas: 0}}`) },
			func(t *testing.T) { t.Helper(); patch(t, agent+"/status", `{status: {readyReplicas: 1}}`) },
			"AgentNotReady", 3,
		},
		{
			"no role of the agent", func(t *testing.T) { t.Helper(); remove(t, roleBinding("kedify-http-agent")) },
			func(t *testing.T) { t.Helper(); reapply(t, "rbac.yaml") }, "AgentForbidden", 3,
		},
		{
			"no webhook", func(t *testing.T) { t.Helper(); remove(t, webhook) },
			func(t *testing.T) {
				t.Helper()
				reapply(t, "webhook.yaml")
				if err := shared.trust(t.Context()); err != nil {
					t.Fatal(err)
				}
			}, "WebhookNotFound", 0,
		},
		{
			"a webhook without its Service",
			func(t *testing.T) { t.Helper(); remove(t, "/api/v1/namespaces/keda/services/kedify-http-agent") },
			func(t *testing.T) { t.Helper(); reapply(t, "service.yaml") }, "WebhookNotReady", 3,
		},
		{
			"a certificate that may not be read",
			func(t *testing.T) {
				t.Helper()
				patch(t, status, `status: {conditions: [{type: Accepted, status: "True", reason: Accepted, lastTransitionTime: "2026-01-01T00:00:00Z", message: ""},
  {type: TLSReady, status: "False", reason: SecretUnreadable, lastTransitionTime: "2026-01-01T00:00:00Z", message: forbidden}]}`)
			},
			func(t *testing.T) { t.Helper(); patch(t, status, reports()[status]) }, "CertificateNotReady", 3,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.spoil(t)
			defer func() {
				test.mend(t)
				awaitCodes(t, 0)
			}()
			awaitCodes(t, test.exit, test.code)
		})
	}
}

// roleBinding is the path of a ClusterRoleBinding.
func roleBinding(name string) string {
	return "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/" + name
}

// findings is the JSON output of doctor.
type findings struct {
	Findings []struct{ Code, Severity, Object, Field, Message, Fix, URL string }
}

// codesOf returns the codes in the JSON output of doctor.
func codesOf(t *testing.T, out string) []string {
	t.Helper()
	var printed findings
	if err := json.Unmarshal([]byte(out), &printed); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	codes := []string{}
	for _, finding := range printed.Findings {
		if len(codes) == 0 || codes[len(codes)-1] != finding.Code {
			codes = append(codes, finding.Code)
		}
		if finding.Object == "" || finding.Message == "" || finding.Fix == "" || finding.URL == "" {
			t.Errorf("incomplete finding: %+v", finding)
		}
	}
	return codes
}

// awaitCodes runs doctor until it finds exactly these codes, and checks the exit code: the API server applies changed
// roles with a delay.
func awaitCodes(t *testing.T, exit int, codes ...string) {
	t.Helper()
	var got result
	var diff string
	await.Described(t, "the findings", func() bool {
		got = run(t, apiserver.AdminToken, "doctor", "--output=json")
		diff = cmp.Diff(append([]string{}, codes...), codesOf(t, got.out))
		return diff == ""
	}, func() string { return "(-want +got)\n" + diff })
	if got.code != exit {
		t.Errorf("exit code %d, want %d", got.code, exit)
	}
}

// TestDoctorWithoutPermissions: a user who may read nothing gets a warning, and no false errors.
func TestDoctorWithoutPermissions(t *testing.T) {
	got := run(t, apiserver.UnprivilegedToken, "doctor", "-o", "json")
	if diff := cmp.Diff([]string{"NotExamined"}, codesOf(t, got.out)); diff != "" || got.code != 0 {
		t.Errorf("exit code %d, findings (-want +got):\n%s", got.code, diff)
	}
	if !strings.Contains(got.out, "Rollouts") {
		t.Errorf("unread resources are not listed: %s", got.out)
	}
}

func TestDoctorOfOneNamespace(t *testing.T) {
	remove(t, "/api/v1/namespaces/web/services/web-canary")
	defer func() {
		if err := apiserver.ApplyFiles(t.Context(), shared.admin, "", "testdata/applications.yaml"); err != nil {
			t.Error(err)
		}
	}()
	for namespace, exit := range map[string]int{"shop": 0, "web": 3} {
		if got := run(t, apiserver.AdminToken, "doctor", "-n", namespace); got.code != exit {
			t.Errorf("namespace %s: exit code %d, want %d:\n%s", namespace, got.code, exit, got.out)
		}
	}
}
