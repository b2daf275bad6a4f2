package ingest_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/model/managedroute"
	"github.com/kedify/argo-rollouts-plugin/internal/model/split"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
)

// isClosed reports whether channel is closed.
func isClosed(channel <-chan struct{}) bool {
	select {
	case <-channel:
		return true
	default:
		return false
	}
}

// TestAnnotationsAreTruncated: any tenant can write 256 KiB of annotations to each object and change them
// continuously.
func TestAnnotationsAreTruncated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newEnvironment(t)
		defer s.run(t)()
		time.Sleep(time.Second) // The clock is synctest's, here and below.
		key := model.Key{Namespace: "apps", Name: "shop"}
		written := s.lastPass().Objects[key].Outcome.WrittenAt
		s.scaledObjects.Modify(kit.WithAnnotation(shop(), "example.com/note", strings.Repeat("x", 200_000)))
		time.Sleep(time.Second)
		object := s.lastPass().Objects[key]
		if len(object.ScaledObject.Annotations) != 0 || object.Outcome.WrittenAt != written {
			t.Errorf("%d irrelevant annotations are stored, written at %q", len(object.ScaledObject.Annotations),
				object.Outcome.WrittenAt)
		}
		s.scaledObjects.Modify(kit.WithAnnotation(shop(), httpv1alpha1.AnnotationWeightedBackends,
			"[{service: shop, weight: 1}]"+strings.Repeat(" ", 200_000)))
		time.Sleep(time.Second)
		object = s.lastPass().Objects[key]
		if stored := len(object.ScaledObject.Annotations[httpv1alpha1.AnnotationWeightedBackends]); stored != split.MaxBytes+1 {
			t.Errorf("%d bytes of an annotation are stored, want one more than the limit", stored)
		}
		if len(object.Outcome.Problems) != 1 ||
			object.Outcome.Problems[0].Reason != httpv1alpha1.ReasonInvalidWeightedBackends {
			t.Errorf("problems %+v, want one about the length", object.Outcome.Problems)
		}
		s.scaledObjects.Modify(kit.WithAnnotation(shop(), httpv1alpha1.AnnotationManagedRoutes,
			"[]"+strings.Repeat(" ", 200_000)))
		time.Sleep(time.Second)
		object = s.lastPass().Objects[key]
		if stored := len(object.ScaledObject.Annotations[httpv1alpha1.AnnotationManagedRoutes]); stored != managedroute.MaxBytes+1 {
			t.Errorf("%d bytes of header and mirror routes are stored, want one more than the limit", stored)
		}
	})
}

func TestReportsButNotPublicationsWaitForReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newEnvironment(t)
		s.replicas = newFaultySource(t)
		s.replicas.fail(apierrors.NewForbidden(schema.GroupResource{Resource: "endpointslices"}, "", errors.New("no")))
		defer s.run(t)()
		time.Sleep(time.Minute) // The clock is synctest's, here and below.
		if !isClosed(s.loop.Seeded()) || len(s.loop.Waiting()) != 0 {
			t.Errorf("not seeded, waiting for %q", s.loop.Waiting())
		}
		if isClosed(s.loop.Observed()) {
			t.Error("replicas are unknown, but count as observed")
		}
		s.replicas.fail(nil)
		time.Sleep(2 * time.Second)
		if !isClosed(s.loop.Observed()) {
			t.Error("not observed 2 s after the fault has ended")
		}
	})
}

func TestStableHashes(t *testing.T) {
	long := strings.Repeat("a", 47) // too long with a hash of ten characters and two hyphens
	tests := []struct {
		name     string
		selected string
		pods     []string
		want     []string
	}{
		{"a Service of no Rollout", "", []string{"shop-6c54544bf9-x7k2z"}, nil},
		{"no Pods", "6c54544bf9", nil, nil},
		{
			"selected Pods", "6c54544bf9",
			[]string{"shop-6c54544bf9-x7k2z", "shop-6c54544bf9-bbbbb"},
			[]string{"6c54544bf9"},
		},
		{"the selector is newer than the endpoints", "789746c88d", []string{"shop-6c54544bf9-x7k2z"}, []string{"6c54544bf9"}},
		{
			"old and new Pods", "789746c88d",
			[]string{"shop-789746c88d-x7k2z", "shop-6c54544bf9-x7k2z"},
			[]string{"6c54544bf9", "789746c88d"},
		},
		{"a short hash", "8", []string{"shop-8-x7k2z"}, []string{"8"}},
		{"a Pod without a ReplicaSet", "6c54544bf9", []string{"shop-6c54544bf9-x7k2z", "by-hand"}, nil},
		{"an endpoint without a Pod", "6c54544bf9", []string{"shop-6c54544bf9-x7k2z", ""}, nil},
		{"vowels are not in hashes", "6c54544bf9", []string{"shop-abcdefg-x7k2z"}, nil},
		{"too long for a hash", "6c54544bf9", []string{"shop-66666666666-x7k2z"}, nil},
		{"a name truncated within the hash", "6c54544bf9", []string{long + "-6c54544bf9x7k2z"}, nil},
		{"a name truncated within the Rollout's name", "6c54544bf9", []string{long + "-bbbbbbbbb-x7k2z"}, nil},
		{
			"a name of that length with the selector's hash", "bbbbbbbbb",
			[]string{long + "-bbbbbbbbb-x7k2z"},
			[]string{"bbbbbbbbb"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				selecting := service("shop")
				selecting.Spec.Selector = map[string]string{"app": "shop", "rollouts-pod-template-hash": test.selected}
				pods, isFalse := slice("shop"), false
				for i, pod := range test.pods {
					endpoint := discoveryv1.Endpoint{Addresses: []string{fmt.Sprint("10.0.0.", i+1)}}
					if pod != "" {
						endpoint.TargetRef = &corev1.ObjectReference{Kind: "Pod", Name: pod}
					}
					pods.Endpoints = append(pods.Endpoints, endpoint)
				}
				pods.Endpoints = append(pods.Endpoints, discoveryv1.Endpoint{
					Addresses: []string{"10.0.0.99"}, Conditions: discoveryv1.EndpointConditions{Ready: &isFalse},
					TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: "shop-zzzzz-zzzzz"},
				})
				s := &environment{
					scaledObjects: newFaultySource(t, shop()), services: newFaultySource(t, selecting),
					slices: newFaultySource(t, pods),
				}
				defer s.run(t)()
				synctest.Wait()
				got := s.lastPass().Objects[model.Key{Namespace: "apps", Name: "shop"}].Outcome.StableHashes
				if diff := cmp.Diff(test.want, got); diff != "" {
					t.Errorf("hashes (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestRestoredWeightCountsAsWrite sets a weight, another one and the first one again between two passes: the
// published configuration is unchanged, but a report about the first write does not cover the last one.
func TestRestoredWeightCountsAsWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newEnvironment(t)
		defer s.run(t)()
		time.Sleep(time.Second) // The clock is synctest's, here and below.
		key := model.Key{Namespace: "apps", Name: "shop"}
		if got := s.lastPass().Objects[key].Outcome.WrittenAt; got != "" {
			t.Errorf("written at %q before anything was", got)
		}
		s.scaledObjects.Modify(kit.WithAnnotation(shop(), httpv1alpha1.AnnotationWeightedBackends,
			"[{service: shop, weight: 1}]"))
		s.scaledObjects.Modify(shop())
		time.Sleep(time.Second)
		object := s.lastPass().Objects[key]
		if got, want := object.Outcome.WrittenAt, object.ScaledObject.ResourceVersion; got != want || want == "" {
			t.Errorf("written at %q, want %q", got, want)
		}
		touched := shop()
		touched.Status.TargetService = "shop:80"
		s.scaledObjects.Modify(touched)
		time.Sleep(time.Second)
		if got := s.lastPass().Objects[key].Outcome.WrittenAt; got != object.Outcome.WrittenAt {
			t.Errorf("a status counts as a write: %q after %q", got, object.Outcome.WrittenAt)
		}
	})
}
