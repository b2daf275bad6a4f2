package autowire

import (
	"encoding/json"
	"fmt"
	"strings"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/desired"
)

// undo is the JSON patch (RFC 6902) that gives backends, which are wired, their originals back and removes its
// own annotation. It tests first that each is where it was and wired: an object that was edited since is not
// changed at all. It is empty where nothing is wired.
func undo(wired, originals []backend) (string, error) {
	if len(wired) == 0 {
		return "", nil
	}
	var patch []desired.Operation
	for i := range wired {
		place := &wired[i]
		for _, mark := range place.marks {
			patch = append(patch, desired.Operation{Op: "test", Path: mark.pointer, Value: json.RawMessage(mark.value)})
		}
		patch = append(patch, desired.Operation{Op: "test", Path: place.pointer + "/name", Value: ProxyService})
		if place.namespace != originals[i].namespace {
			patch = append(patch, desired.Operation{Op: "test", Path: place.pointer + "/namespace", Value: place.namespace})
		}
		patch = append(patch, place.replace(&originals[i])...)
	}
	patch = append(patch, desired.Operation{Op: "remove", Path: annotationPointer(httpv1alpha1.AnnotationAutowireUndo)})
	text, err := json.Marshal(patch)
	return string(text), err
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
	var originals []backend
	var one backend
	for _, operation := range patch {
		var err error
		pointer, isName := strings.CutSuffix(operation.Path, "/name")
		isNamespace := strings.HasSuffix(operation.Path, "/namespace")
		switch {
		case isNamespace && operation.Op == "test":
			one.isMoved = true
		case isNamespace && operation.Op == "add":
			err = json.Unmarshal(operation.Value, &one.namespace)
		case isNamespace:
		case operation.Op == "test" && !isName:
			one.marks = append(one.marks, mark{pointer: operation.Path, value: canonical(operation.Value)})
		case operation.Op == "replace" && isName:
			one.pointer = pointer
			err = json.Unmarshal(operation.Value, &one.service.Name)
		case operation.Op == "replace":
			if one.isNumber = json.Unmarshal(operation.Value, &one.service.Port.Number) == nil; !one.isNumber {
				err = json.Unmarshal(operation.Value, &one.service.Port)
			}
			originals, one = append(originals, one), backend{}
		}
		if err != nil {
			return nil, fmt.Errorf("annotation %s: %s: %w", httpv1alpha1.AnnotationAutowireUndo, operation.Path, err)
		}
	}
	return originals, nil
}

// match finds the original of each backend that goes to the proxies, by the index of the backend. Where the
// object was edited since, it is that of the same place in the same order and, for one that was edited itself, that
// of the same pointer. What has none was written so by somebody else. isRestored says that a backend has its
// original again.
func match(places, record []backend) (originals map[int]backend, isRestored bool) {
	originals = map[int]backend{}
	used := make([]bool, len(record))
	claim := func(isCandidate func(place, original *backend) bool, found func(i int, original *backend)) {
		for i := range places {
			for k := range record {
				if _, has := originals[i]; !has && !used[k] && isCandidate(&places[i], &record[k]) {
					used[k] = true
					found(i, &record[k])
					break
				}
			}
		}
	}
	take := func(i int, original *backend) { originals[i] = places[i].as(original) }
	isOurs := func(place, original *backend) bool { return place.isProxy() && place.isElsewhere == original.isMoved }
	isSame := func(place, original *backend) bool { return isOurs(place, original) && place.isAt(original) }
	isThere := func(place, original *backend) bool { return place.pointer == original.pointer }
	claim(func(place, original *backend) bool { return isThere(place, original) && isSame(place, original) }, take)
	if len(originals) == len(record) {
		return originals, false
	}
	clear(originals)
	clear(used)
	claim(isSame, take)
	claim(func(place, original *backend) bool {
		return place.isAt(original) && place.service == original.service && !place.isElsewhere
	}, func(int, *backend) { isRestored = true })
	claim(func(place, original *backend) bool {
		return isOurs(place, original) && isThere(place, original) && place.isLike(original)
	}, take)
	return originals, isRestored
}
