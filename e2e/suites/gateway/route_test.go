package gateway

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"
)

// inProgress is the label of a route during a canary.
const inProgress = "rollouts.argoproj.io/gatewayapi-canary"

// route is the relevant part of a route of any kind.
type route struct {
	Metadata struct {
		Name        string            `json:"name"`
		Generation  int64             `json:"generation"`
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		Rules []rule `json:"rules"`
	} `json:"spec"`
	Status struct {
		Parents []struct {
			Conditions []condition `json:"conditions"`
		} `json:"parents"`
	} `json:"status"`
	received time.Time
}

// UnmarshalJSON implements json.Unmarshaler. It records the time.
func (r *route) UnmarshalJSON(raw []byte) error {
	type plain route
	r.received = time.Now()
	return json.Unmarshal(raw, (*plain)(r))
}

// rule is a rule of a route.
type rule struct {
	Name    string `json:"name"`
	Matches []struct {
		Headers []struct {
			Name  string `json:"name"`
			Value string `json:"value"`
		} `json:"headers"`
	} `json:"matches"`
	BackendRefs []struct {
		Name   string `json:"name"`
		Weight *int   `json:"weight"`
	} `json:"backendRefs"`
}

// condition is a condition of a route's parent.
type condition struct {
	Type               string `json:"type"`
	Status             string `json:"status"`
	Reason             string `json:"reason"`
	Message            string `json:"message"`
	ObservedGeneration int64  `json:"observedGeneration"`
}

// weights returns the weights of the two Services in the last rule that has both. Header routes, which have one
// Service, come first.
func (r route) weights(stable, canary string) (weights [2]int, ok bool) {
	for _, rule := range r.Spec.Rules {
		named := map[string]int{}
		for _, ref := range rule.BackendRefs {
			named[ref.Name] = 1 // the API's default
			if ref.Weight != nil {
				named[ref.Name] = *ref.Weight
			}
		}
		s, hasStable := named[stable]
		c, hasCanary := named[canary]
		if hasStable && hasCanary {
			weights, ok = [2]int{s, c}, true
		}
	}
	return weights, ok
}

// isInProgress reports whether the route is labeled as part of a canary.
func (r route) isInProgress() bool { return r.Metadata.Labels[inProgress] == "in-progress" }

// isNotInProgress reports whether the label is missing: for any other value both methods return false.
func (r route) isNotInProgress() bool {
	_, label := r.Metadata.Labels[inProgress]
	return !label
}

// routesTo reports whether a rule matches exactly these headers and routes to exactly this Service.
func (r rule) routesTo(service string, headers map[string]string) bool {
	if len(r.BackendRefs) != 1 || r.BackendRefs[0].Name != service {
		return false
	}
	for _, match := range r.Matches {
		asked := map[string]string{}
		for _, header := range match.Headers {
			asked[header.Name] = header.Value
		}
		if !maps.Equal(asked, headers) {
			return false
		}
	}
	return len(r.Matches) > 0
}

// isAccepted reports whether every parent has accepted the present generation of the route.
func (r route) isAccepted() bool {
	for _, parent := range r.Status.Parents {
		for _, kind := range []string{"Accepted", "ResolvedRefs"} {
			if !r.haveCondition(parent.Conditions, kind) {
				return false
			}
		}
	}
	return len(r.Status.Parents) > 0
}

func (r route) haveCondition(conditions []condition, kind string) bool {
	for _, c := range conditions {
		if c.Type == kind {
			return c.Status == "True" && c.ObservedGeneration == r.Metadata.Generation
		}
	}
	return false
}

// String implements fmt.Stringer.
func (r route) String() string {
	if r.Metadata.Name == "" {
		return "no route has been seen"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "route %s, generation %d, labels %v", r.Metadata.Name, r.Metadata.Generation, r.Metadata.Labels)
	for _, rule := range r.Spec.Rules {
		fmt.Fprintf(&b, "; rule %q", rule.Name)
		for _, ref := range rule.BackendRefs {
			weight := "absent"
			if ref.Weight != nil {
				weight = strconv.Itoa(*ref.Weight)
			}
			fmt.Fprintf(&b, " %s:%s", ref.Name, weight)
		}
	}
	for _, parent := range r.Status.Parents {
		for _, c := range parent.Conditions {
			fmt.Fprintf(&b, "; %s=%s (%s) of generation %d", c.Type, c.Status, c.Reason, c.ObservedGeneration)
		}
	}
	return b.String()
}
