package agent_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// proxyDeployment returns the Deployment that the agent applies, after a change of its Pod.
func proxyDeployment(t *testing.T, change func(deployment, pod, container map[string]any)) map[string]any {
	t.Helper()
	text, err := os.ReadFile(manifests + "kedify-proxy/deployment.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var deployment map[string]any
	if err := yaml.Unmarshal(text, &deployment); err != nil {
		t.Fatal(err)
	}
	pod := deployment["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
	change(deployment, pod, pod["containers"].([]any)[0].(map[string]any))
	return deployment
}

// applyAs applies an object as a user, without storing it. The audit log has it as a request of the administrator.
func applyAs(t *testing.T, user, path string, object map[string]any) error {
	t.Helper()
	body, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	request := shared.admin.Patch(types.ApplyPatchType).AbsPath(path).Param("fieldManager", "test").Param("dryRun", "All")
	if user != "" {
		request.SetHeader("Impersonate-User", user)
	}
	return request.Body(body).Do(t.Context()).Error()
}

// hasVolume returns a change that adds a volume.
func hasVolume(source string, value map[string]any) func(deployment, pod, container map[string]any) {
	return func(_, pod, _ map[string]any) {
		pod["volumes"] = append(pod["volumes"].([]any), map[string]any{"name": "more", source: value})
	}
}

// TestAdmission applies objects that the roles of the agent allow and the agent never writes: the API server rejects
// each of them. TestInstallAndRemoveProxies and others have those that the agent writes.
func TestAdmission(t *testing.T) {
	t.Parallel()
	team := namespace(t, "admission")
	type values = map[string]any
	container := func(field string, value any) func(deployment, pod, container map[string]any) {
		return func(_, _, container map[string]any) { container[field] = value }
	}
	pod := func(field string, value any) func(deployment, pod, container map[string]any) {
		return func(_, pod, _ map[string]any) { pod[field] = value }
	}
	security := func(field string, value any) func(deployment, pod, container map[string]any) {
		return func(_, _, container map[string]any) { container["securityContext"].(values)[field] = value }
	}
	const token, volumes, secrets = "no ServiceAccount and no token", "the volumes of proxies are ConfigMaps", "no Secrets"
	const node, privileges, restrictions = "of their node", "no privileges", "the restrictions of their runtime"
	const scheduler = "the scheduler selects the nodes"
	ofPod := func(field string, value any) func(deployment, pod, container map[string]any) {
		return func(_, pod, _ map[string]any) { pod["securityContext"].(values)[field] = value }
	}
	unconfined := values{"type": "Unconfined"}
	secret := values{"name": "keys"}
	projected := func(sources ...any) func(deployment, pod, container map[string]any) {
		return hasVolume("projected", values{"sources": sources})
	}
	tokenFor := func(audience string) any {
		return values{"serviceAccountToken": values{"audience": audience, "path": "token"}}
	}
	for name, test := range map[string]struct {
		change func(deployment, pod, container map[string]any)
		want   string // part of the error, none if the object is accepted
	}{
		"what the agent applies":      {func(values, values, values) {}, ""},
		"another image":               {container("image", "registry.test/envoy:1"), ""},
		"an empty directory":          {hasVolume("emptyDir", values{}), ""},
		"a variable":                  {container("env", []any{values{"name": "A", "value": "b"}}), ""},
		"a token":                     {pod("automountServiceAccountToken", true), token},
		"a token by default":          {func(_, pod, _ values) { delete(pod, "automountServiceAccountToken") }, token},
		"another ServiceAccount":      {pod("serviceAccountName", "admin"), token},
		"one by the former name":      {pod("serviceAccount", "admin"), token},
		"a Secret":                    {hasVolume("secret", values{"secretName": "keys"}), volumes},
		"a path of the node":          {hasVolume("hostPath", values{"path": "/"}), volumes},
		"a token for the interceptor": {projected(tokenFor("kedify-http-interceptor")), ""},
		"a token for others":          {projected(tokenFor("vault")), volumes},
		"a token for the API server":  {projected(values{"serviceAccountToken": values{"path": "token"}}), volumes},
		"a projected Secret":          {projected(values{"secret": secret}), volumes},
		"a token and a Secret":        {projected(tokenFor("kedify-http-interceptor"), values{"secret": secret}), volumes},
		"a claim":                     {hasVolume("persistentVolumeClaim", values{"claimName": "data"}), volumes},
		"a CSI volume":                {hasVolume("csi", values{"driver": "secrets.test"}), volumes},
		"variables of a Secret":       {container("envFrom", []any{values{"secretRef": secret}}), secrets},
		"the network of the node":     {pod("hostNetwork", true), node},
		"its processes":               {pod("hostPID", true), node},
		"its shared memory":           {pod("hostIPC", true), node},
		"a port of the node": {func(_, _, container values) {
			container["ports"].([]any)[0].(values)["hostPort"] = 8080
		}, node},
		"a variable of a Secret": {container("env", []any{values{"name": "A", "valueFrom": values{
			"secretKeyRef": values{"name": "keys", "key": "a"},
		}}}), secrets},
		// The API server of the tests rejects privileged containers of any user.
		"escalation":                  {security("allowPrivilegeEscalation", true), privileges},
		"a capability":                {security("capabilities", values{"add": []any{"NET_ADMIN"}}), privileges},
		"root in a container":         {security("runAsNonRoot", false), privileges},
		"root":                        {pod("securityContext", values{}), privileges},
		"an init container":           {pod("initContainers", []any{values{"name": "a", "image": "b"}}), privileges},
		"no security context":         {func(_, _, container values) { delete(container, "securityContext") }, privileges},
		"no security of the Pod":      {func(_, pod, _ values) { delete(pod, "securityContext") }, privileges},
		"the user root":               {security("runAsUser", 0), restrictions},
		"the user root in the Pod":    {ofPod("runAsUser", 0), restrictions},
		"the group of root":           {security("runAsGroup", 0), restrictions},
		"more groups":                 {ofPod("supplementalGroups", []any{0}), restrictions},
		"a kernel parameter":          {ofPod("sysctls", []any{values{"name": "kernel.shm_rmid_forced", "value": "1"}}), restrictions},
		"every system call":           {security("seccompProfile", unconfined), restrictions},
		"every system call, Pod":      {ofPod("seccompProfile", unconfined), restrictions},
		"no AppArmor":                 {security("appArmorProfile", unconfined), restrictions},
		"the default seccomp profile": {security("seccompProfile", values{"type": "RuntimeDefault"}), ""},
		"a node":                      {pod("nodeName", "control-plane"), scheduler},
		"every taint":                 {pod("tolerations", []any{values{"operator": "Exists"}}), scheduler},
		"a taint of control planes": {
			pod("tolerations", []any{values{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}}),
			scheduler,
		},
		"a system priority": {pod("priorityClassName", "system-node-critical"), scheduler},
		"a priority":        {pod("priorityClassName", "routing"), ""},
		"a second container with a Secret": {func(_, pod, container values) {
			second := values{
				"name": "b", "image": "b", "envFrom": []any{values{"secretRef": secret}},
				"securityContext": container["securityContext"],
			}
			pod["containers"] = append(pod["containers"].([]any), second)
		}, secrets},
	} {
		object := proxyDeployment(t, test.change)
		var got error
		// A new policy is effective after some time.
		await.Described(t, name, func() bool {
			got = applyAs(t, account, part("Deployment", team), object)
			return (got == nil) == (test.want == "")
		}, func() string { return "the API server answers " + errorText(got) })
		if got != nil && !strings.Contains(got.Error(), test.want) {
			t.Errorf("%s: error %v, want one with %q", name, got, test.want)
		}
	}
}

// errorText returns the text of an error or of none.
func errorText(err error) string {
	if err == nil {
		return "no error"
	}
	return err.Error()
}

// TestNoWritesInNamespacesOfKubernetes: the API server rejects what the agent would write in them, and leaves
// other users alone.
func TestNoWritesInNamespacesOfKubernetes(t *testing.T) {
	t.Parallel()
	service := map[string]any{
		"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": "kedify-proxy"},
		"spec": map[string]any{"ports": []any{map[string]any{"port": 80}}},
	}
	deployment := proxyDeployment(t, func(_, _, _ map[string]any) {})
	for _, name := range []string{"kube-system", "kube-public", "kube-node-lease"} {
		for kind, object := range map[string]map[string]any{"Service": service, "Deployment": deployment} {
			var got error
			await.Described(t, kind+" in "+name, func() bool {
				got = applyAs(t, account, part(kind, name), object)
				return got != nil
			}, func() string { return "the API server accepts it" })
			if !strings.Contains(got.Error(), "may not write in namespaces of Kubernetes") {
				t.Errorf("%s in %s: %v", kind, name, got)
			}
			if err := applyAs(t, "", part(kind, name), object); err != nil {
				t.Errorf("%s in %s by another user: %v", kind, name, err)
			}
		}
	}
}

// TestAdmissionOfWebhook patches a webhook as the agent: only its CA may change. The user has more permissions than the
// agent, because a role limits the agent to its own webhook, which other tests use.
func TestAdmissionOfWebhook(t *testing.T) {
	t.Parallel()
	const path = webhooks + "/admission"
	if err := createWebhook("admission", func(webhook map[string]any) {
		webhook["namespaceSelector"] = map[string]any{"matchLabels": map[string]any{"webhook": "none"}}
	}); err != nil {
		t.Fatal(err)
	}
	patchWebhook := func(patch string) error {
		return shared.admin.Patch(types.JSONPatchType).AbsPath(path).Param("dryRun", "All").
			SetHeader("Impersonate-User", account).SetHeader("Impersonate-Group", "system:masters").
			Body([]byte("[" + patch + "]")).Do(t.Context()).Error()
	}
	for name, patch := range map[string]string{
		"another Service":   `{"op": "replace", "path": "/webhooks/0/clientConfig/service/name", "value": "other"}`,
		"another namespace": `{"op": "replace", "path": "/webhooks/0/clientConfig/service/namespace", "value": "team"}`,
		"another path":      `{"op": "replace", "path": "/webhooks/0/clientConfig/service/path", "value": "/x"}`,
		"another port":      `{"op": "replace", "path": "/webhooks/0/clientConfig/service/port", "value": 8443}`,
		"a URL":             `{"op": "replace", "path": "/webhooks/0/clientConfig", "value": {"url": "https://x.test/"}}`,
		"other objects": `{"op": "add", "path": "/webhooks/0/rules/-", "value": {"apiGroups": [""], "apiVersions": ["v1"], ` +
			`"resources": ["secrets"], "operations": ["CREATE"]}}`,
		"more operations":     `{"op": "add", "path": "/webhooks/0/rules/0/operations/-", "value": "DELETE"}`,
		"every ScaledObject":  `{"op": "remove", "path": "/webhooks/0/matchConditions"}`,
		"another condition":   `{"op": "replace", "path": "/webhooks/0/matchConditions/0/expression", "value": "true"}`,
		"some namespaces":     `{"op": "replace", "path": "/webhooks/0/namespaceSelector/matchLabels", "value": {"a": "b"}}`,
		"ignored failures":    `{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"}`,
		"a second invocation": `{"op": "replace", "path": "/webhooks/0/reinvocationPolicy", "value": "IfNeeded"}`,
		"no webhook":          `{"op": "remove", "path": "/webhooks/0"}`,
		"a second webhook": `{"op": "copy", "from": "/webhooks/0", "path": "/webhooks/-"}, ` +
			`{"op": "replace", "path": "/webhooks/1/name", "value": "more.agent.http.kedify.io"}`,
	} {
		var got error
		// A new policy is effective after some time.
		await.Described(t, name, func() bool {
			got = patchWebhook(patch)
			return got != nil
		}, func() string { return "the API server accepts it" })
		if !strings.Contains(got.Error(), onlyCA) {
			t.Errorf("%s: error %v, want one with %q", name, got, onlyCA)
		}
	}
	if err := patchWebhook(`{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": "LS0t"}`); err != nil {
		t.Errorf("a CA: %v", err)
	}
}

// onlyCA is part of the message about a change of the webhook.
const onlyCA = "nothing of a webhook but its CA"

// TestAdmissionOfSecrets creates Secrets as the agent that are not its certificates.
func TestAdmissionOfSecrets(t *testing.T) {
	t.Parallel()
	const only = "may only write Secrets of type kubernetes.io/tls"
	for name, secret := range map[string]map[string]any{
		"another name": {
			"metadata": map[string]any{"name": "shop-tls"}, "type": "kubernetes.io/tls",
			"data": map[string]any{"tls.crt": "", "tls.key": ""},
		},
		"a token": {
			"metadata": map[string]any{
				"name": "kedify-http-agent-token", "annotations": map[string]any{"kubernetes.io/service-account.name": "admin"},
			},
			"type": "kubernetes.io/service-account-token",
		},
		"no type": {"metadata": map[string]any{"name": "kedify-http-agent-opaque"}},
	} {
		secret["apiVersion"], secret["kind"] = "v1", "Secret"
		body, err := json.Marshal(secret)
		if err != nil {
			t.Fatal(err)
		}
		var got error
		await.Described(t, name, func() bool {
			got = shared.admin.Post().AbsPath("/api/v1/namespaces/keda/secrets").Param("dryRun", "All").
				SetHeader("Impersonate-User", account).Body(body).Do(t.Context()).Error()
			return got != nil
		}, func() string { return "the API server accepts it" })
		if !strings.Contains(got.Error(), only) {
			t.Errorf("%s: error %v, want one with %q", name, got, only)
		}
	}
}
