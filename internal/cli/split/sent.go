package split

import (
	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
)

// Sent is what one Envoy has sent for an HTTPScaledObject, since its start.
type Sent struct {
	// Proxy is the name of its Pod.
	Proxy string `json:"proxy"`
	// Requests are those to Sharing.Services, in their order, as Envoy counts them: a retry is one more. Nil where it is not known.
	Requests []int64 `json:"requests,omitempty"`
	// Problem says why it is not known.
	Problem string `json:"problem,omitempty"`
}

// Count adds what Envoys have sent for an HTTPScaledObject that is told of.
func (s *Sharing) Count(object *httpv1alpha1.HTTPScaledObject, sent []facts.Sent) {
	for i := range s.Objects {
		if s.Objects[i].Name == nameOf(object.Namespace, object.Name) {
			s.Objects[i].Sent = s.sent(sent)
		}
	}
}

// sent has what Envoys have sent in the order of the Services.
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
