package ingest_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
)

// TestForeignHostIsReportedToBoth has two namespaces claim one host of the shared fleet. Then the owner delegates it.
func TestForeignHostIsReportedToBoth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newEnvironment(t)
		s.resolve.SharedFleet = "keda"
		inFleet := func(object *httpv1alpha1.HTTPScaledObject) *httpv1alpha1.HTTPScaledObject {
			return kit.WithAnnotation(object, httpv1alpha1.AnnotationFleet, httpv1alpha1.FleetShared)
		}
		owner := inFleet(shop())
		other := inFleet(kit.NewScaledObject("evil", "shop", "shop", 2, "shop.test"))
		other.Spec.PathPrefixes = []string{"/login"}
		s.scaledObjects.Modify(owner)
		s.scaledObjects.Add(other)
		s.services.Add(kit.NewService("evil", "shop"))
		defer s.run(t)()
		routed := func() (namespaces []string) {
			time.Sleep(time.Second) // The clock is synctest's.
			for key, object := range s.lastPass().Objects {
				if len(object.Published.Routes) > 0 {
					namespaces = append(namespaces, key.Namespace)
				}
			}
			slices.Sort(namespaces)
			return namespaces
		}
		if got := routed(); !slices.Equal(got, []string{"apps"}) {
			t.Errorf("requests are routed to namespaces %q", got)
		}
		ofOwner := s.lastPass().Objects[model.Key{Namespace: "apps", Name: "shop"}].Outcome
		ofOther := s.lastPass().Objects[model.Key{Namespace: "evil", Name: "shop"}].Outcome
		if !ofOwner.IsAccepted() || len(ofOwner.Warnings) != 1 {
			t.Errorf("owner: accepted: %v, warnings %+v", ofOwner.IsAccepted(), ofOwner.Warnings)
		}
		if ofOther.Served || len(ofOther.Warnings) > 0 || len(ofOther.Problems) != 1 ||
			ofOther.Problems[0].Reason != httpv1alpha1.ReasonRouteConflict {
			t.Errorf("other: %+v", ofOther)
		}
		s.scaledObjects.Modify(kit.WithAnnotation(owner, httpv1alpha1.AnnotationAllowedNamespaces, "evil"))
		if got := routed(); !slices.Equal(got, []string{"apps", "evil"}) {
			t.Errorf("after the delegation, requests are routed to namespaces %q", got)
		}
		ofOwner = s.lastPass().Objects[model.Key{Namespace: "apps", Name: "shop"}].Outcome
		if !ofOwner.IsAccepted() || len(ofOwner.Warnings) > 0 {
			t.Errorf("after the delegation: accepted: %v, warnings %+v", ofOwner.IsAccepted(), ofOwner.Warnings)
		}
	})
}
