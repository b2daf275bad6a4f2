package v1alpha1

import (
	"strings"

	"github.com/kedify/argo-rollouts-plugin/api/http/internal/lenient"
)

// UnmarshalJSON decodes a spec and does not fail because of a field's value. Objects of all tenants are decoded in
// one list, completely or not at all, and the schema accepts values that do not fit the types: a duration is any
// string, and the API server does not enforce the format int32 of numbers. A field that fails to decode is left
// out and added to Unreadable.
func (in *HTTPScaledObjectSpec) UnmarshalJSON(text []byte) error {
	type plain HTTPScaledObjectSpec // has no UnmarshalJSON
	var read plain
	unreadable, err := lenient.Decode(text, &read)
	*in = HTTPScaledObjectSpec(read)
	in.Unreadable = strings.Join(unreadable, "; ")
	return err
}

// UnmarshalJSON decodes a status and does not fail because of a field's value: see
// HTTPScaledObjectSpec.UnmarshalJSON. A field that fails to decode is left out; the interceptor writes it again.
func (in *HTTPScaledObjectStatus) UnmarshalJSON(text []byte) error {
	type plain HTTPScaledObjectStatus // has no UnmarshalJSON
	var read plain
	_, err := lenient.Decode(text, &read)
	*in = HTTPScaledObjectStatus(read)
	return err
}
