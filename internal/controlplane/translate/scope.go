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

// A host is a resource: a scope, which is a ScopedRouteConfiguration with its routes inside. Envoy
// looks a request's scope up by one header, which the listener itself sets from the Host.
//
//   - An exact host is a scope of its own. Its name is the host, so two can't have one key, which
//     Envoy would not refuse. It knows every path: what no route takes is answered with 404 there.
//   - All wildcards, AnyHost with them, are the virtual hosts of the scope WildcardScope.
//   - The header is compared byte by byte, up to the first colon. A Host in another spelling, one
//     that only a wildcard fits and an unknown one therefore have no scope at first. For these the
//     fallback filter takes the host in lower case and without trailing dot, and if that has no
//     scope either, WildcardScope. The scope of an exact host switches the filter off.
const (
	// WildcardScope is the scope of all hosts that have none of their own. It always exists.
	WildcardScope = string(model.AnyHost)
	// scopesName is the name of the scoped routes, in Envoy's statistics for example.
	scopesName = "kedify-proxy"
	// scopeKey is the header by which the scope is found. What a client sends in it is overwritten,
	// and apps never see it.
	scopeKey = "x-kedify-scope"
	// fallbackName is the name of the fallback filter, by which a scope switches it off.
	fallbackName = "kedify.fallback"
	// notFoundRoute is the name of the route of what no other route takes.
	notFoundRoute = "none"
)

// fallbackSource chooses another scope for a request whose first one says nothing. To ask for the
// metadata has Envoy choose the route; without a route that has a name there is no such host.
//
//nolint:dupword // It is Lua.
const fallbackSource = `function envoy_on_request(handle)
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

// ScopeOf is the name of the scope that has a host's routes.
func ScopeOf(host model.Host) string {
	if host.IsExact() {
		return string(host)
	}
	return WildcardScope
}

// scopedRoutes has the routes come by scope.
func scopedRoutes() *hcmv3.HttpConnectionManager_ScopedRoutes {
	// No limit: until routes are there the proxy is not ready, rather than ready to answer 404 to
	// every host.
	source := aggregated(0)
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

// scopeHeader sets the header before anything else sees the request.
func scopeHeader() ([]*corev3.TypedExtensionConfig, error) {
	config, err := pack(&earlyv3.HeaderMutation{Mutations: []*rulesv3.HeaderMutation{{
		Action: &rulesv3.HeaderMutation_Append{Append: &corev3.HeaderValueOption{
			Header:       &corev3.HeaderValue{Key: scopeKey, Value: "%REQ(:AUTHORITY)%"},
			AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
		}},
	}}})
	if err != nil {
		return nil, err
	}
	return []*corev3.TypedExtensionConfig{{Name: "scope", TypedConfig: config}}, nil
}

// fallbackFilter runs fallbackSource.
func fallbackFilter() (*hcmv3.HttpFilter, error) {
	config, err := pack(&luav3.Lua{DefaultSourceCode: &corev3.DataSource{
		Specifier: &corev3.DataSource_InlineString{InlineString: fallbackSource},
	}})
	if err != nil {
		return nil, err
	}
	return &hcmv3.HttpFilter{
		Name:       fallbackName,
		ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: config},
	}, nil
}

// scopeFactory makes scopes.
type scopeFactory struct {
	noFallback map[string]*anypb.Any
	hold       holdMarks
	retries    []*routev3.RetryPolicy_RetryHostPredicate
}

// newScopeFactory makes the parts that scopes share.
func newScopeFactory(hold Hold) (scopeFactory, error) {
	disabled, err := pack(&routev3.FilterConfig{Disabled: true})
	if err != nil {
		return scopeFactory{}, err
	}
	elsewhere, err := previousHosts()
	if err != nil {
		return scopeFactory{}, err
	}
	marks, err := newHoldMarks(hold, disabled)
	if err != nil {
		return scopeFactory{}, err
	}
	noFallback := map[string]*anypb.Any{fallbackName: disabled}
	return scopeFactory{noFallback: noFallback, hold: marks, retries: elsewhere}, nil
}

// exact is the scope of an exact host.
func (f scopeFactory) exact(
	host model.Host, config model.Config,
) (*routev3.ScopedRouteConfiguration, error) {
	virtual, err := f.virtualHost(host, config)
	if err != nil {
		return nil, err
	}
	virtual.Domains = []string{"*"}                   // The scope is the host's.
	last := config.Routes[len(config.Routes)-1].Match // the least specific one
	if last.PathPrefix != "/" || len(last.Headers) > 0 {
		virtual.Routes = append(virtual.Routes, notFound())
	}
	scope := scopeOf(string(host), virtual)
	f.hold.markExact(scope, f.noFallback)
	return scope, validate(scope)
}

// wildcards is WildcardScope.
func (f scopeFactory) wildcards(
	hosts map[model.Host]*routev3.VirtualHost,
) (*routev3.ScopedRouteConfiguration, error) {
	var sorted []*routev3.VirtualHost
	for _, host := range slices.SortedFunc(maps.Keys(hosts), model.Host.Compare) {
		sorted = append(sorted, hosts[host])
	}
	scope := scopeOf(WildcardScope, sorted...)
	scope.GetRouteConfiguration().IgnorePortInHostMatching = true
	f.hold.markWildcards(scope)
	return scope, validate(scope)
}

// scopeOf makes a scope of virtual hosts.
func scopeOf(name string, hosts ...*routev3.VirtualHost) *routev3.ScopedRouteConfiguration {
	return &routev3.ScopedRouteConfiguration{
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
}

// notFound is the last route of a host that has none for every path.
func notFound() *routev3.Route {
	return &routev3.Route{
		Name:  notFoundRoute,
		Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}},
		Action: &routev3.Route_DirectResponse{
			DirectResponse: &routev3.DirectResponseAction{Status: http.StatusNotFound},
		},
	}
}
