package translate_test

import (
	"strings"
	"testing"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
)

// FuzzScaledObject: for any input of a tenant the resources are valid, and another tenant is served.
func FuzzScaledObject(f *testing.F) {
	f.Add("shop.example.com", "/app", "x-canary", "1", "stable", int32(80), "",
		"[{service: stable, weight: 80}, {service: canary, weight: 20}]", "cookie: {}", "header: x-user",
		"[{match: [{path: /app/x}], mode: WhenUnavailable}, {redirect: 'https://a.example.com'}]", "body: 100 %")
	f.Add("*.Example.com.:80", "/a/../b", ":path", " 1", "", int32(-1), "web", "- &a {service: stable}\n- *a",
		"{cookie: {name: 'a%b', path: /%25}}", "sourceAddress: {}",
		"[{statusCode: 99}]", "{headers: {'a:b': \"\\r\\n\"}}")
	f.Add("*", "", "X", "\r\n", "canary", int32(65616), "http", "", "{cookie: {path: \"/;\"}}", "{header: host}",
		"[{bodies: [{body: x, contentType: text/html}, {body: y}], headers: {a: '%A%'}}]", "redirect: /%25?a=%")
	f.Add("shop.example.com", "/", "x", "*:a?*", "stable", int32(80), "", "", "", "", "", "")
	f.Add("shop.example.com", "/", "x", "/:(a|b)+", "stable", int32(80), "", "", "", "", "", "")
	f.Fuzz(func(t *testing.T, host, prefix, header, value, service string, port int32,
		portName, annotation, stickiness, session, static, placeholder string,
	) {
		object := kit.NewScaledObject("apps", "fuzzed", service, 1, host)
		object.Spec.PathPrefixes = []string{prefix}
		object.Spec.Headers = []httpv1alpha1.Header{{Name: header, Value: &value}}
		if wildcard, isPattern := strings.CutPrefix(value, "*:"); isPattern {
			object.Spec.Headers[0] = httpv1alpha1.Header{Name: header, ValueWildcard: &wildcard}
		} else if regex, isPattern := strings.CutPrefix(value, "/:"); isPattern {
			object.Spec.Headers[0] = httpv1alpha1.Header{Name: header, ValueRegex: &regex}
		}
		object.Spec.ScaleTargetRef.Port, object.Spec.ScaleTargetRef.PortName = port, portName
		if annotation != "" {
			object = kit.WithAnnotation(object, httpv1alpha1.AnnotationWeightedBackends, annotation)
		}
		object = kit.WithAnnotation(object, httpv1alpha1.AnnotationStickiness, stickiness)
		object = kit.WithAnnotation(object, httpv1alpha1.AnnotationSessionAffinity, session)
		object = kit.WithAnnotation(object, httpv1alpha1.AnnotationStaticResponses, static)
		object = kit.WithAnnotation(object, httpv1alpha1.AnnotationPlaceholderResponse, placeholder)
		if port%2 == 0 { // Without endpoints, requests do not wait.
			object.Spec.Replicas = &httpv1alpha1.ReplicaRange{Min: new(int32(1))}
		}
		neighbour := kit.NewScaledObject("apps", "neighbour", "stable", 2, "neighbour.example.com")
		neighbour.Spec.Headers = []httpv1alpha1.Header{{Name: "a-header-that-no-fuzzer-finds"}}
		config, _ := resolve.Build(resolve.Inputs{
			ScaledObjects:  []*httpv1alpha1.HTTPScaledObject{object, neighbour},
			Services:       kit.ResolveServices(kit.NewService("apps", "stable"), kit.NewService("apps", "canary")),
			EndpointSlices: kit.ResolveEndpointSlices(kit.NewEndpointSlice("apps", "stable", "10.0.0.1")),
		})
		resources, err := translate.Envoy(config)
		if err != nil {
			t.Fatal(err)
		}
		checkValid(t, resources)
		if resources["type.googleapis.com/envoy.config.cluster.v3.Cluster"]["apps/neighbour/stable"] == nil {
			t.Error("the other tenant is no longer served")
		}
	})
}
