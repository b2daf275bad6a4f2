package autowire_test

import (
	"slices"
	"strconv"
)

// routeTarget returns a weighted backend of a Route.
func (m maker) routeTarget() map[string]any {
	name := m.one("shop", "shop", "cart", "other")
	if m.hasHandWritten && m.IntN(12) == 0 {
		name = "kedify-proxy"
	}
	target := map[string]any{"kind": "Service", "name": name, "weight": m.IntN(257)}
	if m.IntN(8) == 0 {
		target["future"] = "field"
	}
	return target
}

// setPort sets the port of a Route, or removes it.
func (m maker) setPort(spec map[string]any) {
	delete(spec, "port")
	switch m.IntN(6) {
	case 0:
	case 1:
		spec["port"] = map[string]any{"targetPort": []int{80, 81, 8080}[m.IntN(3)], "future": "field"}
	case 2:
		spec["port"] = map[string]any{"targetPort": []int64{80, 81, 4294967295}[m.IntN(3)]}
	default:
		spec["port"] = map[string]any{"targetPort": m.one("http", "http", "web", "admin", "80")}
	}
}

// openShiftRoute returns a Route.
func (m maker) openShiftRoute(name string) map[string]any {
	meta, spec := map[string]any{"name": name, "namespace": "team"}, map[string]any{"to": m.routeTarget()}
	if m.IntN(2) == 0 {
		meta["annotations"] = map[string]any{
			"a/b~c": "d", "haproxy.router.openshift.io/" + m.one("disable_cookies", "balance", "rewrite-target"): m.one("true", "source", "/api"),
		}
	}
	if host := m.one("", "a.test", "b.test"); host != "" {
		spec["host"] = host
	}
	if path := m.one("", "/", "/api"); path != "" {
		spec["path"] = path
	}
	var alternates []any
	names := []string{"shop", "cart", "other"} // each one once, as the schema requires
	for i, at := range m.Perm(len(names))[:max(0, m.IntN(6)-2)] {
		alternates = append(alternates, m.routeTarget())
		alternates[i].(map[string]any)["name"] = names[at]
	}
	if alternates != nil {
		spec["alternateBackends"] = alternates
	}
	m.setPort(spec)
	if termination := m.one("", "", "edge", "edge", "passthrough", "reencrypt"); termination != "" {
		spec["tls"] = map[string]any{"termination": termination, "key": "secret"}
		meta["labels"] = map[string]any{"team": "a"}
	}
	return map[string]any{"kind": "Route", "metadata": meta, "spec": spec}
}

// editOpenShiftRoute edits a Route like a user.
func (m maker) editOpenShiftRoute(route map[string]any) {
	spec := route["spec"].(map[string]any)
	alternates, _ := spec["alternateBackends"].([]any)
	switch m.IntN(8) {
	case 0: // one comes
		added := m.routeTarget()
		added["name"] = "extra" + strconv.FormatUint(m.Uint64(), 10)
		spec["alternateBackends"] = append([]any{added}, alternates...)
	case 1: // one goes
		if len(alternates) > 0 {
			spec["alternateBackends"] = alternates[1:]
		}
	case 2: // they change places
		slices.Reverse(alternates)
	case 3:
		route["metadata"].(map[string]any)["labels"] = map[string]any{"team": "b"}
	case 4: // other requests
		spec["host"], spec["path"] = m.one("a.test", "b.test"), m.one("/", "/api")
	case 5: // another Service
		spec["to"] = m.routeTarget()
	case 6: // another port, but not that of the proxies: the agent regards it as its own
		spec["port"] = map[string]any{"targetPort": m.one("web", "admin", "81")}
	case 7: // another weight
		spec["to"].(map[string]any)["weight"] = m.IntN(257)
	}
}
