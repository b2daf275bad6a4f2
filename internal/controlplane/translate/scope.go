package translate

import (
	"maps"
	"net/http"
	"slices"

	rulesv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/mutation_rules/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	luav3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/lua/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	earlyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/http/early_header_mutation/header_mutation/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// A host is a resource: a scope, which is a ScopedRouteConfiguration that contains its routes. Envoy finds the scope
// of a request by one header, which the listener itself sets from the Host.
//
//   - An exact host has its own scope. Its name is the host, so no two scopes have the same key, which Envoy would
//     not reject. It covers every path: a request without a matching route is answered with 404 there.
//   - All wildcards, including AnyHost, are virtual hosts of the scope WildcardScope. So are IPv6 addresses, whose
//     colons the header's comparison does not permit.
//   - The header is compared byte by byte, up to the first colon. A Host with another spelling, a Host that matches
//     only a wildcard, and an unknown Host therefore have no scope at first. For these the scope fallback filter uses
//     the host in lower case and without trailing dot, and if that has no scope either, WildcardScope. The scope of
//     an exact host disables the filter.
const (
	// WildcardScope is the scope of all hosts without their own scope. It always exists.
	WildcardScope = string(model.AnyHost)
	// scopesName is the name of the scoped routes, for example in Envoy's statistics.
	scopesName = "kedify-proxy"
	// scopeKey is the header that selects the scope. A value from a client is overwritten, and workloads never
	// receive it.
	scopeKey = "x-kedify-scope"
	// scopeFallbackName is the name of the scope fallback filter, by which a scope disables it.
	scopeFallbackName = "kedify.fallback"
	// notFoundRoute is the name of the route for requests without another route.
	notFoundRoute = "none"
)

// scopeFallbackSource selects another scope if the first scope does not exist. Reading the metadata makes Envoy
// select the route; if there is no route with a name, the host does not exist.
//
//nolint:dupword // It is Lua.
const scopeFallbackSource = `function envoy_on_request(handle)
  local headers = handle:headers()
  local key = string.match(headers:get("x-kedify-scope") or "", "^[^:]*")
  local plain = string.gsub(string.lower(key), "%.$", "")
  if plain ~= key then
    headers:replace("x-kedify-scope", plain)
    handle:clearRouteCache()
    handle:metadata()
    if (handle:streamInfo():routeName() or "") ~= "" then return end
  end
  headers:replace("x-kedify-scope", "*")
  handle:clearRouteCache()
end
`

// ScopeOf returns the name of the scope with the routes of a host.
func ScopeOf(host model.Host) string {
	if hasScope(host) {
		return string(host)
	}
	return WildcardScope
}

// hasScope reports whether a host has a scope of its own.
func hasScope(host model.Host) bool { return host.IsExact() && !host.IsIPv6() }

// scopedRoutes configures routes by scope.
func scopedRoutes() *hcmv3.HttpConnectionManager_ScopedRoutes {
	// There is no timeout: until routes arrive the proxy is not ready, instead of ready with 404 for every host.
	source := adsSource(0)
	return &hcmv3.HttpConnectionManager_ScopedRoutes{ScopedRoutes: &hcmv3.ScopedRoutes{
		Name: scopesName,
		ScopeKeyBuilder: &hcmv3.ScopedRoutes_ScopeKeyBuilder{
			Fragments: []*hcmv3.ScopedRoutes_ScopeKeyBuilder_FragmentBuilder{{
				Type: &hcmv3.ScopedRoutes_ScopeKeyBuilder_FragmentBuilder_HeaderValueExtractor_{
					HeaderValueExtractor: &hcmv3.ScopedRoutes_ScopeKeyBuilder_FragmentBuilder_HeaderValueExtractor{
						Name:             scopeKey,
						ElementSeparator: ":",
						ExtractType: &hcmv3.ScopedRoutes_ScopeKeyBuilder_FragmentBuilder_HeaderValueExtractor_Index{
							Index: 0,
						},
					},
				},
			}},
		},
		RdsConfigSource: source,
		ConfigSpecifier: &hcmv3.ScopedRoutes_ScopedRds{
			ScopedRds: &hcmv3.ScopedRds{ScopedRdsConfigSource: source},
		},
	}}
}

// earlyHeaders returns the changes of request headers before any other processing: the given ones, and then the
// header that selects the scope.
func earlyHeaders(changes ...*rulesv3.HeaderMutation) ([]*corev3.TypedExtensionConfig, error) {
	scope := &rulesv3.HeaderMutation{Action: &rulesv3.HeaderMutation_Append{Append: &corev3.HeaderValueOption{
		Header:       &corev3.HeaderValue{Key: scopeKey, Value: "%REQ(:AUTHORITY)%"},
		AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
	}}}
	config, err := pack(&earlyv3.HeaderMutation{Mutations: append(changes, scope)})
	if err != nil {
		return nil, err
	}
	return []*corev3.TypedExtensionConfig{{Name: "scope", TypedConfig: config}}, nil
}

// scopeFallbackFilter returns the filter that runs scopeFallbackSource.
func scopeFallbackFilter() (*hcmv3.HttpFilter, error) {
	return luaFilter(scopeFallbackName, scopeFallbackSource)
}

// luaFilter returns a filter that runs Lua code.
func luaFilter(name, source string) (*hcmv3.HttpFilter, error) {
	config, err := pack(&luav3.Lua{DefaultSourceCode: &corev3.DataSource{
		Specifier: &corev3.DataSource_InlineString{InlineString: source},
	}})
	if err != nil {
		return nil, err
	}
	return &hcmv3.HttpFilter{Name: name, ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: config}}, nil
}

// scopeFactory creates scopes.
type scopeFactory struct {
	withoutFallback map[string]*anypb.Any
	holdConfigs     holdConfigs
	retries         []*routev3.RetryPolicy_RetryHostPredicate
	otherPriority   *routev3.RetryPolicy_RetryPriority // nil if hints are not applied
}

// newScopeFactory creates the messages that scopes share.
func newScopeFactory(options Options) (scopeFactory, error) {
	disabled, err := pack(&routev3.FilterConfig{Disabled: true})
	if err != nil {
		return scopeFactory{}, err
	}
	predicates, err := otherHostPredicate()
	if err != nil {
		return scopeFactory{}, err
	}
	holdConfigs, err := newHoldConfigs(options.Hold, disabled)
	if err != nil {
		return scopeFactory{}, err
	}
	factory := scopeFactory{
		withoutFallback: map[string]*anypb.Any{scopeFallbackName: disabled}, holdConfigs: holdConfigs, retries: predicates,
	}
	if options.TopologyHints {
		factory.otherPriority, err = otherPriority()
	}
	return factory, err
}

// exact returns the scope of an exact host.
func (f scopeFactory) exact(
	host model.Host, config model.Config,
) (*routev3.ScopedRouteConfiguration, error) {
	virtual, err := f.virtualHost(host, config)
	if err != nil {
		return nil, err
	}
	virtual.Domains = []string{"*"}                   // The scope has only this host.
	last := config.Routes[len(config.Routes)-1].Match // the least specific one
	if last.PathPrefix != "/" || len(last.Headers) > 0 {
		virtual.Routes = append(virtual.Routes, notFound())
	}
	scope := scopeOf(string(host), virtual)
	f.holdConfigs.applyExact(scope, f.withoutFallback)
	return scope, validate(scope)
}

// wildcards returns WildcardScope.
func (f scopeFactory) wildcards(
	hosts map[model.Host]*routev3.VirtualHost,
) (*routev3.ScopedRouteConfiguration, error) {
	var sorted []*routev3.VirtualHost
	for _, host := range slices.SortedFunc(maps.Keys(hosts), model.Host.Compare) {
		sorted = append(sorted, hosts[host])
	}
	if hosts[model.AnyHost] == nil {
		sorted = append(sorted, unknownHosts())
	}
	scope := scopeOf(WildcardScope, sorted...)
	scope.GetRouteConfiguration().IgnorePortInHostMatching = true
	f.holdConfigs.applyWildcards(scope)
	return scope, validate(scope)
}

// scopeOf returns a scope with virtual hosts.
func scopeOf(name string, hosts ...*routev3.VirtualHost) *routev3.ScopedRouteConfiguration {
	scope := &routev3.ScopedRouteConfiguration{
		Name: name,
		Key: &routev3.ScopedRouteConfiguration_Key{
			Fragments: []*routev3.ScopedRouteConfiguration_Key_Fragment{{
				Type: &routev3.ScopedRouteConfiguration_Key_Fragment_StringKey{StringKey: name},
			}},
		},
		RouteConfiguration: &routev3.RouteConfiguration{
			Name:                   scopesName + "/" + name,
			VirtualHosts:           hosts,
			RequestHeadersToRemove: []string{scopeKey},
		},
	}
	allowBodies(scope.GetRouteConfiguration())
	return scope
}

// notFound returns the last route of a host without a route for every path.
func notFound() *routev3.Route {
	return &routev3.Route{
		Name:  notFoundRoute,
		Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}},
		Action: &routev3.Route_DirectResponse{
			DirectResponse: &routev3.DirectResponseAction{Status: http.StatusNotFound, Body: inlineBody(NotFoundBody)},
		},
	}
}
