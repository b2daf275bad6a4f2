package autowire

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/desired"
)

// Change is the single write that brings one object to its desired state.
type Change struct {
	// Index is the object's index in Namespace.Objects.
	Index int
	// Patch is a JSON patch of the version in Namespace.Objects. See At.
	Patch []desired.Operation
	// Releases reports whether the write removes the agent from metadata.managedFields instead, see At.
	Releases bool
	// Reason and Message are those of the Event about the change. An empty Reason means no Event.
	Reason, Message string
	// restores reports whether the patch restores a backend.
	restores bool
}

// At returns the patch for one version of the object. The API server rejects it for any other version: a JSON patch may
// replace metadata.resourceVersion, and the API server compares the result with the stored version. If the change
// releases the object, version must have all field managers, which a trimmed object has not.
func (c *Change) At(version metav1.Object) []desired.Operation {
	patch := slices.Clone(c.Patch)
	if c.Releases {
		patch = append(patch, release(version.GetManagedFields()))
	}
	return append(patch, desired.Operation{
		Op: "replace", Path: "/metadata/resourceVersion", Value: version.GetResourceVersion(),
	})
}

// change returns the write after which exactly the backends in wired reference the proxies.
func (p *objectPlan) change(
	originals map[int]backend, wired map[int]rewrite, state coolDown, isRestored bool,
) (Change, error) {
	var replacements, replaced []backend
	for _, i := range slices.Sorted(maps.Keys(wired)) {
		replacements, replaced = append(replacements, wired[i].replacement), append(replaced, wired[i].original)
	}
	restoreText, err := restorePatch(replacements, replaced)
	if err != nil {
		return Change{}, err
	}
	coolDownText, err := state.encode()
	if err != nil {
		return Change{}, err
	}
	change := Change{Patch: p.annotate(
		httpv1alpha1.AnnotationAutowireUndo, restoreText, httpv1alpha1.AnnotationAutowireHold, coolDownText)}
	var on, off []string
	for i := range p.object.backends {
		ref := &p.object.backends[i]
		original, wasWired := originals[i]
		switch planned, isPlanned := wired[i]; {
		case isPlanned && !ref.equals(&planned.replacement):
			change.Patch = append(change.Patch, ref.replaceWith(&planned.replacement)...)
			on = append(on, ref.label+planned.replacement.suffix())
		case wasWired && !isPlanned && !ref.equals(&original):
			change.Patch, off = append(change.Patch, ref.replaceWith(&original)...), append(off, ref.label)
		}
	}
	change.Patch = append(change.Patch, p.replacePort(replacements)...)
	change.restores = len(off) > 0
	change.describe(on, off, state, isRestored)
	change.Releases = len(change.Patch) == 0 && p.isUnreleased()
	return change, nil
}

// replacePort returns the operations that change the port of a Route, after which exactly the backends in replacements
// reference the proxies.
func (p *objectPlan) replacePort(replacements []backend) []desired.Operation {
	if p.object.route == nil {
		return nil
	}
	wanted := p.originalPort
	for i := range replacements {
		wanted = replacements[i].targetPort
	}
	return replaceTargetPort(p.object.targetPort(), wanted)
}

// isUnreleased reports whether the agent manages fields of an object without rewritten backends and without a
// cool-down. It would own all rules, which are one field for server-side apply, and every later change of a rule by its
// author would be a conflict. The release is a write of its own, because the API server adds the fields that a write
// changes to the list.
func (p *objectPlan) isUnreleased() bool {
	annotations := p.object.meta.GetAnnotations()
	for _, name := range []string{httpv1alpha1.AnnotationAutowireUndo, httpv1alpha1.AnnotationAutowireHold} {
		if _, isSet := annotations[name]; isSet {
			return false
		}
	}
	return slices.ContainsFunc(p.object.meta.GetManagedFields(), isAgents)
}

// release returns the operation that removes the agent from metadata.managedFields.
func release(entries []metav1.ManagedFieldsEntry) desired.Operation {
	others := slices.DeleteFunc(slices.Clone(entries), isAgents)
	if len(others) == 0 { // An empty entry clears the list. No entry at all would preserve it.
		others = []metav1.ManagedFieldsEntry{{}}
	}
	return desired.Operation{Op: "replace", Path: "/metadata/managedFields", Value: others}
}

// isAgents reports whether fields of an object are managed by the agent.
func isAgents(entry metav1.ManagedFieldsEntry) bool {
	return entry.Manager == httpv1alpha1.ManagedByAgent
}

// annotate returns the operations that set the object's annotations. pairs are names, each followed by its value.
// An empty value removes the annotation.
func (p *objectPlan) annotate(pairs ...string) []desired.Operation {
	var patch []desired.Operation
	annotations := p.object.meta.GetAnnotations()
	has := annotations != nil
	for pair := range slices.Chunk(pairs, 2) {
		name, value := pair[0], pair[1]
		current, isSet := annotations[name]
		switch {
		case value == "" && isSet:
			patch = append(patch, desired.Operation{Op: "remove", Path: annotationPointer(name)})
		case value == current:
		case has:
			patch = append(patch, desired.Operation{Op: "add", Path: annotationPointer(name), Value: value})
		default:
			all := map[string]string{name: value}
			patch = append(patch, desired.Operation{Op: "add", Path: "/metadata/annotations", Value: all})
			has = true
		}
	}
	return patch
}

// describe sets the reason and message of the change's Event. A change of annotations alone has none.
func (c *Change) describe(on, off []string, state coolDown, isRestored bool) {
	switch {
	case isRestored:
		c.Reason = httpv1alpha1.ReasonBackendRevertedByOther
		c.Message = fmt.Sprintf(
			"%s has restored backends that pointed to Service %s (%d of %d; autowiring stops after that)",
			state.By, ProxyService, state.Times, maxRestores)
	case len(on) > 0:
		c.Reason = httpv1alpha1.ReasonWired
		c.Message = fmt.Sprintf("backends for %s point to Service %s", strings.Join(on, ", "), ProxyService)
	case len(off) > 0:
		c.Reason = httpv1alpha1.ReasonUnwired
		c.Message = fmt.Sprintf("backends for %s point to their original Services again", strings.Join(off, ", "))
	}
}
