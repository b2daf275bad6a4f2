package desired

import (
	"encoding/json"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
)

// ownSpec returns the fields of a spec that the agent owns, set or not. Of the timeouts it owns those that want has.
func ownSpec(spec, want httpv1alpha1.HTTPScaledObjectSpec) httpv1alpha1.HTTPScaledObjectSpec {
	return httpv1alpha1.HTTPScaledObjectSpec{
		Hosts: spec.Hosts, PathPrefixes: spec.PathPrefixes, Headers: spec.Headers,
		ScaleTargetRef: spec.ScaleTargetRef, Replicas: spec.Replicas, ScalingMetric: spec.ScalingMetric,
		Timeouts: ownTimeouts(spec.Timeouts, want.Timeouts),
	}
}

// ownTimeouts returns those of the timeouts that want has, too.
func ownTimeouts(current, want *httpv1alpha1.Timeouts) *httpv1alpha1.Timeouts {
	if current == nil || want == nil {
		return nil
	}
	own := new(httpv1alpha1.Timeouts)
	if want.ConditionWait != nil {
		own.ConditionWait = current.ConditionWait
	}
	if want.ResponseHeader != nil {
		own.ResponseHeader = current.ResponseHeader
	}
	return own
}

// Surplus returns the JSON merge patch (RFC 7386) that removes from an object the fields that the agent owns and
// want lacks, nil if there are none. Server-side apply removes only fields that its own manager wrote, and a
// custom resource does not accept null in one. The patch also sets the desired spec: the API server accepts
// neither both a port and its name nor none of them, so one write must replace one by the other.
func Surplus(current, want *httpv1alpha1.HTTPScaledObject) (map[string]any, error) {
	currentSpec, err := toMap(ownSpec(current.Spec, want.Spec))
	if err != nil {
		return nil, err
	}
	desiredSpec, err := toMap(want.Spec)
	if err != nil {
		return nil, err
	}
	isSurplus := addNulls(currentSpec, desiredSpec)
	annotations := map[string]any{}
	for _, name := range ownAnnotations() {
		_, has := current.Annotations[name]
		if _, wanted := want.Annotations[name]; has && !wanted {
			annotations[name], isSurplus = nil, true
		}
	}
	if !isSurplus {
		return nil, nil //nolint:nilnil // no patch is an answer
	}
	return map[string]any{
		"metadata": map[string]any{"uid": current.UID, "annotations": annotations}, "spec": desiredSpec,
	}, nil
}

// addNulls adds to want, a merge patch, a null for each field that current has and want lacks. It reports whether
// it added one.
func addNulls(current, want map[string]any) bool {
	isSurplus := false
	for name, value := range current {
		wanted, has := want[name]
		if !has {
			want[name], isSurplus = nil, true
			continue
		}
		inner, isMap := value.(map[string]any)
		innerWanted, bothAre := wanted.(map[string]any)
		if isMap && bothAre && addNulls(inner, innerWanted) {
			isSurplus = true
		}
	}
	return isSurplus
}

// toMap returns a value as its JSON object.
func toMap(value any) (map[string]any, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	var out map[string]any
	return out, json.Unmarshal(text, &out)
}
