package gateway

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// namespaceOf returns the namespace of a guide's Gateway, in which Istio and Contour deploy its proxies.
func namespaceOf(gateway string) string {
	return map[string]string{"my-gateway": "istio-ingress", "http-gateway": "default"}[gateway]
}

// Each implementation has an inspector. Envoy Gateway's deployments have a hash in their names.
func envoyGatewayInspector(gateway string) *inspector {
	return &inspector{
		find: []string{"-n", "envoy-gateway-system", "pods", "-l", "gateway.envoyproxy.io/owning-gateway-name=" + gateway},
		port: "19000", path: envoyEndpoints, parse: endpointSplits, hasCounters: true,
	}
}

func istioInspector(gateway string) *inspector {
	return &inspector{
		find: []string{"-n", namespaceOf(gateway), "deployment", gateway + "-istio"}, port: "15000", path: envoyRoutes,
		// The clusters have names such as "outbound|80||my-app-stable.default.svc.cluster.local".
		parse: routeSplits(func(cluster string) string {
			service, _, _ := strings.Cut(cluster[strings.LastIndex(cluster, "|")+1:], ".")
			return service
		}),
	}
}

func contourInspector(gateway string) *inspector {
	return &inspector{
		find: []string{"-n", namespaceOf(gateway), "daemonset", "envoy-" + gateway},
		port: "9001", path: envoyRoutes, hasCounters: true,
		// The clusters have names such as "default/my-app-stable/80/da39a3ee5e".
		parse: routeSplits(func(cluster string) string {
			_, rest, _ := strings.Cut(cluster, "/")
			service, _, _ := strings.Cut(rest, "/")
			return service
		}),
	}
}

func traefikInspector() *inspector {
	return &inspector{
		find: []string{"-n", "traefik", "deployment", "traefik"}, port: "8080", path: traefikServices, parse: serviceSplits,
	}
}

// guideRoute is the route of a guide in progress: a rule with both Services, and one for testers.
func guideRoute(t *testing.T) route {
	t.Helper()
	var r route
	err := json.Unmarshal([]byte(`{"metadata": {"name": "my-app-route"}, "spec": {"rules": [
		{"backendRefs": [{"name": "my-app-stable", "weight": 75}, {"name": "my-app-canary", "weight": 25}]},
		{"backendRefs": [{"name": "my-app-canary", "weight": 1}]}]}}`), &r)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// traefikChild begins the names of the children of a service for a rule of the route.
const traefikChild = "httproute-default-my-app-route-gw-istio-ingress-my-gateway-ep-web-0-99508ccacd8c093c1ff2" +
	"-svc-default-"

func TestInspectorsReadWeights(t *testing.T) {
	updated := time.Date(2026, 11, 28, 10, 0, 0, 250_000_000, time.UTC)
	for name, tt := range map[string]struct {
		inspector *inspector
		text      string
		since     time.Time
	}{
		"Istio": {istioInspector("my-gateway"), `{"configs": [{"last_updated": "2026-11-28T10:00:00.250Z",
			"route_config": {"virtual_hosts": [{"routes": [
			{"route": {"cluster": "outbound|80||my-app-canary.default.svc.cluster.local"}},
			{"route": {"weighted_clusters": {"clusters": [
				{"name": "outbound|80||my-app-stable.default.svc.cluster.local", "weight": 75},
				{"name": "outbound|80||my-app-canary.default.svc.cluster.local", "weight": 25}]}}},
			{"route": {"cluster": "outbound|80||other-stable.default.svc.cluster.local"}}]}]}}]}`, updated},
		"Contour": {contourInspector("my-gateway"), `{"configs": [{"last_updated": "2026-11-28T10:00:00.250Z",
			"route_config": {"virtual_hosts": [{"routes": [
			{"route": {"cluster": "default/my-app-canary/80/da39a3ee5e"}},
			{"route": {"weighted_clusters": {"clusters": [
				{"name": "default/my-app-stable/80/da39a3ee5e", "weight": 75},
				{"name": "default/my-app-canary/80/da39a3ee5e", "weight": 25}]}}},
			{"route": {"cluster": "default/other-stable/80/da39a3ee5e"}}]}]}}]}`, updated},
		"Envoy Gateway": {
			envoyGatewayInspector("my-gateway"), `{"configs": [
			{"endpoint_config": {"endpoints": [
				{"locality": {"region": "httproute/default/my-app-route/rule/1/backend/0"}, "load_balancing_weight": 1}]}},
			{"endpoint_config": {"endpoints": [
				{"locality": {"region": "httproute/default/my-app-route/rule/0/backend/0"}, "load_balancing_weight": 75},
				{"locality": {"region": "httproute/default/my-app-route/rule/0/backend/1"}, "load_balancing_weight": 25}]}},
			{"endpoint_config": {"endpoints": [
				{"locality": {"region": "httproute/default/other/rule/0/backend/0"}, "load_balancing_weight": 1}]}}]}`,
			time.Time{},
		},
		"Traefik": {traefikInspector(), `[{"name": "api@internal"},
			{"name": "` + traefikChild + `my-app-stable-0@kubernetesgateway", "loadBalancer": {}},
			{"weighted": {"services": [{"name": "` + traefikChild + `my-app-canary-0", "weight": 1}]}},
			{"weighted": {"services": [{"name": "` + traefikChild + `my-app-stable-0", "weight": 75},
				{"name": "` + traefikChild + `my-app-canary-1", "weight": 25}]}}]`, time.Time{}},
	} {
		splits, err := tt.inspector.parse([]byte(tt.text), guideRoute(t))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for weight, want := range map[int]bool{25: true, 50: false, 0: false} {
			found, ok := appliedSince(splits, "my-app-stable", "my-app-canary", weight)
			if ok != want || ok && !found.since.Equal(tt.since) {
				t.Errorf("%s at %d: %v since %s", name, weight, ok, found.since)
			}
		}
	}
}

// Without a weight for the canary, a proxy may have the stable Service only.
func TestInspectorsReadWeightZero(t *testing.T) {
	for name, tt := range map[string]struct {
		inspector *inspector
		text      string
	}{
		"Istio": {istioInspector("my-gateway"), `{"configs": [{"route_config": {"virtual_hosts": [{"routes": [
			{"route": {"cluster": "outbound|80||my-app-stable.default.svc.cluster.local"}}]}]}}]}`},
		"Contour": {contourInspector("my-gateway"), `{"configs": [{"route_config": {"virtual_hosts": [{"routes": [
			{"route": {"weighted_clusters": {"clusters": [
				{"name": "default/my-app-stable/80/da39a3ee5e", "weight": 100},
				{"name": "default/my-app-canary/80/da39a3ee5e"}]}}}]}]}}]}`},
		"Envoy Gateway": {envoyGatewayInspector("my-gateway"), `{"configs": [{"endpoint_config": {"endpoints": [
			{"locality": {"region": "httproute/default/my-app-route/rule/0/backend/0"}, "load_balancing_weight": 1}]}}]}`},
		"Traefik": {traefikInspector(), `[{"weighted": {"services": [
			{"name": "` + traefikChild + `my-app-stable-0", "weight": 100},
			{"name": "` + traefikChild + `my-app-canary-1", "weight": 0}]}}]`},
	} {
		splits, err := tt.inspector.parse([]byte(tt.text), guideRoute(t))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, ok := appliedSince(splits, "my-app-stable", "my-app-canary", 0); !ok {
			t.Errorf("%s: weight 0 is not read from %v", name, splits)
		}
		if _, ok := appliedSince(splits, "my-app-stable", "my-app-canary", 25); ok {
			t.Errorf("%s: weight 25 is read from %v", name, splits)
		}
	}
}

func TestCountUpdates(t *testing.T) {
	const text = `cluster_manager.cds.update_rejected: 0
cluster_manager.cds.update_success: 7
http.ingress_http.rds.ingress_http.update_rejected: 2
http.ingress_http.rds.ingress_http.update_success: 12
listener_manager.lds.update_rejected: 1
http.ingress_http.rds.ingress_http.update_duration: No recorded values
`
	if accepted, rejected := countUpdates(text); accepted != 12 || rejected != 3 {
		t.Errorf("%d accepted, %d rejected", accepted, rejected)
	}
}

// Both weights count: a third Service may have the rest.
func TestAppliedSince(t *testing.T) {
	for _, tt := range []struct {
		stable, canary int
		want           bool
	}{{75, 25, true}, {75, 10, false}, {65, 25, false}, {0, 25, false}} {
		splits := []split{{weights: map[string]int{"stable": tt.stable, "canary": tt.canary}}}
		_, ok := appliedSince(splits, "stable", "canary", 25)
		if ok != tt.want {
			t.Errorf("%d/%d counts as 75/25: %v", tt.stable, tt.canary, ok)
		}
	}
}
