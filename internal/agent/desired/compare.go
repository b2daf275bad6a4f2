package desired

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
	"github.com/kedify/argo-rollouts-plugin/internal/kube/truncate"
)

// maxMessage is the longest message of a condition, in bytes; the schema of metav1.Condition allows 32768.
const maxMessage = 4096

// Changes are what is to be done about one ScaledObject.
type Changes struct {
	// Create and Update are the objects to write, as Want.Object. Those to update have the UID of
	// the object that they are for.
	Create, Update []*httpv1alpha1.HTTPScaledObject
	// Delete are the objects to delete, as they are.
	Delete []*httpv1alpha1.HTTPScaledObject
	// Conditions are the conditions to write, by the name of the object, without times. They are
	// all that the agent has to say of it.
	Conditions map[string][]metav1.Condition
	// Problems are all mistakes, those of the triggers first.
	Problems []Problem
}

// Compare says what is to be done. existing are the HTTPScaledObjects of the ScaledObject, those
// that no trigger stands for any more included, and others that have the name of one of wants.
func Compare(
	scaled *apis.ScaledObject, wants []Want, existing []*httpv1alpha1.HTTPScaledObject,
) Changes {
	changes := Changes{Conditions: map[string][]metav1.Condition{}}
	named := map[string]*httpv1alpha1.HTTPScaledObject{}
	for _, object := range existing {
		named[object.Name] = object
	}
	wanted, complete := map[string]bool{}, true
	for _, want := range wants {
		found := named[want.Name]
		wanted[want.Name] = true
		stands := found == nil && want.Object != nil || found != nil && IsOwn(found, scaled.Name)
		complete = complete && want.Name != "" && stands
		if found != nil && !IsOwn(found, scaled.Name) {
			want.add(httpv1alpha1.ReasonNameTaken, false, "HTTPScaledObject %q is there already and is "+
				"not this ScaledObject's; delete it, or name another one by httpScaledObject in the "+
				"trigger's metadata", want.Name)
			changes.Problems = append(changes.Problems, want.Problems...)
			continue
		}
		changes.Problems = append(changes.Problems, want.Problems...)
		changes.write(want, found)
	}
	for _, object := range existing {
		// A name that could not be made out may be that of any of them, and what is not there yet
		// cannot serve in the place of another one.
		if complete && !wanted[object.Name] && IsOwn(object, scaled.Name) {
			changes.Delete = append(changes.Delete, object)
		}
	}
	return changes
}

// IsOwn says whether an HTTPScaledObject is that of the ScaledObject of that name, or of one of the
// same name that was there before.
func IsOwn(object *httpv1alpha1.HTTPScaledObject, name string) bool {
	return httpv1alpha1.ScaledObjectOf(object) == name
}

// write says what is to be done about one object, which is nil or the agent's.
func (c *Changes) write(want Want, found *httpv1alpha1.HTTPScaledObject) {
	switch {
	case found == nil && want.Object == nil:
		return // a mistake from the start: there is nothing that a condition could be on
	case found == nil:
		c.Create = append(c.Create, want.Object)
	case found.DeletionTimestamp != nil:
		return // it comes again when it is gone
	case want.Object != nil && differs(found, want.Object):
		object := want.Object.DeepCopy()
		object.UID = found.UID
		c.Update = append(c.Update, object)
	}
	conditions := conditionsOf(want)
	if found == nil || !HasConditions(found.Status.Conditions, conditions) {
		c.Conditions[want.Name] = conditions
	}
}

// differs says whether an object, which has a controller, is not what it should be, as far as that
// is the agent's. What others have added to it does not count.
func differs(found, want *httpv1alpha1.HTTPScaledObject) bool {
	if !equality.Semantic.DeepEqual(ownSpec(found.Spec), want.Spec) {
		return true
	}
	for _, name := range ownAnnotations() {
		if found.Annotations[name] != want.Annotations[name] {
			return true
		}
	}
	return found.Labels[httpv1alpha1.LabelManagedBy] != httpv1alpha1.ManagedByAgent ||
		metav1.GetControllerOf(found).UID != want.OwnerReferences[0].UID
}

// conditionsOf is what the agent says of an object.
func conditionsOf(want Want) []metav1.Condition {
	accepted := metav1.Condition{
		Type: httpv1alpha1.ConditionTriggerAccepted, Status: metav1.ConditionTrue,
		Reason: httpv1alpha1.ReasonTriggerAccepted, Message: "The object says what its trigger says.",
	}
	if len(want.Problems) > 0 {
		accepted.Reason, accepted.Message = want.Problems[0].Reason, truncate.Text(Text(want.Problems), maxMessage)
	}
	if want.Object == nil {
		accepted.Status = metav1.ConditionFalse
	}
	return []metav1.Condition{accepted}
}

// HasConditions says whether conditions are there and as they should be, but for their times.
func HasConditions(found, want []metav1.Condition) bool {
	for _, should := range want {
		is := meta.FindStatusCondition(found, should.Type)
		if is == nil || is.Status != should.Status || is.Reason != should.Reason || is.Message != should.Message {
			return false
		}
	}
	return true
}

// Text says problems in one line, one after another.
func Text(problems []Problem) string {
	var out []string
	for _, problem := range problems {
		out = append(out, problem.Message)
	}
	return strings.Join(out, "; ")
}
