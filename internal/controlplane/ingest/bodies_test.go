package ingest_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
)

// static returns an object with static responses.
func static(text string) *httpv1alpha1.HTTPScaledObject {
	return kit.WithAnnotation(shop(), httpv1alpha1.AnnotationStaticResponses, text)
}

// staticOf returns the texts of the published static responses of shop, and its problems.
func (s *environment) staticOf() (bodies, problems string) {
	var texts, messages strings.Builder
	object := s.lastPass().Objects[model.Key{Namespace: "apps", Name: "shop"}]
	if len(object.Published.Routes) > 0 {
		for _, route := range object.Published.Routes[0].Static {
			for _, body := range route.Response.Bodies {
				texts.WriteString(body.Text + ";")
			}
		}
	}
	for _, problem := range object.Outcome.Problems {
		messages.WriteString(problem.Message)
	}
	return texts.String(), messages.String()
}

// expectStatic waits, and compares the published bodies and a part of the problems, "" for none.
func (s *environment) expectStatic(t *testing.T, when, bodies, problem string) {
	t.Helper()
	time.Sleep(15 * time.Second) // longer than the pause after a failure
	synctest.Wait()
	got, problems := s.staticOf()
	if got != bodies || !strings.Contains(problems, problem) || problem == "" && problems != "" {
		t.Errorf("%s: %q with %q; want %q with %q", when, got, problems, bodies, problem)
	}
}

// TestStaticBodyLifecycle follows a ConfigMap with bodies from its creation to its deletion, and objects that name it,
// other ones, and none.
func TestStaticBodyLifecycle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newEnvironment(t)
		source := newFaultySource(t)
		s.pages = map[string]*faultySource{"apps/page": source, "apps/other": newFaultySource(t)}
		defer s.run(t)()
		pages := func(data map[string]string) *corev1.ConfigMap { return configMap("apps", data) }
		const down = "[{bodyFromConfigMap: {name: page, key: down.html}}]"
		s.scaledObjects.Modify(static("[{body: inline}]"))
		s.expectStatic(t, "inline", "inline;", "")
		s.scaledObjects.Modify(static(down))
		s.expectStatic(t, "no ConfigMap", "inline;", `annotation http.kedify.io/static-responses[0]: bodyFromConfigMap: `+
			`no body: ConfigMap "page" in namespace "apps": not found with label http.keda.sh/response-body: "true": `+
			`create it, or add the label`)
		source.Add(pages(map[string]string{"down.html": "one"}))
		s.expectStatic(t, "created", "one;", "")
		source.Modify(pages(map[string]string{"down.html": "two"}))
		s.expectStatic(t, "changed", "two;", "")
		source.Modify(pages(map[string]string{"up.html": "three"}))
		s.expectStatic(t, "another key", "two;", `ConfigMap "page" in namespace "apps" has no key "down.html"`)
		source.Modify(pages(map[string]string{"down.html": strings.Repeat("x", model.MaxStaticBody+1)}))
		s.expectStatic(t, "too long", "two;", "exceed the limit of 262144")
		source.Delete(pages(nil))
		s.expectStatic(t, "deleted", "two;", "not found with label")
		source.Add(pages(map[string]string{"down.html": "four"}))
		s.expectStatic(t, "created again", "four;", "")
		s.scaledObjects.Modify(static("[{bodyFromConfigMap: {name: other, key: a}}]"))
		s.expectStatic(t, "another ConfigMap", "four;", `ConfigMap "other"`)
		source.Modify(pages(map[string]string{"down.html": "five"}))
		s.scaledObjects.Modify(static(down))
		s.expectStatic(t, "named again", "five;", "")
		s.scaledObjects.Modify(shop())
		s.expectStatic(t, "removed", "", "")
	})
}

// TestStaticBodyOfAWaitingPage: the ConfigMap of a waiting page may have a body, too.
func TestStaticBodyOfAWaitingPage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newEnvironment(t)
		s.scaledObjects = newFaultySource(t, shopWithPage())
		s.pages = map[string]*faultySource{
			"apps/page": newFaultySource(t, configMap("apps", map[string]string{"body": "waiting", "down.html": "down"})),
		}
		defer s.run(t)()
		s.expectStatic(t, "only a page", "", "")
		both := kit.WithAnnotation(shopWithPage(), httpv1alpha1.AnnotationStaticResponses,
			"[{bodyFromConfigMap: {name: page, key: down.html}}]")
		s.scaledObjects.Modify(both)
		s.expectStatic(t, "both", "down;", "")
		if page := s.lastPass().Objects[model.Key{Namespace: "apps", Name: "shop"}].Page; page.Body != "waiting" {
			t.Errorf("the page is %.40q", page.Body)
		}
	})
}

// TestFirstPublicationHasBodies: after a restart, no proxy loses a maintenance page. A ConfigMap that cannot be read
// delays nothing.
func TestFirstPublicationHasBodies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newEnvironment(t)
		s.scaledObjects = newFaultySource(t, static("[{bodyFromConfigMap: {name: page, key: down.html}}]"))
		source := newFaultySource(t, configMap("apps", map[string]string{"down.html": "down"}))
		s.pages = map[string]*faultySource{"apps/page": source}
		stop := s.run(t)
		s.expectStatic(t, "start", "down;", "")
		if count := s.publications(); count != 1 {
			t.Errorf("%d publications, want one", count)
		}
		stop()
		source.fail(errors.New("not now"))
		stop = s.run(t)
		s.expectStatic(t, "unreadable", "", "not readable: ")
		source.fail(nil)
		s.expectStatic(t, "readable", "down;", "")
		stop()
		s.pages = nil
		defer s.run(t)()
		s.expectStatic(t, "disabled", "", "the interceptor reads no ConfigMaps")
	})
}
