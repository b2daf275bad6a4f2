package route

import (
	"fmt"
	"regexp"
	"strings"
)

// The match types of the Gateway API.
const (
	typeExact  = "Exact"
	typePrefix = "PathPrefix"
	typeRegex  = "RegularExpression"
)

// combine returns a copy of match with condition added; possible is false if no request can match both. It is an error
// if the API cannot express both.
func (k Kind) combine(match map[string]any, condition MirrorMatch) (combined map[string]any, possible bool, err error) {
	combined = cloneMap(match)
	if k == GRPCRoute {
		possible, err = addGRPC(combined, condition)
	} else {
		possible, err = addHTTP(combined, condition)
	}
	if err != nil || !possible {
		return nil, false, err
	}
	possible, err = addHeaders(combined, condition.Headers)
	return combined, possible, err
}

// addHeaders adds conditions on headers to match. The API allows one condition per header, so a second one for the same
// header must be equal.
func addHeaders(match map[string]any, conditions []HeaderMatch) (possible bool, err error) {
	headers, err := objectListField(match, "headers", "headers")
	if err != nil {
		return false, err
	}
	for _, condition := range conditions {
		kind, value := headerValue(condition)
		existing := headerNamed(headers, condition.Name)
		if existing == nil {
			headers = append(headers, map[string]any{"type": kind, "name": condition.Name, "value": value})
			continue
		}
		otherKind, otherValue := stringField(existing, "type", typeExact), stringField(existing, "value", "")
		switch {
		case otherKind == kind && otherValue == value:
		case otherKind == typeExact && kind == typeExact:
			return false, nil
		default:
			return false, fmt.Errorf("%w: the rule matches header %q by %s %q and the managed route by %s %q, and a match can "+
				"contain only one condition per header: remove the header from one of them", ErrClash, condition.Name, otherKind,
				otherValue, kind, value)
		}
	}
	if err := checkLimit("a match", "headers", len(headers), MaxHeaders); err != nil {
		return false, err
	}
	if len(headers) > 0 {
		match["headers"] = toList(headers)
	}
	return true, nil
}

// headerNamed returns the condition on the header of that name, case-insensitive, or nil.
func headerNamed(headers []map[string]any, name string) map[string]any {
	for _, header := range headers {
		if strings.EqualFold(stringField(header, "name", ""), name) {
			return header
		}
	}
	return nil
}

// headerValue returns type and value of a condition in the Gateway API, which has no prefix match: it becomes a regular
// expression, anchored at the start for implementations that search, and with an open end for those that match the
// whole value.
func headerValue(condition HeaderMatch) (kind, value string) {
	switch condition.Type {
	case Prefix:
		return typeRegex, "^" + regexp.QuoteMeta(condition.Value) + ".*"
	case Regex:
		return typeRegex, condition.Value
	default:
		return typeExact, condition.Value
	}
}

// addHTTP adds a condition's method and path to an HTTPRouteMatch.
func addHTTP(match map[string]any, condition MirrorMatch) (possible bool, err error) {
	if condition.Method != nil {
		if method := stringField(match, "method", condition.Method.Value); method != condition.Method.Value {
			return false, nil
		}
		match["method"] = condition.Method.Value
	}
	path := map[string]any{"type": typePrefix, "value": "/"}
	if pathMatch, err := objectField(match, "path", "path"); err != nil {
		return false, err
	} else if len(pathMatch) > 0 {
		path = map[string]any{
			"type":  stringField(pathMatch, "type", typePrefix),
			"value": stringField(pathMatch, "value", "/"),
		}
	}
	if condition.Path != nil {
		if path, possible, err = intersectPaths(path, pathOf(*condition.Path)); err != nil || !possible {
			return false, err
		}
	}
	match["path"] = path
	return true, nil
}

// pathOf converts a condition on a path to an HTTPPathMatch.
func pathOf(condition StringMatch) map[string]any {
	kind := map[MatchType]string{Exact: typeExact, Prefix: typePrefix, Regex: typeRegex}[condition.Type]
	return map[string]any{"type": kind, "value": condition.Value}
}

// intersectPaths returns the HTTPPathMatch for the paths that both a and b match; possible is false if there are none.
// It is an error if the API cannot express it.
func intersectPaths(a, b map[string]any) (intersection map[string]any, possible bool, err error) {
	kindA, kindB := stringField(a, "type", ""), stringField(b, "type", "")
	valueA, valueB := stringField(a, "value", ""), stringField(b, "value", "")
	switch {
	case kindA == kindB && valueA == valueB:
		return a, true, nil
	case kindA == typePrefix && trimSlash(valueA) == "":
		return b, true, nil
	case kindB == typePrefix && trimSlash(valueB) == "":
		return a, true, nil
	case kindA == typeRegex || kindB == typeRegex:
		return nil, false, fmt.Errorf("%w: the rule matches the path by %s %q and the managed route by %s %q, and a match "+
			"can contain only one path condition: replace the regular expression with an exact path or a prefix, or remove it "+
			"from one of them", ErrUnsupported, kindA, valueA, kindB, valueB)
	case kindB == typeExact && kindA == typePrefix:
		return b, hasPathPrefix(valueB, valueA), nil
	case kindA == typeExact && kindB == typePrefix:
		return a, hasPathPrefix(valueA, valueB), nil
	case kindA == typeExact:
		return nil, false, nil
	case hasPathPrefix(valueA, valueB):
		return a, true, nil
	default:
		return b, hasPathPrefix(valueB, valueA), nil
	}
}

// trimSlash returns a path prefix without its trailing slash, which makes no difference (Gateway API,
// PathMatchPathPrefix).
func trimSlash(prefix string) string { return strings.TrimSuffix(prefix, "/") }

// hasPathPrefix reports whether path has prefix, by whole segments.
func hasPathPrefix(path, prefix string) bool {
	prefix = trimSlash(prefix)
	rest, ok := strings.CutPrefix(path, prefix)
	return ok && (rest == "" || rest[0] == '/')
}

// addGRPC adds a condition's path to a GRPCRouteMatch: the path of a call is /service/method, its method is POST (gRPC
// over HTTP2).
func addGRPC(match map[string]any, condition MirrorMatch) (possible bool, err error) {
	if condition.Method != nil && condition.Method.Value != "POST" {
		return false, nil
	}
	service, method, err := grpcCallOf(condition.Path)
	if err != nil || service == "" {
		return err == nil, err
	}
	methodMatch, err := objectField(match, "method", "method")
	if err != nil {
		return false, err
	}
	if kind := stringField(methodMatch, "type", typeExact); kind != typeExact {
		return false, fmt.Errorf("%w: the rule matches methods by %s, and a match can contain only one method condition: "+
			"match it exactly, or remove the path from the managed route", ErrUnsupported, kind)
	}
	ownService, ownMethod := stringField(methodMatch, "service", ""), stringField(methodMatch, "method", "")
	if ownService != "" && ownService != service || method != "" && ownMethod != "" && ownMethod != method {
		return false, nil
	}
	combined := map[string]any{"type": typeExact, "service": service}
	if ownMethod+method != "" {
		combined["method"] = stringField(methodMatch, "method", method)
	}
	match["method"] = combined
	return true, nil
}

// grpcCallOf returns service and method of a condition on a path; both are empty if it matches all calls.
func grpcCallOf(path *StringMatch) (service, method string, err error) {
	if path == nil {
		return "", "", nil
	}
	service, method, hasMethod := strings.Cut(strings.TrimPrefix(path.Value, "/"), "/")
	switch {
	case path.Type == Prefix && !strings.Contains(method, "/") && method == "":
		return service, "", nil
	case path.Type == Prefix && !strings.Contains(method, "/"), path.Type == Exact && hasMethod && service != "" &&
		method != "" && !strings.Contains(method, "/"):
		return service, method, nil
	default:
		return "", "", fmt.Errorf("%w: a GRPCRoute cannot match the path %s %q: write it as exact /service/method or as "+
			"prefix /service", ErrUnsupported, path.Type, path.Value)
	}
}
