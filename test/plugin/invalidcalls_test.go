package plugin_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/argoproj/argo-rollouts/utils/plugin/types"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/router/httpso"
	"github.com/kedify/argo-rollouts-plugin/test/kit/routertest"
)

func TestBadInput(t *testing.T) {
	t.Parallel()
	for _, test := range routertest.InvalidCalls() {
		t.Run(test.Name, func(t *testing.T) {
			t.Parallel()
			object := routertest.ScaledObject(nil)
			if test.Annotation != "" {
				object.Annotations = map[string]string{httpv1alpha1.AnnotationWeightedBackends: test.Annotation}
			}
			api, client := startWith(t, object, test.Situation)
			rollout := test.Rollout(httpso.Type)

			answer := client.SetWeight(rollout, test.Weight, test.Others)

			if answer.ErrorString != test.Want {
				t.Errorf("SetWeight answered\n%s, want\n%s", answer.ErrorString, test.Want)
			}
			expect(t, api, "afterwards", test.AfterText())
			if verified, _ := client.VerifyWeight(rollout, test.Weight,
				test.Others); (verified == types.Verified) != (test.Want == "") {
				t.Errorf("VerifyWeight answered %v", verified)
			}
			changeOtherRollout(t, api, client)
		})
	}
}

// startWith returns an API server with object in a situation, and a plugin without watch permission, so that each
// call reads from the API server.
func startWith(
	t *testing.T, object *httpv1alpha1.HTTPScaledObject, situation routertest.Situation,
) (*routertest.APIServer, controller) {
	t.Helper()
	api := routertest.NewAPIServer(t, object)
	api.Unlisted(func(w http.ResponseWriter, r *http.Request) {
		routertest.RespondError(apierrors.NewForbidden(schema.GroupResource{Resource: httpv1alpha1.Resource}, "",
			errors.New("no rule")))(w, r)
	})
	switch situation {
	case routertest.Usual:
	case routertest.Forbidden:
		api.Fail(routertest.RespondError(apierrors.NewForbidden(schema.GroupResource{
			Group:    httpv1alpha1.Group,
			Resource: httpv1alpha1.Resource,
		}, "web",
			errors.New(`User "`+routertest.UnprivilegedAccount+`" cannot get resource "httpscaledobjects" in API group `+
				`"http.keda.sh" in the namespace "shop"`))))
	case routertest.Shared:
		other := routertest.Rollout(httpso.Type, config)
		other.Name, other.UID = "api", "uid-of-api"
		api.PutOther("/apis/argoproj.io/v1alpha1/namespaces/shop/rollouts/api", other)
		object := api.Object("shop", "web")
		object.Annotations[httpv1alpha1.AnnotationWeightedBackendsOwner] = "shop/api uid-of-api"
		api.Put(object)
	}
	return api, start(t, kubeconfig(t, api))
}

// changeOtherRollout changes the weight of another Rollout through the same process.
func changeOtherRollout(t *testing.T, api *routertest.APIServer, client controller) {
	t.Helper()
	object := routertest.ScaledObject(nil)
	object.Name = "neighbour"
	api.Put(object)
	rollout := routertest.Rollout(httpso.Type, `{"httpScaledObjectName":"neighbour"}`)
	rollout.Name, rollout.UID = "neighbour", "uid-of-neighbour"
	for _, weight := range []int32{20, 100} {
		must(t, fmt.Sprintf("SetWeight(%d) of the neighbour", weight), client.SetWeight(rollout, weight, nil))
	}
	if got := api.Object("shop", "neighbour").Annotations[httpv1alpha1.AnnotationWeightedBackends]; got != at100 {
		t.Errorf("the neighbour's annotation is %q", got)
	}
}
