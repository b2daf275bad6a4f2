package route

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// clone is a deep copy of decoded JSON. Scalars are values already.
func clone(value any) any {
	switch value := value.(type) {
	case map[string]any:
		return cloneMap(value)
	case []any:
		if value == nil {
			return value
		}
		copied := make([]any, len(value))
		for i, element := range value {
			copied[i] = clone(element)
		}
		return copied
	default:
		return value
	}
}

// cloneMap is a deep copy of an object; nil stays nil.
func cloneMap(object map[string]any) map[string]any {
	if object == nil {
		return nil
	}
	copied := make(map[string]any, len(object))
	for key, element := range object {
		copied[key] = clone(element)
	}
	return copied
}

// equal says whether two values of decoded JSON are the same. It is reflect.DeepEqual for these types, at a fraction of the cost: most calls of a router end
// with the word that nothing has changed.
func equal(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, is := b.(map[string]any)
		return is && (a == nil) == (b == nil) && maps.EqualFunc(a, b, equal)
	case []any:
		b, is := b.([]any)
		return is && (a == nil) == (b == nil) && slices.EqualFunc(a, b, equal)
	case string, int64, bool, nil:
		return a == b
	default:
		return reflect.DeepEqual(a, b)
	}
}

// textOf is the string under key, and absent when there is none: a field of another type counts as missing, as the API server would have refused it.
func textOf(object map[string]any, key, absent string) string {
	if text, is := object[key].(string); is {
		return text
	}
	return absent
}

// numberOf is the whole number under key, and false when there is none.
func numberOf(object map[string]any, key string) (int64, bool) {
	switch number := object[key].(type) {
	case int64:
		return number, true
	case float64:
		return int64(number), true
	default:
		return 0, false
	}
}

// objectAt is the object under key. A missing one is empty; anything else there is an ErrMalformed that names path.
func objectAt(parent map[string]any, key, path string) (map[string]any, error) {
	switch value := parent[key].(type) {
	case nil:
		return map[string]any{}, nil
	case map[string]any:
		return value, nil
	default:
		return nil, fmt.Errorf("%w: %s is %T, not an object", ErrMalformed, path, value)
	}
}

// objectsAt is the list of objects under key. A missing one is empty; anything else there is an ErrMalformed that names path.
func objectsAt(parent map[string]any, key, path string) ([]map[string]any, error) {
	if parent[key] == nil {
		return nil, nil
	}
	list, is := parent[key].([]any)
	if !is {
		return nil, fmt.Errorf("%w: %s is %T, not a list", ErrMalformed, path, parent[key])
	}
	objects := make([]map[string]any, len(list))
	for i, element := range list {
		if objects[i], is = element.(map[string]any); !is {
			return nil, fmt.Errorf("%w: %s[%d] is %T, not an object", ErrMalformed, path, i, element)
		}
	}
	return objects, nil
}

// listOf is objects as decoded JSON.
func listOf(objects []map[string]any) []any {
	list := make([]any, len(objects))
	for i, object := range objects {
		list[i] = object
	}
	return list
}

// quoted lists names for a message.
func quoted(names []string) string {
	marked := make([]string, len(names))
	for i, name := range names {
		marked[i] = fmt.Sprintf("%q", name)
	}
	return strings.Join(marked, ", ")
}
