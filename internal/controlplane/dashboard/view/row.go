package view

import (
	"cmp"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	httpv1beta1 "github.com/kedify/argo-rollouts-plugin/api/http/v1beta1"
	"github.com/kedify/argo-rollouts-plugin/internal/model/split"
)

// maxHosts limits the hosts and the paths in a row. The detail has all of them.
const maxHosts = 8

// Row returns the row of an object.
func Row(source Source, demand Demand) Object {
	row := rowOf(source, demand)
	row.Hosts, row.Paths = firstOf(row.Hosts), firstOf(row.Paths)
	return row
}

// firstOf returns the first texts, and "…" if there are more.
func firstOf(texts []string) []string {
	if len(texts) <= maxHosts {
		return texts
	}
	return append(slices.Clone(texts[:maxHosts]), "…")
}

// rowOf returns the row of an object with all its hosts.
func rowOf(source Source, demand Demand) Object {
	object := source.Object
	row := Object{
		Kind: httpv1alpha1.Kind, Namespace: object.Namespace, Name: object.Name, Fleet: string(source.Fleet),
		Hosts: object.Spec.Hosts, Paths: object.Spec.PathPrefixes, Service: serviceOf(object.Spec.ScaleTargetRef),
		Split: splitOf(source), Demand: demand,
	}
	if target := object.Spec.ScaleTargetRef; target.Name != "" {
		row.Target = cmp.Or(target.Kind, "Deployment") + "/" + target.Name
	}
	if converted := object.Spec.Converted; converted != nil {
		row.Kind = httpv1beta1.Kind
		for _, rule := range converted.Rules {
			row.Hosts, row.Paths = append(row.Hosts, rule.Hosts...), append(row.Paths, rule.PathPrefixes...)
		}
	}
	for _, endpoints := range source.Endpoints {
		row.Endpoints += len(endpoints.Ready)
	}
	if report := object.Status.DataPlane; report != nil {
		row.Proxies = Proxies{Ready: report.Proxies.Ready, Acked: report.Proxies.Acked}
		row.IsEffective = report.Effective
	}
	row.Reason = firstProblem(object.Status.Conditions)
	row.State = stateOf(source, row)
	return row
}

// serviceOf returns the Service of a target with its port.
func serviceOf(target httpv1alpha1.ScaleTargetRef) string {
	port := target.PortName
	if target.Port != 0 {
		port = strconv.Itoa(int(target.Port))
	}
	if port == "" {
		return target.Service
	}
	return target.Service + ":" + port
}

// stateOf returns the State of a row.
func stateOf(source Source, row Object) State {
	switch {
	case row.Reason != "":
		return Failed
	case httpv1alpha1.IsUnrouted(source.Object):
		return OK
	case source.Object.Status.DataPlane != nil && row.Proxies.Ready == 0:
		return Unserved
	case row.Proxies.Acked < row.Proxies.Ready || source.Object.Status.DataPlane == nil:
		return Progressing
	case len(row.Split) > 1:
		return Canary
	case row.Endpoints == 0:
		return Idle
	default:
		return OK
	}
}

// firstProblem returns the first condition that is False as type: reason, "" for none.
func firstProblem(conditions []metav1.Condition) string {
	for _, condition := range conditions {
		if condition.Status == metav1.ConditionFalse && !isNormal(condition) {
			return condition.Type + ": " + condition.Reason
		}
	}
	return ""
}

// isNormal reports whether a condition that is False is no problem of its own: the states Unserved and Progressing show
// it, or another condition.
func isNormal(condition metav1.Condition) bool {
	return condition.Type == httpv1alpha1.ConditionProgrammed
}

// splitOf returns the split of an object: the published Services, and those that are only written. It is nil with one
// Service.
func splitOf(source Source) []Weight {
	written, _ := split.Parse(source.Object.Annotations[httpv1alpha1.AnnotationWeightedBackends])
	var weights []Weight
	if source.Route != nil {
		for i, backend := range source.Route.Backends {
			weights = append(weights, Weight{Service: backend.Service.Name, Active: source.Weights[i]})
		}
	}
	for _, backend := range written {
		at := slices.IndexFunc(weights, func(w Weight) bool { return w.Service == backend.Service })
		if at < 0 {
			at, weights = len(weights), append(weights, Weight{Service: backend.Service})
		}
		weights[at].Written = backend.Weight
	}
	if len(weights) < 2 {
		return nil
	}
	if len(written) == 0 {
		weights[0].Written = 1 // Without the annotation, all requests go to the stable Service.
	}
	return weights
}
