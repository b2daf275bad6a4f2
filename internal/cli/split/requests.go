package split

import (
	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
)

// ProxyRequests are the requests that one proxy has sent for an HTTPScaledObject since its start.
type ProxyRequests struct {
	// Proxy is the name of the Pod.
	Proxy string `json:"proxy"`
	// Requests contains the number of requests to each of Report.Services. Envoy counts each retry as a request. It is
	// nil if unknown.
	Requests []int64 `json:"requests,omitempty"`
	// Problem is the reason why the numbers are unknown.
	Problem string `json:"problem,omitempty"`
}

// AddRequests adds the requests of proxies for an HTTPScaledObject of the report.
func (s *Report) AddRequests(object *httpv1alpha1.HTTPScaledObject, requests []facts.ProxyRequests) {
	for i := range s.Objects {
		if s.Objects[i].Name == objectName(facts.KindOf(object), object.Namespace, object.Name) {
			s.Objects[i].Sent = s.proxyRequests(requests)
		}
	}
}

// proxyRequests converts the requests of proxies to the order of the Services.
func (s *Report) proxyRequests(all []facts.ProxyRequests) []ProxyRequests {
	converted := make([]ProxyRequests, len(all))
	for i, requests := range all {
		converted[i].Proxy = requests.Proxy
		if requests.Err != nil {
			converted[i].Problem = requests.Err.Error()
			continue
		}
		converted[i].Requests = make([]int64, len(s.Services))
		for j, service := range s.Services {
			converted[i].Requests[j] = requests.Requests[service.Name]
		}
	}
	return converted
}
