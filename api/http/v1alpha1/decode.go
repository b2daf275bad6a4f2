package v1alpha1

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// UnmarshalJSON decodes a spec and does not fail because of a field's value. Objects of all tenants are decoded in
// one list, completely or not at all, and the schema accepts values that do not fit the types: a duration is any
// string, and the API server does not enforce the format int32 of numbers. A field that fails to decode is left
// out and added to Unreadable.
func (in *HTTPScaledObjectSpec) UnmarshalJSON(text []byte) error {
	type plain HTTPScaledObjectSpec // has no UnmarshalJSON
	var read plain
	unreadable, err := decodeFields(text, &read)
	*in = HTTPScaledObjectSpec(read)
	in.Unreadable = strings.Join(unreadable, "; ")
	return err
}

// UnmarshalJSON decodes a status and does not fail because of a field's value: see
// HTTPScaledObjectSpec.UnmarshalJSON. A field that fails to decode is left out; the interceptor writes it again.
func (in *HTTPScaledObjectStatus) UnmarshalJSON(text []byte) error {
	type plain HTTPScaledObjectStatus // has no UnmarshalJSON
	var read plain
	_, err := decodeFields(text, &read)
	*in = HTTPScaledObjectStatus(read)
	return err
}

// decodeFields decodes a JSON object into the struct that target points to, at once or, if that fails, field by
// field. It returns the errors of the fields that fail to decode, in their order. An error means that text is not
// an object.
func decodeFields[T any](text []byte, target *T) (unreadable []string, err error) {
	var whole T
	if json.Unmarshal(text, &whole) == nil {
		*target = whole
		return nil, nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		alone, err := json.Marshal(map[string]json.RawMessage{name: fields[name]})
		if err != nil {
			return nil, err
		}
		with := *target // a failed decoding may set some fields
		if err := json.Unmarshal(alone, &with); err != nil {
			unreadable = append(unreadable, describe(name, err))
			continue
		}
		*target = with
	}
	return unreadable, nil
}

// describe returns the error of a field in terms that require no knowledge of Go.
func describe(name string, err error) string {
	if mismatch, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Sprintf("%s: %s does not fit %s", mismatch.Field, mismatch.Value, mismatch.Type)
	}
	return fmt.Sprintf("%s: %v", name, err)
}
