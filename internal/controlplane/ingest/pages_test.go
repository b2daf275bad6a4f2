package ingest_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding/page"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// configMap returns a labeled ConfigMap with data.
func configMap(namespace string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "page",
			Labels: map[string]string{page.Label: page.LabelValue},
		},
		Data: data,
	}
}

// shopWithPage returns an object with its own waiting page.
func shopWithPage() *httpv1alpha1.HTTPScaledObject {
	object := shop()
	object.Annotations = map[string]string{
		httpv1alpha1.AnnotationWaitingPage: "true", httpv1alpha1.AnnotationWaitingPageConfigMap: "page",
	}
	return object
}

// TestWaitingPageLifecycle follows a ConfigMap from its creation to its deletion. Each state is reported without a
// publication, and the default page replaces an unusable one.
func TestWaitingPageLifecycle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newEnvironment(t)
		s.scaledObjects = newFaultySource(t, shopWithPage())
		s.pages = newFaultySource(t, configMap("elsewhere", map[string]string{"body": "not this one"}))
		s.pages.fail(errors.New("not now"))
		defer s.run(t)()
		expect := func(body, reason string, isUnknown bool) {
			t.Helper()
			time.Sleep(time.Second)
			synctest.Wait()
			object := s.lastPass().Objects[model.Key{Namespace: "apps", Name: "shop"}]
			state := object.Outcome.Page
			if object.Page.Body != body || state.Reason != reason || state.IsUnknown != isUnknown ||
				(state.Message == "") != (reason == "") {
				t.Errorf("page %.40q, %+v; want %.40q and %q", object.Page.Body, state, body, reason)
			}
		}
		standard := page.Default().Body
		expect(standard, httpv1alpha1.ReasonWaitingPageNotFound, true)
		published := s.publications()
		s.pages.fail(nil)
		expect(standard, httpv1alpha1.ReasonWaitingPageNotFound, false)
		s.pages.Add(configMap("apps", map[string]string{"body": "one"}))
		expect("one", "", false)
		s.pages.Modify(configMap("apps", map[string]string{"body": "two"}))
		expect("two", "", false)
		s.pages.Modify(configMap("apps", map[string]string{"index.html": "three"}))
		expect(standard, httpv1alpha1.ReasonInvalidWaitingPage, false)
		const says = `annotation http.kedify.io/cold-start-waiting-page-config-map-ref: ConfigMap "page" in namespace ` +
			`"apps": ` +
			`key "body": missing or empty: set it to the HTML page`
		if diff := cmp.Diff(says,
			s.lastPass().Objects[model.Key{Namespace: "apps", Name: "shop"}].Outcome.Page.Message); diff != "" {
			t.Error(diff)
		}
		s.pages.Delete(configMap("apps", nil))
		expect(standard, httpv1alpha1.ReasonWaitingPageNotFound, false)
		if got := s.publications(); got != published {
			t.Errorf("%d publications, had %d before", got, published)
		}
	})
}

// TestPagesBlockNothing: neither publications nor reports wait for pages. If no pages are read, the state of an
// object that names one contains the reason.
func TestPagesBlockNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newEnvironment(t)
		s.scaledObjects = newFaultySource(t, shopWithPage())
		s.pages = newFaultySource(t)
		s.pages.fail(errors.New("forbidden"))
		stop := s.run(t)
		time.Sleep(time.Second)
		if !isClosed(s.loop.Seeded()) || !isClosed(s.loop.Observed()) {
			t.Error("the publication or the report waits for pages")
		}
		stop()
		s.pages = nil
		defer s.run(t)()
		time.Sleep(time.Second)
		state := s.lastPass().Objects[model.Key{Namespace: "apps", Name: "shop"}].Outcome.Page
		if state.IsUnknown || state.Reason != httpv1alpha1.ReasonWaitingPageNotFound {
			t.Errorf("%+v", state)
		}
	})
}
