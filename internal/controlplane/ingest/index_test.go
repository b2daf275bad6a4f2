package ingest_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
)

// TestFind looks up requests while objects are added, removed and moved, and while publications fail.
func TestFind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newEnvironment(t)
		s.resolve.SharedFleet = "keda"
		wide := kit.NewScaledObject("apps", "wide", "shop", 2, "*.test")
		paths := kit.NewScaledObject("apps", "paths", "shop", 3, "paths.test")
		paths.Spec.PathPrefixes = []string{"/app"}
		canary := kit.NewScaledObject("apps", "canary", "shop", 4, "shop.test")
		canary.Spec.Headers = []httpv1alpha1.Header{{Name: "X-Canary"}}
		s.scaledObjects.Add(wide)
		s.scaledObjects.Add(paths)
		s.scaledObjects.Add(canary)
		defer s.run(t)()
		expect := func(fleet model.Fleet, host, path, header, want string) {
			t.Helper()
			time.Sleep(time.Second) // The clock is synctest's.
			route, ok := s.loop.Find(fleet, host, path, func(name string) (string, bool) { return "1", name == header })
			if got := route.Owner.Name; got != want || ok != (want != "") {
				t.Errorf("%s%s %s in %s goes to %q, %v, want %q", host, path, header, fleet, got, ok, want)
			}
		}
		expect("apps", "Shop.test.:80", "/x?y=/z", "", "shop")
		expect("apps", "shop.test", "/", "x-canary", "canary")
		expect("apps", "a.b.test", "/", "", "wide")
		expect("apps", "paths.test", "/app?x", "", "paths")
		expect("apps", "paths.test", "/apple", "", "")
		expect("apps", "shop.example", "/", "", "")
		expect("keda", "shop.test", "/", "", "")

		s.scaledObjects.Delete(canary)
		expect("apps", "shop.test", "/", "x-canary", "shop")
		s.scaledObjects.Modify(kit.WithAnnotation(shop(), httpv1alpha1.AnnotationFleet, httpv1alpha1.FleetShared))
		expect("apps", "shop.test", "/", "", "wide")
		expect("keda", "shop.test", "/", "", "shop")

		s.mu.Lock()
		s.refuse = errors.New("inconsistent")
		s.mu.Unlock()
		s.scaledObjects.Delete(wide)
		expect("apps", "a.test", "/", "", "wide") // That is published.
		s.mu.Lock()
		s.refuse = nil
		s.mu.Unlock()
		s.scaledObjects.Delete(paths)
		expect("apps", "a.test", "/", "", "")
		expect("apps", "paths.test", "/app", "", "")
		expect("keda", "shop.test", "/", "", "shop")
	})
}
