package autowire

import (
	"encoding/json"
	"fmt"
	"strings"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/desired"
	"github.com/kedify/argo-rollouts-plugin/internal/trigger"
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
		if ref.selection != nil {
			patch = append(patch, ref.restoreSelection(&originals[i])...)
			continue
		}
		if ref.isRouteTarget {
			patch = append(patch, ref.restoreTarget(&originals[i])...)
			continue
		}
		for _, field := range ref.preconditions {
			value := json.RawMessage(field.value)
			patch = append(patch, desired.Operation{Op: "test", Path: field.pointer, Value: value})
		}
		patch = append(patch, ref.testName())
		if ref.namespace != originals[i].namespace {
			patch = append(patch, desired.Operation{Op: "test", Path: ref.pointer + "/namespace", Value: ref.namespace})
		}
		patch = append(patch, ref.replaceWith(&originals[i])...)
	}
	patch = append(patch, desired.Operation{Op: "remove", Path: annotationPointer(httpv1alpha1.AnnotationAutowireUndo)})
	text, err := json.Marshal(patch)
	return string(text), err
}

// testName returns the operation that tests the name of the backend's Service.
func (b *backend) testName() desired.Operation {
	if b.isDestination {
		return desired.Operation{Op: "test", Path: b.pointer + "/host", Value: b.hostText()}
	}
	return desired.Operation{Op: "test", Path: b.pointer + "/name", Value: b.service.Name}
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
	var patch []operation
	if err := json.Unmarshal([]byte(text), &patch); err != nil {
		return nil, fmt.Errorf("annotation %s: %w", httpv1alpha1.AnnotationAutowireUndo, err)
	}
	var originals []backend
	var original backend
	for _, current := range patch {
		isComplete, err := original.add(current)
		if err != nil {
			return nil, fmt.Errorf("annotation %s: %s: %w", httpv1alpha1.AnnotationAutowireUndo, current.Path, err)
		}
		if isComplete {
			originals, original = append(originals, original), backend{}
		}
	}
	return originals, nil
}

// operation is an operation of a restore record.
type operation struct {
	Op, Path string
	Value    json.RawMessage
}

// destinationField is the end of a pointer to the destination of a VirtualService. The fields by which backends are
// found again have other names, such as /spec/hosts and /spec/rules/0/host.
const destinationField = "/destination"

// add adds the content of an operation to the original of a restore record. isComplete reports whether it was the last
// one, which restores the port.
func (b *backend) add(current operation) (isComplete bool, err error) {
	pointer, isName := strings.CutSuffix(current.Path, "/name")
	if destination, isHost := strings.CutSuffix(current.Path, destinationField+"/host"); isHost {
		pointer, isName, b.isDestination = destination+destinationField, true, true
	}
	isNamespace := strings.HasSuffix(current.Path, "/namespace")
	switch {
	case b.addTarget(current):
	case isNamespace && current.Op == "test":
		b.crossedNamespace = true
	case isNamespace && current.Op == "add":
		err = json.Unmarshal(current.Value, &b.namespace)
	case isNamespace:
	case current.Op == "test" && !isName:
		field := precondition{pointer: current.Path, value: canonicalJSON(current.Value)}
		b.preconditions = append(b.preconditions, field)
	case current.Op == "replace" && isName:
		b.pointer = pointer
		err = json.Unmarshal(current.Value, &b.service.Name)
		if name, rest, isFull := strings.Cut(b.service.Name, "."); b.isDestination && isFull {
			b.service.Name, b.domain = name, "."+rest
		}
		return isRoutePointer(pointer), err
	case current.Op == "replace":
		b.isPlainPort = json.Unmarshal(current.Value, &b.service.Port.Number) == nil
		if !b.isPlainPort {
			err = json.Unmarshal(current.Value, &b.service.Port)
		}
		return true, err
	case current.Op == "remove" && strings.HasSuffix(current.Path, destinationField+"/port"):
		b.omitsPort = true
		return true, nil
	}
	return false, err
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

// isReverted reports whether someone else has undone what the agent wrote into a Service, or into the port of a Route.
// Of other kinds, matchOriginals returns no original in that case.
func (p *objectPlan) isReverted() bool {
	return p.isRestored && (p.object.kind == trigger.AutowireService || p.object.kind == trigger.AutowireRoute)
}
