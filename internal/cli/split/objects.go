package split

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	httpv1beta1 "github.com/kedify/argo-rollouts-plugin/api/http/v1beta1"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
	"github.com/kedify/argo-rollouts-plugin/internal/model/split"
	"github.com/kedify/argo-rollouts-plugin/internal/router/gatewayapi/route"
)

// httpScaledObjects reports the HTTPScaledObjects of a Rollout.
func httpScaledObjects(cluster *facts.Facts, r *facts.Rollout, services []Service) []Object {
	if r.ObjectError != nil {
		return []Object{{Name: httpv1alpha1.Kind, Problem: r.ObjectError.Error(), Applied: Unknown}}
	}
	var objects []Object
	for _, live := range cluster.ObjectsOf(r) {
		objects = append(objects, httpScaledObject(live, services))
	}
	if len(objects) > 0 {
		return objects
	}
	name := objectName(httpv1alpha1.Kind, r.Namespace, r.Object)
	if r.InterceptorRoute != "" {
		name = objectName(httpv1beta1.Kind, r.Namespace, r.InterceptorRoute)
	}
	return []Object{{Name: name, Problem: "does not exist", Applied: Unknown}}
}

// objectName returns the name of an object in reports.
func objectName(kind, namespace, name string) string { return kind + " " + namespace + "/" + name }

// httpScaledObject reports one HTTPScaledObject.
func httpScaledObject(live *httpv1alpha1.HTTPScaledObject, services []Service) Object {
	object := Object{Name: objectName(facts.KindOf(live), live.Namespace, live.Name), Applied: Unknown}
	text := live.Annotations[httpv1alpha1.AnnotationWeightedBackends]
	if text == "" {
		object.setWeights(services, []string{live.Spec.ScaleTargetRef.Service}, []int64{100})
	} else if backends, err := split.Parse(text); err != nil {
		object.Problem = err.Error()
	} else {
		var names []string
		var weights []int64
		for _, backend := range backends {
			names, weights = append(names, backend.Service), append(weights, int64(backend.Weight))
		}
		object.setWeights(services, names, weights)
	}
	object.setApplied(httpv1alpha1.StatusOf(live).DataPlane,
		split.Hash(text, live.Annotations[httpv1alpha1.AnnotationManagedRoutes],
			live.Annotations[httpv1alpha1.AnnotationStickiness]))
	return object
}

// setApplied evaluates the report of an interceptor: whether every Ready proxy has applied the annotations with that
// hash.
func (o *Object) setApplied(report *httpv1alpha1.DataPlaneStatus, hash string) {
	if report == nil {
		o.Reason = "no interceptor has reported"
		return
	}
	o.Proxies = &Proxies{Ready: report.Proxies.Ready, Acked: report.Proxies.Acked}
	switch {
	case report.Proxies.Ready == 0:
		o.Reason = "no proxy is Ready"
	case report.AnnotationHash != hash:
		o.Applied, o.Reason = No, "the last report is for an earlier annotation"
	case report.Proxies.Acked < report.Proxies.Ready:
		o.Applied, o.Reason = No, fmt.Sprintf("acknowledged by %d of %d Ready proxies", report.Proxies.Acked,
			report.Proxies.Ready)
	case !report.Effective:
		o.Applied, o.Reason = No, "requests are redirected: a Service has no ready endpoint"
	default:
		o.Applied = Yes
	}
}

// routes reports each rule of a Rollout's routes.
func routes(cluster *facts.Facts, r *facts.Rollout, services []Service) []Object {
	if r.RoutesError != nil {
		return []Object{{Name: "routes", Problem: r.RoutesError.Error(), Applied: Unknown}}
	}
	existing := cluster.RoutesOf(r)
	var objects []Object
	for _, name := range r.RouteNames {
		if _, ok := existing[name]; !ok {
			objects = append(objects, Object{
				Name:    fmt.Sprintf("%s %s", name.Kind, name.Name),
				Problem: "does not exist", Applied: Unknown,
			})
		}
	}
	names := slices.SortedFunc(maps.Keys(existing), func(a, b facts.RouteName) int {
		return strings.Compare(string(a.Kind)+a.Name.String()+a.RuleName, string(b.Kind)+b.Name.String()+b.RuleName)
	})
	for _, name := range names {
		objects = append(objects, rules(r, name, existing[name], services)...)
	}
	return objects
}

// rules reports the rules of one route.
func rules(r *facts.Rollout, name facts.RouteName, live facts.Route, services []Service) []Object {
	base := Object{
		Name: fmt.Sprintf("%s %s", live.Kind, live.Name), Applied: Unknown,
		Reason: "no Gateway has reported",
	}
	if route.HasStatus(live.Content) {
		accepted, why := route.Accepted(live.Content)
		base.Applied, base.Reason = No, why
		if accepted {
			base.Applied = Yes
		}
	}
	written, err := route.ReadWeights(live.Content, route.Intent{
		Kind: live.Kind, Rollout: r.Key().String(), Namespace: r.Namespace, Stable: r.Stable, Canary: r.Canary,
		RuleName: name.RuleName,
	})
	if err != nil {
		base.Problem = err.Error()
		return []Object{base}
	}
	var objects []Object
	for _, rule := range written {
		object := base
		if len(written) > 1 {
			object.Name += " " + rule.Path
		}
		object.setWeights(services, rule.Services, rule.Weights)
		objects = append(objects, object)
	}
	return objects
}
