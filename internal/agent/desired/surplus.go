package desired

import (
	"encoding/json"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
)

// ownSpec is the part of a spec that the agent decides, present or not.
func ownSpec(spec httpv1alpha1.HTTPScaledObjectSpec) httpv1alpha1.HTTPScaledObjectSpec {
	return httpv1alpha1.HTTPScaledObjectSpec{
		Hosts: spec.Hosts, PathPrefixes: spec.PathPrefixes, Headers: spec.Headers,
		ScaleTargetRef: spec.ScaleTargetRef, Replicas: spec.Replicas, ScalingMetric: spec.ScalingMetric,
	}
}

// Surplus is the JSON merge patch (RFC 7386) that takes from an object what the agent decides and should
// not be there, nil if there is nothing. A server-side apply takes away only what its own manager has
// written, and a custom resource may not have null in one. The patch says the rest of it, too: a port comes
// and its name goes in one write, because the API server allows neither both nor none.
func Surplus(found, want *httpv1alpha1.HTTPScaledObject) (map[string]any, error) {
	is, err := asMap(ownSpec(found.Spec))
	if err != nil {
		return nil, err
	}
	spec, err := asMap(want.Spec)
	if err != nil {
		return nil, err
	}
	isSurplus := takeAway(is, spec)
	annotations := map[string]any{}
	for _, name := range ownAnnotations() {
		_, has := found.Annotations[name]
		if _, wanted := want.Annotations[name]; has && !wanted {
			annotations[name], isSurplus = nil, true
		}
	}
	if !isSurplus {
		return nil, nil //nolint:nilnil // no patch is an answer
	}
	return map[string]any{
		"metadata": map[string]any{"uid": found.UID, "annotations": annotations}, "spec": spec,
	}, nil
}

// takeAway adds to want, a merge patch, a null for each field that is there and that it says nothing of. It
// says whether there was one.
func takeAway(is, want map[string]any) bool {
	isSurplus := false
	for name, value := range is {
		wanted, has := want[name]
		if !has {
			want[name], isSurplus = nil, true
			continue
		}
		inner, isMap := value.(map[string]any)
		innerWanted, bothAre := wanted.(map[string]any)
		if isMap && bothAre && takeAway(inner, innerWanted) {
			isSurplus = true
		}
	}
	return isSurplus
}

// asMap is a value as JSON has it.
func asMap(value any) (map[string]any, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	var out map[string]any
	return out, json.Unmarshal(text, &out)
}
