package ingest_test

import (
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	httpv1beta1 "github.com/kedify/argo-rollouts-plugin/api/http/v1beta1"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// route returns an InterceptorRoute for all requests of a host.
func route(name, uid, host string) *httpv1beta1.InterceptorRoute {
	return &httpv1beta1.InterceptorRoute{
		ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: name, UID: types.UID("route-" + uid)},
		Spec: httpv1beta1.InterceptorRouteSpec{
			Target: httpv1beta1.TargetRef{Service: "shop", Port: 80},
			Rules:  []httpv1beta1.RoutingRule{{Hosts: []string{host}}},
		},
	}
}

// wantObject checks the kind, the host and the number of routes of an object in the last pass, and whether an
// InterceptorRoute has its name. kind is "" if there must be no object.
func (s *environment) wantObject(t *testing.T, when, kind, host string, hasSuperseded bool) {
	t.Helper()
	time.Sleep(time.Second) // The clock is synctest's.
	object := s.lastPass().Objects[model.Key{Namespace: "apps", Name: "shop"}]
	if object.ScaledObject == nil {
		if kind != "" {
			t.Errorf("%s: no object, want one of kind %s", when, kind)
		}
		return
	}
	got := httpv1alpha1.Kind
	if object.ScaledObject.Spec.Converted != nil {
		got = httpv1beta1.Kind
	}
	routes := object.Published.Routes
	if got != kind || len(routes) != 1 || string(routes[0].Match.Host) != host || len(object.Outcome.Problems) > 0 {
		t.Errorf("%s: got a %s with %v and problems %v, want a %s with host %s", when, got, routes, object.Outcome.Problems,
			kind, host)
	}
	if (object.Superseded != nil) != hasSuperseded {
		t.Errorf("%s: superseded InterceptorRoute: %v, want %v", when, object.Superseded != nil, hasSuperseded)
	}
}

// TestInterceptorRouteTakesOver has an HTTPScaledObject and an InterceptorRoute of the same name. The HTTPScaledObject is
// served, and when it is deleted, the InterceptorRoute is, in one publication.
func TestInterceptorRouteTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newEnvironment(t)
		s.routes = newFaultySource(t)
		defer s.run(t)()
		s.wantObject(t, "an HTTPScaledObject", httpv1alpha1.Kind, "shop.test", false)
		shopRoute := route("shop", "1", "new.test")
		s.routes.Add(shopRoute)
		s.wantObject(t, "and an InterceptorRoute", httpv1alpha1.Kind, "shop.test", true)
		changed := shopRoute.DeepCopy()
		changed.Spec.Rules[0].Hosts[0] = "newer.test"
		published := s.publications()
		s.routes.Modify(changed)
		s.wantObject(t, "the InterceptorRoute changes", httpv1alpha1.Kind, "shop.test", true)
		if got := s.publications(); got != published {
			t.Errorf("a change of an InterceptorRoute that is not served was published %d times", got-published)
		}
		s.scaledObjects.Delete(shop())
		s.wantObject(t, "the HTTPScaledObject is deleted", httpv1beta1.Kind, "newer.test", false)
		if got := s.publications(); got != published+1 {
			t.Errorf("the InterceptorRoute took over in %d publications, want 1", got-published)
		}
		s.scaledObjects.Add(shop())
		s.wantObject(t, "and created again", httpv1alpha1.Kind, "shop.test", true)
		s.routes.Delete(changed)
		s.wantObject(t, "the InterceptorRoute is deleted", httpv1alpha1.Kind, "shop.test", false)
		s.scaledObjects.Delete(shop())
		s.wantObject(t, "both are deleted", "", "", false)
		s.routes.Add(shopRoute)
		s.wantObject(t, "only an InterceptorRoute", httpv1beta1.Kind, "new.test", false)
		s.routes.Delete(shopRoute)
		s.wantObject(t, "and it is deleted", "", "", false)
	})
}

// TestInterceptorRouteSwitchInOneBatch deletes and creates objects of the same name before the loop takes the changes.
func TestInterceptorRouteSwitchInOneBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newEnvironment(t)
		s.routes = newFaultySource(t)
		defer s.run(t)()
		s.wantObject(t, "an HTTPScaledObject", httpv1alpha1.Kind, "shop.test", false)
		s.scaledObjects.Delete(shop())
		s.routes.Add(route("shop", "1", "new.test"))
		s.wantObject(t, "an InterceptorRoute", httpv1beta1.Kind, "new.test", false)
		s.routes.Delete(route("shop", "1", "new.test"))
		s.scaledObjects.Add(shop())
		s.wantObject(t, "an HTTPScaledObject again", httpv1alpha1.Kind, "shop.test", false)
	})
}

// TestInterceptorRoutesAreOptional starts without the CustomResourceDefinition, which is installed later. Without
// permission, the interceptor waits: it would remove the routes of existing objects.
func TestInterceptorRoutesAreOptional(t *testing.T) {
	resource := schema.GroupResource{Group: httpv1beta1.Group, Resource: httpv1beta1.Resource}
	synctest.Test(t, func(t *testing.T) {
		s := newEnvironment(t)
		s.routes = newFaultySource(t, route("other", "1", "other.test"))
		s.routes.fail(apierrors.NewForbidden(resource, "", nil))
		defer s.run(t)()
		time.Sleep(time.Minute)
		if waiting := s.loop.Waiting(); len(waiting) != 1 || s.publications() != 0 {
			t.Errorf("without permission: waits for %q, %d publications", waiting, s.publications())
		}
		s.routes.fail(apierrors.NewNotFound(resource, ""))
		time.Sleep(10 * time.Second)
		if waiting := s.loop.Waiting(); len(waiting) != 0 || s.publications() == 0 {
			t.Errorf("without the CustomResourceDefinition: waits for %q, %d publications", waiting, s.publications())
		}
		lists := s.routes.listCount()
		time.Sleep(time.Hour)
		if got := s.routes.listCount() - lists; got < 200 || got > 600 {
			t.Errorf("%d lists in an hour without the CustomResourceDefinition, want one each 7.5 s to 12.5 s", got)
		}
		s.routes.fail(nil)
		time.Sleep(15 * time.Second)
		other := s.lastPass().Objects[model.Key{Namespace: "apps", Name: "other"}]
		if len(other.Published.Routes) != 1 {
			t.Errorf("15 s after the CustomResourceDefinition was installed: %+v", other)
		}
	})
}
