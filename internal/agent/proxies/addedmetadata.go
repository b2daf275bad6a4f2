package proxies

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
)

// checkMetadata rejects labels and annotations that settings cannot add: those of config/kedify-proxy, unless they are
// replaceable, and those of this project. kind is that of the object of the proxies that gets them, and path leads to the
// metadata in it.
func checkMetadata(labels, annotations map[string]string, kind string, path ...string) error {
	objects, err := readManifests()
	if err != nil {
		return err
	}
	at := slices.IndexFunc(objects, func(object *unstructured.Unstructured) bool {
		return object.GetKind() == kind && object.GetName() == Service
	})
	if at < 0 {
		return fmt.Errorf("%w: there is no %s %s", errManifests, kind, Service)
	}
	for _, added := range []struct {
		name  string
		pairs map[string]string
	}{{"labels", labels}, {"annotations", annotations}} {
		given, _, err := unstructured.NestedStringMap(objects[at].Object, slices.Concat(path, []string{added.name})...)
		if err != nil {
			return fmt.Errorf("%w: %w", errManifests, err)
		}
		for _, key := range slices.Sorted(maps.Keys(added.pairs)) {
			if _, has := given[key]; has && !isReplaceable(key) || isReserved(key) {
				return fmt.Errorf("%w: %s: %q is set by the agent, which needs its value: remove it", errSetting, added.name, key)
			}
		}
	}
	return nil
}

// isReplaceable reports whether a label of config/kedify-proxy only serves Services that select the proxies by it, so that
// settings may replace it.
func isReplaceable(key string) bool { return strings.HasPrefix(key, "app.kubernetes.io/") }

// isReserved reports whether the key of a label or an annotation belongs to this project.
func isReserved(key string) bool {
	return strings.HasPrefix(key, httpv1alpha1.AnnotationPrefix) || key == httpv1alpha1.LabelManagedBy
}
