package v1beta1

import (
	"strings"

	"github.com/kedify/argo-rollouts-plugin/api/http/internal/lenient"
)

// UnmarshalJSON decodes a spec and does not fail because of a field's value: the schema accepts values that do not fit
// the types, such as any text for a duration. A field that fails to decode is left out and added to Unreadable.
func (in *InterceptorRouteSpec) UnmarshalJSON(text []byte) error {
	type plain InterceptorRouteSpec // has no UnmarshalJSON
	var read plain
	unreadable, err := lenient.Decode(text, &read)
	*in = InterceptorRouteSpec(read)
	in.Unreadable = strings.Join(unreadable, "; ")
	return err
}

// UnmarshalJSON decodes a status and does not fail because of a field's value. A field that fails to decode is left
// out; the interceptor writes it again.
func (in *InterceptorRouteStatus) UnmarshalJSON(text []byte) error {
	type plain InterceptorRouteStatus // has no UnmarshalJSON
	var read plain
	_, err := lenient.Decode(text, &read)
	*in = InterceptorRouteStatus(read)
	return err
}
