package ingest_test

import (
	"testing"
	"testing/synctest"
	"time"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
)

// TestStatusAnnotationCountsAsStatus adds and changes the interceptor's own annotation. It is read as the status that
// it contains. Neither routing nor the age of a report depends on it.
func TestStatusAnnotationCountsAsStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newEnvironment(t)
		defer s.run(t)()
		time.Sleep(time.Second) // The clock is synctest's, here and below.
		key := model.Key{Namespace: "apps", Name: "shop"}
		published, written := s.publications(), s.lastPass().Objects[key].Outcome.WrittenAt
		for _, writer := range []string{"interceptor-0", "interceptor-1"} {
			s.scaledObjects.Modify(kit.WithAnnotation(shop(), httpv1alpha1.AnnotationStatus,
				`{"uid": "`+string(shop().UID)+`", "dataPlane": {"annotationHash": "", "reportedBy": "`+writer+`", "proxies": {"ready": 1, "acked": 1}, "effective": true}}`))
			time.Sleep(time.Second)
			object := s.lastPass().Objects[key]
			if report := object.ScaledObject.Status.DataPlane; report == nil || report.ReportedBy != writer {
				t.Errorf("the report is %+v, want that of %s", report, writer)
			}
			if text, exists := object.ScaledObject.Annotations[httpv1alpha1.AnnotationStatus]; !exists || text != "" {
				t.Errorf("the annotation exists: %v, stored as %q", exists, text)
			}
			if object.Outcome.WrittenAt != written || s.publications() != published {
				t.Errorf("written at %q, want %q; %d publications after %d", object.Outcome.WrittenAt, written, s.publications(),
					published)
			}
		}
	})
}

// half is an even split, in the form of package split.
const half = "- service: shop\n  weight: 50\n- service: canary\n  weight: 50\n"

// TestPublishedSplitIsReported invalidates the annotation: the outcome contains the split that is published.
func TestPublishedSplitIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newEnvironment(t)
		defer s.run(t)()
		s.services.Modify(service("canary"))
		for _, step := range []struct{ name, text, want string }{
			{"no annotation", "", ""},
			{"half", "[{service: shop, weight: 50}, {service: canary, weight: 50}]", half},
			{"broken", "half", half},
			{"only another Service", "[{service: canary, weight: 1}]", "- service: canary\n  weight: 1\n"},
			{"removed", "", ""},
		} {
			object := shop()
			if step.text != "" {
				object = kit.WithAnnotation(object, httpv1alpha1.AnnotationWeightedBackends, step.text)
			}
			s.scaledObjects.Modify(object)
			time.Sleep(time.Second) // The clock is synctest's.
			key := model.Key{Namespace: "apps", Name: "shop"}
			if got := s.lastPass().Objects[key].Outcome.WeightedBackends; got != step.want {
				t.Errorf("%s: got %q, want %q", step.name, got, step.want)
			}
		}
	})
}

// TestPublishedManagedRoutesAreReported invalidates the other annotation: the outcome contains the header routes that
// are published.
func TestPublishedManagedRoutesAreReported(t *testing.T) {
	const forQA = `[{"name":"qa","matches":[{"headers":[{"type":"Exact","value":"qa","name":"role"}]}]}]`
	synctest.Test(t, func(t *testing.T) {
		s := newEnvironment(t)
		defer s.run(t)()
		s.services.Modify(service("canary"))
		for _, step := range []struct{ name, text, want string }{
			{"none", "", ""},
			{"one", forQA, forQA},
			{"broken", "qa, please", forQA},
			{"removed", "", ""},
		} {
			object := kit.WithAnnotation(shop(), httpv1alpha1.AnnotationWeightedBackends,
				"[{service: shop, weight: 50}, {service: canary, weight: 50}]")
			if step.text != "" {
				object = kit.WithAnnotation(object, httpv1alpha1.AnnotationManagedRoutes, step.text)
			}
			s.scaledObjects.Modify(object)
			time.Sleep(time.Second) // The clock is synctest's.
			if got := s.lastPass().Objects[model.Key{Namespace: "apps", Name: "shop"}].Outcome.ManagedRoutes; got != step.want {
				t.Errorf("%s: got %q, want %q", step.name, got, step.want)
			}
		}
	})
}

// TestPublishedStickinessIsReported invalidates stickiness and session affinity: the outcome contains those that are
// published.
func TestPublishedStickinessIsReported(t *testing.T) {
	const byUser, byTenant = `{"header":"x-user"}`, `{"header":"x-tenant"}`
	synctest.Test(t, func(t *testing.T) {
		s := newEnvironment(t)
		defer s.run(t)()
		s.services.Modify(service("canary"))
		for _, step := range []struct {
			name, weights, stickiness, session string
			wantStickiness, wantSession        string
		}{
			{"none", half, "", "", "", ""},
			{"both", half, "header: x-user", "header: x-tenant", byUser, byTenant},
			{"broken", half, "user", "{}", byUser, byTenant},
			{"broken, and no canary", "", "user", "{}", "", byTenant},
			{"without a canary", "", "header: x-user", "sourceAddress: {}", "", `{"sourceAddress":{}}`},
			{"removed", half, "", "", "", ""},
		} {
			object := shop()
			for name, text := range map[string]string{
				httpv1alpha1.AnnotationWeightedBackends: step.weights, httpv1alpha1.AnnotationStickiness: step.stickiness,
				httpv1alpha1.AnnotationSessionAffinity: step.session,
			} {
				if text != "" {
					object = kit.WithAnnotation(object, name, text)
				}
			}
			s.scaledObjects.Modify(object)
			time.Sleep(time.Second) // The clock is synctest's.
			outcome := s.lastPass().Objects[model.Key{Namespace: "apps", Name: "shop"}].Outcome
			if outcome.Stickiness != step.wantStickiness || outcome.SessionAffinity != step.wantSession {
				t.Errorf("%s: got %q and %q, want %q and %q", step.name, outcome.Stickiness, outcome.SessionAffinity,
					step.wantStickiness, step.wantSession)
			}
		}
	})
}
