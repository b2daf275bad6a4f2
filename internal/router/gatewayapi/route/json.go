package route

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// clone returns a deep copy of decoded JSON.
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

// cloneMap returns a deep copy of an object; nil stays nil.
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

// equal reports whether two values of decoded JSON are equal. It is reflect.DeepEqual for these types at a fraction of
// the cost: most calls of a router find no difference.
func equal(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && (a == nil) == (b == nil) && maps.EqualFunc(a, b, equal)
	case []any:
		b, ok := b.([]any)
		return ok && (a == nil) == (b == nil) && slices.EqualFunc(a, b, equal)
	case string, int64, bool, nil:
		return a == b
	default:
		return reflect.DeepEqual(a, b)
	}
}

// stringField returns the string at key, and fallback if there is none. A value of another type counts as missing: the
// API server would have rejected it.
func stringField(object map[string]any, key, fallback string) string {
	if text, ok := object[key].(string); ok {
		return text
	}
	return fallback
}

// numberField returns the whole number at key, and false if there is none.
func numberField(object map[string]any, key string) (int64, bool) {
	switch number := object[key].(type) {
	case int64:
		return number, true
	case float64:
		return int64(number), true
	default:
		return 0, false
	}
}

// objectField returns the object at key; empty if it is missing. Any other value is an ErrMalformed with path.
func objectField(parent map[string]any, key, path string) (map[string]any, error) {
	switch value := parent[key].(type) {
	case nil:
		return map[string]any{}, nil
	case map[string]any:
		return value, nil
	default:
		return nil, fmt.Errorf("%w: %s is %T, not an object", ErrMalformed, path, value)
	}
}

// objectListField returns the list of objects at key; nil if it is missing. Any other value is an ErrMalformed with
// path.
func objectListField(parent map[string]any, key, path string) ([]map[string]any, error) {
	if parent[key] == nil {
		return nil, nil
	}
	list, ok := parent[key].([]any)
	if !ok {
		return nil, fmt.Errorf("%w: %s is %T, not a list", ErrMalformed, path, parent[key])
	}
	objects := make([]map[string]any, len(list))
	for i, element := range list {
		if objects[i], ok = element.(map[string]any); !ok {
			return nil, fmt.Errorf("%w: %s[%d] is %T, not an object", ErrMalformed, path, i, element)
		}
	}
	return objects, nil
}

// toList returns objects as decoded JSON.
func toList(objects []map[string]any) []any {
	list := make([]any, len(objects))
	for i, object := range objects {
		list[i] = object
	}
	return list
}

// quoteNames formats names for a message.
func quoteNames(names []string) string {
	marked := make([]string, len(names))
	for i, name := range names {
		marked[i] = fmt.Sprintf("%q", name)
	}
	return strings.Join(marked, ", ")
}
