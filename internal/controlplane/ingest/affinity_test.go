package ingest_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/model/affinity"
	"github.com/kedify/argo-rollouts-plugin/internal/model/split"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
)

// TestAffinityIsPublished changes stickiness, session affinity, the Service and inherited settings, one after the other:
// each change is published, and a text that is too long is a problem of the object.
func TestAffinityIsPublished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newEnvironment(t)
		defer s.run(t)()
		s.services.Modify(service("canary"))
		object := kit.WithSplit(shop(), split.Backend{Service: "shop", Weight: 50}, split.Backend{Service: "canary", Weight: 50})
		byUser, byAddress := affinity.Key{Header: "x-user"}, affinity.Key{SourceAddress: true}
		expect := func(what string, stickiness, session affinity.Key, reasons ...string) {
			t.Helper()
			time.Sleep(time.Second) // The clock is synctest's.
			now := s.lastPass().Objects[model.Key{Namespace: "apps", Name: "shop"}]
			route := now.Published.Routes[0]
			if route.Stickiness != stickiness || route.Affinity != session || len(route.Backends) != 2 {
				t.Errorf("%s: %+v", what, route)
			}
			var got []string
			for _, problem := range now.Outcome.Problems {
				got = append(got, problem.Reason)
			}
			if strings.Join(got, " ") != strings.Join(reasons, " ") {
				t.Errorf("%s: problems %v, want %v", what, got, reasons)
			}
		}
		s.scaledObjects.Modify(object)
		expect("neither", affinity.Key{}, affinity.Key{})
		object = kit.WithAnnotation(object, httpv1alpha1.AnnotationStickiness, "header: x-user")
		s.scaledObjects.Modify(object)
		expect("stickiness", byUser, affinity.Key{})
		object = kit.WithAnnotation(object, httpv1alpha1.AnnotationStickiness, "header: x-user"+strings.Repeat(" ", 200_000))
		s.scaledObjects.Modify(object)
		expect("too long", byUser, affinity.Key{}, httpv1alpha1.ReasonInvalidStickiness)
		object = object.DeepCopy()
		delete(object.Annotations, httpv1alpha1.AnnotationStickiness)
		clientIP := service("shop")
		clientIP.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
		s.services.Modify(clientIP)
		s.scaledObjects.Modify(object)
		expect("the Service", affinity.Key{}, byAddress)
		object = kit.WithAnnotation(object, httpv1alpha1.AnnotationAutowireSettings, `{"sessionAffinity":{"header":"x-tenant"}}`)
		s.scaledObjects.Modify(object)
		expect("inherited", affinity.Key{}, affinity.Key{Header: "x-tenant"})
		object = kit.WithAnnotation(object, httpv1alpha1.AnnotationSessionAffinity, "header: x-user")
		s.scaledObjects.Modify(object)
		expect("session affinity", affinity.Key{}, byUser)
		object = kit.WithAnnotation(object, httpv1alpha1.AnnotationRequestTimeout, "9s")
		object = kit.WithAnnotation(object, httpv1alpha1.AnnotationIdleTimeout, "0s")
		s.scaledObjects.Modify(object)
		expect("timeouts", affinity.Key{}, byUser)
		timeouts := s.lastPass().Objects[model.Key{Namespace: "apps", Name: "shop"}].Published.Routes[0].Timeouts
		if want := (model.Timeouts{Request: model.TimeoutOf(9 * time.Second), Idle: model.TimeoutOf(0)}); timeouts != want {
			t.Errorf("timeouts %+v, want %+v", timeouts, want)
		}
	})
}
