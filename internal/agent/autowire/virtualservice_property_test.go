package autowire_test

import (
	"slices"
	"strconv"

	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
)

// destination returns a weighted destination of a VirtualService.
func (m maker) destination() any {
	host := m.one("shop", "shop", "cart")
	port := map[string]any{"number": []int{80, 81}[m.IntN(2)]}
	if m.hasHandWritten && m.IntN(12) == 0 {
		host, port["number"] = "kedify-proxy", 8080
	}
	destination := map[string]any{"host": host + m.one("", ".team.svc.cluster.local", ".team.svc.cluster.local", ".other.svc.cluster.local", ".team")}
	if host == "kedify-proxy" || m.IntN(3) > 0 {
		destination["port"] = port
	}
	if m.IntN(8) == 0 {
		destination["subset"] = m.one("v1", "v2")
	}
	route := map[string]any{"destination": destination, "weight": m.IntN(100)}
	if m.IntN(8) == 0 {
		route["headers"] = map[string]any{"request": map[string]any{"set": map[string]any{"host": m.one("a.test", "x.test")}}}
	}
	return route
}

// virtualServiceRule returns an HTTP route of a VirtualService, for requests of no other one.
func (m maker) virtualServiceRule() any {
	rule := map[string]any{}
	var matches, routes []any
	for range 1 + m.IntN(2) {
		match := map[string]any{"headers": map[string]any{"rule": map[string]any{"exact": strconv.FormatUint(m.Uint64(), 10)}}}
		if kind := m.one("", "prefix", "exact", "regex"); kind != "" {
			match["uri"] = map[string]any{kind: m.one("/", "/api", "/api/v[12]&<")}
		}
		if m.IntN(4) == 0 {
			match["authority"] = map[string]any{"exact": m.one("a.test", "b.test:8080")}
		}
		matches = append(matches, match)
	}
	for range m.IntN(4) {
		routes = append(routes, m.destination())
	}
	rule["match"] = matches
	if routes != nil {
		rule["route"] = routes
	}
	if m.IntN(4) == 0 {
		rule["mirror"] = map[string]any{"host": "shop", "port": map[string]any{"number": 80}}
	}
	if m.IntN(4) == 0 {
		rule["rewrite"] = map[string]any{m.one("uri", "authority"): m.one("/api", "a.test")}
	}
	return rule
}

// virtualService returns a VirtualService.
func (m maker) virtualService(name string) map[string]any {
	meta, spec := map[string]any{"name": name, "namespace": "team"}, map[string]any{}
	if m.IntN(2) == 0 {
		meta["annotations"] = map[string]any{"a/b~c": "d"}
	}
	if hosts := m.hosts(); hosts != nil {
		spec["hosts"] = hosts
	}
	var rules []any
	for range 1 + m.IntN(3) {
		rules = append(rules, m.virtualServiceRule())
	}
	spec["http"] = rules
	if m.IntN(3) == 0 {
		spec["tcp"] = []any{map[string]any{"route": []any{map[string]any{"destination": map[string]any{"host": "shop"}}}}}
	}
	return map[string]any{"kind": "VirtualService", "metadata": meta, "spec": spec}
}

// destinationRules returns some DestinationRules.
func (m maker) destinationRules() []apis.DestinationRule {
	var rules []apis.DestinationRule
	for range m.IntN(3) {
		made := apis.DestinationRule{}
		made.Name, made.Spec.Host = m.one("a", "b"), m.one("shop", "kedify-proxy", "*.local")
		made.Spec.TrafficPolicy = &apis.TrafficPolicy{TrafficSettings: apis.TrafficSettings{
			TLS: &apis.ClientTLSSettings{Mode: m.one("DISABLE", apis.TLSSimple, apis.TLSIstioMutual)},
		}}
		if m.IntN(2) == 0 {
			made.Spec.TrafficPolicy.LoadBalancer = &apis.LoadBalancerSettings{
				ConsistentHash: &apis.ConsistentHash{HTTPHeaderName: m.one("x-user", "x-tenant")},
			}
		}
		rules = append(rules, made)
	}
	return rules
}

// editVirtualService edits a VirtualService like a user.
func (m maker) editVirtualService(service map[string]any) {
	spec := service["spec"].(map[string]any)
	rules, _ := spec["http"].([]any)
	if len(rules) == 0 {
		spec["http"] = []any{m.virtualServiceRule()}
		return
	}
	at := m.IntN(len(rules))
	rule := rules[at].(map[string]any)
	routes, _ := rule["route"].([]any)
	switch m.IntN(7) {
	case 0: // everything moves
		spec["http"] = slices.Concat([]any{m.virtualServiceRule()}, rules)
	case 1: // one goes
		spec["http"] = slices.Concat(rules[:at], rules[at+1:])
	case 2: // other hosts, and everything moves
		spec["hosts"] = m.hosts()
		slices.Reverse(rules)
	case 3:
		service["metadata"].(map[string]any)["labels"] = map[string]any{"team": "b"}
	case 4: // the same requests or others
		if len(routes) > 0 {
			routes[m.IntN(len(routes))] = m.destination()
		}
	case 5: // siblings change places, and one comes
		slices.Reverse(routes)
		rule["route"] = append(routes, m.destination())
	case 6: // other requests
		rule["match"] = m.virtualServiceRule().(map[string]any)["match"]
	}
}
