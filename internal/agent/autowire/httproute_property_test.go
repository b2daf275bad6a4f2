package autowire_test

import (
	"slices"
	"strconv"
)

// ref returns a backend of an HTTPRoute.
func (m maker) ref() any {
	ref := map[string]any{"name": m.one("shop", "shop", "cart"), "port": []int{80, 81}[m.IntN(2)], "weight": m.IntN(3)}
	switch chance := m.IntN(12); {
	case chance == 0 && m.hasHandWritten:
		ref["name"], ref["port"] = "kedify-proxy", 8080
	case chance == 1:
		ref["future"] = "field"
	case chance == 2:
		ref["namespace"] = m.one("team", "other")
	case chance == 6 && m.hasHandWritten:
		ref["name"], ref["port"], ref["namespace"] = "kedify-proxy", 8080, m.one("keda", "other")
	case chance == 3:
		ref["group"], ref["kind"] = "", "Service"
	case chance == 4:
		ref["kind"] = "ServiceImport"
	case chance == 5:
		ref["filters"] = []any{map[string]any{"type": "URLRewrite", "urlRewrite": map[string]any{"hostname": m.one("a.test", "x.test")}}}
	}
	return ref
}

// routeRule returns a rule of an HTTPRoute, for requests of no other rule.
func (m maker) routeRule() any {
	rule := map[string]any{}
	var matches, refs []any
	for range 1 + m.IntN(2) {
		match := map[string]any{"headers": []any{map[string]any{"name": "rule", "value": strconv.FormatUint(m.Uint64(), 10)}}}
		if kind := m.one("", "PathPrefix", "Exact", "RegularExpression"); kind != "" {
			match["path"] = map[string]any{"type": kind, "value": m.one("/", "/api", "/api/v[12]&<")}
		}
		matches = append(matches, match)
	}
	for range m.IntN(4) {
		refs = append(refs, m.ref())
	}
	rule["matches"] = matches
	if refs != nil {
		rule["backendRefs"] = refs
	}
	if m.IntN(4) == 0 {
		rule["filters"] = []any{map[string]any{"type": "RequestMirror", "requestMirror": map[string]any{"backendRef": m.ref()}}}
	}
	return rule
}

// httpRoute returns an HTTPRoute.
func (m maker) httpRoute(name string) map[string]any {
	meta, spec := map[string]any{"name": name, "namespace": "team"}, map[string]any{}
	if m.IntN(2) == 0 {
		meta["annotations"] = map[string]any{"a/b~c": "d"}
	}
	if hosts := m.hosts(); hosts != nil {
		spec["hostnames"] = hosts
	}
	var rules []any
	for range 1 + m.IntN(3) {
		rules = append(rules, m.routeRule())
	}
	spec["rules"] = rules
	return map[string]any{"kind": "HTTPRoute", "metadata": meta, "spec": spec}
}

// hosts returns the hosts of an HTTPRoute.
func (m maker) hosts() []any {
	var hosts []any
	for range m.IntN(3) {
		hosts = append(hosts, m.one("a.test", "b.test", "*.test"))
	}
	return hosts
}

// editRoute edits an HTTPRoute like a user.
func (m maker) editRoute(route map[string]any) {
	spec := route["spec"].(map[string]any)
	rules, _ := spec["rules"].([]any)
	if len(rules) == 0 {
		spec["rules"] = []any{m.routeRule()}
		return
	}
	at := m.IntN(len(rules))
	rule := rules[at].(map[string]any)
	refs, _ := rule["backendRefs"].([]any)
	switch m.IntN(7) {
	case 0: // everything moves
		spec["rules"] = slices.Concat([]any{m.routeRule()}, rules)
	case 1: // one goes
		spec["rules"] = slices.Concat(rules[:at], rules[at+1:])
	case 2: // other hosts, and everything moves
		spec["hostnames"] = m.hosts()
		slices.Reverse(rules)
	case 3:
		route["metadata"].(map[string]any)["labels"] = map[string]any{"team": "b"}
	case 4: // the same requests or others
		if len(refs) > 0 {
			refs[m.IntN(len(refs))] = m.ref()
		}
	case 5: // siblings change places, and one comes
		slices.Reverse(refs)
		rule["backendRefs"] = append(refs, m.ref())
	case 6: // other requests
		rule["matches"] = m.routeRule().(map[string]any)["matches"]
	}
}
