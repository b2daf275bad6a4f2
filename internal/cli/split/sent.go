package split

import (
	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
)

// ProxyRequests are the requests that one proxy has sent for an HTTPScaledObject since its start.
type Sent struct {
	// Proxy is the name of the Pod.
	Proxy string `json:"proxy"`
	// Requests contains the number of requests to each of Report.Services. Envoy counts each retry as a request. It is
	// nil if unknown.
	Requests []int64 `json:"requests,omitempty"`
	// Problem is the reason why the numbers are unknown.
	Problem string `json:"problem,omitempty"`
}

// AddRequests adds the requests of proxies for an HTTPScaledObject of the report.
func (s *Sharing) Count(object *httpv1alpha1.HTTPScaledObject, sent []facts.Sent) {
	for i := range s.Objects {
		if s.Objects[i].Name == nameOf(object.Namespace, object.Name) {
			s.Objects[i].Sent = s.sent(sent)
		}
	}
}

// proxyRequests converts the requests of proxies to the order of the Services.
func (s *Sharing) sent(all []facts.Sent) []Sent {
	told := make([]Sent, len(all))
	for i, of := range all {
		told[i].Proxy = of.Proxy
		if of.Problem != nil {
			told[i].Problem = of.Problem.Error()
			continue
		}
		told[i].Requests = make([]int64, len(s.Services))
		for j, service := range s.Services {
			told[i].Requests[j] = of.Requests[service.Name]
		}
	}
	return told
}
