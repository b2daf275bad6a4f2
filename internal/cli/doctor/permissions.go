package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
)

// requirement is a permission that a component requires or can use.
type requirement struct {
	permission     facts.Permission
	optionalEffect string // the effect of a missing optional permission; empty if it is required
	code           Code   // of the finding if it is required
	effect         string // the effect of a missing required permission
	fix            string
}

// account returns the ServiceAccount of a Deployment's Pods.
func account(deployment *appsv1.Deployment) types.NamespacedName {
	name := cmp.Or(deployment.Spec.Template.Spec.ServiceAccountName, "default")
	return types.NamespacedName{Namespace: deployment.Namespace, Name: name}
}

// RequiredPermissions returns the permissions that Examine expects in Allowed of the facts. It is empty if the
// Deployments are unknown.
func RequiredPermissions(cluster *facts.Facts) []facts.Permission {
	var all []facts.Permission
	for _, need := range requirements(cluster) {
		all = append(all, need.permission)
	}
	return all
}

// requirements returns the permissions that this installation requires, each once.
func requirements(cluster *facts.Facts) []requirement {
	all := map[facts.Permission]requirement{}
	add := func(n requirement) {
		if existing, ok := all[n.permission]; !ok || existing.optionalEffect != "" {
			all[n.permission] = n
		}
	}
	if cluster.Controller != nil {
		controllerRequirements(cluster, account(cluster.Controller), add)
	}
	if cluster.Operator != nil {
		kedaRequirements(cluster, account(cluster.Operator), add)
	}
	if cluster.Agent != nil {
		agentRequirements(cluster, account(cluster.Agent), add)
	}
	order := slices.SortedFunc(maps.Keys(all), func(a, b facts.Permission) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Resource, b.Resource),
			cmp.Compare(a.Verb, b.Verb),
			cmp.Compare(a.Account.String(), b.Account.String()))
	})
	sorted := make([]requirement, len(order))
	for i, question := range order {
		sorted[i] = all[question]
	}
	return sorted
}

// controllerRequirements adds the permissions of the routers, which run as the controller's ServiceAccount.
func controllerRequirements(cluster *facts.Facts, account types.NamespacedName, add func(requirement)) {
	require := func(verb, group, resource, namespace, optionalEffect, fix string) {
		permission := facts.Permission{
			Account: account, Verb: verb, Group: group, Resource: resource,
			Namespace: namespace,
		}
		add(requirement{
			permission: permission, code: Forbidden, optionalEffect: optionalEffect,
			effect: "the router fails with Forbidden", fix: fix,
		})
	}
	const cached = "the router cannot cache objects and reads them in every call"
	for _, r := range rolloutsUsing(cluster, facts.HTTPRouter) {
		const fix = "apply config/argo-rollouts/rbac.yaml with this ServiceAccount as the subject"
		for _, verb := range []string{"get", "patch"} {
			require(verb, httpv1alpha1.Group, httpv1alpha1.Resource, r.Namespace, "", fix)
		}
		for _, verb := range []string{"list", "watch"} {
			require(verb, httpv1alpha1.Group, httpv1alpha1.Resource, "", cached, fix)
		}
	}
	for _, r := range rolloutsUsing(cluster, facts.GatewayRouter) {
		const fix = "apply config/argo-rollouts/gatewayapi/rbac.yaml with this ServiceAccount as the subject, or " +
			"set providerRBAC.providers.gatewayAPI in the chart"
		for _, named := range r.RouteNames {
			for _, verb := range []string{"get", "update"} {
				require(verb, "gateway.networking.k8s.io", named.Kind.Resource(), named.Name.Namespace, "", fix)
			}
			for _, verb := range []string{"list", "watch"} {
				require(verb, "gateway.networking.k8s.io", named.Kind.Resource(), "", cached, fix)
			}
		}
	}
	for i := range cluster.Rollouts {
		r := &cluster.Rollouts[i]
		if r.Uses(facts.HTTPRouter) || r.Uses(facts.GatewayRouter) {
			require("get", "", "endpoints", r.Namespace,
				"the router cannot protect promotions if no interceptor reports",
				"grant the permission: set providerRBAC.providers.awsLoadBalancerController in the chart, or apply "+
					"Argo Rollouts' install.yaml")
		}
	}
	if cluster.Interceptor != nil && cluster.AnyUses(facts.HTTPRouter) {
		require("get", "coordination.k8s.io", "leases", cluster.Interceptor.Namespace,
			"the router cannot verify weights in the proxies",
			"grant the permission, e.g. with the ClusterRole of Argo Rollouts' install.yaml")
	}
}

// kedaRequirements adds the permissions of KEDA, which reads a Rollout and its scale, and writes the scale.
func kedaRequirements(cluster *facts.Facts, account types.NamespacedName, add func(requirement)) {
	for _, object := range cluster.ScaledByRequests() {
		if !strings.HasPrefix(object.Spec.ScaleTargetRef.APIVersion, "argoproj.io/") {
			continue
		}
		for _, access := range []struct{ verb, resource string }{
			{"get", "rollouts"}, {"get", "rollouts/scale"}, {"update", "rollouts/scale"},
		} {
			add(requirement{
				permission: facts.Permission{
					Account: account, Verb: access.verb, Group: "argoproj.io",
					Resource: access.resource, Namespace: object.Namespace,
				},
				fix: "add Rollouts to KEDA's chart value rbac.scaledRefKinds: " +
					"{apiGroup: argoproj.io, kind: rollouts}, or leave its default {apiGroup: \"*\", kind: \"*\"}",
				code: ScaledRefKinds, effect: "KEDA cannot scale Rollouts",
			})
		}
	}
}

// denial is a resource in a namespace that a ServiceAccount has no access to.
type denial struct {
	account                   types.NamespacedName
	group, resource           string
	name                      string
	namespace, optionalEffect string
	code                      Code
	effect, fix               string
}

// permissions reports ServiceAccounts without required permissions. If a required permission is missing, missing
// optional permissions of the same resource or fix are not reported.
func permissions(cluster *facts.Facts) []Finding {
	if !cluster.HasRead(facts.Reviews) {
		return nil
	}
	denied := map[denial][]string{}
	var order []denial
	for _, n := range requirements(cluster) {
		if allowed, ok := cluster.Allowed[n.permission]; !ok || allowed {
			continue
		}
		q := n.permission
		key := denial{q.Account, q.Group, q.Resource, q.Name, q.Namespace, n.optionalEffect, n.code, n.effect, n.fix}
		if denied[key] == nil {
			order = append(order, key)
		}
		denied[key] = append(denied[key], q.Verb)
	}
	var findings []Finding
	for _, key := range order {
		isImplied := key.optionalEffect != "" && slices.ContainsFunc(order, func(other denial) bool {
			return other.optionalEffect == "" && other.account == key.account &&
				(other.fix == key.fix || other.group == key.group && other.resource == key.resource)
		})
		if !isImplied {
			findings = append(findings, key.finding(denied[key]))
		}
	}
	return findings
}

// finding returns the finding for a denial of verbs.
func (d denial) finding(verbs []string) Finding {
	resource := groupResource(d.resource, d.group)
	if d.name != "" {
		resource += " " + d.name
	}
	finding := Finding{
		Code: d.code, Severity: Error, Object: objectName("ServiceAccount", d.account.Namespace, d.account.Name),
		Message: fmt.Sprintf("not allowed to %s %s in %s: %s", strings.Join(verbs, ", "), resource, scope(d.namespace),
			cmp.Or(d.optionalEffect, d.effect)),
		Fix: d.fix,
	}
	if d.optionalEffect != "" {
		finding.Code, finding.Severity = ForbiddenInPart, Warning
	}
	return finding
}

// groupResource formats a resource with its API group.
func groupResource(resource, group string) string {
	if group == "" {
		return resource
	}
	return resource + "." + group
}

// scope formats a namespace.
func scope(namespace string) string {
	if namespace == "" {
		return "all namespaces"
	}
	return "namespace " + namespace
}
