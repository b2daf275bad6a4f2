package desired

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
	"github.com/kedify/argo-rollouts-plugin/internal/kube/truncate"
	"github.com/kedify/argo-rollouts-plugin/internal/trigger"
)

// maxMessage is the longest message of a condition, in bytes; the schema of metav1.Condition allows 32768.
const maxMessage = 4096

// Changes are the writes that one ScaledObject needs.
type Changes struct {
	// Create and Update are the objects to write, as in Want.Object. Objects to update have the UID of the
	// existing object.
	Create, Update []*httpv1alpha1.HTTPScaledObject
	// Delete are the objects to delete, as they exist.
	Delete []*httpv1alpha1.HTTPScaledObject
	// Conditions are the conditions to write, by object name, without times. They replace all conditions of the
	// agent.
	Conditions map[string][]metav1.Condition
	// Problems are all validation errors, those of the triggers first.
	Problems []Problem
}

// Compare returns the changes. existing are the HTTPScaledObjects of the ScaledObject, including those without a
// trigger, and other objects with the name of one of wants.
func Compare(
	scaled *apis.ScaledObject, wants []Want, existing []*httpv1alpha1.HTTPScaledObject,
) Changes {
	changes := Changes{Conditions: map[string][]metav1.Condition{}}
	byName := map[string]*httpv1alpha1.HTTPScaledObject{}
	for _, object := range existing {
		byName[object.Name] = object
	}
	wanted, complete := map[string]bool{}, true
	for _, want := range wants {
		current := byName[want.Name]
		wanted[want.Name] = true
		isAvailable := current == nil && want.Object != nil || current != nil && IsOwnedBy(current, scaled.Name)
		complete = complete && want.Name != "" && isAvailable
		if current != nil && !IsOwnedBy(current, scaled.Name) {
			want.addProblem(httpv1alpha1.ReasonNameInUse, false, "HTTPScaledObject %q already exists and "+
				"belongs to another owner; delete it, or set a different httpScaledObject in the "+
				"trigger's metadata", want.Name)
			changes.Problems = append(changes.Problems, want.Problems...)
			continue
		}
		want.keepOwn(current)
		changes.Problems = append(changes.Problems, want.Problems...)
		changes.write(want, current)
	}
	for _, object := range existing {
		// A trigger without a valid name may own any of them, and an object that does not exist yet cannot
		// replace another one.
		if complete && !wanted[object.Name] && IsOwnedBy(object, scaled.Name) {
			changes.Delete = append(changes.Delete, object)
		}
	}
	return changes
}

// IsOwnedBy reports whether an HTTPScaledObject belongs to the ScaledObject of that name, or to a deleted one of
// the same name.
func IsOwnedBy(object *httpv1alpha1.HTTPScaledObject, name string) bool {
	return httpv1alpha1.ScaledObjectOf(object) == name
}

// write adds the changes of one object. current is nil or managed by the agent.
func (c *Changes) write(want Want, current *httpv1alpha1.HTTPScaledObject) {
	switch {
	case current == nil && want.Object == nil:
		return // the trigger has always been invalid: no object can carry a condition
	case current == nil:
		c.Create = append(c.Create, want.Object)
	case current.DeletionTimestamp != nil:
		return // it is created again after the deletion
	case want.Object != nil && differs(current, want.Object):
		object := want.Object.DeepCopy()
		object.UID = current.UID
		c.Update = append(c.Update, object)
	}
	conditions := conditionsOf(want)
	if current == nil || !HasConditions(current, conditions) {
		c.Conditions[want.Name] = conditions
	}
}

// keepOwn gives Object the values of the existing object, nil for none, that the trigger lacks.
func (w *Want) keepOwn(current *httpv1alpha1.HTTPScaledObject) {
	if current == nil || w.incomplete == nil {
		return
	}
	w.complete(current.Spec)
	w.keepServed(current)
}

// complete sets Object for an existing one: of the invalid and guessed fields, it has those of the existing one. Object
// is nil, so that the existing object stays unchanged, if the trigger scales another workload, because the Service and
// its port belong to the previous one.
func (w *Want) complete(current httpv1alpha1.HTTPScaledObjectSpec) {
	object := w.incomplete.DeepCopy()
	spec, target, before := &object.Spec, &object.Spec.ScaleTargetRef, current.ScaleTargetRef
	if w.Object != nil && w.guess == *target {
		return
	}
	if w.Object = nil; target.Name != before.Name || target.Kind != before.Kind || target.APIVersion != before.APIVersion {
		w.rejectGuesses()
		return
	}
	switch {
	case target.Service == "" && slices.Contains(w.alternates, before.Service):
		target.Service = w.guess.Service
	case target.Service == "":
		target.Service = before.Service
	}
	if target.Port == 0 && target.PortName == "" {
		target.Port, target.PortName = before.Port, before.PortName
	}
	if spec.Replicas.Min == nil || spec.Replicas.Max == nil {
		spec.Replicas = current.Replicas
	}
	if w.Object = object; w.guess != *target {
		w.rejectGuesses()
	}
}

// rejectGuesses turns guesses into errors, because the existing object has other values.
func (w *Want) rejectGuesses() {
	w.Problems = slices.Clone(w.Problems)
	for i := range w.Problems {
		if problem := &w.Problems[i]; problem.isGuess {
			problem.Reason, problem.Advisory = httpv1alpha1.ReasonInvalidTrigger, false
		}
	}
}

// keepServed adds to incomplete lists of the desired object the elements of the existing one. An invalid element of the
// trigger may be one of them, damaged by an edit, and its requests would be answered with 404. Headers limit the
// requests, so the object keeps its own.
func (w *Want) keepServed(current *httpv1alpha1.HTTPScaledObject) {
	if w.Object == nil || !w.HostsIncomplete && !w.PathPrefixesIncomplete && !w.lacksHeaders {
		return
	}
	w.Object = w.Object.DeepCopy()
	spec := &w.Object.Spec
	// Without hosts, the object has all, except in the shared fleet, where it has none.
	hasAll := len(current.Spec.Hosts) == 0 && current.Annotations[httpv1alpha1.AnnotationFleet] != httpv1alpha1.FleetShared
	switch {
	case w.HostsIncomplete && hasAll:
		spec.Hosts = nil
	case w.HostsIncomplete:
		spec.Hosts = union(spec.Hosts, current.Spec.Hosts)
	}
	if w.lacksHeaders {
		spec.Headers = current.Spec.Headers
	}
	if w.PathPrefixesIncomplete {
		prefixes := current.Spec.PathPrefixes
		if len(prefixes) == 0 {
			prefixes = []string{"/"} // all paths
		}
		spec.PathPrefixes = union(spec.PathPrefixes, prefixes)
	}
}

// union appends to the elements of a trigger those of the existing object that it lacks, up to trigger.MaxElements.
func union(elements, existing []string) []string {
	for _, element := range existing {
		if len(elements) < trigger.MaxElements && !slices.Contains(elements, element) {
			elements = append(elements, element)
		}
	}
	return elements
}

// differs reports whether an object, which has a controller, differs from the desired one in the fields of the
// agent. Additions by others do not count.
func differs(current, want *httpv1alpha1.HTTPScaledObject) bool {
	if !equality.Semantic.DeepEqual(ownSpec(current.Spec, want.Spec), want.Spec) {
		return true
	}
	for _, name := range ownAnnotations() {
		if current.Annotations[name] != want.Annotations[name] {
			return true
		}
	}
	return current.Labels[httpv1alpha1.LabelManagedBy] != httpv1alpha1.ManagedByAgent ||
		metav1.GetControllerOf(current).UID != want.OwnerReferences[0].UID
}

// conditionsOf returns the agent's conditions of an object.
func conditionsOf(want Want) []metav1.Condition {
	accepted := metav1.Condition{
		Type: httpv1alpha1.ConditionTriggerAccepted, Status: metav1.ConditionTrue,
		Reason: httpv1alpha1.ReasonTriggerAccepted, Message: "The HTTPScaledObject matches its trigger.",
	}
	if len(want.Problems) > 0 {
		accepted.Reason, accepted.Message = want.Problems[0].Reason, truncate.Text(JoinProblems(want.Problems), maxMessage)
	}
	if i := slices.IndexFunc(want.Problems, func(problem Problem) bool { return !problem.Advisory }); i >= 0 {
		accepted.Status, accepted.Reason = metav1.ConditionFalse, want.Problems[i].Reason
	}
	return []metav1.Condition{accepted}
}

// HasConditions reports whether the status of object contains the conditions in want, regardless of their times, and
// whether they are about its present generation.
func HasConditions(object *httpv1alpha1.HTTPScaledObject, want []metav1.Condition) bool {
	for _, expected := range want {
		actual := meta.FindStatusCondition(object.Status.Conditions, expected.Type)
		if actual == nil || actual.ObservedGeneration != object.Generation || actual.Status != expected.Status || actual.Reason != expected.Reason ||
			actual.Message != expected.Message {
			return false
		}
	}
	return true
}

// JoinProblems returns the messages of problems in one line.
func JoinProblems(problems []Problem) string {
	var out []string
	for _, problem := range problems {
		out = append(out, problem.Message)
	}
	return strings.Join(out, "; ")
}
