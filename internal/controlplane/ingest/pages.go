package ingest

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding/page"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// waitingPage is what is kept of a ConfigMap with a waiting page.
type waitingPage struct {
	page   page.Page
	reason string // why the page is invalid, "" for a valid page
}

// reducePage parses a ConfigMap. Of an invalid page only the reason is kept, whatever the size of the ConfigMap.
func reducePage(object *corev1.ConfigMap) waitingPage {
	parsed, err := page.Parse(object.Data)
	if err != nil {
		return waitingPage{reason: err.Error()}
	}
	return waitingPage{page: parsed}
}

// isSamePage reports whether two versions of a page are equal.
func isSamePage(before, after waitingPage) bool { return before == after }

// takePages processes changed pages and returns the objects that name one of them.
func (l *Loop) takePages() []model.Key {
	_, changed := takeAll(l.pages)
	before := l.pagesListed
	l.pagesListed = !slices.ContainsFunc(l.pages, func(pages *store[waitingPage]) bool { return !pages.isListed() })
	if len(changed) == 0 && before == l.pagesListed {
		return nil
	}
	var viewers []model.Key
	for key, tracked := range l.objects {
		name := httpv1alpha1.WaitingPageConfigMap(tracked.object)
		_, isChanged := changed[model.Key{Namespace: key.Namespace, Name: name}]
		if name != "" && (isChanged || before != l.pagesListed) {
			viewers = append(viewers, key)
		}
	}
	return viewers
}

// pageOf returns the waiting page of an object. If the object's own page is unusable, pageOf returns the default page,
// and the state contains the reason.
func (l *Loop) pageOf(object *httpv1alpha1.HTTPScaledObject) (page.Page, PageState) {
	name := httpv1alpha1.WaitingPageConfigMap(object)
	if name == "" {
		return page.Default(), PageState{}
	}
	const field = "annotation " + httpv1alpha1.AnnotationWaitingPageConfigMap
	for _, pages := range l.pages {
		custom, exists := pages.get(model.Key{Namespace: object.Namespace, Name: name})
		switch {
		case exists && custom.reason == "":
			return custom.page, PageState{}
		case exists:
			return page.Default(), PageState{
				Reason:  httpv1alpha1.ReasonInvalidWaitingPage,
				Message: fmt.Sprintf("%s: ConfigMap %q in namespace %q: %s", field, name, object.Namespace, custom.reason),
			}
		}
	}
	if len(l.pages) == 0 {
		return page.Default(), PageState{
			Reason: httpv1alpha1.ReasonWaitingPageNotFound,
			Message: field + ": the interceptor reads no ConfigMaps: remove the annotation, or have the operator start it " +
				"with --waiting-pages",
		}
	}
	return page.Default(), PageState{
		IsUnknown: !l.pagesListed, Reason: httpv1alpha1.ReasonWaitingPageNotFound,
		Message: fmt.Sprintf("%s: ConfigMap %q with label %s: %q not found in namespace %q: create it, or add the label",
			field, name, page.Label, page.LabelValue, object.Namespace),
	}
}
