package cli_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/istio"
	"github.com/kedify/argo-rollouts-plugin/test/kit/openshift"
)

const (
	plugins = "/api/v1/namespaces/argo-rollouts/configmaps/argo-rollouts-config"
	// others is the entry of another plugin.
	others = "# of the platform team\n- name: somebody/else\n  location: https://example.com/else\n"
	// ingress is an Ingress before autowiring.
	ingress = `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: shop, namespace: shop}
spec: {rules: [{host: shop.example.com, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: shop, port: {number: 80}}}}]}}]}`
)

// pluginList returns the list with both routers of a release and the other plugin.
func pluginList(from string) string {
	const entry = "- name: %q\n  location: \"%s/%s-linux-amd64\"\n  sha256: %q\n"
	return others + fmt.Sprintf(entry, "argoproj-labs/gatewayAPI", from, "gatewayapi-plugin", strings.Repeat("1", 64)) +
		fmt.Sprintf(entry, "kedify/http", from, "rollouts-plugin-kedify", strings.Repeat("2", 64))
}

// installArgs returns the arguments that install all components.
func installArgs(t *testing.T, from string) []string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "checksums.txt")
	sums := strings.Repeat("1", 64) + "  gatewayapi-plugin-linux-amd64\n" + strings.Repeat("2", 64) +
		"  rollouts-plugin-kedify-linux-amd64\n"
	if err := os.WriteFile(file, []byte(sums), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{
		"install", "--components=interceptor,proxy,scaler,agent", "--proxy-namespace=shop", "--image-tag=9.9.9",
		"--from=" + from, "--checksums=" + file,
	}
}

// list returns the list of plugins.
func (b *bareCluster) list(t *testing.T) string {
	t.Helper()
	data, _ := b.get(t, plugins)["data"].(map[string]any)
	text, _ := data["trafficRouterPlugins"].(string)
	return text
}

// setList writes the list of plugins with another field manager.
func (b *bareCluster) setList(t *testing.T, text string) {
	t.Helper()
	if err := b.patch(t.Context(), plugins, fmt.Sprintf("data: {metricProviderPlugins: '[]', trafficRouterPlugins: %q}",
		text)); err != nil {
		t.Fatal(err)
	}
}

// must runs the plugin, which must succeed.
func (b *bareCluster) must(t *testing.T, args ...string) string {
	t.Helper()
	got := b.run(t, args...)
	if got.code != 0 {
		t.Fatalf("%v ends with %d: %s%s", args, got.code, got.out, got.err)
	}
	return got.out
}

// apply applies manifests.
func (b *bareCluster) apply(t *testing.T, manifests ...string) {
	t.Helper()
	if err := apiserver.Apply(t.Context(), b.admin, "", manifests...); err != nil {
		t.Fatal(err)
	}
}

// wired creates the Ingress and the generated objects of a running installation.
func (b *bareCluster) wired(t *testing.T) {
	t.Helper()
	if err := apiserver.ApplyFiles(t.Context(), b.admin, "", "testdata/wired.yaml"); err != nil {
		t.Fatal(err)
	}
}

// route is Route shop, and service VirtualService shop.
const route = "/apis/route.openshift.io/v1/namespaces/shop/routes/shop"

const service = "/apis/networking.istio.io/v1/namespaces/shop/virtualservices/shop"

// installRouters installs the CRDs of Istio and OpenShift.
func (b *bareCluster) installRouters(t *testing.T) {
	t.Helper()
	crds, err := istio.CRDs(t.Context(), "../..")
	routes, also := openshift.CRD(t.Context(), "../..")
	if err := errors.Join(err, also); err != nil {
		t.Fatal(err)
	}
	b.apply(t, append(crds, routes)...)
}

// wiredRoute creates a Route as the agent leaves it. It has no port in the original.
func (b *bareCluster) wiredRoute(t *testing.T) {
	t.Helper()
	b.apply(t, `{apiVersion: route.openshift.io/v1, kind: Route, metadata: {name: shop, namespace: shop, annotations: {
		http.kedify.io/autowire-undo: '[{"op":"test","path":"/spec/to/name","value":"kedify-proxy"},`+
		`{"op":"test","path":"/spec/port/targetPort","value":"http"},{"op":"remove","path":"/spec/port"},`+
		`{"op":"replace","path":"/spec/to/name","value":"shop"},`+
		`{"op":"remove","path":"/metadata/annotations/http.kedify.io~1autowire-undo"}]'}},
		spec: {host: shop.example.com, to: {kind: Service, name: kedify-proxy, weight: 100}, port: {targetPort: http}}}`)
}

// checkRoute checks that Route shop has its original backend, and deletes it.
func (b *bareCluster) checkRoute(t *testing.T) {
	t.Helper()
	found := b.get(t, route)
	want := map[string]any{
		"host": "shop.example.com", "wildcardPolicy": "None",
		"to": map[string]any{"kind": "Service", "name": "shop", "weight": 100.0},
	}
	if diff := cmp.Diff(want, found["spec"]); diff != "" {
		t.Errorf("Route (-want +got):\n%s", diff)
	}
	if annotations := found["metadata"].(map[string]any)["annotations"]; annotations != nil {
		t.Errorf("annotations %v", annotations)
	}
	if err := b.admin.Delete().AbsPath(route).Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
}

// wiredService creates a VirtualService as the agent leaves it. Its destination has no port in the original.
func (b *bareCluster) wiredService(t *testing.T) {
	t.Helper()
	b.apply(t, `{apiVersion: networking.istio.io/v1, kind: VirtualService, metadata: {name: shop, namespace: shop, annotations: {
		http.kedify.io/autowire-undo: '[{"op":"test","path":"/spec/hosts","value":["shop.example.com"]},{"op":"test","path":"/spec/http/0/match","value":null},`+
		`{"op":"test","path":"/spec/http/0/route/0/destination/host","value":"kedify-proxy.shop.svc.cluster.local"},`+
		`{"op":"replace","path":"/spec/http/0/route/0/destination/host","value":"shop.shop.svc.cluster.local"},`+
		`{"op":"remove","path":"/spec/http/0/route/0/destination/port"},`+
		`{"op":"remove","path":"/metadata/annotations/http.kedify.io~1autowire-undo"}]'}},
		spec: {hosts: [shop.example.com], http: [{route: [{destination: {host: kedify-proxy.shop.svc.cluster.local, port: {number: 8080}}}]}]}}`)
}

// checkService checks that VirtualService shop has its original backend, and deletes it.
func (b *bareCluster) checkService(t *testing.T) {
	t.Helper()
	found := b.get(t, service)
	want := map[string]any{
		"hosts": []any{"shop.example.com"},
		"http": []any{map[string]any{"route": []any{map[string]any{
			"destination": map[string]any{"host": "shop.shop.svc.cluster.local"},
		}}}},
	}
	if diff := cmp.Diff(want, found["spec"]); diff != "" {
		t.Errorf("VirtualService (-want +got):\n%s", diff)
	}
	if annotations := found["metadata"].(map[string]any)["annotations"]; annotations != nil {
		t.Errorf("annotations %v", annotations)
	}
	if err := b.admin.Delete().AbsPath(service).Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
}

// TestInstallAndUninstallOnACluster: each step starts with the result of the previous one, and the last ones restore
// the initial state.
func TestInstallAndUninstallOnACluster(t *testing.T) {
	b := newBareCluster(t)
	b.setList(t, others)
	b.apply(t, ingress)
	b.installRouters(t)
	before := b.snapshot(t)
	back := func(t *testing.T) {
		t.Helper()
		if diff := cmp.Diff(before, b.snapshot(t)); diff != "" {
			t.Fatalf("not restored (-before +after):\n%s", diff)
		}
	}
	for _, step := range []struct {
		name string
		do   func(*testing.T, *bareCluster)
	}{
		{"a dry run", dryRun},
		{"all components, with another plugin", installAll},
		{"again", installAgain},
		{"a newer release", upgrade},
		{"in use", uninstallInUse},
		{"a dry run of uninstall", dryUninstall},
	} {
		if !t.Run(step.name, func(t *testing.T) { step.do(t, b) }) {
			t.FailNow()
		}
	}
	t.Run("uninstalled", func(t *testing.T) {
		b.wired(t)
		b.wiredService(t)
		b.wiredRoute(t)
		out := b.must(t, "uninstall")
		for _, object := range []string{"Ingress", "VirtualService", "Route"} {
			if !strings.Contains(out, object+" shop/shop restored\n") {
				t.Errorf("%s: output:\n%s", object, out)
			}
		}
		b.checkService(t)
		b.checkRoute(t)
		back(t)
		if out := b.must(t, "uninstall"); strings.Contains(out, "deleted") || strings.Contains(out, "configured") {
			t.Errorf("second output:\n%s", out)
		}
		back(t)
	})
	t.Run("by init containers", func(t *testing.T) { initContainers(t, b); back(t) })
	t.Run("objects of other owners", func(t *testing.T) { foreign(t, b); back(t) })
	t.Run("objects that stay", func(t *testing.T) { keptObjects(t, b); back(t) })
	t.Run("interrupted at every write", func(t *testing.T) { interrupted(t, b); back(t) })
}

func dryRun(t *testing.T, b *bareCluster) {
	t.Helper()
	before := b.snapshot(t)
	out := b.must(t, append(installArgs(t, "https://example.com/v1"), "--dry-run")...)
	for _, want := range []string{
		"ClusterRole argo-rollouts-kedify-http created (server dry run)\n",
		"Deployment shop/kedify-proxy created (server dry run)\n",
		"ConfigMap argo-rollouts/argo-rollouts-config configured (server dry run)\n",
		"Deployment argo-rollouts/argo-rollouts restarted (server dry run)\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	if diff := cmp.Diff(before, b.snapshot(t)); diff != "" {
		t.Errorf("it changed (-before +after):\n%s", diff)
	}
}

func installAll(t *testing.T, b *bareCluster) {
	t.Helper()
	out := b.must(t, installArgs(t, "https://example.com/v1")...)
	if !strings.HasSuffix(out, "No problems found.\n") {
		t.Errorf("output:\n%s", out)
	}
	if diff := cmp.Diff(pluginList("https://example.com/v1"), b.list(t)); diff != "" {
		t.Errorf("the list (-want +got):\n%s", diff)
	}
}

func installAgain(t *testing.T, b *bareCluster) {
	t.Helper()
	before := b.snapshot(t)
	out := b.must(t, installArgs(t, "https://example.com/v1")...)
	for line := range strings.Lines(out) {
		if !strings.HasSuffix(line, " unchanged\n") && line != "No problems found.\n" {
			t.Errorf("output line %s", line)
		}
	}
	if diff := cmp.Diff(before, b.snapshot(t)); diff != "" {
		t.Errorf("it changed (-before +after):\n%s", diff)
	}
}

// upgrade installs a release with another URL: only the list of plugins and the controller change.
func upgrade(t *testing.T, b *bareCluster) {
	t.Helper()
	before := b.snapshot(t)
	b.must(t, installArgs(t, "https://example.com/v2")...)
	if diff := cmp.Diff(pluginList("https://example.com/v2"), b.list(t)); diff != "" {
		t.Errorf("the list (-want +got):\n%s", diff)
	}
	var changed []string
	after := b.snapshot(t)
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if !cmp.Equal(before[name], after[name]) {
			changed = append(changed, name)
		}
	}
	want := []string{
		"/api/v1/configmaps argo-rollouts/argo-rollouts-config",
		"/apis/apps/v1/deployments argo-rollouts/argo-rollouts",
	}
	if diff := cmp.Diff(want, changed); diff != "" {
		t.Errorf("changed objects (-want +got):\n%s", diff)
	}
}

func uninstallInUse(t *testing.T, b *bareCluster) {
	t.Helper()
	objects, err := os.ReadFile("testdata/applications.yaml")
	if err != nil {
		t.Fatal(err)
	}
	rollout, _, _ := strings.Cut(string(objects), "\n---\n")
	b.apply(t, rollout,
		"{apiVersion: http.keda.sh/v1alpha1, kind: HTTPScaledObject, metadata: {name: shop, namespace: shop}, "+
			"spec: {hosts: [shop.example.com], scaleTargetRef: {name: shop, kind: Rollout, apiVersion: "+
			"argoproj.io/v1alpha1, service: shop-stable, port: 80}}}")
	before := b.snapshot(t)
	got := b.run(t, "uninstall")
	if got.code != 1 || !strings.Contains(got.err, "Rollout shop/shop uses router kedify/http") ||
		!strings.Contains(got.err,
			"HTTPScaledObject shop/shop would be deleted together with its CustomResourceDefinition") ||
		!strings.Contains(got.err, "--force") {
		t.Errorf("result %+v", got)
	}
	if diff := cmp.Diff(before, b.snapshot(t)); diff != "" {
		t.Errorf("it changed (-before +after):\n%s", diff)
	}
	for _, path := range []string{rolloutPath("shop", "shop"), objectPath("shop", "shop")} {
		if err := b.admin.Delete().AbsPath(path).Do(t.Context()).Error(); err != nil {
			t.Fatal(err)
		}
	}
}

func dryUninstall(t *testing.T, b *bareCluster) {
	t.Helper()
	b.wired(t)
	before := b.snapshot(t)
	out := b.must(t, "uninstall", "--dry-run")
	for _, want := range []string{
		"Ingress shop/shop restored (server dry run)\n",
		"Deployment keda/kedify-http-agent deleted (server dry run)\n",
	} {
		if strings.Count(out, want) != 1 {
			t.Errorf("%q is not once in\n%s", want, out)
		}
	}
	if diff := cmp.Diff(before, b.snapshot(t)); diff != "" {
		t.Errorf("it changed (-before +after):\n%s", diff)
	}
}

func initContainers(t *testing.T, b *bareCluster) {
	t.Helper()
	b.must(t, "install", "--router=kedify/http", "--init-container", "--image-registry=registry.example.com/kedify",
		"--image-tag=9.9.9")
	if want := others +
		"- name: \"kedify/http\"\n  location: \"file:///home/argo-rollouts/plugin-bin/rollouts-plugin-kedify\"\n"; b.list(t) != want {
		t.Errorf("the list is\n%s", b.list(t))
	}
	controller := b.get(t, deployment("argo-rollouts", "argo-rollouts"))
	pod := controller["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
	container := pod["initContainers"].([]any)[0].(map[string]any)
	if container["image"] != "registry.example.com/kedify/argo-rollouts-plugin:9.9.9" {
		t.Errorf("the image is %v", container["image"])
	}
	b.must(t, "uninstall")
}

// foreign: install reports all objects of other owners at once, before it changes anything.
func foreign(t *testing.T, b *bareCluster) {
	t.Helper()
	const role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/argo-rollouts-kedify-http"
	if err := apiserver.ApplyFiles(t.Context(), b.admin, "", manifests+"argo-rollouts/rbac.yaml"); err != nil {
		t.Fatal(err)
	}
	before := b.snapshot(t)
	args := append(installArgs(t, "https://example.com/v1"), "--proxy-namespace=nowhere")
	got := b.run(t, args...)
	for _, want := range []string{
		"ClusterRole argo-rollouts-kedify-http already exists and was not created by this command",
		"ClusterRoleBinding argo-rollouts-kedify-http already exists", "kubectl create namespace nowhere",
	} {
		if got.code != 1 || !strings.Contains(got.err, want) {
			t.Errorf("%q is not in %+v", want, got)
		}
	}
	if diff := cmp.Diff(before, b.snapshot(t)); diff != "" {
		t.Errorf("it changed (-before +after):\n%s", diff)
	}
	for _, path := range []string{role, strings.Replace(role, "clusterroles", "clusterrolebindings", 1)} {
		if err := b.admin.Delete().AbsPath(path).Do(t.Context()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	foreign := "- name: kedify/http\n  location: https://example.com/theirs\n" + others
	b.setList(t, foreign)
	if got := b.run(t, installArgs(t, "https://example.com/v1")...); got.code != 1 ||
		!strings.Contains(got.err, "--replace") || b.list(t) != foreign {
		t.Errorf("result %+v", got)
	}
	b.must(t, append(installArgs(t, "https://example.com/v1"), "--replace")...)
	b.must(t, "uninstall")
	if b.list(t) != foreign {
		t.Errorf("final list:\n%s", b.list(t))
	}
	b.setList(t, others)
}

// keptObjects: the CRD belongs to another owner, so uninstall keeps the HTTPScaledObjects with the interceptors' reports.
// It marks the Lease: a router that stays must not wait for reports, as it does after a crash.
func keptObjects(t *testing.T, b *bareCluster) {
	t.Helper()
	const lease = "/apis/coordination.k8s.io/v1/namespaces/keda/leases/kedify-http-interceptor"
	if err := apiserver.ApplyFiles(t.Context(), b.admin, "", manifests+"crd/http.keda.sh_httpscaledobjects.yaml"); err != nil {
		t.Fatal(err)
	}
	b.apply(t, "{apiVersion: http.keda.sh/v1alpha1, kind: HTTPScaledObject, metadata: {name: shop, namespace: shop}, "+
		"spec: {hosts: [shop.example.com], scaleTargetRef: {service: shop-stable, port: 80}}}")
	b.wired(t)
	for _, want := range []int{1, 0} { // the second run has nothing to do
		out := b.must(t, "uninstall")
		if got := strings.Count(out, "Lease keda/kedify-http-interceptor marked as uninstalled\n"); got != want {
			t.Errorf("the Lease was marked %d times, want %d:\n%s", got, want, out)
		}
		spec, _ := b.get(t, lease)["spec"].(map[string]any)
		if spec["holderIdentity"] != "uninstalled" {
			t.Errorf("the Lease is %v", spec)
		}
	}
	crd := "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/httpscaledobjects.http.keda.sh"
	for _, path := range []string{objectPath("shop", "shop"), crd, lease} {
		if err := b.admin.Delete().AbsPath(path).Do(t.Context()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	await.True(t, "the CRD is gone", func() bool { return b.get(t, crd) == nil })
}

// interrupted aborts install after 1, 2, 3, ... writes until a run succeeds, and uninstall after each change. The final
// state is the same as without interruptions.
func interrupted(t *testing.T, b *bareCluster) {
	t.Helper()
	args := installArgs(t, "https://example.com/v1")
	// The omitted components contain no other kinds of objects.
	args = append(slices.Delete(args, 1, 3), "--components=interceptor,agent", "--router=kedify/http")
	b.must(t, args...)
	b.wired(t)
	want := b.snapshot(t)
	b.must(t, "uninstall")

	const most = 100
	last := int64(0)
	for n := int64(1); last == 0 && n < most; n++ {
		address, isCut := b.cut(t, n)
		got := b.run(t, append(args, "--server="+address)...)
		switch {
		case isCut.Load() == (got.code == 0):
			t.Fatalf("after %d writes: %+v", n, got)
		case got.code == 0:
			last = n - 1
		}
	}
	b.wired(t)
	if diff := cmp.Diff(want, b.snapshot(t)); diff != "" {
		t.Errorf("installed after %d interruptions (-want +got):\n%s", last, diff)
	}
	// The next run does not repeat completed deletions, so its first write is another one. A write that changes nothing
	// is skipped.
	back, writes, remaining := 0, int64(1), want
	for ; back < most; back++ {
		address, isCut := b.cut(t, writes)
		if got := b.run(t, "uninstall", "--server="+address); isCut.Load() == (got.code == 0) {
			t.Fatalf("result %+v", got)
		} else if got.code == 0 {
			break
		}
		now := b.snapshot(t)
		if cmp.Equal(remaining, now) {
			writes++
		}
		remaining = now
	}
	t.Logf("%d interruptions of install, %d of uninstall", last, back)
	if last < 25 || back < 25 {
		t.Errorf("install was interrupted %d times, uninstall %d times", last, back)
	}
}
