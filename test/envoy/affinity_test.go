package envoy_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/xds"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/visitors"
)

// podsOf starts three Pods of each Service, and returns a function for the inputs of an object.
func podsOf(t *testing.T, services ...string) func(object *httpv1alpha1.HTTPScaledObject) resolve.Inputs {
	t.Helper()
	var pods []*backend
	for _, service := range services {
		for i := range 3 {
			pods = append(pods, startBackend(t, fmt.Sprintf("%s-%d", service, i)))
		}
	}
	return func(object *httpv1alpha1.HTTPScaledObject) resolve.Inputs {
		inputs := newInputs(t, pods, object)
		inputs.Services = nil
		for _, service := range services {
			inputs.Services = append(inputs.Services, resolve.NewService(kit.NewService(namespace, service)))
		}
		for i, slice := range inputs.EndpointSlices {
			slice.Service = model.Key{Namespace: namespace, Name: services[i/3]}
		}
		return inputs
	}
}

// withoutPod returns inputs without the endpoint of one Pod.
func withoutPod(inputs resolve.Inputs, pod string) resolve.Inputs {
	kept := slices.Clone(inputs.EndpointSlices)
	inputs.EndpointSlices = slices.DeleteFunc(kept, func(slice *resolve.EndpointSlice) bool {
		return strings.HasPrefix(slice.Key.Name, pod)
	})
	return inputs
}

// serviceOfPod returns the Service of a Pod of podsOf.
func serviceOfPod(pod string) string { return pod[:strings.LastIndex(pod, "-")] }

// sessionBy returns the annotation for session affinity.
func sessionBy(text string) map[string]string {
	return map[string]string{httpv1alpha1.AnnotationSessionAffinity: text}
}

// newKnownCrowd returns users that differ in a header, in the address that a trusted Ingress reports, and in cookies.
func (s *served) newKnownCrowd(t *testing.T, protocol string, users int) *crowd {
	t.Helper()
	c := s.newCrowd(t, protocol, users)
	for i := range c.Headers {
		c.Headers[i] = http.Header{
			"X-User": {fmt.Sprintf("user-%d", i)}, "X-Forwarded-For": {fmt.Sprintf("192.0.%d.%d", 2+i/250, 1+i%250)},
		}
	}
	return c
}

// applyTrusting publishes inputs for proxies behind a trusted Ingress, and waits until the proxy has them.
func (s *served) applyTrusting(t *testing.T, inputs resolve.Inputs) {
	t.Helper()
	resources := translated(t, inputs, trusting())
	s.publish(t, resources)
	s.await(t, resources)
	s.awaitClusters(t, resources)
}

// trusting returns the options of proxies behind an Ingress.
func trusting() translate.Options {
	options := translate.DefaultOptions()
	options.TrustedHops = 1
	return options
}

// TestSessionAffinity: 50 of 50 requests of a user go to one of three Pods, also in a canary, and all Pods get users.
func TestSessionAffinity(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"cookie": "cookie: {}", "header": "header: X-User", "address": "sourceAddress: {}",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inputs := podsOf(t, "shop-stable", "shop-canary")
			s := serve(t, "DELTA_GRPC", translated(t, inputs(stickyObject(-1, sessionBy(text))), trusting()))
			s.applyTrusting(t, inputs(stickyObject(-1, sessionBy(text))))
			for protocol, requests := range map[string]int{"HTTP/1.1": 50, "HTTP/2": 5} {
				c := s.newKnownCrowd(t, protocol, 100)
				for _, weight := range []int{-1, 50} {
					what := fmt.Sprintf("%s, weight %d", protocol, weight)
					s.applyTrusting(t, inputs(stickyObject(weight, sessionBy(text))))
					first := c.visit(t, stickyURL)
					some := &crowd{c.First(10)}
					firstOfSome := visits{visitors.Visits{Backends: first.Backends[:10]}}
					for range requests - 1 {
						some.visit(t, stickyURL).checkMoves(t, what, firstOfSome, "")
					}
					pods := map[bool]int{false: 3, true: 6}[weight > 0]
					if got := countDistinct(first.Backends); got != pods {
						t.Errorf("%s: users on %d Pods, want %d", what, got, pods)
					}
					if isSet := first.Cookies() > 0; isSet != (name == "cookie" && weight < 0) {
						t.Errorf("%s: %d cookies set", what, first.Cookies())
					}
				}
			}
		})
	}
}

// countDistinct returns the number of different names.
func countDistinct(names []string) int {
	return len(slices.Compact(slices.Sorted(slices.Values(names))))
}

// TestSessionAffinityInACanary: when a canary begins and grows, only users that the canary gets move. The others stay
// on their Pods, also if the Rollout has another key for its stickiness.
func TestSessionAffinityInACanary(t *testing.T) {
	t.Parallel()
	for name, stickiness := range map[string]string{"implied": "", "by another key": "header: X-User"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inputs := podsOf(t, "shop-stable", "shop-canary")
			at := func(weight int) resolve.Inputs {
				annotations := sessionBy("cookie: {}")
				if stickiness != "" && weight >= 0 {
					annotations[httpv1alpha1.AnnotationStickiness] = stickiness
				}
				return inputs(stickyObject(weight, annotations))
			}
			s := serve(t, "DELTA_GRPC", translated(t, at(-1), trusting()))
			c := s.newKnownCrowd(t, "HTTP/1.1", 300)
			s.applyTrusting(t, at(-1))
			last := c.visit(t, stickyURL)
			for _, weight := range []int{20, 50, 20, -1} {
				s.applyTrusting(t, at(weight))
				now := c.visit(t, stickyURL)
				for move := range now.Moves(last.Visits) {
					from, to, _ := strings.Cut(move, " → ")
					if serviceOfPod(from) == serviceOfPod(to) {
						t.Errorf("weight %d: a user moved between Pods of one version: %s", weight, move)
					}
				}
				c.visit(t, stickyURL).checkMoves(t, fmt.Sprintf("weight %d, second request", weight), now, "")
				if now.Cookies() > 0 {
					t.Errorf("weight %d: %d cookies were set again", weight, now.Cookies())
				}
				last = now
			}
		})
	}
}

// TestSessionAffinityAndPods: if a Pod ends, its users move, and they come back with it. Of the others hardly any moves.
func TestSessionAffinityAndPods(t *testing.T) {
	t.Parallel()
	all := podsOf(t, "shop-stable")(stickyObject(-1, sessionBy("header: X-User")))
	s := serve(t, "DELTA_GRPC", translated(t, all, trusting()))
	s.applyTrusting(t, all)
	c := s.newKnownCrowd(t, "HTTP/1.1", 600)
	usual := c.visit(t, stickyURL)
	for i := range 3 {
		if n := usual.Count(fmt.Sprintf("shop-stable-%d", i)); n < 140 || n > 260 {
			t.Errorf("Pod %d has %d of 600 users", i, n)
		}
	}
	const gone = "shop-stable-1"
	s.applyTrusting(t, withoutPod(all, gone))
	now := c.visit(t, stickyURL)
	others := 0
	for move, users := range now.Moves(usual.Visits) {
		if !strings.HasPrefix(move, gone+" → ") {
			others += users
		}
	}
	if others > 6 {
		t.Errorf("%d of 600 users moved although their Pods stayed: %v", others, now.Moves(usual.Visits))
	}
	if now.Count(gone) > 0 {
		t.Errorf("%d users on the Pod that ended", now.Count(gone))
	}
	s.applyTrusting(t, all)
	c.visit(t, stickyURL).checkMoves(t, "with the Pod again", usual, "")
}

// TestClientIPOfTheService: sessionAffinity ClientIP of the stable Service applies to the proxies. Without it, and
// without an annotation, requests of one client go to several Pods.
func TestClientIPOfTheService(t *testing.T) {
	t.Parallel()
	inputs := podsOf(t, "shop-stable")(stickyObject(-1, nil))
	s := serve(t, "DELTA_GRPC", translated(t, inputs, trusting()))
	s.applyTrusting(t, inputs)
	c := s.newKnownCrowd(t, "HTTP/1.1", 100)
	first := c.visit(t, stickyURL)
	if len(c.visit(t, stickyURL).Moves(first.Visits)) == 0 {
		t.Error("no user changed its Pod without session affinity")
	}
	inputs.Services[0].HasClientIPAffinity = true
	s.applyTrusting(t, inputs)
	first = c.visit(t, stickyURL)
	for range 5 {
		c.visit(t, stickyURL).checkMoves(t, "ClientIP", first, "")
	}
	if countDistinct(first.Backends) != 3 {
		t.Errorf("users on %v, want all Pods", first.Backends)
	}
}

// awaitClusters waits until the proxy has acknowledged the published version of every cluster and all endpoints.
func (s *served) awaitClusters(t *testing.T, resources translate.Resources) {
	t.Helper()
	await.True(t, "the proxy has every cluster and its endpoints", func() bool {
		hasAll := s.hasEndpoints(resources)
		s.server.Poll(func(state xds.StreamState) {
			for name := range resources[resourcev3.ClusterType] {
				acked := state.Resource(resourcev3.ClusterType, name).Acked
				hasAll = hasAll && acked != "" && acked == s.server.Versions()(namespace, resourcev3.ClusterType, name)
			}
		})
		return hasAll
	})
}
