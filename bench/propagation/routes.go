package main

import (
	"context"

	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
)

const (
	// gatewayName is the name of the Gateway and of its class. gatewayAPI is the apiVersion.
	gatewayName = "bench"
	gatewayAPI  = "gateway.networking.k8s.io/v1"
)

// routesPath returns the REST path of the HTTPRoutes.
func routesPath() string {
	return "/apis/" + gatewayAPI + "/namespaces/" + fleetName(0) + "/httproutes"
}

// createGateway creates a GatewayClass of Envoy Gateway, and a Gateway with one listener.
func createGateway(ctx context.Context, client rest.Interface) error {
	err := apiserver.Create(ctx, client, "/apis/"+gatewayAPI+"/gatewayclasses", map[string]any{
		"apiVersion": gatewayAPI, "kind": "GatewayClass", "metadata": map[string]any{"name": gatewayName},
		"spec": map[string]any{"controllerName": "gateway.envoyproxy.io/gatewayclass-controller"},
	})
	if err != nil {
		return err
	}
	return apiserver.Create(ctx, client, "/apis/"+gatewayAPI+"/namespaces/"+fleetName(0)+"/gateways", map[string]any{
		"apiVersion": gatewayAPI, "kind": "Gateway", "metadata": map[string]any{"name": gatewayName},
		"spec": map[string]any{
			"gatewayClassName": gatewayName,
			"listeners":        []any{map[string]any{"name": "http", "port": 80, "protocol": "HTTP"}},
		},
	})
}

// createRoute creates the HTTPRoute of application i, without requests to the canary.
func createRoute(ctx context.Context, client rest.Interface, i int) error {
	return apiserver.Create(ctx, client, routesPath(), map[string]any{
		"apiVersion": gatewayAPI, "kind": "HTTPRoute", "metadata": map[string]any{"name": nameOf(i)},
		"spec": map[string]any{
			"parentRefs": []any{map[string]any{"name": gatewayName}}, "hostnames": []any{hostOf(i)},
			"rules": rulesOf(i, 0),
		},
	})
}

// rulesOf returns the rules of the HTTPRoute of application i at a canary weight.
func rulesOf(i int, weight uint32) []any {
	backend := func(side string, weight uint32) any {
		return map[string]any{"name": nameOf(i) + side, "port": 80, "weight": weight}
	}
	return []any{map[string]any{"backendRefs": []any{backend(sides()[0], 100-weight), backend(sides()[1], weight)}}}
}

// setRoute changes the weights of the HTTPRoute of application i.
func setRoute(ctx context.Context, client rest.Interface, i int, weight uint32) error {
	return apiserver.Patch(ctx, client, routesPath()+"/"+nameOf(i), "bench",
		map[string]any{"spec": map[string]any{"rules": rulesOf(i, weight)}})
}
