package manifests

import (
	"fmt"
	"slices"
	"strings"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
)

// The label that identifies the objects of an installation, and its value
// (https://kubernetes.io/docs/concepts/overview/working-with-objects/common-labels/).
const (
	LabelManagedBy = httpv1alpha1.LabelManagedBy
	ManagedBy      = "kubectl-http-canary"
)

// Reference identifies an object or, without a name, a collection.
type Reference struct {
	// APIVersion and Kind are its type.
	APIVersion, Kind string
	// Namespace is empty for a cluster-scoped object, and for a collection in all namespaces.
	Namespace, Name string
}

// String returns "Kind namespace/name".
func (r Reference) String() string {
	if r.Namespace == "" {
		return r.Kind + " " + r.Name
	}
	return r.Kind + " " + r.Namespace + "/" + r.Name
}

// Path returns the segments of the API path. The plural of the kinds in config is regular: y becomes ies, all others
// get an s.
func (r Reference) Path() []string {
	path := append([]string{"apis"}, strings.Split(r.APIVersion, "/")...)
	if !strings.Contains(r.APIVersion, "/") {
		path = []string{"api", r.APIVersion}
	}
	if r.Namespace != "" {
		path = append(path, "namespaces", r.Namespace)
	}
	plural := strings.ToLower(r.Kind) + "s"
	if stem, ok := strings.CutSuffix(plural, "ys"); ok {
		plural = stem + "ies"
	}
	path = append(path, plural)
	if r.Name != "" {
		path = append(path, r.Name)
	}
	return path
}

// Object is the desired state of an object.
type Object struct {
	Reference

	// Content is the complete object as JSON.
	Content map[string]any
}

// metadata returns the metadata of the object, creating it if necessary.
func (o Object) metadata() map[string]any { return child(o.Content, "metadata") }

// child returns the mapping of a key, creating it if necessary.
func child(parent map[string]any, key string) map[string]any {
	value, ok := parent[key].(map[string]any)
	if !ok {
		value = map[string]any{}
		parent[key] = value
	}
	return value
}

// Action is the operation on an object.
type Action string

// The actions.
const (
	// Create creates a missing object, Update updates an object of this installation.
	Create Action = "create"
	Update Action = "update"
	// Keep leaves an object of another owner that serves the purpose: a CustomResourceDefinition with the required
	// version.
	Keep Action = "keep"
)

// Live contains the required fields of an existing object.
type Live struct {
	// Labels are its labels.
	Labels map[string]string
	// Served contains the served versions of a CustomResourceDefinition.
	Served []string
}

// ForeignError reports an object of the same name that belongs to another owner.
type ForeignError struct {
	// Object is the object.
	Object Reference
	// Owner is the value of its label app.kubernetes.io/managed-by; empty if it has none.
	Owner string
}

// Error describes the object and the fix.
func (e *ForeignError) Error() string {
	owner := "was not created by this command"
	if e.Owner != "" {
		owner = "is managed by " + e.Owner
	}
	namespaceFlag := ""
	if e.Object.Namespace != "" {
		namespaceFlag = " --namespace=" + e.Object.Namespace
	}
	return fmt.Sprintf("%s already exists and %s: delete it, or transfer it to this command: kubectl label "+
		"--overwrite%s %s/%s %s=%s",
		e.Object, owner, namespaceFlag, strings.ToLower(e.Object.Kind), e.Object.Name, LabelManagedBy, ManagedBy)
}

// Plan returns the action for the object. live is nil if the object does not exist. It fails with a [ForeignError] if
// the object belongs to another owner.
func (o Object) Plan(live *Live) (Action, error) {
	switch {
	case live == nil:
		return Create, nil
	case live.Labels[LabelManagedBy] == ManagedBy:
		return Update, nil
	case o.Kind == kindCRD && slices.Contains(live.Served, crdVersion(o.Name)):
		return Keep, nil
	}
	return "", &ForeignError{Object: o.Reference, Owner: live.Labels[LabelManagedBy]}
}
