package route

import (
	"fmt"
	"regexp"
	"strings"
)

// The types of a match in the Gateway API.
const (
	typeExact  = "Exact"
	typePrefix = "PathPrefix"
	typeRegex  = "RegularExpression"
)

// and is match with condition added, as a copy. It is false when no request can fulfil both. An error when the API cannot say both at once.
func (k Kind) and(match map[string]any, condition MirrorMatch) (both map[string]any, possible bool, err error) {
	both = cloneMap(match)
	if k == GRPCRoute {
		possible, err = andGRPC(both, condition)
	} else {
		possible, err = andHTTP(both, condition)
	}
	if err != nil || !possible {
		return nil, false, err
	}
	possible, err = andHeaders(both, condition.Headers)
	return both, possible, err
}

// andHeaders adds conditions on headers to match. The API takes one condition for each header, so a second one for the same must be the same.
func andHeaders(match map[string]any, conditions []HeaderMatch) (possible bool, err error) {
	headers, err := objectsAt(match, "headers", "headers")
	if err != nil {
		return false, err
	}
	for _, condition := range conditions {
		kind, value := headerValue(condition)
		same := headerNamed(headers, condition.Name)
		if same == nil {
			headers = append(headers, map[string]any{"type": kind, "name": condition.Name, "value": value})
			continue
		}
		otherKind, otherValue := textOf(same, "type", typeExact), textOf(same, "value", "")
		switch {
		case otherKind == kind && otherValue == value:
		case otherKind == typeExact && kind == typeExact:
			return false, nil
		default:
			return false, fmt.Errorf("%w: the rule asks header %q to be %s %q and the managed route %s %q, and a match has room for one condition on a header: take "+
				"the header out of one of them", ErrClash, condition.Name, otherKind, otherValue, kind, value)
		}
	}
	if err := limited("a match", "headers", len(headers), MaxHeaders); err != nil {
		return false, err
	}
	if len(headers) > 0 {
		match["headers"] = listOf(headers)
	}
	return true, nil
}

// headerNamed is the condition on the header of that name, whatever its case, or nil.
func headerNamed(headers []map[string]any, name string) map[string]any {
	for _, header := range headers {
		if strings.EqualFold(textOf(header, "name", ""), name) {
			return header
		}
	}
	return nil
}

// headerValue is the type and the value of a condition in the Gateway API, which has no prefix: it becomes a regular expression, anchored at the start for
// implementations that search and open at the end for those that compare the whole value.
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

// andHTTP adds a condition's method and path to an HTTPRouteMatch.
func andHTTP(match map[string]any, condition MirrorMatch) (possible bool, err error) {
	if condition.Method != nil {
		if method := textOf(match, "method", condition.Method.Value); method != condition.Method.Value {
			return false, nil
		}
		match["method"] = condition.Method.Value
	}
	path := map[string]any{"type": typePrefix, "value": "/"}
	if own, err := objectAt(match, "path", "path"); err != nil {
		return false, err
	} else if len(own) > 0 {
		path = map[string]any{"type": textOf(own, "type", typePrefix), "value": textOf(own, "value", "/")}
	}
	if condition.Path != nil {
		if path, possible, err = meet(path, pathOf(*condition.Path)); err != nil || !possible {
			return false, err
		}
	}
	match["path"] = path
	return true, nil
}

// pathOf is a condition on a path as an HTTPPathMatch.
func pathOf(condition StringMatch) map[string]any {
	kind := map[MatchType]string{Exact: typeExact, Prefix: typePrefix, Regex: typeRegex}[condition.Type]
	return map[string]any{"type": kind, "value": condition.Value}
}

// meet is the HTTPPathMatch for paths that two of them match. It is false when there is none, and an error when the API cannot say it.
func meet(a, b map[string]any) (both map[string]any, possible bool, err error) {
	kindA, kindB := textOf(a, "type", ""), textOf(b, "type", "")
	valueA, valueB := textOf(a, "value", ""), textOf(b, "value", "")
	switch {
	case kindA == kindB && valueA == valueB:
		return a, true, nil
	case kindA == typePrefix && segments(valueA) == "":
		return b, true, nil
	case kindB == typePrefix && segments(valueB) == "":
		return a, true, nil
	case kindA == typeRegex || kindB == typeRegex:
		return nil, false, fmt.Errorf("%w: the rule asks the path to be %s %q and the managed route %s %q, and a match has room for one condition on the path: "+
			"replace the regular expression by an exact path or a prefix, or take it out of one of them", ErrUnsupported, kindA, valueA, kindB, valueB)
	case kindB == typeExact && kindA == typePrefix:
		return b, within(valueB, valueA), nil
	case kindA == typeExact && kindB == typePrefix:
		return a, within(valueA, valueB), nil
	case kindA == typeExact:
		return nil, false, nil
	case within(valueA, valueB):
		return a, true, nil
	default:
		return b, within(valueB, valueA), nil
	}
}

// segments is a path prefix without the slash at its end, which makes no difference (Gateway API, PathMatchPathPrefix).
func segments(prefix string) string { return strings.TrimSuffix(prefix, "/") }

// within says whether path has prefix, by whole segments.
func within(path, prefix string) bool {
	prefix = segments(prefix)
	rest, has := strings.CutPrefix(path, prefix)
	return has && (rest == "" || rest[0] == '/')
}

// andGRPC adds a condition's path to a GRPCRouteMatch: a call's path is /service/method (gRPC over HTTP2), and its method POST.
func andGRPC(match map[string]any, condition MirrorMatch) (possible bool, err error) {
	if condition.Method != nil && condition.Method.Value != "POST" {
		return false, nil
	}
	service, method, err := callOf(condition.Path)
	if err != nil || service == "" {
		return err == nil, err
	}
	own, err := objectAt(match, "method", "method")
	if err != nil {
		return false, err
	}
	if kind := textOf(own, "type", typeExact); kind != typeExact {
		return false, fmt.Errorf("%w: the rule matches methods by %s, and a match has room for one condition on the method: match it exactly, or take the path out "+
			"of the managed route", ErrUnsupported, kind)
	}
	ownService, ownMethod := textOf(own, "service", ""), textOf(own, "method", "")
	if ownService != "" && ownService != service || method != "" && ownMethod != "" && ownMethod != method {
		return false, nil
	}
	both := map[string]any{"type": typeExact, "service": service}
	if ownMethod+method != "" {
		both["method"] = textOf(own, "method", method)
	}
	match["method"] = both
	return true, nil
}

// callOf is the service and the method that a condition on a path means; both are empty where it means every call.
func callOf(path *StringMatch) (service, method string, err error) {
	if path == nil {
		return "", "", nil
	}
	service, method, hasMethod := strings.Cut(strings.TrimPrefix(path.Value, "/"), "/")
	switch {
	case path.Type == Prefix && !strings.Contains(method, "/") && method == "":
		return service, "", nil
	case path.Type == Prefix && !strings.Contains(method, "/"), path.Type == Exact && hasMethod && service != "" && method != "" && !strings.Contains(method, "/"):
		return service, method, nil
	default:
		return "", "", fmt.Errorf("%w: a GRPCRoute cannot match the path %s %q: write it as exact /service/method or as prefix /service", ErrUnsupported, path.Type, path.Value)
	}
}
