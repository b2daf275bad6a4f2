package refusals_test

import (
	"encoding/json"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	rolloutstypes "github.com/argoproj/argo-rollouts/utils/plugin/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/router/httpso"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/routertest"
)

// callsNamespace is the namespace of the rows of package routertest, and callsHost the host of their HTTPScaledObject.
const callsNamespace, callsHost = "shop", "web.shop.test"

// otherRollout is a Rollout that also manages the HTTPScaledObject shop/web.
const otherRollout = `
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {name: api}
spec:
  selector: {matchLabels: {app: api}}
  template: {metadata: {labels: {app: api}}, spec: {containers: [{name: api, image: api}]}}
  strategy:
    canary:
      stableService: web-stable
      canaryService: web-canary
      trafficRouting: {plugins: {kedify/http: {httpScaledObjectName: web}}}
`

// createCallObjects creates the objects of the rows of package routertest.
func (s *environment) createCallObjects(t *testing.T) {
	t.Helper()
	s.apply(t, "", `{apiVersion: v1, kind: Namespace, metadata: {name: `+callsNamespace+`}}`)
	s.apply(t, callsNamespace, s.app("web-stable"), s.app("web-canary"),
		scaledObject("web", callsHost, "[{service: web-stable, weight: 1}]"), otherRollout)
	expectAnswers(t, callsHost, "stable")
}

// checkCall makes one invalid call. The neighbor that changes meanwhile is in another namespace.
func (s *environment) checkCall(t *testing.T, row routertest.InvalidCall, neighbour string) {
	t.Helper()
	annotations, plugin := map[string]any{
		httpv1alpha1.AnnotationWeightedBackends: nil, httpv1alpha1.AnnotationWeightedBackendsOwner: nil,
	}, s.plugin
	if row.Annotation != "" {
		annotations[httpv1alpha1.AnnotationWeightedBackends] = row.Annotation
	}
	switch row.Situation {
	case routertest.Usual:
	case routertest.Forbidden:
		plugin = s.unprivileged
	case routertest.Shared:
		other := read[v1alpha1.Rollout](t, s, "/apis/argoproj.io/v1alpha1/namespaces/"+callsNamespace+"/rollouts/api")
		annotations[httpv1alpha1.AnnotationWeightedBackendsOwner] = callsNamespace + "/api " + string(other.UID)
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	if err != nil {
		t.Fatal(err)
	}
	s.patch(t, objectPath(callsNamespace, "web"), string(patch))
	s.createNamespace(t, neighbour)
	defer startLoad(t, callsHost)()
	rollout := row.Rollout(httpso.Type)

	// The call is repeated, as in the controller's reconciles: the plugin's cache may not contain the latest writes yet.
	await.True(t, "the annotation is what it should be", func() bool {
		if answer := plugin.SetWeight(rollout, row.Weight, row.Others); answer.ErrorString != row.Want {
			t.Errorf("SetWeight returned\n%s, want\n%s", answer.ErrorString, row.Want)
		}
		object := read[httpv1alpha1.HTTPScaledObject](t, s, objectPath(callsNamespace, "web"))
		return object.Annotations[httpv1alpha1.AnnotationWeightedBackends] == row.AfterText()
	})
	s.checkNeighbour(t, neighbour)
	if row.Want != "" {
		if verified, _ := plugin.VerifyWeight(rollout, row.Weight, row.Others); verified == rolloutstypes.Verified {
			t.Error("a rejected weight was verified")
		}
		return
	}
	await.True(t, "the weight is verified", func() bool {
		verified, answer := plugin.VerifyWeight(rollout, row.Weight, row.Others)
		return !answer.HasError() && verified == rolloutstypes.Verified
	})
}
