package split

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
	"github.com/kedify/argo-rollouts-plugin/internal/model/split"
	"github.com/kedify/argo-rollouts-plugin/internal/router/gatewayapi/route"
)

// httpScaledObjects reports the HTTPScaledObjects of a Rollout.
func httpScaledObjects(cluster *facts.Facts, r *facts.Rollout, services []Service) []Object {
	if r.ObjectError != nil {
		return []Object{{Name: httpv1alpha1.Kind, Problem: r.ObjectError.Error(), Taken: Unknown}}
	}
	var told []Object
	for _, live := range cluster.ObjectsOf(r) {
		told = append(told, httpScaledObject(live, services))
	}
	if len(told) == 0 {
		return []Object{{Name: nameOf(r.Namespace, r.Object), Problem: "does not exist", Taken: Unknown}}
	}
	return told
}

// objectName returns the name of an HTTPScaledObject in reports.
func nameOf(namespace, name string) string { return httpv1alpha1.Kind + " " + namespace + "/" + name }

// httpScaledObject reports one HTTPScaledObject.
func httpScaledObject(live *httpv1alpha1.HTTPScaledObject, services []Service) Object {
	told := Object{Name: nameOf(live.Namespace, live.Name), Taken: Unknown}
	text := live.Annotations[httpv1alpha1.AnnotationWeightedBackends]
	if text == "" {
		told.weigh(services, []string{live.Spec.ScaleTargetRef.Service}, []int64{1})
	} else if backends, err := split.Parse(text); err != nil {
		told.Problem = err.Error()
	} else {
		var names []string
		var weights []int64
		for _, backend := range backends {
			names, weights = append(names, backend.Service), append(weights, int64(backend.Weight))
		}
		told.weigh(services, names, weights)
	}
	told.acknowledge(httpv1alpha1.StatusOf(live).DataPlane, split.Hash(text, live.Annotations[httpv1alpha1.AnnotationManagedRoutes]))
	return told
}

// setApplied evaluates the report of an interceptor: whether every Ready proxy has applied the annotations with that
// hash.
func (o *Object) acknowledge(report *httpv1alpha1.DataPlaneStatus, hash string) {
	if report == nil {
		o.Why = "no interceptor has reported"
		return
	}
	o.Proxies = &Proxies{Ready: report.Proxies.Ready, Acked: report.Proxies.Acked}
	switch {
	case report.Proxies.Ready == 0:
		o.Why = "no proxy is Ready"
	case report.AnnotationHash != hash:
		o.Taken, o.Why = No, "the last report is for an earlier annotation"
	case report.Proxies.Acked < report.Proxies.Ready:
		o.Taken, o.Why = No, fmt.Sprintf("acknowledged by %d of %d Ready proxies", report.Proxies.Acked, report.Proxies.Ready)
	case !report.Effective:
		o.Taken, o.Why = No, "requests are redirected: a Service has no ready endpoint"
	default:
		o.Taken = Yes
	}
}

// routes reports each rule of a Rollout's routes.
func routes(cluster *facts.Facts, r *facts.Rollout, services []Service) []Object {
	if r.RoutesError != nil {
		return []Object{{Name: "routes", Problem: r.RoutesError.Error(), Taken: Unknown}}
	}
	there := cluster.RoutesOf(r)
	var told []Object
	for _, name := range r.RouteNames {
		if _, is := there[name]; !is {
			told = append(told, Object{Name: fmt.Sprintf("%s %s", name.Kind, name.Name), Problem: "does not exist", Taken: Unknown})
		}
	}
	names := slices.SortedFunc(maps.Keys(there), func(a, b facts.RouteName) int {
		return strings.Compare(string(a.Kind)+a.Name.String()+a.RuleName, string(b.Kind)+b.Name.String()+b.RuleName)
	})
	for _, name := range names {
		told = append(told, rules(r, name, there[name], services)...)
	}
	return told
}

// rules reports the rules of one route.
func rules(r *facts.Rollout, name facts.RouteName, live facts.Route, services []Service) []Object {
	base := Object{Name: fmt.Sprintf("%s %s", live.Kind, live.Name), Taken: Unknown, Why: "no Gateway has reported"}
	if route.HasStatus(live.Content) {
		accepted, why := route.Accepted(live.Content)
		base.Taken, base.Why = No, why
		if accepted {
			base.Taken = Yes
		}
	}
	written, err := route.ReadWeights(live.Content, route.Intent{
		Kind: live.Kind, Rollout: r.Key().String(), Namespace: r.Namespace, Stable: r.Stable, Canary: r.Canary, RuleName: name.RuleName,
	})
	if err != nil {
		base.Problem = err.Error()
		return []Object{base}
	}
	var told []Object
	for _, rule := range written {
		of := base
		if len(written) > 1 {
			of.Name += " " + rule.Path
		}
		of.weigh(services, rule.Services, rule.Weights)
		told = append(told, of)
	}
	return told
}
