package desired

import (
	"bytes"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
)

// TriggerManagers returns the entries of a ScaledObject's metadata.managedFields by which the agent manages the
// triggers. There is one after a conversion of triggers.
func TriggerManagers(entries []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	return slices.DeleteFunc(slices.Clone(entries), func(entry metav1.ManagedFieldsEntry) bool {
		return !managesTriggers(entry)
	})
}

// managesTriggers reports whether the agent manages the triggers of a ScaledObject by an entry. Triggers are one field,
// because KEDA's schema declares no keys of their list. The agent applies the ScaledObject of proxies, and keeps it.
func managesTriggers(entry metav1.ManagedFieldsEntry) bool {
	return entry.Manager == httpv1alpha1.ManagedByAgent && entry.Operation == metav1.ManagedFieldsOperationUpdate &&
		entry.FieldsV1 != nil && bytes.Contains(entry.FieldsV1.Raw, []byte(`"f:triggers"`))
}

// ReleaseTriggers returns the operation that removes the TriggerManagers from metadata.managedFields, none if there are
// none. Otherwise every later server-side apply of the triggers by their author, which are of type kedify-http again,
// would be a conflict. The operation is a write of its own, because the API server adds the fields that a write changes
// to the list.
func ReleaseTriggers(entries []metav1.ManagedFieldsEntry) []Operation {
	others := slices.DeleteFunc(slices.Clone(entries), managesTriggers)
	switch len(others) {
	case len(entries):
		return nil
	case 0: // An empty entry clears the list. No entry at all would preserve it.
		others = []metav1.ManagedFieldsEntry{{}}
	}
	return []Operation{{Op: "replace", Path: "/metadata/managedFields", Value: others}}
}
