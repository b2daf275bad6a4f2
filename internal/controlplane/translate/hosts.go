package translate

import (
	"net/http"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	rbacfilterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const (
	// InvalidHostBody is the body of a 400 for a request with an invalid Host.
	InvalidHostBody = "the request has an invalid Host, or more than one\n"
	// hostFilterName is the name of the filter that rejects these requests, and invalidHostPolicy that of its policy,
	// which appears in the access log.
	hostFilterName, invalidHostPolicy = "kedify.host", "invalid-host"
	// invalidHosts matches a Host that is no host with an optional port (RFC 9110, section 7.2): one with a comma or
	// user information, or with anything except digits after the first colon. Addresses in brackets have more colons.
	// Envoy joins several Host headers with commas, and rejects other invalid characters itself.
	invalidHosts = `[^\[:]*:[0-9]*[^0-9].*|.*[,@].*`
)

// hostFilter returns the filter that rejects requests with an invalid Host, as RFC 9112, section 3.2, requires. Their
// scope would be that of the text up to the first colon, so that a client could choose one host for the proxy and
// another one for the workload. The filter is the first one, so it applies to every scope.
func hostFilter() (*hcmv3.HttpFilter, error) {
	config, err := pack(&rbacfilterv3.RBAC{Rules: &rbacv3.RBAC{
		Action: rbacv3.RBAC_DENY,
		Policies: map[string]*rbacv3.Policy{invalidHostPolicy: {
			Permissions: []*rbacv3.Permission{{Rule: &rbacv3.Permission_Header{Header: invalidHost()}}},
			Principals:  []*rbacv3.Principal{{Identifier: &rbacv3.Principal_Any{Any: true}}},
		}},
	}})
	if err != nil {
		return nil, err
	}
	return &hcmv3.HttpFilter{Name: hostFilterName, ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: config}}, nil
}

// invalidHost matches requests with an invalid Host.
func invalidHost() *routev3.HeaderMatcher {
	return &routev3.HeaderMatcher{
		Name: ":authority",
		HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{StringMatch: &matcherv3.StringMatcher{
			MatchPattern: &matcherv3.StringMatcher_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: invalidHosts}},
		}},
	}
}

// invalidHostMapper turns the 403 of hostFilter into a 400.
func invalidHostMapper() *hcmv3.ResponseMapper {
	return &hcmv3.ResponseMapper{
		Filter: &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_AndFilter{
			AndFilter: &accesslogv3.AndFilter{Filters: []*accesslogv3.AccessLogFilter{
				statusFilter(http.StatusForbidden),
				{FilterSpecifier: &accesslogv3.AccessLogFilter_HeaderFilter{
					HeaderFilter: &accesslogv3.HeaderFilter{Header: invalidHost()},
				}},
			}},
		}},
		StatusCode: wrapperspb.UInt32(http.StatusBadRequest),
		Body:       &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: InvalidHostBody}},
	}
}
