package plugin_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/argoproj/argo-rollouts/utils/plugin/types"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/router/httpso"
	"github.com/kedify/argo-rollouts-plugin/internal/router/routertest"
)

// field is how messages name the router's configuration in a Rollout.
const field = `spec.strategy.canary.trafficRouting.plugins["kedify/http"]`

// badInput is one mistake of a user and the exact text that the controller is answered, which it shows in the Rollout's events.
type badInput struct {
	config     string // of the Rollout; "-" for none
	rollout    func(*v1alpha1.Rollout)
	annotation string // on the object before
	prepare    func(*routertest.APIServer)
	weight     int32
	others     []v1alpha1.WeightDestination
	want       string // the answer; empty where the call succeeds
	after      string // the annotation afterwards; "=" for unchanged
}

// badInputs is the table of bad input: one row per case.
func badInputs() map[string]badInput {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Group: httpv1alpha1.Group, Resource: httpv1alpha1.Resource}, "web", errors.New("no rule"))
	return map[string]badInput{
		"weight below 0": {
			weight: -1, after: "=",
			want: `rollout "shop/web": the canary weight -1 is negative: correct setWeight in spec.strategy.canary.steps`,
		},
		"weight above the maximum counts as the maximum": {weight: 101, after: at100},
		"an experiment that takes too much": {
			weight: 60, others: []v1alpha1.WeightDestination{{ServiceName: "try", Weight: 50}}, after: "=",
			want: `rollout "shop/web": the weights of the canary and the experiment add up to 110, above 100: lower setWeight or the weights of the ` +
				`experiment's templates in spec.strategy.canary.steps`,
		},
		"no stable Service": {
			rollout: func(r *v1alpha1.Rollout) { r.Spec.Strategy.Canary.StableService = "" }, weight: 20, after: "=",
			want: `rollout "shop/web": spec.strategy.canary.stableService is empty: name the Service there`,
		},
		"no canary Service": {
			rollout: func(r *v1alpha1.Rollout) { r.Spec.Strategy.Canary.CanaryService = "" }, weight: 20, after: "=",
			want: `rollout "shop/web": spec.strategy.canary.canaryService is empty: name the Service there`,
		},
		"one Service for both": {
			rollout: func(r *v1alpha1.Rollout) { r.Spec.Strategy.Canary.CanaryService = "web-stable" }, weight: 20, after: "=",
			want: `rollout "shop/web": the Services of spec.strategy.canary and its experiments cannot share requests: entry 2: duplicate service "web-stable"`,
		},
		"no configuration": {
			config: "-", weight: 20, after: "=",
			want: `rollout "shop/web": ` + field + ` is missing: write {httpScaledObjectName: <name of an HTTPScaledObject in the Rollout's namespace>} there`,
		},
		"a configuration that is not an object": {
			config: `"web"`, weight: 20, after: "=",
			want: `rollout "shop/web": ` + field + ` is "web", not an object: write {httpScaledObjectName: <name of an HTTPScaledObject in the Rollout's namespace>} there`,
		},
		"an unknown key": {
			config: `{"httpScaledObjectName":"web","namespace":"b"}`, weight: 20, after: "=",
			want: `rollout "shop/web": ` + field + ` has the unknown key "namespace": remove it, the keys are httpScaledObjectName, safePromotion and verifyDataPlane`,
		},
		"a switch that is not one": {
			config: `{"httpScaledObjectName":"web","verifyDataPlane":"no"}`, weight: 20, after: "=",
			want: `rollout "shop/web": ` + field + `.verifyDataPlane is "no": write true or false`,
		},
		"no name": {
			config: `{}`, weight: 20, after: "=",
			want: `rollout "shop/web": ` + field + `.httpScaledObjectName is missing or not a name: write {httpScaledObjectName: ` +
				`<name of an HTTPScaledObject in the Rollout's namespace>} there`,
		},
		"no HTTPScaledObject": {
			config: `{"httpScaledObjectName":"wbe"}`, weight: 20, after: "=",
			want: `HTTPScaledObject "shop/wbe" of rollout "shop/web": httpscaledobjects.http.keda.sh "wbe" not found: create it (and install the ` +
				`CustomResourceDefinition httpscaledobjects.http.keda.sh if it is missing), or correct ` + field + `.httpScaledObjectName`,
		},
		"no HTTPScaledObject and no share": {config: `{"httpScaledObjectName":"wbe"}`, weight: 0, after: "="},
		"forbidden": {
			prepare: func(api *routertest.APIServer) { api.Fail(routertest.Answer(forbidden)) }, weight: 20, after: "=",
			want: `HTTPScaledObject "shop/web" of rollout "shop/web": httpscaledobjects.http.keda.sh "web" is forbidden: no rule: allow the controller's ` +
				`ServiceAccount to get and patch httpscaledobjects: apply the ClusterRole and ClusterRoleBinding argo-rollouts-kedify-http`,
		},
		"a malformed annotation is overwritten":          {annotation: "{{{", weight: 20, after: at20},
		"a huge annotation is overwritten":               {annotation: strings.Repeat("- {service: a, weight: 1}\n", 8000), weight: 20, after: at20},
		"an annotation with aliases is overwritten":      {annotation: "- &a {service: a, weight: 1}\n- *a\n", weight: 20, after: at20},
		"weights that are all zero are overwritten":      {annotation: "- {service: a, weight: 0}\n", weight: 20, after: at20},
		"a hand's edit is removed with the canary's end": {annotation: "- {service: web-canary, weight: 100}\n", weight: 0, after: ""},
		"a second Rollout": {
			annotation: at20, weight: 20, after: "=",
			prepare: func(api *routertest.APIServer) {
				other := routertest.Rollout(httpso.Type, config)
				other.Name, other.UID = "api", "uid-of-api"
				api.PutOther("/apis/argoproj.io/v1alpha1/namespaces/shop/rollouts/api", other)
				object := api.Object("shop", "web")
				object.Annotations[httpv1alpha1.AnnotationWeightedBackendsOwner] = "shop/api uid-of-api"
				api.Put(object)
			},
			want: `HTTPScaledObject "shop/web" of rollout "shop/web": another Rollout already shares its requests: rollout "shop/api": give rollout "shop/web" ` +
				`an HTTPScaledObject of its own in ` + field + `.httpScaledObjectName`,
		},
	}
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	for name, test := range badInputs() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := routertest.ScaledObject(nil)
			if test.annotation != "" {
				object.Annotations = map[string]string{httpv1alpha1.AnnotationWeightedBackends: test.annotation}
			}
			api, asked := startedWith(t, object, test.prepare)
			rollout := configured(test)

			answer := asked.SetWeight(rollout, test.weight, test.others)

			if answer.ErrorString != test.want {
				t.Errorf("SetWeight answered\n%s, want\n%s", answer.ErrorString, test.want)
			}
			after := test.after
			if after == "=" {
				after = test.annotation
			}
			expect(t, api, "afterwards", after)
			if verified, _ := asked.VerifyWeight(rollout, test.weight, test.others); (verified == types.Verified) != (test.want == "") {
				t.Errorf("VerifyWeight answered %v", verified)
			}
			neighbourMoves(t, api, asked)
		})
	}
}

// startedWith is an API server with object, prepared, and a plugin without a right to watch, so that each call asks the API server.
func startedWith(t *testing.T, object *httpv1alpha1.HTTPScaledObject, prepare func(*routertest.APIServer)) (*routertest.APIServer, controller) {
	t.Helper()
	api := routertest.NewAPIServer(t, object)
	api.Unlisted(func(w http.ResponseWriter, r *http.Request) {
		routertest.Answer(apierrors.NewForbidden(schema.GroupResource{Resource: httpv1alpha1.Resource}, "", errors.New("no rule")))(w, r)
	})
	if prepare != nil {
		prepare(api)
	}
	return api, start(t, kubeconfig(t, api))
}

// configured is the Rollout of a case.
func configured(test badInput) *v1alpha1.Rollout {
	given := test.config
	switch given {
	case "":
		given = config
	case "-":
		given = ""
	}
	rollout := routertest.Rollout(httpso.Type, given)
	if test.rollout != nil {
		test.rollout(rollout)
	}
	return rollout
}

// neighbourMoves changes the weight of another Rollout through the same process.
func neighbourMoves(t *testing.T, api *routertest.APIServer, asked controller) {
	t.Helper()
	object := routertest.ScaledObject(nil)
	object.Name = "neighbour"
	api.Put(object)
	rollout := routertest.Rollout(httpso.Type, `{"httpScaledObjectName":"neighbour"}`)
	rollout.Name, rollout.UID = "neighbour", "uid-of-neighbour"
	for _, weight := range []int32{20, 100} {
		must(t, fmt.Sprintf("SetWeight(%d) of the neighbour", weight), asked.SetWeight(rollout, weight, nil))
	}
	if got := api.Object("shop", "neighbour").Annotations[httpv1alpha1.AnnotationWeightedBackends]; got != at100 {
		t.Errorf("the neighbour's annotation is %q", got)
	}
}
