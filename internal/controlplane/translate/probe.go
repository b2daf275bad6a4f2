package translate

import (
	"net/http"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	healthv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/health_check/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const (
	// probeAgents matches the User-Agent of health checks of load balancers and kubelets.
	probeAgents = "(kube-probe|ELB-HealthChecker|GoogleHC)/.*"
	// ReasonHeader says why an answer is not the app's.
	ReasonHeader = "X-Kedify-Reason"
	// ReasonProbe is its value in the answer to a health check.
	ReasonProbe = "probe"
)

// probeFilter answers health checks with 200, whatever their host and path. A load balancer asks with a host of its own,
// and it is to hear of the proxy, which holds requests for an app at zero. Such a request reaches no cluster, so it
// is no demand and wakes nothing.
func probeFilter() (*hcmv3.HttpFilter, error) {
	config, err := pack(&healthv3.HealthCheck{
		PassThroughMode: wrapperspb.Bool(false),
		Headers:         []*routev3.HeaderMatcher{fromProbe()},
	})
	if err != nil {
		return nil, err
	}
	return &hcmv3.HttpFilter{
		Name:       "envoy.filters.http.health_check",
		ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: config},
	}, nil
}

// fromProbe matches what is asked by a health check.
func fromProbe() *routev3.HeaderMatcher {
	return &routev3.HeaderMatcher{
		Name: "user-agent",
		HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{StringMatch: &matcherv3.StringMatcher{
			MatchPattern: &matcherv3.StringMatcher_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: probeAgents}},
		}},
	}
}

// probeReply has the answer say whose it is.
func probeReply() *hcmv3.ResponseMapper {
	return &hcmv3.ResponseMapper{
		Filter: &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_AndFilter{
			AndFilter: &accesslogv3.AndFilter{Filters: []*accesslogv3.AccessLogFilter{
				hasStatus(http.StatusOK),
				{FilterSpecifier: &accesslogv3.AccessLogFilter_HeaderFilter{
					HeaderFilter: &accesslogv3.HeaderFilter{Header: fromProbe()},
				}},
			}},
		}},
		HeadersToAdd: []*corev3.HeaderValueOption{{
			Header:       &corev3.HeaderValue{Key: ReasonHeader, Value: ReasonProbe},
			AppendAction: corev3.HeaderValueOption_ADD_IF_ABSENT,
		}},
	}
}
