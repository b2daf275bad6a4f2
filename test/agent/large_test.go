package agent_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/shipped"
)

// largeKind is a kind of the large objects.
type largeKind struct {
	count                  int
	apiVersion, kind, spec string
}

// large are the objects that a tenant creates in TestLargeObjects, by path. Each has as many annotations as the API
// server accepts.
func large() map[string]largeKind {
	const others = 200
	return map[string]largeKind{
		"/apis/networking.k8s.io/v1/namespaces/large/ingresses": {
			1000, "networking.k8s.io/v1", "Ingress",
			`{"rules":[{"host":"large.test","http":{"paths":[
				{"path":"/","pathType":"Prefix","backend":{"service":{"name":"shop","port":{"number":80}}}}]}}]}`,
		},
		"/apis/gateway.networking.k8s.io/v1/namespaces/large/httproutes": {
			others, "gateway.networking.k8s.io/v1", "HTTPRoute",
			`{"hostnames":["large.test"],"rules":[{"backendRefs":[{"name":"shop","port":80}]}]}`,
		},
		"/apis/http.keda.sh/v1alpha1/namespaces/large/httpscaledobjects": {
			others, "http.keda.sh/v1alpha1", "HTTPScaledObject",
			`{"hosts":["other.test"],"scaleTargetRef":{"service":"shop","port":80}}`,
		},
		"/apis/keda.sh/v1alpha1/namespaces/large/scaledobjects": {
			others, "keda.sh/v1alpha1", "ScaledObject",
			`{"scaleTargetRef":{"name":"shop"},"triggers":[{"type":"cpu","metadata":{}}]}`,
		},
		"/apis/argoproj.io/v1alpha1/namespaces/large/rollouts": {
			others, "argoproj.io/v1alpha1", "Rollout",
			`{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},
				"spec":{"containers":[{"name":"a","image":"a"}]}}}`,
		},
		"/api/v1/namespaces/large/services": {others, "v1", "Service", `{"ports":[{"port":80}]}`},
	}
}

// createLarge creates the large objects in a namespace with that name.
func createLarge(t *testing.T) {
	t.Helper()
	namespace(t, "large")
	annotations := map[string]string{"team.test/notes": strings.Repeat("x", 255<<10)}
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(4)
	for path, kind := range large() {
		for i := range kind.count {
			group.Go(func() error {
				return apiserver.Create(ctx, shared.admin, path, map[string]any{
					"apiVersion": kind.apiVersion, "kind": kind.kind, "spec": json.RawMessage(kind.spec),
					"metadata": map[string]any{"name": fmt.Sprintf("large-%04d", i), "annotations": annotations},
				})
			})
		}
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}

// TestLargeObjects starts the agent when a tenant has stored objects that are much larger than its memory limit. It
// then wires and restores an Ingress of another tenant, and one that is as large.
//
//nolint:paralleltest // it replaces the shared cluster
func TestLargeObjects(t *testing.T) {
	folder := emptyCluster(t)
	limit, variables, err := shipped.Settings("agent/deployment.yaml")
	if err != nil {
		t.Fatal(err)
	}
	createLarge(t)
	for _, variable := range variables {
		name, value, _ := strings.Cut(variable, "=")
		t.Setenv(name, value)
	}
	if shared.agent, _, err = shared.start(t.Context(), folder, "--install-proxies=false"); err != nil {
		t.Fatal(err)
	}
	agent := shared.agent
	t.Cleanup(func() { _ = agent.Kill() })
	notes := map[string]string{"team.test/notes": strings.Repeat("y", 255<<10)}
	for _, team := range []string{"small", "huge"} {
		namespace(t, team)
		apply(t, team, crowd(team)[1:]...)
		if team == "huge" {
			if err := apiserver.Patch(t.Context(), shared.admin, paths(team)[0][:strings.LastIndexByte(paths(team)[0], '/')]+"/shop-0",
				"user", map[string]any{"metadata": map[string]any{"annotations": notes}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, team := range []string{"small", "huge"} {
		acknowledge(t, team)
		awaitWiring(t, team, "shop-0", httpv1alpha1.ReasonWired)
	}
	peak, limit := peakMemory(t, false), limit>>20
	t.Logf("memory of the agent with %d large objects: at most %d MiB, and its limit is %d MiB", 2000, peak, limit)
	if peak > limit {
		t.Errorf("the agent used %d MiB, and its limit is %d MiB", peak, limit)
	}
	remove(t, httpScaledObject("huge", "shop-0"))
	var restored struct {
		Metadata metav1.ObjectMeta
	}
	await.True(t, "the Ingress is restored", func() bool {
		restored.Metadata = metav1.ObjectMeta{}
		get(t, "/apis/networking.k8s.io/v1/namespaces/huge/ingresses/shop-0", &restored)
		return restored.Metadata.Annotations[httpv1alpha1.AnnotationAutowireUndo] == ""
	})
	if diff := cmp.Diff(notes, restored.Metadata.Annotations); diff != "" {
		t.Errorf("annotations of the restored Ingress (-want +got):\n%s", diff)
	}
}

// acknowledge reports that the proxies of a namespace have acknowledged the HTTPScaledObjects of crowd.
func acknowledge(t *testing.T, namespace string) {
	t.Helper()
	status := map[string]any{"status": map[string]any{"conditions": []any{map[string]any{
		"type": "Programmed", "status": "True", "reason": "Programmed", "message": "",
		"lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1,
	}}}}
	for i := range manyIngresses {
		path := httpScaledObject(namespace, fmt.Sprint("shop-", i)) + "/status"
		if err := apiserver.Patch(t.Context(), shared.admin, path, "interceptor", status); err != nil {
			t.Fatal(err)
		}
	}
}
