package dashboard_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/dashboard"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/dashboard/view"
)

// TestNamesOfWorkloads: a name leads to no path outside of the object's namespace.
func TestNamesOfWorkloads(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"shop":                       "/apis/argoproj.io/v1alpha1/namespaces/team-a/rollouts/shop",
		"../../team-b/rollouts/pay":  "",
		"pay/status":                 "",
		"a,involvedObject.kind=Node": "",
	} {
		var paths []string
		reader := dashboard.Reader{Get: func(_ context.Context, path string, query map[string]string) ([]byte, error) {
			paths = append(paths, path)
			if selector := query["fieldSelector"]; strings.Contains(selector, ",") {
				t.Errorf("name %q: selector %s", name, selector)
			}
			return []byte("{}"), nil
		}}
		object := new(httpv1alpha1.HTTPScaledObject)
		object.Namespace, object.Name = "team-a", "web"
		object.Spec.ScaleTargetRef.Kind, object.Spec.ScaleTargetRef.Name = "Rollout", name
		workload := reader.Read(t.Context(), view.Source{Object: object})
		isOfEvents := func(path string) bool { return path == "/api/v1/namespaces/team-a/events" }
		found := strings.Join(slices.DeleteFunc(paths, isOfEvents), " ")
		if found != want {
			t.Errorf("name %q: reads %q, want %q", name, found, want)
		}
		if isNoted := len(workload.Notes) > 0; isNoted != (want == "") {
			t.Errorf("name %q: notes %v", name, workload.Notes)
		}
	}
}
