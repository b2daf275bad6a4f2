package resolve_test

import (
	"fmt"
	"strings"
	"testing"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
)

// withRules returns an object as an InterceptorRoute with rules of a number of hosts each.
func withRules(object *httpv1alpha1.HTTPScaledObject, hosts ...int) *httpv1alpha1.HTTPScaledObject {
	object.Spec.Converted = &httpv1alpha1.ConvertedSpec{}
	for i, count := range hosts {
		rule := httpv1alpha1.Rule{}
		for j := range count {
			rule.Hosts = append(rule.Hosts, fmt.Sprintf("h%d.r%d.%s.test", j, i, object.Name))
		}
		object.Spec.Converted.Rules = append(object.Spec.Converted.Rules, rule)
	}
	return object
}

// TestLimitsCountAllRules: the hosts of all rules count for the limits of an object and of a namespace, and so do the
// copies of static bodies.
func TestLimitsCountAllRules(t *testing.T) {
	t.Parallel()
	route := func(name string, age int, hosts ...int) *httpv1alpha1.HTTPScaledObject {
		return withRules(withStatic(name, age, "[{body: "+strings.Repeat("x", 20)+"}]"), hosts...)
	}
	for name, c := range map[string]struct {
		options resolve.Options
		hosts   []int
		routes  int
		static  int
		reason  string // in the problems
	}{
		"below":                       {resolve.Options{MaxHosts: 6, MaxStaticBytes: 120}, []int{3, 3}, 6, 1, ""},
		"hosts of a namespace":        {resolve.Options{MaxHosts: 5}, []int{3, 3}, 0, 0, httpv1alpha1.ReasonNamespaceLimit},
		"static bytes of a namespace": {resolve.Options{MaxStaticBytes: 119}, []int{3, 3}, 6, 0, httpv1alpha1.ReasonInvalidStaticResponses},
		"routes of an object":         {resolve.Options{}, []int{256, 256, 256, 256, 1}, 0, 0, "spec.rules: 1025 combinations"},
	} {
		config, counts, problems := buildStatic(c.options, nil, model.Config{}, route("shop", 1, c.hosts...))
		if len(config.Routes) != c.routes || counts["shop"] != c.static || !strings.Contains(problems, c.reason) ||
			(c.reason == "") != (problems == "") {
			t.Errorf("%s: %d routes with %d static responses, problems %s", name, len(config.Routes), counts["shop"], problems)
		}
	}
}

// TestConflictOfKinds: a conflict names the kind of the object that takes precedence.
func TestConflictOfKinds(t *testing.T) {
	t.Parallel()
	route := withRules(kit.NewScaledObject("apps", "route", "shop", 1), 1)
	object := kit.NewScaledObject("apps", "object", "shop", 2, route.Spec.Converted.Rules[0].Hosts[0])
	_, _, problems := buildStatic(resolve.Options{}, nil, model.Config{}, route, object)
	const want = "InterceptorRoute apps/route claims the same and takes precedence (the oldest, then the first by name): " +
		"change the hosts, the paths or the headers of one of them"
	if !strings.Contains(problems, want) {
		t.Errorf("problems %s", problems)
	}
}
