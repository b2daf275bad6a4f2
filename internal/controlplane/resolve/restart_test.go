package resolve_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/model/affinity"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
)

// TestRestartKeepsLastGoodSplit resolves an object without published Routes, as after a restart of the interceptor,
// with the split in its status.
func TestRestartKeepsLastGoodSplit(t *testing.T) {
	t.Parallel()
	const (
		allToCanary = "- service: shop\n  weight: 0\n- service: canary\n  weight: 100\n"
		broken      = "80% to the canary, please"
		missing     = "[{service: shop, weight: 50}, {service: gone, weight: 50}]"
	)
	for name, test := range map[string]struct {
		annotation, reported string
		want                 map[string]uint32
	}{
		"the annotation counts":                 {"[{service: shop, weight: 1}]", allToCanary, map[string]uint32{"shop": 1}},
		"invalid annotation":                    {broken, allToCanary, map[string]uint32{"shop": 0, "canary": 100}},
		"missing Service":                       {missing, allToCanary, map[string]uint32{"shop": 0, "canary": 100}},
		"missing Service of the reported split": {missing, missing, map[string]uint32{"shop": 50, "gone": 50}},
		"invalid report":                        {broken, "nothing", map[string]uint32{"shop": 100}},
		"no report":                             {broken, "", map[string]uint32{"shop": 100}},
		"annotation removed":                    {"", allToCanary, map[string]uint32{"shop": 100}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := kit.NewScaledObject("apps", "shop", "shop", 1, "shop.test")
			if test.annotation != "" {
				object = kit.WithAnnotation(object, httpv1alpha1.AnnotationWeightedBackends, test.annotation)
			}
			object.Status.DataPlane = &httpv1alpha1.DataPlaneStatus{WeightedBackends: test.reported}
			config, _ := resolve.Build(resolve.Inputs{
				ScaledObjects: []*httpv1alpha1.HTTPScaledObject{object},
				Services:      kit.ResolveServices(kit.NewService("apps", "shop"), kit.NewService("apps", "canary")),
			})
			got := map[string]uint32{}
			for _, backend := range config.Routes[0].Backends {
				got[backend.Service.Name] = backend.Weight
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("weights (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRestartKeepsLastGoodManagedRoutes is the same for header and mirror routes, which are applied together with the
// split.
func TestRestartKeepsLastGoodManagedRoutes(t *testing.T) {
	t.Parallel()
	const (
		at20    = "- service: shop\n  weight: 80\n- service: canary\n  weight: 20\n"
		at50    = "- service: shop\n  weight: 50\n- service: canary\n  weight: 50\n"
		toOwn   = "- service: shop\n  weight: 100\n"
		forQA   = `[{"name":"qa","matches":[{"headers":[{"type":"Exact","value":"qa","name":"role"}]}]}]`
		forBeta = `[{"name":"beta","matches":[{"headers":[{"type":"Exact","value":"yes","name":"beta"}]}]}]`
		broken  = "qa, please"
	)
	for name, test := range map[string]struct {
		weights, managed string // the annotations; "" for none
		reported         httpv1alpha1.DataPlaneStatus
		want             []string
		canary           uint32
	}{
		"the annotations count": {
			at50, forBeta,
			httpv1alpha1.DataPlaneStatus{WeightedBackends: at20, ManagedRoutes: forQA},
			[]string{"beta"},
			50,
		},
		"invalid annotation": {
			at50, broken,
			httpv1alpha1.DataPlaneStatus{WeightedBackends: at20, ManagedRoutes: forQA},
			[]string{"qa"},
			20,
		},
		"invalid weights": {
			broken, forBeta,
			httpv1alpha1.DataPlaneStatus{WeightedBackends: at20, ManagedRoutes: forQA},
			[]string{"qa"},
			20,
		},
		"no reported routes": {at50, broken, httpv1alpha1.DataPlaneStatus{WeightedBackends: at20}, nil, 20},
		"invalid report": {
			at50, broken,
			httpv1alpha1.DataPlaneStatus{WeightedBackends: at20, ManagedRoutes: broken},
			nil, 20,
		},
		"a report without a canary": {
			at50, broken,
			httpv1alpha1.DataPlaneStatus{WeightedBackends: toOwn, ManagedRoutes: forQA},
			nil, 0,
		},
		"weights removed": {
			"", forQA,
			httpv1alpha1.DataPlaneStatus{WeightedBackends: at20, ManagedRoutes: forQA},
			nil, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := kit.NewScaledObject("apps", "shop", "shop", 1, "shop.test")
			for annotation, text := range map[string]string{
				httpv1alpha1.AnnotationWeightedBackends: test.weights, httpv1alpha1.AnnotationManagedRoutes: test.managed,
			} {
				if text != "" {
					object = kit.WithAnnotation(object, annotation, text)
				}
			}
			object.Status.DataPlane = &test.reported
			config, _ := resolve.Build(resolve.Inputs{
				ScaledObjects: []*httpv1alpha1.HTTPScaledObject{object},
				Services:      kit.ResolveServices(kit.NewService("apps", "shop"), kit.NewService("apps", "canary")),
			})
			route := config.Routes[0]
			var got []string
			for _, managed := range route.Managed {
				got = append(got, managed.Name)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("header routes (-want +got):\n%s", diff)
			}
			canary := uint32(0)
			for _, backend := range route.Backends {
				if backend.Service.Name == "canary" {
					canary = backend.Weight
				}
			}
			if canary != test.canary {
				t.Errorf("the canary's weight is %d, want %d", canary, test.canary)
			}
		})
	}
}

// TestRestartKeepsLastGoodStickiness is the same for stickiness and session affinity: users would change sides or Pods.
func TestRestartKeepsLastGoodStickiness(t *testing.T) {
	t.Parallel()
	const (
		byUser, byCookie = `{"header":"x-user"}`, "{cookie: {name: side, maxAge: 60}}"
		broken, missing  = "cokie: {}", "[{service: shop, weight: 1}, {service: gone, weight: 1}]"
		half             = "[{service: shop, weight: 1}, {service: canary, weight: 1}]"
	)
	cookie := affinity.Key{Cookie: affinity.DefaultCookie()}
	cookie.Cookie.Name, cookie.Cookie.MaxAge = "side", 60
	user, address := affinity.Key{Header: "x-user"}, affinity.Key{SourceAddress: true}
	reported := &httpv1alpha1.DataPlaneStatus{WeightedBackends: half, Stickiness: byUser, SessionAffinity: byCookie}
	for name, test := range map[string]struct {
		stickiness, session string // the annotations; "" for none
		weights             string
		reported            *httpv1alpha1.DataPlaneStatus
		want                model.Route // Stickiness and Affinity
	}{
		"valid annotations":      {byCookie, byUser, half, reported, model.Route{Stickiness: cookie, Affinity: user}},
		"invalid stickiness":     {broken, byUser, half, reported, model.Route{Stickiness: user, Affinity: user}},
		"invalid affinity":       {byCookie, broken, half, reported, model.Route{Stickiness: cookie, Affinity: cookie}},
		"both":                   {broken, broken, half, reported, model.Route{Stickiness: user, Affinity: cookie}},
		"and invalid weights":    {broken, broken, "half", reported, model.Route{Stickiness: user, Affinity: cookie}},
		"and a missing Service":  {broken, broken, missing, reported, model.Route{Stickiness: user, Affinity: cookie}},
		"removed":                {"", "", half, reported, model.Route{}},
		"without a canary":       {broken, broken, "", reported, model.Route{Affinity: cookie}},
		"no report":              {broken, broken, half, nil, model.Route{}},
		"an older report":        {broken, broken, half, &httpv1alpha1.DataPlaneStatus{WeightedBackends: half}, model.Route{}},
		"the Service's affinity": {"", broken, half, &httpv1alpha1.DataPlaneStatus{SessionAffinity: affinity.Format(address)}, model.Route{Affinity: address}},
		"invalid report":         {broken, broken, half, &httpv1alpha1.DataPlaneStatus{Stickiness: broken, SessionAffinity: "{}"}, model.Route{}},
		"a report that is too long": {
			broken, "", half, &httpv1alpha1.DataPlaneStatus{Stickiness: byUser + strings.Repeat(" ", affinity.MaxBytes)}, model.Route{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := kit.NewScaledObject("apps", "shop", "shop", 1, "shop.test")
			for annotation, text := range map[string]string{
				httpv1alpha1.AnnotationWeightedBackends: test.weights, httpv1alpha1.AnnotationStickiness: test.stickiness,
				httpv1alpha1.AnnotationSessionAffinity: test.session,
			} {
				if text != "" {
					object = kit.WithAnnotation(object, annotation, text)
				}
			}
			object.Status.DataPlane = test.reported
			inputs := resolve.Inputs{
				ScaledObjects: []*httpv1alpha1.HTTPScaledObject{object},
				Services:      kit.ResolveServices(kit.NewService("apps", "shop"), kit.NewService("apps", "canary")),
			}
			inputs.Published, _ = resolve.Build(inputs)
			object.Status.DataPlane = nil // what is published counts from now on
			config, _ := resolve.Build(inputs)
			for what, got := range map[string]model.Config{"after the restart": inputs.Published, "again": config} {
				route := model.Route{Stickiness: got.Routes[0].Stickiness, Affinity: got.Routes[0].Affinity}
				if diff := cmp.Diff(test.want, route); diff != "" {
					t.Errorf("%s (-want +got):\n%s", what, diff)
				}
			}
		})
	}
}

// TestRecreatedWithinASecond has a second object with the same name and creation time: the published Routes of the
// first one do not belong to it.
func TestRecreatedWithinASecond(t *testing.T) {
	t.Parallel()
	build := func(uid types.UID, text string, published model.Config) model.Config {
		object := kit.NewScaledObject("apps", "shop", "shop", 1, "shop.test")
		object.UID = uid
		config, _ := resolve.Build(resolve.Inputs{
			ScaledObjects: []*httpv1alpha1.HTTPScaledObject{
				kit.WithAnnotation(object, httpv1alpha1.AnnotationWeightedBackends, text),
			},
			Services:  kit.ResolveServices(kit.NewService("apps", "shop"), kit.NewService("apps", "canary")),
			Published: published,
		})
		return config
	}
	before := build("1", "[{service: shop, weight: 0}, {service: canary, weight: 100}]", model.Config{})
	for uid, want := range map[types.UID]int{"1": 2, "2": 1} {
		if got := build(uid, "broken", before).Routes[0].Backends; len(got) != want {
			t.Errorf("the object of UID %s has %+v, want %d backends", uid, got, want)
		}
	}
}
