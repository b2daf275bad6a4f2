package ingest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding/page"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// maxPageBytes is the maximum size of the ConfigMaps with waiting pages and bodies of one namespace in bytes, that of
// four pages of the maximum size. Any tenant can create many.
const maxPageBytes = 4 * page.MaxBody

// waitingPage is the cached content of a ConfigMap with a waiting page, or with bodies of static responses.
type waitingPage struct {
	page   page.Page
	reason string // why the page is invalid, "" for a valid page
	// texts are the values by key.
	texts map[string]string
	// created is the creation time of the ConfigMap, and size the size of the texts in bytes.
	created time.Time
	size    int
	// isDropped is true if the page was dropped because the pages of its namespace are too large.
	isDropped bool
}

// reducePage parses a ConfigMap.
func reducePage(object *corev1.ConfigMap) waitingPage {
	reduced := waitingPage{created: object.CreationTimestamp.UTC()}
	reduced.texts, reduced.size = keptTexts(object.Data)
	parsed, err := page.Parse(object.Data)
	if err != nil {
		reduced.reason = err.Error()
	} else {
		reduced.page = parsed
	}
	return reduced
}

// dropped returns the cached content of a page if the pages of its namespace are too large: the reason without the
// body.
func (w waitingPage) dropped() waitingPage {
	return waitingPage{created: w.created, size: w.size, isDropped: true, reason: fmt.Sprintf(
		"with its %d bytes, the waiting pages of the namespace exceed the limit of %d bytes, and older ConfigMaps take "+
			"precedence: make the pages smaller, or let objects share one", w.size, maxPageBytes)}
}

// isSamePage reports whether two versions of a page are equal.
func isSamePage(before, after waitingPage) bool {
	return before.page == after.page && before.reason == after.reason && before.created.Equal(after.created) &&
		before.size == after.size && before.isDropped == after.isDropped && maps.Equal(before.texts, after.texts)
}

// watchPages sets up the watches of ConfigMaps with waiting pages.
func (l *Loop) watchPages(listWatch func(model.Key) cache.ListerWatcherWithContext) {
	l.pages = newNamedWatches[waitingPage](listWatch, l.wake)
	l.pages.newStore = func(notify func()) *store[waitingPage] { return newStore(reducePage, isSamePage, notify) }
	l.pages.newSource = func(key model.Key, pages *store[waitingPage]) *source {
		return &source{
			gate: gateNone, resource: "ConfigMap " + key.String(), listWatch: listWatch(key), object: &corev1.ConfigMap{},
			store: pages, isListed: pages.isListed,
			logger: l.logger, countFailure: l.metrics.watchErrors.WithLabelValues("configmaps").Inc, isOptional: true,
		}
	}
}

// pageKeysOf returns the ConfigMap with the waiting page of an object. It is empty if the object names none or is not
// served.
func pageKeysOf(tracked *trackedObject) []model.Key {
	if tracked.object == nil || len(tracked.published) == 0 {
		return nil
	}
	name := httpv1alpha1.WaitingPageConfigMap(tracked.object)
	if name == "" {
		return nil
	}
	return []model.Key{{Namespace: tracked.object.Namespace, Name: name}}
}

// bodyKeysOf returns the ConfigMaps with bodies of static responses that an object names.
func bodyKeysOf(tracked *trackedObject) []model.Key {
	if tracked.object == nil {
		return nil
	}
	return resolve.StaticConfigMaps(tracked.object)
}

// trackViewer updates the viewers of ConfigMaps for a new state of an object.
func (l *Loop) trackViewer(object model.Key, before, now *trackedObject) {
	added, removed := setViewers(l.viewers, object, pageKeysOf(before), pageKeysOf(now))
	l.isOtherViewers = l.isOtherViewers || len(added)+len(removed) > 0
	if before.object == now.object {
		return
	}
	added, removed = setViewers(l.bodyViewers, object, bodyKeysOf(before), bodyKeysOf(now))
	for _, key := range slices.Concat(added, removed) {
		l.isOtherViewers = true
		l.pages.markChanged(key) // It may be watched already, for a waiting page.
	}
}

// setWatchedPages watches the ConfigMaps with viewers.
func (l *Loop) setWatchedPages(ctx context.Context, start func(func())) {
	if l.isOtherViewers && l.pages.listWatch != nil {
		l.isOtherViewers = false
		wanted := map[model.Key]struct{}{}
		addKeys(wanted, l.viewers)
		addKeys(wanted, l.bodyViewers)
		l.pages.setWatched(ctx, wanted, start)
	}
}

// takePages processes changed ConfigMaps. It returns the objects whose waiting page is in one of them, and those with
// bodies.
func (l *Loop) takePages() ([]model.Key, resolve.ConfigMaps) {
	changed := map[model.Key]struct{}{}
	addKeys(changed, l.pages.take())
	namespaces := map[string]struct{}{}
	for key := range changed {
		namespaces[key.Namespace] = struct{}{}
	}
	for _, key := range l.applyPageLimit(namespaces) {
		changed[key] = struct{}{}
	}
	var viewers []model.Key
	for key := range changed {
		viewers = slices.AppendSeq(viewers, maps.Keys(l.viewers[key]))
	}
	return viewers, l.changedBodies(changed)
}

// namedPage is a ConfigMap with its page.
type namedPage struct {
	key   model.Key
	page  waitingPage
	store *store[waitingPage]
}

// applyPageLimit drops the pages by which namespaces exceed maxPageBytes, and reads dropped ones again that now fit. The
// oldest pages are kept. It returns those with a change.
func (l *Loop) applyPageLimit(namespaces map[string]struct{}) (changed []model.Key) {
	for namespace := range namespaces {
		total := 0
		for _, current := range l.pagesOf(namespace) {
			fits := total+current.page.size <= maxPageBytes
			if fits {
				total += current.page.size
			}
			switch {
			case fits && current.page.isDropped:
				l.pages.restart(current.key)
				l.isOtherViewers = true // It is not watched until setWatchedPages.
			case !fits && !current.page.isDropped && current.store.swap(current.key, current.page, current.page.dropped()):
				changed = append(changed, current.key)
			}
		}
	}
	return changed
}

// pagesOf returns the pages of a namespace, the oldest first.
func (l *Loop) pagesOf(namespace string) []namedPage {
	var all []namedPage
	for key, pages := range l.pages.stores(namespace) {
		if current, exists := pages.get(key); exists && current.size > 0 {
			all = append(all, namedPage{key, current, pages})
		}
	}
	slices.SortFunc(all, func(a, b namedPage) int {
		return cmp.Or(a.page.created.Compare(b.page.created), a.key.Compare(b.key))
	})
	return all
}

// pageOf returns the waiting page of an object. If the object's own page is unusable, pageOf returns the default page,
// and the state contains the reason.
func (l *Loop) pageOf(object *httpv1alpha1.HTTPScaledObject) (page.Page, PageState) {
	key := model.Key{Namespace: object.Namespace, Name: httpv1alpha1.WaitingPageConfigMap(object)}
	if key.Name == "" {
		return page.Default(), PageState{}
	}
	const field = "annotation " + httpv1alpha1.AnnotationWaitingPageConfigMap
	if l.pages.listWatch == nil {
		return page.Default(), PageState{
			Reason: httpv1alpha1.ReasonWaitingPageNotFound,
			Message: field + ": the interceptor reads no ConfigMaps: remove the annotation, or have the operator start it " +
				"with --waiting-pages",
		}
	}
	isListed := false
	if watch := l.pages.get(key); watch != nil {
		custom, exists := watch.store.get(key)
		switch {
		case exists && custom.reason == "":
			return custom.page, PageState{}
		case exists:
			return page.Default(), PageState{
				Reason:  httpv1alpha1.ReasonInvalidWaitingPage,
				Message: fmt.Sprintf("%s: ConfigMap %q in namespace %q: %s", field, key.Name, key.Namespace, custom.reason),
			}
		}
		isListed = watch.store.isListed()
	}
	return page.Default(), PageState{
		IsUnknown: !isListed, Reason: httpv1alpha1.ReasonWaitingPageNotFound,
		Message: fmt.Sprintf("%s: ConfigMap %q with label %s: %q not found in namespace %q: create it, or add the label",
			field, key.Name, page.Label, page.LabelValue, key.Namespace),
	}
}
