package resolve_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
)

// TestProtocolOfVersions has an object whose Service differs from those of its canary, and an experiment. A port that
// selects no protocol has that of the object's Service, otherwise that of the stable version.
func TestProtocolOfVersions(t *testing.T) {
	t.Parallel()
	var (
		open   = corev1.ServicePort{Port: 80}
		http   = corev1.ServicePort{Port: 80, Name: "http"}
		named  = corev1.ServicePort{Port: 80, Name: "grpc"}
		h2c    = corev1.ServicePort{Port: 80, AppProtocol: new("kubernetes.io/h2c")}
		tls    = corev1.ServicePort{Port: 80, AppProtocol: new("https")}
		http1  = corev1.ServicePort{Port: 80, AppProtocol: new("http")}
		custom = corev1.ServicePort{Port: 80, AppProtocol: new("example.com/x")}
		empty  = corev1.ServicePort{Port: 80, Name: "grpc", AppProtocol: new("")}
		other  = corev1.ServicePort{Port: 8080, AppProtocol: new("kubernetes.io/h2c")}
	)
	type protocols = []model.Protocol
	for name, c := range map[string]struct {
		shop, stable, canary, experiment corev1.ServicePort
		want                             protocols // of stable, canary and the experiment
	}{
		"none selects one":          {open, http, open, open, protocols{model.HTTP1, model.HTTP1, model.HTTP1}},
		"the stable version":        {open, h2c, open, open, protocols{model.HTTP2, model.HTTP2, model.HTTP2}},
		"a name":                    {open, named, http, open, protocols{model.HTTP2, model.HTTP2, model.HTTP2}},
		"a name, empty appProtocol": {open, empty, open, open, protocols{model.HTTP2, model.HTTP2, model.HTTP2}},
		"TLS":                       {open, tls, http, open, protocols{model.HTTPS, model.HTTPS, model.HTTPS}},
		"the object's Service":      {h2c, open, http, open, protocols{model.HTTP2, model.HTTP2, model.HTTP2}},
		"both":                      {h2c, tls, open, open, protocols{model.HTTPS, model.HTTP2, model.HTTP2}},
		"a canary changes to h2c":   {open, open, h2c, open, protocols{model.HTTP1, model.HTTP2, model.HTTP1}},
		"a canary leaves h2c":       {h2c, h2c, http1, open, protocols{model.HTTP2, model.HTTP1, model.HTTP2}},
		"an unknown appProtocol":    {h2c, h2c, custom, open, protocols{model.HTTP2, model.HTTP1, model.HTTP2}},
		"an experiment selects one": {http1, http1, open, named, protocols{model.HTTP1, model.HTTP1, model.HTTP2}},
		"a port of another number":  {other, h2c, open, open, protocols{model.HTTP2, model.HTTP2, model.HTTP2}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := kit.WithAnnotation(kit.NewScaledObject("apps", "shop", "shop", 1, "shop.test"),
				httpv1alpha1.AnnotationWeightedBackends,
				"[{service: stable, weight: 70}, {service: canary, weight: 20}, {service: try, weight: 10}]")
			inputs := resolve.Inputs{ScaledObjects: []*httpv1alpha1.HTTPScaledObject{object}}
			for service, port := range map[string]corev1.ServicePort{
				"shop": c.shop, "stable": c.stable, "canary": c.canary, "try": c.experiment,
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
			if diff := cmp.Diff(c.want, got); diff != "" || len(problems) > 0 {
				t.Errorf("problems %v; protocols (-want +got):\n%s", problems, diff)
			}
		})
	}
}
