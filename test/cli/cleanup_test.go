package cli_test

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
)

// leftover is a leftover in the JSON output of cleanup.
type leftover struct {
	Object  string   `json:"object"`
	Kinds   []string `json:"kinds"`
	Unowned bool     `json:"unowned"`
	Removed bool     `json:"removed"`
	Error   string   `json:"error"`
}

// cleanup runs the command, and returns its output and exit code.
func cleanup(t *testing.T, args ...string) ([]leftover, int) {
	t.Helper()
	got := run(t, apiserver.AdminToken, append([]string{"cleanup", "--output=json"}, args...)...)
	var printed struct{ Leftovers []leftover }
	if err := json.Unmarshal([]byte(got.out), &printed); err != nil {
		t.Fatalf("%v: %+v", err, got)
	}
	return printed.Leftovers, got.code
}

// createLeftovers creates testdata/leftovers.yaml, and returns a function that reads all of its objects.
func createLeftovers(t *testing.T) (snapshot func() map[string]any) {
	t.Helper()
	if err := apiserver.CreateNamespace(t.Context(), shared.admin, "leftovers"); err != nil {
		t.Fatal(err)
	}
	manifest, err := os.ReadFile("testdata/leftovers.yaml")
	if err != nil {
		t.Fatal(err)
	}
	rollout, rest, _ := strings.Cut(string(manifest), "\n---\n")
	apply(t, rollout)
	// No controller deletes the objects of a namespace here.
	t.Cleanup(func() {
		for _, resource := range []string{
			"argoproj.io/v1alpha1/namespaces/leftovers/rollouts",
			"http.keda.sh/v1alpha1/namespaces/leftovers/httpscaledobjects",
			"http.keda.sh/v1beta1/namespaces/leftovers/interceptorroutes",
			"gateway.networking.k8s.io/v1/namespaces/leftovers/httproutes",
		} {
			if err := shared.admin.Delete().AbsPath("/apis/" + resource).Do(context.Background()).Error(); err != nil {
				t.Error(err)
			}
		}
	})
	uid := read(t, rolloutPath("leftovers", "kept"))["metadata"].(map[string]any)["uid"].(string)
	apply(t, strings.ReplaceAll(rest, "UID-OF-KEPT", uid))
	patch(t, objectPath("leftovers", "reported")+"/status",
		`status: {dataPlane: {annotationHash: "", proxies: {ready: 0, acked: 0}, effective: false}}`)
	return func() map[string]any {
		all := map[string]any{}
		for _, name := range []string{"used", "of-deleted", "of-changed", "mark-alone", "by-hand", "reported"} {
			all["object "+name] = plain(read(t, objectPath("leftovers", name)))
		}
		all["interceptor route"] = plain(read(t, "/apis/http.keda.sh/v1beta1/namespaces/leftovers/interceptorroutes/of-deleted"))
		for _, name := range []string{"used", "of-deleted", "of-changed", "label-alone"} {
			all["route "+name] = plain(read(t, routePath("leftovers", name)))
		}
		return all
	}
}

// plain returns the labels, annotations and spec of an object.
func plain(object map[string]any) map[string]any {
	metadata := object["metadata"].(map[string]any)
	return map[string]any{"labels": metadata["labels"], "annotations": metadata["annotations"], "spec": object["spec"]}
}

func TestCleanupRemovesOnlyLeftovers(t *testing.T) {
	snapshot := createLeftovers(t)
	before := snapshot()
	want := []leftover{
		{Object: "HTTPRoute leftovers/label-alone", Kinds: []string{"Label"}},
		{Object: "HTTPRoute leftovers/of-changed", Kinds: []string{"Record", "RouteWeights"}},
		{Object: "HTTPRoute leftovers/of-deleted", Kinds: []string{"Record", "ManagedRules", "Destinations"}},
		{Object: "HTTPScaledObject leftovers/by-hand", Kinds: []string{"UnownedWeights"}, Unowned: true},
		{Object: "HTTPScaledObject leftovers/mark-alone", Kinds: []string{"Mark"}},
		{Object: "HTTPScaledObject leftovers/of-changed", Kinds: []string{"Weights"}},
		{Object: "HTTPScaledObject leftovers/of-deleted", Kinds: []string{"Weights"}},
		{Object: "HTTPScaledObject leftovers/reported", Kinds: []string{"StatusAnnotation"}},
		{Object: "InterceptorRoute leftovers/of-deleted", Kinds: []string{"Weights"}},
	}
	// The HTTPScaledObject of TestStatusAndSplitOfBothRouters has no owner annotation, but a Rollout references it.
	got, code := cleanup(t)
	if diff := cmp.Diff(want, got); diff != "" || code != 3 {
		t.Fatalf("exit code %d; (-want +got):\n%s", code, diff)
	}
	if diff := cmp.Diff(before, snapshot()); diff != "" {
		t.Fatalf("the dry run changed (-before +after):\n%s", diff)
	}

	for i := range want {
		want[i].Removed = !want[i].Unowned
	}
	got, code = cleanup(t, "--apply")
	if diff := cmp.Diff(want, got); diff != "" || code != 3 {
		t.Fatalf("exit code %d; (-want +got):\n%s", code, diff)
	}
	if diff := cmp.Diff(cleaned(before), snapshot()); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}

	if got, code = cleanup(t, "--apply", "--unowned"); code != 0 || len(got) != 1 {
		t.Errorf("exit code %d, %+v", code, got)
	}
	if got := run(t, apiserver.AdminToken, "cleanup"); got.code != 0 || got.out != "No leftovers found.\n" {
		t.Errorf("finally: %+v", got)
	}
}

// cleaned returns the expected snapshot after --apply: the data listed here is removed, all other data stays.
func cleaned(before map[string]any) map[string]any {
	part := func(object, name string) map[string]any {
		return before[object].(map[string]any)[name].(map[string]any)
	}
	const weights, mark, record = "http.kedify.io/weighted-backends", "http.kedify.io/weighted-backends-owner", "rollouts.kedify.io/gatewayapi"
	const label = "rollouts.argoproj.io/gatewayapi-canary"
	for object, removed := range map[string][]string{
		"object of-deleted": {weights, mark}, "object of-changed": {weights, mark}, "object mark-alone": {mark},
		"object reported":   {"http.kedify.io/status"},
		"interceptor route": {weights, mark},
		"route of-deleted":  {record}, "route of-changed": {record},
	} {
		for _, name := range removed {
			delete(part(object, "annotations"), name)
		}
		if len(part(object, "annotations")) == 0 {
			before[object].(map[string]any)["annotations"] = nil
		}
	}
	delete(part("route of-deleted", "labels"), label)
	delete(part("route label-alone", "labels"), label)
	rules := func(route string) []any { return part(route, "spec")["rules"].([]any) }
	backends := func(rule any) []any { return rule.(map[string]any)["backendRefs"].([]any) }
	// The managed rule and the backend of the experiment are removed. A similar rule of the user and the weights stay.
	part("route of-deleted", "spec")["rules"] = rules("route of-deleted")[1:]
	last := rules("route of-deleted")[1].(map[string]any)
	last["backendRefs"] = backends(last)[:2]
	// The stable Service of an existing Rollout is known.
	backends(rules("route of-changed")[0])[0].(map[string]any)["weight"] = 100.0
	backends(rules("route of-changed")[0])[1].(map[string]any)["weight"] = 0.0
	return before
}

// TestCleanupWithoutPermissions: without permission to list Rollouts, nothing is known to be a leftover.
func TestCleanupWithoutPermissions(t *testing.T) {
	got := run(t, apiserver.UnprivilegedToken, "cleanup", "--apply")
	if got.code != 1 || !strings.Contains(got.err, "forbidden") {
		t.Errorf("result %+v", got)
	}
}

// TestCleanupOfTheInterceptorLease: the Lease is a leftover only if no interceptor is installed. The cluster has objects
// with reports, so it is marked and not deleted.
func TestCleanupOfTheInterceptorLease(t *testing.T) {
	const lease = "/apis/coordination.k8s.io/v1/namespaces/keda/leases/kedify-http-interceptor"
	apply(t, `{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: kedify-http-interceptor, namespace: keda},
spec: {holderIdentity: gone, renewTime: "2026-01-01T00:00:00.000000Z"}}`)
	interceptor := deployment("keda", "keda-add-ons-http-interceptor")
	if got, code := cleanup(t, "--apply"); code != 0 || len(got) != 0 {
		t.Errorf("with interceptors: exit code %d: %+v", code, got)
	}
	remove(t, interceptor)
	defer func() {
		if err := apiserver.ApplyFiles(context.WithoutCancel(t.Context()), shared.admin, "",
			manifests+"interceptor/deployment.yaml"); err != nil {
			t.Error(err)
		}
		patch(t, interceptor+"/status", `{status: {replicas: 1, readyReplicas: 1}}`)
	}()
	want := leftover{Object: "Lease keda/kedify-http-interceptor", Kinds: []string{"InterceptorLease"}}
	if got, code := cleanup(t); code != 3 || len(got) != 1 || !cmp.Equal(got[0], want) {
		t.Fatalf("exit code %d: %+v", code, got)
	}
	if got, code := cleanup(t, "--apply"); code != 0 || len(got) != 1 || !got[0].Removed {
		t.Errorf("exit code %d: %+v", code, got)
	}
	if got := run(t, apiserver.AdminToken, "cleanup"); got.code != 0 || got.out != "No leftovers found.\n" {
		t.Errorf("finally: %+v", got)
	}
	body, err := shared.admin.Get().AbsPath(lease).DoRaw(t.Context())
	if err != nil || !strings.Contains(string(body), `"holderIdentity":"uninstalled"`) {
		t.Errorf("the Lease is %s, %v", body, err)
	}
	remove(t, lease)
}

// TestCleanupOfATrial: the namespace of a throwaway canary is a leftover after its deadline; namespaces of other owners
// never are.
func TestCleanupOfATrial(t *testing.T) {
	create := func(name, until, by string) {
		apply(t,
			"{apiVersion: v1, kind: Namespace, metadata: {name: "+name+", labels: {app.kubernetes.io/managed-by: "+by+
				", http.kedify.io/try: x}, annotations: {http.kedify.io/try-until: '"+until+"'}}}")
		t.Cleanup(func() {
			_ = shared.admin.Delete().AbsPath("/api/v1/namespaces/" +
				name).Do(context.WithoutCancel(t.Context())).Error() // It may have been deleted.
		})
	}
	create("try-over", "2026-01-01T00:00:00Z", "kubectl-http-canary")
	create("try-now", time.Now().Add(time.Hour).Format(time.RFC3339), "kubectl-http-canary")
	create("try-foreign", "2026-01-01T00:00:00Z", "somebody")
	want := leftover{Object: "Namespace try-over", Kinds: []string{"Trial"}}
	if got, code := cleanup(t); code != 3 || len(got) != 1 || !cmp.Equal(got[0], want) {
		t.Fatalf("exit code %d: %+v", code, got)
	}
	if got, code := cleanup(t, "--apply"); code != 0 || len(got) != 1 || !got[0].Removed {
		t.Errorf("exit code %d: %+v", code, got)
	}
	if got, code := cleanup(t); code != 0 || len(got) != 0 {
		t.Errorf("finally: %d, %+v", code, got)
	}
}
