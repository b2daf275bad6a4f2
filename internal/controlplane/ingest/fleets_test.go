package ingest_test

import (
	"maps"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
)

func TestProxiesWithoutObjectsAreServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &environment{
			scaledObjects: newFaultySource(t), services: newFaultySource(t),
			slices: newFaultySource(t, slice(resolve.ProxyService, "10.0.0.7")),
		}
		defer s.run(t)()
		synctest.Wait()
		if got := s.publications(); got != 1 || !s.fleets["apps"] {
			t.Errorf("published %d times, to %v, want once to apps", got, s.fleets)
		}
	})
}

func TestEmptyConfigurationIsPublished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &environment{scaledObjects: newFaultySource(t), services: newFaultySource(t), slices: newFaultySource(t)}
		defer s.run(t)()
		synctest.Wait()
		if !isClosed(s.loop.Seeded()) {
			t.Error("the empty configuration is not published")
		}
	})
}

// proxies returns the EndpointSlice of the proxies of a namespace: one proxy, named a.
func proxies(namespace, address string, isReady bool) *discoveryv1.EndpointSlice {
	of := kit.NewEndpointSlice(namespace, resolve.ProxyService, address)
	of.Endpoints[0].Conditions = discoveryv1.EndpointConditions{Ready: &isReady}
	of.Endpoints[0].TargetRef = &corev1.ObjectReference{Kind: "Pod", Name: "a"}
	return of
}

// proxyAt returns the reported proxies of such an EndpointSlice.
func proxyAt(address string, isReady bool) []model.Proxy {
	return []model.Proxy{{
		Name: "a", Addresses: []netip.Addr{netip.MustParseAddr(address)}, IsReady: isReady,
		IsServing: isReady,
	}}
}

func TestProxiesAreReportedWithoutPublication(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newEnvironment(t)
		s.replicas = newFaultySource(t, slice("interceptors", "10.0.0.1"))
		s.slices.Add(proxies("apps", "10.0.0.7", false))
		defer s.run(t)()
		time.Sleep(time.Second) // The clock is synctest's, here and below.
		published := s.publications()
		expect := func(want map[model.Fleet][]model.Proxy) {
			t.Helper()
			time.Sleep(time.Second)
			s.mu.Lock()
			assigned := s.proxies
			s.mu.Unlock()
			for _, reported := range []map[model.Fleet][]model.Proxy{assigned, s.lastPass().Proxies} {
				if diff := cmp.Diff(want, reported, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
					t.Errorf("proxies (-want +got):\n%s", diff)
				}
			}
		}
		expect(map[model.Fleet][]model.Proxy{"apps": proxyAt("10.0.0.7", false)})
		s.slices.Modify(proxies("apps", "10.0.0.7", true))
		expect(map[model.Fleet][]model.Proxy{"apps": proxyAt("10.0.0.7", true)})
		if pass := s.lastPass(); len(pass.Replicas) != 1 || len(pass.Objects) != 1 || s.publications() != published {
			t.Errorf("%d publications after %d, pass %+v", s.publications(), published, pass)
		}
		s.slices.Modify(proxies("other", "10.0.0.8", true))
		expect(map[model.Fleet][]model.Proxy{"apps": proxyAt("10.0.0.7", true), "other": proxyAt("10.0.0.8", true)})
		s.slices.Delete(proxies("apps", "10.0.0.7", true))
		expect(map[model.Fleet][]model.Proxy{"other": proxyAt("10.0.0.8", true)})
		s.slices.Modify(kit.NewEndpointSlice("other", resolve.ProxyService))
		expect(map[model.Fleet][]model.Proxy{"other": {}}) // a Service without endpoints
		s.slices.Delete(kit.NewEndpointSlice("other", resolve.ProxyService))
		expect(map[model.Fleet][]model.Proxy{})
	})
}

// TestFleetsAreAddedAndRemoved has a fleet with proxies, then with objects, and then with neither.
func TestFleetsAreAddedAndRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newEnvironment(t)
		s.resolve.SharedFleet = "keda"
		defer s.run(t)()
		expect := func(when string, want ...model.Fleet) {
			t.Helper()
			time.Sleep(time.Second) // The clock is synctest's.
			s.mu.Lock()
			defer s.mu.Unlock()
			if got := slices.Sorted(maps.Keys(s.fleets)); !slices.Equal(got, want) {
				t.Errorf("%s: published to fleets %v, want %v", when, got, want)
			}
		}
		expect("at first", "apps")
		s.slices.Modify(proxies("keda", "10.0.0.7", true))
		expect("a shared proxy is added", "apps", "keda")
		s.scaledObjects.Modify(kit.WithAnnotation(shop(), httpv1alpha1.AnnotationFleet, "shared"))
		expect("the object moves", "keda")
		if got := s.lastPass().Objects[model.Key{Namespace: "apps", Name: "shop"}]; got.Fleet != "keda" ||
			len(got.Published.Routes) != 1 {
			t.Errorf("the object that moved is %+v", got)
		}
		s.slices.Delete(proxies("keda", "10.0.0.7", true))
		expect("the shared proxy is removed", "keda")
		s.scaledObjects.Modify(shop())
		expect("the object moves back", "apps")
		s.scaledObjects.Delete(shop())
		expect("everything is removed")
	})
}

// TestInvalidFleetIsReportedOnce has a Service of proxies whose mode is invalid, changes in another respect, and is then
// corrected. Its proxies need tokens as long as it is invalid.
func TestInvalidFleetIsReportedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newEnvironment(t)
		proxies := service(resolve.ProxyService)
		proxies.Annotations = map[string]string{"http.kedify.io/proxy-authentication": "off"}
		s.services.Add(proxies)
		s.slices.Add(slice(resolve.ProxyService, "10.0.0.9"))
		defer s.run(t)()
		expect := func(when string, reported int, isStrict bool) {
			t.Helper()
			time.Sleep(time.Second)
			synctest.Wait()
			list := s.lastPass().Proxies[model.Fleet(proxies.Namespace)]
			if s.invalidFleets != reported || len(list) != 1 || list[0].NeedsToken != isStrict {
				t.Errorf("%s: %d reported, proxies %+v", when, s.invalidFleets, list)
			}
		}
		expect("invalid", 1, true)
		other := shop()
		other.Annotations = map[string]string{"http.kedify.io/request-timeout": "3s"}
		s.scaledObjects.Modify(other)
		expect("a later pass", 1, true)
		corrected := proxies.DeepCopy()
		corrected.Annotations = nil
		s.services.Modify(corrected)
		expect("corrected", 1, false)
	})
}
