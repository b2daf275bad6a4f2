package status_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	httpv1beta1 "github.com/kedify/argo-rollouts-plugin/api/http/v1beta1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/ingest"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/status"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// convertedShop returns the object shop as if it were an InterceptorRoute.
func convertedShop() *httpv1alpha1.HTTPScaledObject {
	object := shop()
	object.Spec.Converted = &httpv1alpha1.ConvertedSpec{Rules: []httpv1alpha1.Rule{{Hosts: []string{"shop.test"}}}}
	return object
}

// TestComputeInterceptorRoute: an InterceptorRoute has no target in its status. It has a condition about fields without
// an effect while it uses one, and after it did.
func TestComputeInterceptorRoute(t *testing.T) {
	object := convertedShop()
	metav1.SetMetaDataAnnotation(&object.ObjectMeta, httpv1alpha1.AnnotationStatus, "{}")
	acks := status.Acks{Proxies: httpv1alpha1.ProxyCounts{Ready: 2, Acked: 1}}
	seen := ingest.Outcome{Served: true}
	for _, step := range []struct {
		unsupported []string
		want        string
	}{
		{nil, ""},
		{[]string{"spec.a: no", "spec.b: no"}, "UnsupportedField: spec.a: no; spec.b: no"},
		{nil, "FieldsSupported: Every field of the object has an effect."},
	} {
		object.Spec.Converted.Unsupported = step.unsupported
		object.Status = status.Compute(object, seen, acks, "interceptor-0", noon())
		got := ""
		if found := meta.FindStatusCondition(object.Status.Conditions, httpv1beta1.ConditionFieldsSupported); found != nil {
			got = found.Reason + ": " + found.Message
		}
		if got != step.want {
			t.Errorf("fields %v: condition %q, want %q", step.unsupported, got, step.want)
		}
		if accepted := meta.IsStatusConditionTrue(object.Status.Conditions, "Accepted"); !accepted {
			t.Errorf("fields %v: the object is not accepted", step.unsupported)
		}
	}
	if object.Status.TargetService != "" || object.Status.TargetWorkload != "" {
		t.Errorf("the status has a target: %+v", object.Status)
	}
	programmed := meta.FindStatusCondition(object.Status.Conditions, "Programmed").Message
	ready := meta.FindStatusCondition(object.Status.Conditions, "Ready").Message
	if !strings.Contains(programmed, httpv1alpha1.AnnotationStatus) || strings.Contains(ready, "CustomResourceDefinition") {
		t.Errorf("messages %q and %q", programmed, ready)
	}
}

// TestSupersededInterceptorRoute reports an InterceptorRoute with the name of an HTTPScaledObject, until that one is
// deleted.
func TestSupersededInterceptorRoute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		route := convertedShop()
		route.Name, route.UID = "shop-route", "u3" // The fake API server stores objects by name.
		s.objects[route.Name] = route
		defer s.lead(t)()
		key := model.Key{Namespace: "apps", Name: "shop"}
		observe := func(object ingest.Object) []string {
			s.reporter.Observe(ingest.Pass{Objects: map[model.Key]ingest.Object{key: object}})
			time.Sleep(time.Second) // synctest time
			synctest.Wait()
			return s.takeWrites()
		}
		served := ingest.Object{ScaledObject: shop(), Superseded: route, Fleet: "apps", Outcome: ingest.Outcome{Served: true}}
		writes := observe(served)
		const message = "event shop-route Warning HTTPScaledObjectExists: HTTPScaledObject apps/shop has the same name and is " +
			"served instead: delete it, and this object is served in the same update"
		if len(writes) != 3 || writes[0] != message || writes[1] != "status shop Accepted" ||
			writes[2] != "status shop-route HTTPScaledObjectExists" {
			t.Errorf("writes %q", writes)
		}
		if report := s.objects[route.Name].Status.DataPlane; report == nil || report.Effective || report.Proxies.Acked != 0 {
			t.Errorf("the report of the InterceptorRoute is %+v", report)
		}
		served.Superseded = nil
		if writes := observe(served); len(writes) != 0 {
			t.Errorf("the InterceptorRoute was deleted: writes %q", writes)
		}
	})
}

// TestRequestEventOfInterceptorRoute: the note names the fields of the object's kind.
func TestRequestEventOfInterceptorRoute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		route := convertedShop()
		route.Name, route.UID = "other", "u2"
		s.objects[route.Name] = route
		s.watch()
		defer s.lead(t)()
		s.report()
		s.takeWrites()
		event := status.RequestEvent{Type: "Warning", Reason: "TooLate", Note: "raise a", RouteNote: "raise b"}
		for _, name := range []string{"shop", "other"} {
			s.reporter.EmitEvent(model.Key{Namespace: "apps", Name: name}, event)
		}
		synctest.Wait()
		writes := s.takeWrites()
		if len(writes) != 2 || writes[0] != "event other Warning TooLate: raise b" || writes[1] != "event shop Warning TooLate: raise a" {
			t.Errorf("writes %q", writes)
		}
	})
}
