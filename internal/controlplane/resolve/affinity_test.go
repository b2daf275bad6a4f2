package resolve_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/model/affinity"
	"github.com/kedify/argo-rollouts-plugin/internal/model/split"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
)

// TestAffinity resolves stickiness and session affinity. The weights are applied in any case.
func TestAffinity(t *testing.T) {
	t.Parallel()
	byCookie := affinity.Key{Cookie: affinity.DefaultCookie()}
	byUser, byAddress := affinity.Key{Header: "x-user"}, affinity.Key{SourceAddress: true}
	published := &model.Route{Stickiness: byUser, Affinity: byCookie}
	for name, test := range map[string]struct {
		stickiness, session string // the annotations; "" for none
		clientIP            string // a Service with sessionAffinity ClientIP
		isSingle            bool   // no canary
		published           *model.Route
		want                model.Route // Stickiness and Affinity
		problem             string      // part of the only one
	}{
		"neither":              {},
		"stickiness":           {stickiness: "cookie: {}", want: model.Route{Stickiness: byCookie}},
		"without a canary":     {stickiness: "cookie: {}", isSingle: true},
		"session affinity":     {session: "header: x-user", isSingle: true, want: model.Route{Affinity: byUser}},
		"ClientIP":             {clientIP: "s", want: model.Route{Affinity: byAddress}},
		"ClientIP of canary":   {clientIP: "c"},
		"annotation, ClientIP": {session: "cookie: {}", clientIP: "s", want: model.Route{Affinity: byCookie}},
		"both": {
			stickiness: "header: x-user", session: "cookie: {}", want: model.Route{Stickiness: byUser, Affinity: byCookie},
		},
		"invalid stickiness": {stickiness: "{}", problem: "InvalidStickiness"},
		"invalid stickiness keeps the published one": {
			stickiness: "{}", published: published, want: model.Route{Stickiness: byUser}, problem: "InvalidStickiness",
		},
		"invalid stickiness without a canary": {stickiness: "{}", isSingle: true, problem: "InvalidStickiness"},
		"invalid session affinity":            {session: "cookie", clientIP: "s", problem: "InvalidSessionAffinity"},
		"invalid session affinity keeps the published one": {
			session: "cookie", published: published, want: model.Route{Affinity: byCookie}, problem: "InvalidSessionAffinity",
		},
		"removed": {published: published},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := kit.NewScaledObject("a", "o", "s", 1, "h.example.com")
			if !test.isSingle {
				object = kit.WithSplit(object, split.Backend{Service: "s", Weight: 3}, split.Backend{Service: "c", Weight: 1})
			}
			for annotation, text := range map[string]string{
				httpv1alpha1.AnnotationStickiness: test.stickiness, httpv1alpha1.AnnotationSessionAffinity: test.session,
			} {
				if text != "" {
					object = kit.WithAnnotation(object, annotation, text)
				}
			}
			inputs := resolve.Inputs{ScaledObjects: []*httpv1alpha1.HTTPScaledObject{object}}
			for _, service := range []string{"s", "c"} {
				created := kit.NewService("a", service)
				if service == test.clientIP {
					created.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
				}
				inputs.Services = append(inputs.Services, resolve.NewService(created))
			}
			if test.published != nil {
				before, _ := resolve.Build(inputs)
				before.Routes[0].Stickiness, before.Routes[0].Affinity = test.published.Stickiness, test.published.Affinity
				inputs.Published = before
			}
			config, problems := resolve.Build(inputs)
			got := config.Routes[0]
			if got.Stickiness != test.want.Stickiness || got.Affinity != test.want.Affinity {
				t.Errorf("stickiness %+v, affinity %+v, want %+v", got.Stickiness, got.Affinity, test.want)
			}
			if !test.isSingle && (len(got.Backends) != 2 || got.Backends[0].Weight != 3) {
				t.Errorf("backends %+v", got.Backends)
			}
			if test.problem == "" && len(problems) > 0 || test.problem != "" &&
				(len(problems) != 1 || problems[0].Reason != test.problem || !strings.Contains(problems[0].Message, "annotation")) {
				t.Errorf("problems %+v, want %q", problems, test.problem)
			}
		})
	}
}
