package ingest

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding/page"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/observation"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// page is what is kept of a ConfigMap with a waiting page.
type pageObject struct {
	is    page.Page
	wrong string // why it cannot be shown, "" for one that can
}

// reducePage reads a ConfigMap. Of one that cannot be shown the reason is kept, however much it holds.
func reducePage(object *corev1.ConfigMap) pageObject {
	is, err := page.Parse(object.Data)
	if err != nil {
		return pageObject{wrong: err.Error()}
	}
	return pageObject{is: is}
}

// samePage says whether two versions are the same.
func samePage(before, after pageObject) bool { return before == after }

// takePages takes note of what is new among the pages, and returns the objects that it concerns.
func (l *Loop) takePages() []model.Key {
	_, changed := takeAll(l.pages)
	had := l.hasPages
	l.hasPages = !slices.ContainsFunc(l.pages, func(of *store[pageObject]) bool { return !of.isListed() })
	if len(changed) == 0 && had == l.hasPages {
		return nil
	}
	var viewers []model.Key
	for key, is := range l.objects {
		name := httpv1alpha1.WaitingPageConfigMap(is.object)
		if _, isNew := changed[model.Key{Namespace: key.Namespace, Name: name}]; name != "" && (isNew || had != l.hasPages) {
			viewers = append(viewers, key)
		}
	}
	return viewers
}

// pageOf returns the waiting page of an object: its own, or else the standard one, and then why.
func (l *Loop) pageOf(object *httpv1alpha1.HTTPScaledObject) (page.Page, observation.PageState) {
	name := httpv1alpha1.WaitingPageConfigMap(object)
	if name == "" {
		return page.Default(), observation.PageState{}
	}
	const field = "annotation " + httpv1alpha1.AnnotationWaitingPageConfigMap
	for _, pages := range l.pages {
		found, isThere := pages.find(model.Key{Namespace: object.Namespace, Name: name})
		switch {
		case isThere && found.wrong == "":
			return found.is, observation.PageState{}
		case isThere:
			return page.Default(), observation.PageState{
				Reason:  httpv1alpha1.ReasonInvalidWaitingPage,
				Message: fmt.Sprintf("%s: ConfigMap %q in namespace %q: %s", field, name, object.Namespace, found.wrong),
			}
		}
	}
	if len(l.pages) == 0 {
		return page.Default(), observation.PageState{
			Reason:  httpv1alpha1.ReasonWaitingPageNotFound,
			Message: field + ": the interceptor reads no ConfigMaps: remove the annotation, or have the operator start it with --waiting-pages",
		}
	}
	return page.Default(), observation.PageState{
		IsUnknown: !l.hasPages, Reason: httpv1alpha1.ReasonWaitingPageNotFound,
		Message: fmt.Sprintf("%s: there is no ConfigMap %q with the label %s: %q in namespace %q; create it, or give it the label",
			field, name, page.Label, page.LabelValue, object.Namespace),
	}
}
