package manifests

import (
	"fmt"
	"slices"
	"strings"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
)

// The label by which the objects of an installation are found again, and its value
// (https://kubernetes.io/docs/concepts/overview/working-with-objects/common-labels/).
const (
	LabelManagedBy = httpv1alpha1.LabelManagedBy
	ManagedBy      = "kubectl-http-canary"
)

// Reference names an object, or without a name a collection.
type Reference struct {
	// APIVersion and Kind are its type.
	APIVersion, Kind string
	// Namespace is empty for an object of the whole cluster, and for a collection in all namespaces.
	Namespace, Name string
}

// String names the object in messages, as "Kind namespace/name".
func (r Reference) String() string {
	if r.Namespace == "" {
		return r.Kind + " " + r.Name
	}
	return r.Kind + " " + r.Namespace + "/" + r.Name
}

// Path are the segments of the object's path at the API server. The plural is that of the kinds of config: a y becomes
// ies, all others get an s.
func (r Reference) Path() []string {
	path := append([]string{"apis"}, strings.Split(r.APIVersion, "/")...)
	if !strings.Contains(r.APIVersion, "/") {
		path = []string{"api", r.APIVersion}
	}
	if r.Namespace != "" {
		path = append(path, "namespaces", r.Namespace)
	}
	plural := strings.ToLower(r.Kind) + "s"
	if stem, is := strings.CutSuffix(plural, "ys"); is {
		plural = stem + "ies"
	}
	path = append(path, plural)
	if r.Name != "" {
		path = append(path, r.Name)
	}
	return path
}

// Object is an object as it is to be.
type Object struct {
	Reference

	// Content is all of it, as JSON has it.
	Content map[string]any
}

// metadata is that of the object, which it gets where it has none.
func (o Object) metadata() map[string]any { return child(o.Content, "metadata") }

// child is the mapping below a key, which is made where there is none.
func child(of map[string]any, key string) map[string]any {
	below, is := of[key].(map[string]any)
	if !is {
		below = map[string]any{}
		of[key] = below
	}
	return below
}

// Action is what becomes of an object.
type Action string

// The actions.
const (
	// Create makes an object that is not there, Update one of ours what it is to be.
	Create Action = "create"
	Update Action = "update"
	// Keep leaves one of somebody else's that serves as well: a CustomResourceDefinition with a version of ours.
	Keep Action = "keep"
)

// Live is what matters of an object that is there.
type Live struct {
	// Labels are its labels.
	Labels map[string]string
	// Served are, of a CustomResourceDefinition, the versions that it serves.
	Served []string
}

// ForeignError says that an object of the same name is somebody else's.
type ForeignError struct {
	// Of is the object.
	Of Reference
	// Owner is who manages it by its label app.kubernetes.io/managed-by; empty where nobody says so.
	Owner string
}

// Error names the object and the remedy.
func (e *ForeignError) Error() string {
	owner := "was not created by this command"
	if e.Owner != "" {
		owner = "is managed by " + e.Owner
	}
	in := ""
	if e.Of.Namespace != "" {
		in = " --namespace=" + e.Of.Namespace
	}
	return fmt.Sprintf("%s already exists and %s: delete it, or transfer it to this command: kubectl label --overwrite%s %s/%s %s=%s",
		e.Of, owner, in, strings.ToLower(e.Of.Kind), e.Of.Name, LabelManagedBy, ManagedBy)
}

// Judge says what is to be done with the object of which live is there, which is nil where nothing is. It fails with a
// [ForeignError] where that is somebody else's.
func (o Object) Judge(live *Live) (Action, error) {
	switch {
	case live == nil:
		return Create, nil
	case live.Labels[LabelManagedBy] == ManagedBy:
		return Update, nil
	case o.Kind == kindDefinition && slices.Contains(live.Served, definitionVersion):
		return Keep, nil
	}
	return "", &ForeignError{Of: o.Reference, Owner: live.Labels[LabelManagedBy]}
}
