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
	// ReasonHeader is the response header with the reason for a response that is not the workload's.
	ReasonHeader = "X-Kedify-Reason"
	// ReasonProbe is the value for a health check.
	ReasonProbe = "probe"
)

// probeFilter answers health checks with 200 for any host and path. A load balancer sends its own host, and its check
// concerns the proxy, which queues requests for workloads at zero. Such a request reaches no cluster, so it is not
// counted as demand and triggers no scaling.
func probeFilter() (*hcmv3.HttpFilter, error) {
	config, err := pack(&healthv3.HealthCheck{
		PassThroughMode: wrapperspb.Bool(false),
		Headers:         []*routev3.HeaderMatcher{probeUserAgent()},
	})
	if err != nil {
		return nil, err
	}
	return &hcmv3.HttpFilter{
		Name:       "envoy.filters.http.health_check",
		ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: config},
	}, nil
}

// probeUserAgent matches health checks.
func probeUserAgent() *routev3.HeaderMatcher {
	return &routev3.HeaderMatcher{
		Name: "user-agent",
		HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{StringMatch: &matcherv3.StringMatcher{
			MatchPattern: &matcherv3.StringMatcher_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: probeAgents}},
		}},
	}
}

// probeReply adds ReasonHeader to the response.
func probeReply() *hcmv3.ResponseMapper {
	return &hcmv3.ResponseMapper{
		Filter: &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_AndFilter{
			AndFilter: &accesslogv3.AndFilter{Filters: []*accesslogv3.AccessLogFilter{
				statusFilter(http.StatusOK),
				{FilterSpecifier: &accesslogv3.AccessLogFilter_HeaderFilter{
					HeaderFilter: &accesslogv3.HeaderFilter{Header: probeUserAgent()},
				}},
			}},
		}},
		HeadersToAdd: []*corev3.HeaderValueOption{{
			Header:       &corev3.HeaderValue{Key: ReasonHeader, Value: ReasonProbe},
			AppendAction: corev3.HeaderValueOption_ADD_IF_ABSENT,
		}},
	}
}
