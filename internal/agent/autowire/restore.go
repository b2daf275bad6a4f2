package autowire

import (
	"encoding/json"
	"fmt"
	"strings"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/desired"
)

// restorePatch returns the JSON patch (RFC 6902) that restores the original backends and removes its own
// annotation. It first tests that each backend is still in its place and references the proxies, so an object that
// was edited since is not changed at all. The result is empty if nothing is wired.
func restorePatch(wired, originals []backend) (string, error) {
	if len(wired) == 0 {
		return "", nil
	}
	var patch []desired.Operation
	for i := range wired {
		ref := &wired[i]
		for _, field := range ref.preconditions {
			value := json.RawMessage(field.value)
			patch = append(patch, desired.Operation{Op: "test", Path: field.pointer, Value: value})
		}
		patch = append(patch, desired.Operation{Op: "test", Path: ref.pointer + "/name", Value: ProxyService})
		if ref.namespace != originals[i].namespace {
			patch = append(patch, desired.Operation{Op: "test", Path: ref.pointer + "/namespace", Value: ref.namespace})
		}
		patch = append(patch, ref.replaceWith(&originals[i])...)
	}
	patch = append(patch, desired.Operation{Op: "remove", Path: annotationPointer(httpv1alpha1.AnnotationAutowireUndo)})
	text, err := json.Marshal(patch)
	return string(text), err
}

// annotationPointer returns the JSON pointer to an annotation.
func annotationPointer(name string) string {
	return "/metadata/annotations/" + strings.ReplaceAll(name, "/", "~1")
}

// parseRestorePatch reads the output of restorePatch: the original backends, in order, with their pointers.
func parseRestorePatch(text string) ([]backend, error) {
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
	var originals []backend
	var original backend
	for _, operation := range patch {
		var err error
		pointer, isName := strings.CutSuffix(operation.Path, "/name")
		isNamespace := strings.HasSuffix(operation.Path, "/namespace")
		switch {
		case isNamespace && operation.Op == "test":
			original.crossedNamespace = true
		case isNamespace && operation.Op == "add":
			err = json.Unmarshal(operation.Value, &original.namespace)
		case isNamespace:
		case operation.Op == "test" && !isName:
			field := precondition{pointer: operation.Path, value: canonicalJSON(operation.Value)}
			original.preconditions = append(original.preconditions, field)
		case operation.Op == "replace" && isName:
			original.pointer = pointer
			err = json.Unmarshal(operation.Value, &original.service.Name)
		case operation.Op == "replace":
			original.isPlainPort = json.Unmarshal(operation.Value, &original.service.Port.Number) == nil
			if !original.isPlainPort {
				err = json.Unmarshal(operation.Value, &original.service.Port)
			}
			originals, original = append(originals, original), backend{}
		}
		if err != nil {
			return nil, fmt.Errorf("annotation %s: %s: %w", httpv1alpha1.AnnotationAutowireUndo, operation.Path, err)
		}
	}
	return originals, nil
}

// matchOriginals finds the original of each backend that references the proxies, by the backend's index. After an
// edit of the object, an original belongs to the backend with the same identifying fields, in order. If those
// fields were edited too, it belongs to the backend at the same pointer. A proxy backend without an original was
// written by someone else. isRestored reports whether a backend references its original Service again.
func matchOriginals(backends, record []backend) (originals map[int]backend, isRestored bool) {
	originals = map[int]backend{}
	used := make([]bool, len(record))
	claim := func(isCandidate func(ref, original *backend) bool, found func(i int, original *backend)) {
		for i := range backends {
			for k := range record {
				if _, has := originals[i]; !has && !used[k] && isCandidate(&backends[i], &record[k]) {
					used[k] = true
					found(i, &record[k])
					break
				}
			}
		}
	}
	restore := func(i int, original *backend) { originals[i] = backends[i].restored(original) }
	isRedirected := func(ref, original *backend) bool {
		return ref.isProxy() && ref.isCrossNamespace == original.crossedNamespace
	}
	isUnchanged := func(ref, original *backend) bool { return isRedirected(ref, original) && ref.matchesRecord(original) }
	isCurrent := func(ref, original *backend) bool { return ref.pointer == original.pointer }
	claim(func(ref, original *backend) bool { return isCurrent(ref, original) && isUnchanged(ref, original) }, restore)
	if len(originals) == len(record) {
		return originals, false
	}
	clear(originals)
	clear(used)
	claim(isUnchanged, restore)
	claim(func(ref, original *backend) bool {
		return ref.matchesRecord(original) && ref.service == original.service && !ref.isCrossNamespace
	}, func(int, *backend) { isRestored = true })
	claim(func(ref, original *backend) bool {
		return isRedirected(ref, original) && isCurrent(ref, original) && ref.resemblesRecord(original)
	}, restore)
	return originals, isRestored
}
