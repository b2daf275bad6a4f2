package resolve_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/model/affinity"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
)

// Texts of annotation AnnotationAutowireSettings.
const (
	inheritedH2C    = `{"protocol":"h2c"}`
	inheritedByUser = `{"sessionAffinity":{"header":"x-user"}}`
)

// TestInheritedProtocol has ports that select no protocol: without a canary, in one with an experiment, and with an
// invalid one, as published and after a restart. A port that selects a protocol keeps it.
func TestInheritedProtocol(t *testing.T) {
	t.Parallel()
	const (
		weights = "[{service: stable, weight: 70}, {service: canary, weight: 20}, {service: try, weight: 10}]"
		single  = ""
		invalid = "{}"
	)
	open, http1 := corev1.ServicePort{Port: 80, Name: "web"}, corev1.ServicePort{Port: 80, AppProtocol: new("http")}
	tls := corev1.ServicePort{Port: 80, Name: "https"}
	type protocols = []model.Protocol
	for name, c := range map[string]struct {
		weights, settings    string
		shop, stable, canary corev1.ServicePort
		reported             string // in status.dataPlane.weightedBackends
		want                 protocols
	}{
		"no settings":               {single, "", open, open, open, "", protocols{model.HTTP1}},
		"the object's Service":      {single, inheritedH2C, open, open, open, "", protocols{model.HTTP2}},
		"until they are removed":    {single, `{"protocol":"h2c","unusedSince":"2026-05-01T10:00:00Z"}`, open, open, open, "", protocols{model.HTTP2}},
		"only an affinity":          {single, inheritedByUser, open, open, open, "", protocols{model.HTTP1}},
		"invalid settings":          {single, "h2c", open, open, open, "", protocols{model.HTTP1}},
		"the port has another one":  {single, inheritedH2C, http1, open, open, "", protocols{model.HTTP1}},
		"the port's name has one":   {single, inheritedH2C, tls, open, open, "", protocols{model.HTTPS}},
		"a canary and experiment":   {weights, inheritedH2C, open, open, open, "", protocols{model.HTTP2, model.HTTP2, model.HTTP2}},
		"a canary leaves h2c":       {weights, inheritedH2C, open, open, http1, "", protocols{model.HTTP2, model.HTTP1, model.HTTP2}},
		"the stable version's port": {weights, inheritedH2C, open, http1, open, "", protocols{model.HTTP1, model.HTTP1, model.HTTP1}},
		"invalid weights":           {invalid, inheritedH2C, open, open, open, "", protocols{model.HTTP2}},
		"after a restart":           {invalid, inheritedH2C, open, open, open, weights, protocols{model.HTTP2, model.HTTP2, model.HTTP2}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := kit.NewScaledObject("apps", "shop", "shop", 1, "shop.test")
			for annotation, text := range map[string]string{
				httpv1alpha1.AnnotationWeightedBackends: c.weights, httpv1alpha1.AnnotationAutowireSettings: c.settings,
			} {
				if text != "" {
					object = kit.WithAnnotation(object, annotation, text)
				}
			}
			if c.reported != "" {
				object.Status.DataPlane = &httpv1alpha1.DataPlaneStatus{WeightedBackends: c.reported}
			}
			inputs := resolve.Inputs{ScaledObjects: []*httpv1alpha1.HTTPScaledObject{object}}
			for service, port := range map[string]corev1.ServicePort{
				"shop": c.shop, "stable": c.stable, "canary": c.canary, "try": open,
			} {
				made := kit.NewService("apps", service)
				made.Spec.Ports = []corev1.ServicePort{port}
				inputs.Services = append(inputs.Services, kit.ResolveServices(made)...)
			}
			config, problems := resolve.Build(inputs)
			var got protocols
			for _, backend := range config.Routes[0].Backends {
				got = append(got, backend.Protocol)
			}
			if diff := cmp.Diff(c.want, got); diff != "" || (len(problems) > 0) != (c.weights == invalid) {
				t.Errorf("problems %v; protocols (-want +got):\n%s", problems, diff)
			}
		})
	}
}

// TestInheritedAffinity: the annotation of the object has precedence, and the Service has none.
func TestInheritedAffinity(t *testing.T) {
	t.Parallel()
	byUser, byAddress := affinity.Key{Header: "x-user"}, affinity.Key{SourceAddress: true}
	byTenant := affinity.Key{Header: "x-tenant"}
	for name, c := range map[string]struct {
		settings, session string // annotations
		clientIP          bool
		want              affinity.Key
		problems          int
	}{
		"inherited":               {inheritedByUser, "", false, byUser, 0},
		"ClientIP":                {inheritedByUser, "", true, byUser, 0},
		"only a protocol":         {inheritedH2C, "", true, byAddress, 0},
		"invalid settings":        {`{"sessionAffinity":{}}`, "", true, byAddress, 0},
		"the object's own":        {inheritedByUser, "header: x-tenant", true, byTenant, 0},
		"the object's is invalid": {inheritedByUser, "x-tenant", true, affinity.Key{}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := kit.WithAnnotation(kit.NewScaledObject("apps", "shop", "shop", 1, "shop.test"),
				httpv1alpha1.AnnotationAutowireSettings, c.settings)
			if c.session != "" {
				object = kit.WithAnnotation(object, httpv1alpha1.AnnotationSessionAffinity, c.session)
			}
			service := kit.NewService("apps", "shop")
			if c.clientIP {
				service.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
			}
			config, problems := resolve.Build(resolve.Inputs{
				ScaledObjects: []*httpv1alpha1.HTTPScaledObject{object}, Services: kit.ResolveServices(service),
			})
			if got := config.Routes[0].Affinity; got != c.want || len(problems) != c.problems {
				t.Errorf("affinity %+v, want %+v; problems %v", got, c.want, problems)
			}
		})
	}
}
