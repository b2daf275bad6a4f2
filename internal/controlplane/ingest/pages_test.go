package ingest_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding/page"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
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
		source := newFaultySource(t)
		source.fail(errors.New("not now"))
		s.pages = map[string]*faultySource{
			"apps/page":      source,
			"elsewhere/page": newFaultySource(t, configMap("elsewhere", map[string]string{"body": "not this one"})),
		}
		defer s.run(t)()
		expect := func(body, reason string, isUnknown bool) {
			t.Helper()
			time.Sleep(15 * time.Second) // longer than the pause after a failure
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
		source.fail(nil)
		expect(standard, httpv1alpha1.ReasonWaitingPageNotFound, false)
		source.Add(configMap("apps", map[string]string{"body": "one"}))
		expect("one", "", false)
		source.Modify(configMap("apps", map[string]string{"body": "two"}))
		expect("two", "", false)
		source.Modify(configMap("apps", map[string]string{"index.html": "three"}))
		expect(standard, httpv1alpha1.ReasonInvalidWaitingPage, false)
		const says = `annotation http.kedify.io/cold-start-waiting-page-config-map-ref: ConfigMap "page" in namespace ` +
			`"apps": ` +
			`key "body": missing or empty: set it to the HTML page`
		if diff := cmp.Diff(says,
			s.lastPass().Objects[model.Key{Namespace: "apps", Name: "shop"}].Outcome.Page.Message); diff != "" {
			t.Error(diff)
		}
		source.Delete(configMap("apps", nil))
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
		source := newFaultySource(t)
		source.fail(errors.New("forbidden"))
		s.pages = map[string]*faultySource{"apps/page": source}
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

// viewer returns an object with a waiting page of its own.
func viewer(name, configMap string) *httpv1alpha1.HTTPScaledObject {
	object := kit.NewScaledObject("apps", name, "shop", 1, name+".test")
	object.Annotations = map[string]string{
		httpv1alpha1.AnnotationWaitingPage: "true", httpv1alpha1.AnnotationWaitingPageConfigMap: configMap,
	}
	return object
}

// TestOnlyNamedPagesAreRead names a ConfigMap, another one, and none. An object that is not served names one too.
func TestOnlyNamedPagesAreRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newEnvironment(t)
		s.pages = map[string]*faultySource{}
		for _, name := range []string{"one", "two", "unserved", "unnamed"} {
			page := configMap("apps", map[string]string{"body": name})
			page.Name = name
			s.pages["apps/"+name] = newFaultySource(t, page)
		}
		unserved := viewer("unserved", "unserved")
		unserved.Spec.Headers = []httpv1alpha1.Header{{Name: "not a header"}}
		s.scaledObjects.Add(unserved)
		defer s.run(t)()
		key := model.Key{Namespace: "apps", Name: "shop"}
		for _, step := range []struct{ name, body string }{
			{"one", "one"}, {"two", "two"}, {"", page.Default().Body}, {"one", "one"},
		} {
			s.scaledObjects.Modify(viewer("shop", step.name))
			time.Sleep(time.Second)
			if got := s.lastPass().Objects[key].Page.Body; got != step.body {
				t.Errorf("with ConfigMap %q: the page is %.40q, want %.40q", step.name, got, step.body)
			}
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if diff := cmp.Diff([]string{"apps/one", "apps/two", "apps/one"}, s.pagesRead); diff != "" {
			t.Errorf("read (-want +got):\n%s", diff)
		}
	})
}

// TestPagesOfANamespaceAreLimited has more pages than a namespace may have, the oldest last by name. Another namespace
// is not affected. After one is deleted, the next one is shown.
func TestPagesOfANamespaceAreLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newEnvironment(t)
		s.pages = map[string]*faultySource{}
		body := strings.Repeat("x", page.MaxBody)
		sized := func(name string, age int) *corev1.ConfigMap {
			made := configMap("apps", map[string]string{"body": body})
			made.Name, made.CreationTimestamp = name, metav1.NewTime(time.Unix(int64(-age), 0))
			return made
		}
		for i := range 6 {
			name := fmt.Sprint("page-", i)
			s.pages["apps/"+name] = newFaultySource(t, sized(name, i))
			s.scaledObjects.Add(viewer(fmt.Sprint("shop-", i), name))
		}
		elsewhere := viewer("shop", "page")
		elsewhere.Namespace = "other"
		s.scaledObjects.Add(elsewhere)
		s.pages["other/page"] = newFaultySource(t, configMap("other", map[string]string{"body": body}))
		defer s.run(t)()
		expect := func(want ...string) {
			t.Helper()
			time.Sleep(time.Minute)
			var shown []string
			for key, object := range s.lastPass().Objects {
				isShown := object.Page.Body == body
				if isShown && key.Namespace == "apps" {
					shown = append(shown, key.Name)
				}
				isLimited := strings.Contains(object.Outcome.Page.Message, "exceed the limit of 1048576 bytes")
				if name := httpv1alpha1.WaitingPageConfigMap(object.ScaledObject); name != "" && isShown == isLimited {
					t.Errorf("%s: shown: %v, message %q", key, isShown, object.Outcome.Page.Message)
				}
			}
			slices.Sort(shown)
			if diff := cmp.Diff(want, shown); diff != "" {
				t.Errorf("objects with their own page (-want +got):\n%s", diff)
			}
		}
		expect("shop-2", "shop-3", "shop-4", "shop-5")
		s.pages["apps/page-1"].Modify(sized("page-1", 1)) // It does not take the place of an older one.
		expect("shop-2", "shop-3", "shop-4", "shop-5")
		s.pages["apps/page-4"].Modify(func() *corev1.ConfigMap {
			small := sized("page-4", 4)
			small.Data["body"] = "small"
			return small
		}())
		time.Sleep(time.Minute)
		s.scaledObjects.Delete(viewer("shop-4", "page-4"))
		s.scaledObjects.Delete(viewer("shop-5", "page-5"))
		expect("shop-0", "shop-1", "shop-2", "shop-3")
	})
}
