package resolve

import (
	"errors"
	"fmt"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/model/affinity"
)

// stickinessOf returns what decides which of an object's backends receives a request. It is the zero value for a single
// backend, which needs no decision. If the annotation has issues, the published value stays active. After a restart of
// the interceptor none is published, and the one in the object's status counts.
func stickinessOf(
	object *httpv1alpha1.HTTPScaledObject, backends []model.Backend, published []model.Route,
) (affinity.Key, []issue) {
	key, _, issues := affinityAnnotation(object, httpv1alpha1.AnnotationStickiness, httpv1alpha1.ReasonInvalidStickiness)
	switch {
	case len(backends) == 1:
		return affinity.Key{}, issues
	case len(issues) > 0 && len(published) > 0:
		return published[0].Stickiness, issues
	case len(issues) > 0 && object.Status.DataPlane != nil:
		return reportedKey(object.Status.DataPlane.Stickiness), issues
	}
	return key, issues
}

// sessionAffinityOf returns what decides which endpoint of an object's backends receives a request. Without the
// annotation it follows from the stable Service. If the annotation has issues, the published value stays active, and
// after a restart the one in the object's status.
func sessionAffinityOf(
	object *httpv1alpha1.HTTPScaledObject, backends []model.Backend, lookup serviceLookup, published []model.Route,
) (affinity.Key, []issue) {
	key, isPresent, issues := affinityAnnotation(object, httpv1alpha1.AnnotationSessionAffinity,
		httpv1alpha1.ReasonInvalidSessionAffinity)
	switch {
	case len(issues) > 0 && len(published) > 0:
		return published[0].Affinity, issues
	case len(issues) > 0 && object.Status.DataPlane != nil:
		return reportedKey(object.Status.DataPlane.SessionAffinity), issues
	case isPresent:
		return key, issues
	}
	stable := lookup(backends[0].Service)
	return affinity.Key{SourceAddress: stable != nil && stable.HasClientIPAffinity}, nil
}

// reportedKey returns the Key in an object's status. It is the zero value if there is none, or an invalid one.
func reportedKey(text string) affinity.Key {
	key, err := affinity.Parse(text)
	if err != nil {
		return affinity.Key{}
	}
	return key
}

// affinityAnnotation parses an annotation. The Key is the zero value if the annotation is missing or has issues.
func affinityAnnotation(
	object *httpv1alpha1.HTTPScaledObject, annotation, reason string,
) (key affinity.Key, isPresent bool, issues []issue) {
	text, isPresent := object.Annotations[annotation]
	if !isPresent {
		return affinity.Key{}, false, nil
	}
	key, err := affinity.Parse(text)
	if err != nil {
		issues = append(issues, issue{reason, fmt.Sprintf("annotation %s: %v%s", annotation, err, affinityFix(err))})
	}
	return key, true, issues
}

// affinityFix returns the fix for an error of affinity.Parse whose text has none.
func affinityFix(err error) string {
	if errors.Is(err, affinity.ErrCookie) || errors.Is(err, affinity.ErrHeader) {
		return ""
	}
	return ": write {cookie: {}}, {header: <name>} or {sourceAddress: {}}, or remove the annotation"
}
