package kit

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	httpv1beta1 "github.com/kedify/argo-rollouts-plugin/api/http/v1beta1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve/interceptorroute"
)

// Objects are the Kubernetes objects that routing depends on.
type Objects struct {
	// ScaledObjects are HTTPScaledObjects and converted InterceptorRoutes.
	ScaledObjects []*httpv1alpha1.HTTPScaledObject
	// Services are Services.
	Services []*corev1.Service
	// EndpointSlices are EndpointSlices.
	EndpointSlices []*discoveryv1.EndpointSlice
}

// DecodeObjects reads objects from YAML documents. Unknown kinds and unknown or repeated fields fail the test, so that
// a typo in a field cannot make a test pass.
func DecodeObjects(tb testing.TB, text []byte) Objects {
	tb.Helper()
	var objects Objects
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			tb.Fatalf("read YAML documents: %v", err)
		}
		objects.decode(tb, document)
	}
}

// decode adds the object of one document. A document of comments only has none.
func (o *Objects) decode(tb testing.TB, document []byte) {
	tb.Helper()
	var kind metav1.TypeMeta
	if err := yaml.Unmarshal(document, &kind); err != nil {
		tb.Fatalf("decode: %v\n%s", err, document)
	}
	switch kind.Kind {
	case "":
		var content any
		if err := yaml.Unmarshal(document, &content); err != nil || content != nil {
			tb.Fatalf("decode: no kind (%v) in\n%s", err, document)
		}
	case httpv1alpha1.Kind:
		decodeStrictly[strictScaledObject](tb, document) // HTTPScaledObject itself accepts unknown fields
		o.ScaledObjects = append(o.ScaledObjects, decodeStrictly[httpv1alpha1.HTTPScaledObject](tb, document))
	case httpv1beta1.Kind:
		decodeStrictly[strictInterceptorRoute](tb, document)
		route := decodeStrictly[httpv1beta1.InterceptorRoute](tb, document)
		o.ScaledObjects = append(o.ScaledObjects, interceptorroute.Convert(route))
	case "Service":
		o.Services = append(o.Services, decodeStrictly[corev1.Service](tb, document))
	case "EndpointSlice":
		o.EndpointSlices = append(o.EndpointSlices, decodeStrictly[discoveryv1.EndpointSlice](tb, document))
	default:
		tb.Fatalf("decode: routing does not depend on a %s:\n%s", kind.Kind, document)
	}
}

// strictScaledObject is an HTTPScaledObject that rejects unknown fields.
type strictScaledObject struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec   strictSpec   `json:"spec"`
	Status strictStatus `json:"status"`
}

type (
	strictSpec   httpv1alpha1.HTTPScaledObjectSpec
	strictStatus httpv1alpha1.HTTPScaledObjectStatus
)

// strictInterceptorRoute is an InterceptorRoute that rejects unknown fields.
type strictInterceptorRoute struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec   strictRouteSpec   `json:"spec"`
	Status strictRouteStatus `json:"status"`
}

type (
	strictRouteSpec   httpv1beta1.InterceptorRouteSpec
	strictRouteStatus httpv1beta1.InterceptorRouteStatus
)

// decodeStrictly decodes one document of a known kind.
func decodeStrictly[T any](tb testing.TB, document []byte) *T {
	tb.Helper()
	object := new(T)
	if err := yaml.UnmarshalStrict(document, object); err != nil {
		tb.Fatalf("decode: %v\n%s", err, document)
	}
	return object
}

// ResolveServices returns Services as package resolve reads them.
func ResolveServices(services ...*corev1.Service) []*resolve.Service {
	var result []*resolve.Service
	for _, service := range services {
		result = append(result, resolve.NewService(service))
	}
	return result
}

// ResolveEndpointSlices returns EndpointSlices as package resolve reads them.
func ResolveEndpointSlices(endpointSlices ...*discoveryv1.EndpointSlice) []*resolve.EndpointSlice {
	var result []*resolve.EndpointSlice
	for _, slice := range endpointSlices {
		result = append(result, resolve.NewEndpointSlice(slice))
	}
	return result
}
