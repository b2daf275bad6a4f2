package gateway

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
)

// setup is a cluster with one or more implementations of the Gateway API, and the guide runs on it.
type setup struct {
	// addons are those of the cluster, forwards the Services of the guides' Gateways by the names of their addresses.
	addons   []string
	forwards map[string]string
	// files are those of the guides that apply to every run.
	files []string
	// controller are the arguments of `kubectl logs` for the controller of the implementation.
	controller []string
	plans      []plan
}

// The environment variables that select the setup: its name, and whether the CRDs are those of Gateway API 1.2.1.
const (
	setupVariable = "GATEWAY"
	crdsVariable  = "GATEWAY_CRDS"
)

// oldCRDs is the value of crdsVariable for the CRDs that guide my-app names.
const oldCRDs = "1.2.1"

// setups returns all setups by their names. Envoy Gateway and Traefik share a cluster.
func setups() map[string]setup {
	return map[string]setup{
		"": {
			addons: []string{"envoy-gateway", "traefik"},
			forwards: map[string]string{ // Envoy Gateway creates a Service for each Gateway, Traefik has one for all
				"my-gateway":   "my-gateway.envoy-gateway-system.svc.cluster.local:80",
				"http-gateway": "http-gateway.envoy-gateway-system.svc.cluster.local:80",
				"traefik":      "traefik.traefik.svc.cluster.local:80",
			},
			files:      []string{"gatewayclass.yaml"},
			controller: []string{"-n", "envoy-gateway-system", "deploy/envoy-gateway"},
			plans: []plan{
				{"my-app", testMyApp, proxy{"gateway", "my-gateway", envoyGatewayInspector("my-gateway")}},
				{"bookinfo", testBookinfo, proxy{"gateway", "http-gateway", envoyGatewayInspector("http-gateway")}},
				{"connections", testConnections, proxy{"gateway", "connections", nil}},
				{"sessions", testSessions, proxy{"gateway", "my-gateway", nil}},
				{"my-app on Traefik", testMyApp, proxy{"gateway-traefik", "traefik", traefikInspector()}},
				{"bookinfo on Traefik", testBookinfo, proxy{"gateway-traefik", "traefik", traefikInspector()}},
			},
		},
		"istio": {
			addons: []string{"istio"},
			forwards: map[string]string{ // the proxy of a Gateway is in its namespace
				"my-gateway":   "my-gateway-istio.istio-ingress.svc.cluster.local:80",
				"http-gateway": "http-gateway-istio.default.svc.cluster.local:80",
			},
			controller: []string{"-n", istioNamespace, istiod},
			plans: []plan{
				{"my-app", onIstio(testMyApp), proxy{"gateway-istio", "my-gateway", istioInspector("my-gateway")}},
				{"bookinfo", onIstio(testBookinfo), proxy{"gateway-istio", "http-gateway", istioInspector("http-gateway")}},
				{"aborts", onIstio(testIstioAborts), proxy{"gateway-istio", "my-gateway", istioInspector("my-gateway")}},
			},
		},
		"contour": {
			addons: []string{"contour-gateway"},
			forwards: map[string]string{ // the proxies of a Gateway are in its namespace
				"my-gateway":   "envoy-my-gateway.istio-ingress.svc.cluster.local:80",
				"http-gateway": "envoy-http-gateway.default.svc.cluster.local:80",
			},
			files:      []string{"gatewayclass-contour.yaml"},
			controller: []string{"-n", "projectcontour", "deploy/contour-gateway-provisioner"},
			plans: []plan{
				{"my-app", onContour(testMyApp), proxy{"gateway-contour", "my-gateway", contourInspector("my-gateway")}},
				{"bookinfo", onContour(testBookinfo), proxy{"gateway-contour", "http-gateway", contourInspector("http-gateway")}},
				{"aborts", onContour(testAborts), proxy{"gateway-contour", "my-gateway", contourInspector("my-gateway")}},
			},
		},
	}
}

// errSetup means that an unknown setup is selected.
var errSetup = errors.New("unknown setup")

// chooseSetup returns the setup with this name, with the CRDs of a version of the Gateway API, or with the usual ones if
// it is empty.
func chooseSetup(name, crds string) (setup, error) {
	all := setups()
	s, known := all[name]
	if !known {
		return setup{}, fmt.Errorf("%w: %s has %q; there are: %q", errSetup, setupVariable, name,
			slices.Sorted(maps.Keys(all)))
	}
	switch {
	case crds == "":
	case crds == oldCRDs && name == "istio":
		s.addons = append(s.addons, "gateway-api-v"+oldCRDs)
	default:
		return setup{}, fmt.Errorf("%w: %s has %q: only Istio runs with others than the usual ones, %s", errSetup,
			crdsVariable, crds, oldCRDs)
	}
	return s, nil
}

func TestChooseSetup(t *testing.T) {
	for _, tt := range []struct {
		name, crds string
		addons     []string
		fails      bool
	}{
		{addons: []string{"envoy-gateway", "traefik"}},
		{name: "istio", addons: []string{"istio"}},
		{name: "istio", crds: "1.2.1", addons: []string{"istio", "gateway-api-v1.2.1"}},
		{name: "istio", crds: "1.3.0", fails: true},
		{name: "contour", addons: []string{"contour-gateway"}},
		{name: "contour", crds: "1.2.1", fails: true},
		{crds: "1.2.1", fails: true},
		{name: "linkerd", fails: true},
	} {
		s, err := chooseSetup(tt.name, tt.crds)
		if errors.Is(err, errSetup) != tt.fails || !slices.Equal(s.addons, tt.addons) {
			t.Errorf("%q with CRDs %q: add-ons %v, error %v", tt.name, tt.crds, s.addons, err)
		}
	}
}
