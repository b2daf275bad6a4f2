// Package lenient decodes objects that a schema accepts and that do not fit the types. Objects of all tenants are
// decoded in one list, completely or not at all.
package lenient

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Decode decodes a JSON object into the struct that target points to, at once or, if that fails, field by
// field. It returns the errors of the fields that fail to decode, in their order. An error means that text is not
// an object.
func Decode[T any](text []byte, target *T) (unreadable []string, err error) {
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
