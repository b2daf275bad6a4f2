package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
)

// errShape is returned if translate's output differs from what this benchmark expects.
var errShape = errors.New("unexpected resources")

// plainTable converts resources to one route table inside the listener: without scopes, scope selection, and filters
// other than the router.
func plainTable(resources translate.Resources) (translate.Resources, error) {
	listener, ok := resources[resourcev3.ListenerType][translate.ListenerName].(*listenerv3.Listener)
	if !ok {
		return nil, fmt.Errorf("%w: no listener", errShape)
	}
	listener = proto.CloneOf(listener)
	filter := listener.GetFilterChains()[0].GetFilters()[0]
	manager := new(hcmv3.HttpConnectionManager)
	if err := filter.GetTypedConfig().UnmarshalTo(manager); err != nil {
		return nil, err
	}
	table, err := tableOf(resources[resourcev3.ScopedRouteType])
	if err != nil {
		return nil, err
	}
	manager.RouteSpecifier = &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: table}
	manager.EarlyHeaderMutationExtensions = nil
	manager.HttpFilters = manager.GetHttpFilters()[len(manager.GetHttpFilters())-1:]
	config, err := anypb.New(manager)
	if err != nil {
		return nil, err
	}
	filter.ConfigType = &listenerv3.Filter_TypedConfig{TypedConfig: config}
	plain := maps.Clone(resources)
	plain[resourcev3.ListenerType] = map[string]proto.Message{translate.ListenerName: listener}
	delete(plain, resourcev3.ScopedRouteType)
	return plain, nil
}

// tableOf returns one table with the routes of all scopes.
func tableOf(scopes map[string]proto.Message) (*routev3.RouteConfiguration, error) {
	table := &routev3.RouteConfiguration{Name: "plain", IgnorePortInHostMatching: true}
	for _, name := range slices.Sorted(maps.Keys(scopes)) {
		scope, ok := scopes[name].(*routev3.ScopedRouteConfiguration)
		if !ok {
			return nil, fmt.Errorf("%w: scope %s", errShape, name)
		}
		for _, virtual := range scope.GetRouteConfiguration().GetVirtualHosts() {
			if virtual.GetName() == translate.ProbeRouteName {
				continue // A static table answers no health checks.
			}
			virtual = proto.CloneOf(virtual)
			if name != translate.WildcardScope {
				virtual.Domains = []string{name, name + "."}
			}
			table.VirtualHosts = append(table.VirtualHosts, virtual)
		}
	}
	return table, nil
}
