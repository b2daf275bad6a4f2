package autowire

import (
	"encoding/json"
	"fmt"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/plan"
)

// undo is the JSON patch (RFC 6902) that gives backends, which are wired, their originals back and removes its
// own annotation. It tests first that each is where it was and wired: an Ingress that was edited since is not
// changed at all. It is empty where nothing is wired.
func undo(wired, originals []backend) (string, error) {
	if len(wired) == 0 {
		return "", nil
	}
	var patch []plan.Operation
	for i, place := range wired {
		if rule, path, isRule := pointers(place.pointer); isRule {
			patch = append(patch,
				plan.Operation{Op: "test", Path: rule + "/host", Value: orNull(place.host)},
				plan.Operation{Op: "test", Path: path + "/path", Value: orNull(place.path)},
				plan.Operation{Op: "test", Path: path + "/pathType", Value: orNull(string(place.kind))})
		}
		patch = append(patch, plan.Operation{Op: "test", Path: place.pointer + "/name", Value: ProxyService})
		patch = append(patch, replace(place, originals[i].service)...)
	}
	patch = append(patch, plan.Operation{Op: "remove", Path: annotationPointer(httpv1alpha1.AnnotationAutowireUndo)})
	text, err := json.Marshal(patch)
	return string(text), err
}

// replace are the operations that have a backend name a Service. Other fields of it, should there ever be any,
// stay.
func replace(place backend, service networkingv1.IngressServiceBackend) []plan.Operation {
	return []plan.Operation{
		{Op: "replace", Path: place.pointer + "/name", Value: service.Name},
		{Op: "replace", Path: place.pointer + "/port", Value: service.Port},
	}
}

// pointers are those to the rule and to the path of a backend. One that is no rule's has none.
func pointers(backend string) (rule, path string, isRule bool) {
	rule, _, isRule = strings.Cut(backend, "/http/")
	return rule, strings.TrimSuffix(backend, "/backend/service"), isRule
}

// orNull is a text, or null for a field that is not there.
func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// annotationPointer is the JSON pointer to an annotation.
func annotationPointer(name string) string {
	return "/metadata/annotations/" + strings.ReplaceAll(name, "/", "~1")
}

// readUndo reads what undo wrote: the original backends, in order, where they were.
func readUndo(text string) ([]backend, error) {
	if text == "" {
		return nil, nil
	}
	var patch []struct {
		Op, Path string
		Value    json.RawMessage
	}
	if err := json.Unmarshal([]byte(text), &patch); err != nil {
		return nil, fmt.Errorf("annotation %s: %w", httpv1alpha1.AnnotationAutowireUndo, err)
	}
	values := map[string]json.RawMessage{}
	for _, operation := range patch {
		values[operation.Op+" "+operation.Path] = operation.Value
	}
	var originals []backend
	for _, operation := range patch {
		pointer, isName := strings.CutSuffix(operation.Path, "/service/name")
		if operation.Op != "replace" || !isName {
			continue
		}
		original := backend{pointer: pointer + "/service"}
		rule, path, isRule := pointers(original.pointer)
		original.isDefault = !isRule
		for from, into := range map[string]any{
			"replace " + operation.Path:             &original.service.Name,
			"replace " + original.pointer + "/port": &original.service.Port,
			"test " + rule + "/host":                &original.host,
			"test " + path + "/path":                &original.path,
			"test " + path + "/pathType":            &original.kind,
		} {
			if values[from] == nil {
				continue
			}
			if err := json.Unmarshal(values[from], into); err != nil {
				return nil, fmt.Errorf("annotation %s: %s: %w", httpv1alpha1.AnnotationAutowireUndo, from, err)
			}
		}
		originals = append(originals, original)
	}
	return originals, nil
}

// match finds the original of each backend that goes to the proxies, by the index of the backend. Where the
// Ingress was edited since, it is that of the same place in the same order and, for one that was renamed, that
// of the same host or path. What has none was written so by somebody else. isRestored says that a backend has its
// original again.
func match(places, record []backend) (originals map[int]backend, isRestored bool) {
	originals = map[int]backend{}
	used := make([]bool, len(record))
	claim := func(isCandidate func(place, original backend) bool, found func(i int, original backend)) {
		for i, place := range places {
			for k, original := range record {
				if _, has := originals[i]; !has && !used[k] && isCandidate(place, original) {
					used[k] = true
					found(i, original)
					break
				}
			}
		}
	}
	take := func(i int, original backend) { originals[i] = naming(places[i], original.service) }
	isSame := func(place, original backend) bool { return place.isProxy() && place.isAt(original) }
	isThere := func(place, original backend) bool { return place.pointer == original.pointer }
	claim(func(place, original backend) bool { return isThere(place, original) && isSame(place, original) }, take)
	if len(originals) == len(record) {
		return originals, false
	}
	clear(originals)
	clear(used)
	claim(isSame, take)
	claim(func(place, original backend) bool {
		return place.isAt(original) && place.service == original.service
	}, func(int, backend) { isRestored = true })
	claim(func(place, original backend) bool {
		return place.isProxy() && isThere(place, original) && (place.host == original.host || place.path == original.path)
	}, take)
	return originals, isRestored
}

// naming is a backend in the same place that names another Service.
func naming(b backend, service networkingv1.IngressServiceBackend) backend {
	b.service = service
	return b
}

// isAt says whether two backends are in the same place.
func (b backend) isAt(other backend) bool {
	return b.isDefault == other.isDefault && b.host == other.host && b.path == other.path &&
		b.kind == other.kind
}
