package httpso_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/router/httpso"
	"github.com/kedify/argo-rollouts-plugin/test/kit/routertest"
)

const (
	apiPath = "/apis/argoproj.io/v1alpha1/namespaces/shop/rollouts/api"
	// byAPI is a split that the Rollout shop/api wrote.
	byAPI   = "- service: api-stable\n  weight: 70\n- service: api-canary\n  weight: 30\n"
	apiMark = "shop/api uid-of-api"
)

// apiRollout returns another Rollout, shop/api, that references an HTTPScaledObject.
func apiRollout(object string) *v1alpha1.Rollout {
	rollout := routertest.Rollout(httpso.Type, "")
	rollout.Name, rollout.UID = "api", "uid-of-api"
	rollout.Spec.Strategy.Canary.TrafficRouting.Plugins = map[string]json.RawMessage{
		httpso.Type: json.RawMessage(`{"httpScaledObjectName":"` + object + `"}`),
	}
	return rollout
}

func TestSecondRolloutIsAnError(t *testing.T) {
	t.Parallel()
	successor := apiRollout("web")
	successor.UID = "uid-of-another-api"
	tests := map[string]struct {
		mark   string
		owner  any // what the API server has as Rollout shop/api
		none   bool
		taken  bool // whether the weights are taken over
		remedy string
	}{
		"the owner exists and names the object": {mark: apiMark, owner: apiRollout("web")},
		"the owner may not be read": {
			mark:  apiMark,
			owner: routertest.RespondError(apierrors.NewForbidden(schema.GroupResource{}, "api", errors.New("no rule"))),
		},
		"the owner was deleted":               {mark: apiMark, taken: true},
		"a Rollout of its name came after it": {mark: apiMark, owner: successor, taken: true},
		"the owner names another object now":  {mark: apiMark, owner: apiRollout("other"), taken: true},
		"the owner routes in another way now": {mark: apiMark, owner: routertest.Rollout(httpso.Type, ""), taken: true},
		"the mark has no owner":               {mark: "yes", owner: apiRollout("web"), taken: true},
		"the mark is of another namespace":    {mark: "shipping/api uid-of-api", owner: apiRollout("web"), taken: true},
		"no mark, as after a manual edit":     {mark: "", owner: apiRollout("web"), taken: true},
		"its own mark from before":            {mark: "shop/web uid-of-before", owner: apiRollout("web"), taken: true},
	}
	for name, test := range tests {
		for _, weight := range []int32{20, 0} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				object := routertest.ScaledObject(map[string]string{httpv1alpha1.AnnotationWeightedBackends: byAPI})
				if test.mark != "" {
					object.Annotations[httpv1alpha1.AnnotationWeightedBackendsOwner] = test.mark
				}
				api := routertest.NewAPIServer(t, object)
				if test.owner != nil {
					api.PutOther(apiPath, test.owner)
				}
				err := newRouter(api).SetWeight(t.Context(), routertest.Rollout(httpso.Type, config), weight, nil)
				text, mark := byAPI, test.mark
				if test.taken {
					text, mark = map[int32]string{20: at20, 0: ""}[weight], map[int32]string{20: routertest.Mark, 0: ""}[weight]
				}
				got := api.Object("shop", "web").Annotations
				if got[httpv1alpha1.AnnotationWeightedBackends] != text ||
					got[httpv1alpha1.AnnotationWeightedBackendsOwner] != mark {
					t.Errorf("weight %d: annotations are %v", weight, got)
				}
				if test.taken {
					if err != nil {
						t.Errorf("weight %d: %v", weight, err)
					}
					return
				}
				for _, want := range []string{
					`HTTPScaledObject "shop/web"`, `rollout "shop/web"`, `rollout "shop/api"`,
					"of its own", "httpScaledObjectName",
				} {
					if err == nil || !strings.Contains(err.Error(), want) {
						t.Errorf("weight %d: error %v lacks %q", weight, err, want)
					}
				}
			})
		}
	}
}

func TestUnreadableOwnerKeepsItsWeights(t *testing.T) {
	t.Parallel()
	object := routertest.ScaledObject(map[string]string{
		httpv1alpha1.AnnotationWeightedBackends: byAPI, httpv1alpha1.AnnotationWeightedBackendsOwner: apiMark,
	})
	api := routertest.NewAPIServer(t, object)
	api.PutOther(apiPath, routertest.RespondError(apierrors.NewServiceUnavailable("starting")))
	if err := newRouter(api).SetWeight(t.Context(), routertest.Rollout(httpso.Type, config), 20,
		nil); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("error is %v", err)
	}
	if got := api.Object("shop", "web").Annotations[httpv1alpha1.AnnotationWeightedBackends]; got != byAPI {
		t.Errorf("annotation is %q", got)
	}
}

func TestLeftoverOwnerMarkWithoutWeightsIsIgnored(t *testing.T) {
	t.Parallel()
	api := routertest.NewAPIServer(t, routertest.ScaledObject(map[string]string{httpv1alpha1.AnnotationWeightedBackendsOwner: apiMark}))
	api.PutOther(apiPath, apiRollout("web"))
	router := newRouter(api)
	if err := router.SetWeight(t.Context(), routertest.Rollout(httpso.Type, config), 0, nil); err != nil {
		t.Fatal(err)
	}
	if writes := len(api.Requests(http.MethodPatch)); writes != 0 {
		t.Errorf("%d writes to give the stable Service everything, which it has", writes)
	}
	if err := router.SetWeight(t.Context(), routertest.Rollout(httpso.Type, config), 20, nil); err != nil {
		t.Fatal(err)
	}
	if got := api.Object("shop", "web").Annotations[httpv1alpha1.AnnotationWeightedBackendsOwner]; got != routertest.Mark {
		t.Errorf("mark is %q", got)
	}
}

func TestWeightsWithoutAnOwnerMarkGetOne(t *testing.T) {
	t.Parallel()
	api := routertest.NewAPIServer(t, routertest.ScaledObject(map[string]string{httpv1alpha1.AnnotationWeightedBackends: at20}))
	router := newRouter(api)
	for range 2 {
		if err := router.SetWeight(t.Context(), routertest.Rollout(httpso.Type, config), 20, nil); err != nil {
			t.Fatal(err)
		}
	}
	if got := api.Object("shop", "web").Annotations[httpv1alpha1.AnnotationWeightedBackendsOwner]; got != routertest.Mark {
		t.Errorf("mark is %q", got)
	}
	if writes := len(api.Requests(http.MethodPatch)); writes != 1 {
		t.Errorf("%d writes, want 1", writes)
	}
}
