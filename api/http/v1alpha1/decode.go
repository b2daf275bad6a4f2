package v1alpha1

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// UnmarshalJSON reads a spec and does not fail for what is in it. An object comes in a list with those of all other tenants, which is read as a whole or not
// at all, and the schema lets values through that do not fit: a duration is any text there, and the API server does not enforce the format int32 of numbers. A
// field of the spec that cannot be read is left out and named in Unreadable.
func (in *HTTPScaledObjectSpec) UnmarshalJSON(text []byte) error {
	type plain HTTPScaledObjectSpec // without this method
	var read plain
	unreadable, err := decodeFields(text, &read)
	*in = HTTPScaledObjectSpec(read)
	in.Unreadable = strings.Join(unreadable, "; ")
	return err
}

// UnmarshalJSON reads a status and does not fail for what is in it, for the reason that HTTPScaledObjectSpec.UnmarshalJSON has. A field that cannot be read is
// left out; the interceptor writes it anew.
func (in *HTTPScaledObjectStatus) UnmarshalJSON(text []byte) error {
	type plain HTTPScaledObjectStatus // without this method
	var read plain
	_, err := decodeFields(text, &read)
	*in = HTTPScaledObjectStatus(read)
	return err
}

// decodeFields decodes an object into the struct that target points to, all at once or, where that fails, field by field. It returns what is wrong with the
// fields that cannot be decoded, in their order. An error says that text is not an object.
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
		with := *target // what fails may leave things half done
		if err := json.Unmarshal(alone, &with); err != nil {
			unreadable = append(unreadable, describe(name, err))
			continue
		}
		*target = with
	}
	return unreadable, nil
}

// describe says what is wrong with a field, in words that need no knowledge of Go.
func describe(name string, err error) string {
	if mismatch, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Sprintf("%s: %s does not fit %s", mismatch.Field, mismatch.Value, mismatch.Type)
	}
	return fmt.Sprintf("%s: %v", name, err)
}
