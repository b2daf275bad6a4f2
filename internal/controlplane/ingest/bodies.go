package ingest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding/page"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// keptTexts copies the values of a ConfigMap, each up to one byte above the maximum length of a body, so that a longer
// one is detected. It returns their size.
func keptTexts(data map[string]string) (texts map[string]string, size int) {
	texts = make(map[string]string, len(data))
	for key, text := range data {
		if len(text) > model.MaxStaticBody {
			text = strings.Clone(text[:model.MaxStaticBody+1])
		}
		texts[key] = text
		size += len(text)
	}
	return texts, size
}

// referencedBodies returns the ConfigMaps with bodies of static responses that the objects in the stores name.
func (l *Loop) referencedBodies() map[model.Key]struct{} {
	referenced := map[model.Key]struct{}{}
	for _, object := range l.mergeObjects() {
		for _, key := range resolve.StaticConfigMaps(object) {
			referenced[key] = struct{}{}
		}
	}
	return referenced
}

// watchReferencedBodies watches the ConfigMaps with bodies before the first publication, which waits for them: without
// its maintenance page, an application would receive requests.
func (l *Loop) watchReferencedBodies(ctx context.Context, start func(func())) {
	if l.pages.listWatch != nil {
		l.pages.setWatched(ctx, l.referencedBodies(), start)
	}
}

// pendingBodies returns a message for each watched ConfigMap that was neither read nor denied yet. Before the first
// publication, these are those with bodies.
func (l *Loop) pendingBodies() []string {
	var missing []string
	for _, key := range l.pages.keys() {
		if l.configMapOf(key) == nil {
			missing = append(missing, "the first list of ConfigMap "+key.String())
		}
	}
	slices.Sort(missing)
	return missing
}

// configMapOf returns the current state of a ConfigMap, nil if it is unknown or not watched. A ConfigMap that was listed
// once stays valid while the API server is unavailable.
func (l *Loop) configMapOf(key model.Key) *resolve.ConfigMap {
	if l.pages.listWatch == nil {
		return &resolve.ConfigMap{Problem: "the interceptor reads no ConfigMaps: write the body into the annotation, or have " +
			"the operator start it with --waiting-pages"}
	}
	watch := l.pages.get(key)
	if watch == nil {
		return nil
	}
	stored, exists := watch.store.get(key)
	err := watch.source.lastError()
	switch {
	case exists && stored.isDropped:
		return &resolve.ConfigMap{Problem: stored.reason}
	case exists:
		return &resolve.ConfigMap{Data: stored.texts}
	case watch.store.isListed():
		return &resolve.ConfigMap{Problem: fmt.Sprintf("not found with label %s: %q: create it, or add the label", page.Label,
			page.LabelValue)}
	case err != nil:
		return &resolve.ConfigMap{Problem: "not readable: " + err.Error()}
	}
	return nil
}

// allBodies returns the ConfigMaps with bodies that are known.
func (l *Loop) allBodies() resolve.ConfigMaps {
	bodies := resolve.ConfigMaps{}
	for key := range l.referencedBodies() {
		if configMap := l.configMapOf(key); configMap != nil {
			bodies[key] = configMap
		}
	}
	return bodies
}

// changedBodies returns those of the changed ConfigMaps that have bodies, or had them at the previous call.
func (l *Loop) changedBodies(changed map[model.Key]struct{}) resolve.ConfigMaps {
	bodies := resolve.ConfigMaps{}
	for key := range changed {
		_, wasNamed := l.resolvedBodies[key]
		if len(l.bodyViewers[key]) > 0 {
			bodies[key], l.resolvedBodies[key] = l.configMapOf(key), struct{}{}
		} else if wasNamed {
			bodies[key] = nil
			delete(l.resolvedBodies, key)
		}
	}
	return bodies
}

// setViewers replaces the ConfigMaps that an object names in viewers. It returns those that no object named before, and
// those that none names any more.
func setViewers(
	viewers map[model.Key]map[model.Key]struct{}, object model.Key, before, now []model.Key,
) (added, removed []model.Key) {
	for _, key := range before {
		if slices.Contains(now, key) {
			continue
		}
		if delete(viewers[key], object); len(viewers[key]) == 0 {
			delete(viewers, key)
			removed = append(removed, key)
		}
	}
	for _, key := range now {
		if viewers[key] == nil {
			viewers[key] = map[model.Key]struct{}{}
			added = append(added, key)
		}
		viewers[key][object] = struct{}{}
	}
	return added, removed
}
