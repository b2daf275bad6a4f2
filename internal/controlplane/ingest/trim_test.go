package ingest_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/ingest"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
)

// TestTrimKeepsWhatIsRead: a trimmed Service and a trimmed EndpointSlice give the same as the whole ones.
func TestTrimKeepsWhatIsRead(t *testing.T) {
	t.Parallel()
	meta := metav1.ObjectMeta{
		Namespace: "shop", Name: resolve.ProxyService, UID: "u", ResourceVersion: "7",
		Labels:          map[string]string{discoveryv1.LabelServiceName: resolve.ProxyService, "team": "a"},
		OwnerReferences: []metav1.OwnerReference{{Name: "owner"}}, Finalizers: []string{"team.test/wait"},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}},
		Annotations: map[string]string{
			httpv1alpha1.AnnotationProxyAuthentication: httpv1alpha1.ProxyAuthenticationStrict, "team.test/notes": "…",
		},
	}
	service := &corev1.Service{ObjectMeta: *meta.DeepCopy(), Spec: corev1.ServiceSpec{
		Ports: []corev1.ServicePort{{Name: "http", Port: 80}}, Selector: map[string]string{"app": "shop"},
	}}
	slice := &discoveryv1.EndpointSlice{ObjectMeta: *meta.DeepCopy(), AddressType: discoveryv1.AddressTypeIPv4}
	wantService, wantSlice := resolve.NewService(service), resolve.NewEndpointSlice(slice)
	if wantService.Fleet == nil {
		t.Error("the Service has no settings of its fleet: the test proves nothing")
	}
	ingest.Trim(service)
	ingest.Trim(slice)
	if _, isKept := service.Annotations["team.test/notes"]; isKept || service.ManagedFields != nil || slice.Finalizers != nil {
		t.Errorf("the metadata is not trimmed: %+v, %+v", service.ObjectMeta, slice.ObjectMeta)
	}
	if diff := cmp.Diff(wantService, resolve.NewService(service)); diff != "" {
		t.Errorf("Service (-whole +trimmed):\n%s", diff)
	}
	if diff := cmp.Diff(wantSlice, resolve.NewEndpointSlice(slice), cmpopts.EquateComparable()); diff != "" {
		t.Errorf("EndpointSlice (-whole +trimmed):\n%s", diff)
	}
}

// TestTrimKeepsTheOwner: an object that the agent has made is known as such after it was trimmed.
func TestTrimKeepsTheOwner(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]bool{"ScaledObject": true, "Rollout": false, "": false} {
		object := shop()
		if kind != "" {
			object.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: "shop", Controller: new(true)}}
		}
		ingest.Trim(object)
		ingest.Trim(object)
		if object.Spec.HasScaledObject != want || object.OwnerReferences != nil {
			t.Errorf("%s: %+v", kind, object)
		}
	}
}
