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
type need struct {
	question facts.Question
	optional string // the effect of a missing optional permission; empty if it is required
	code     Code   // of the finding if it is required
	loss     string // the effect of a missing required permission
	remedy   string
}

// account returns the ServiceAccount of a Deployment's Pods.
func account(deployment *appsv1.Deployment) types.NamespacedName {
	name := cmp.Or(deployment.Spec.Template.Spec.ServiceAccountName, "default")
	return types.NamespacedName{Namespace: deployment.Namespace, Name: name}
}

// RequiredPermissions returns the permissions that Examine expects in Allowed of the facts. It is empty if the
// Deployments are unknown.
func Questions(cluster *facts.Facts) []facts.Question {
	var all []facts.Question
	for _, need := range needs(cluster) {
		all = append(all, need.question)
	}
	return all
}

// requirements returns the permissions that this installation requires, each once.
func needs(cluster *facts.Facts) []need {
	all := map[facts.Question]need{}
	add := func(n need) {
		if known, is := all[n.question]; !is || known.optional != "" {
			all[n.question] = n
		}
	}
	if cluster.Controller != nil {
		controllerNeeds(cluster, account(cluster.Controller), add)
	}
	if cluster.Operator != nil {
		operatorNeeds(cluster, account(cluster.Operator), add)
	}
	if cluster.Agent != nil {
		agentNeeds(cluster, account(cluster.Agent), add)
	}
	order := slices.SortedFunc(maps.Keys(all), func(a, b facts.Question) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Verb, b.Verb),
			cmp.Compare(a.Account.String(), b.Account.String()))
	})
	sorted := make([]need, len(order))
	for i, question := range order {
		sorted[i] = all[question]
	}
	return sorted
}

// controllerRequirements adds the permissions of the routers, which run as the controller's ServiceAccount.
func controllerNeeds(cluster *facts.Facts, who types.NamespacedName, add func(need)) {
	ask := func(verb, group, resource, namespace, optional, remedy string) {
		question := facts.Question{Account: who, Verb: verb, Group: group, Resource: resource, Namespace: namespace}
		add(need{question: question, code: Forbidden, optional: optional, loss: "the router fails with Forbidden", remedy: remedy})
	}
	const cached = "the router cannot cache objects and reads them in every call"
	for _, r := range using(cluster, facts.HTTPRouter) {
		const remedy = "apply config/argo-rollouts/rbac.yaml with this ServiceAccount as the subject"
		for _, verb := range []string{"get", "patch"} {
			ask(verb, httpv1alpha1.Group, httpv1alpha1.Resource, r.Namespace, "", remedy)
		}
		for _, verb := range []string{"list", "watch"} {
			ask(verb, httpv1alpha1.Group, httpv1alpha1.Resource, "", cached, remedy)
		}
	}
	for _, r := range using(cluster, facts.GatewayRouter) {
		const remedy = "apply config/argo-rollouts/gatewayapi/rbac.yaml with this ServiceAccount as the subject, or set providerRBAC.providers.gatewayAPI in the chart"
		for _, named := range r.RouteNames {
			for _, verb := range []string{"get", "update"} {
				ask(verb, "gateway.networking.k8s.io", named.Kind.Resource(), named.Name.Namespace, "", remedy)
			}
			for _, verb := range []string{"list", "watch"} {
				ask(verb, "gateway.networking.k8s.io", named.Kind.Resource(), "", cached, remedy)
			}
		}
	}
	for i := range cluster.Rollouts {
		r := &cluster.Rollouts[i]
		if r.Uses(facts.HTTPRouter) || r.Uses(facts.GatewayRouter) {
			ask("get", "", "endpoints", r.Namespace, "the router cannot protect promotions if no interceptor reports",
				"grant the permission: set providerRBAC.providers.awsLoadBalancerController in the chart, or apply Argo Rollouts' install.yaml")
		}
	}
	if cluster.Interceptor != nil && cluster.Use(facts.HTTPRouter) {
		ask("get", "coordination.k8s.io", "leases", cluster.Interceptor.Namespace, "the router cannot verify weights in the proxies",
			"grant the permission, e.g. with the ClusterRole of Argo Rollouts' install.yaml")
	}
}

// kedaRequirements adds the permissions of KEDA, which reads a Rollout and its scale, and writes the scale.
func operatorNeeds(cluster *facts.Facts, who types.NamespacedName, add func(need)) {
	for _, object := range cluster.ScaledByRequests() {
		if !strings.HasPrefix(object.Spec.ScaleTargetRef.APIVersion, "argoproj.io/") {
			continue
		}
		for _, asked := range []struct{ verb, resource string }{{"get", "rollouts"}, {"get", "rollouts/scale"}, {"update", "rollouts/scale"}} {
			add(need{
				question: facts.Question{Account: who, Verb: asked.verb, Group: "argoproj.io", Resource: asked.resource, Namespace: object.Namespace},
				remedy: "add Rollouts to KEDA's chart value rbac.scaledRefKinds: {apiGroup: argoproj.io, kind: rollouts}, " +
					"or leave its default {apiGroup: \"*\", kind: \"*\"}",
				code: ScaledRefKinds, loss: "KEDA cannot scale Rollouts",
			})
		}
	}
}

// denial is a resource in a namespace that a ServiceAccount has no access to.
type denial struct {
	account             types.NamespacedName
	group, resource     string
	name                string
	namespace, optional string
	code                Code
	loss, remedy        string
}

// permissions reports ServiceAccounts without required permissions. If a required permission is missing, missing
// optional permissions of the same resource or fix are not reported.
func permissions(cluster *facts.Facts) []Finding {
	if !cluster.Knows(facts.Reviews) {
		return nil
	}
	denied := map[denial][]string{}
	var order []denial
	for _, n := range needs(cluster) {
		if allowed, is := cluster.Allowed[n.question]; !is || allowed {
			continue
		}
		q := n.question
		at := denial{q.Account, q.Group, q.Resource, q.Name, q.Namespace, n.optional, n.code, n.loss, n.remedy}
		if denied[at] == nil {
			order = append(order, at)
		}
		denied[at] = append(denied[at], q.Verb)
	}
	var found []Finding
	for _, at := range order {
		isImplied := at.optional != "" && slices.ContainsFunc(order, func(other denial) bool {
			return other.optional == "" && other.account == at.account && (other.remedy == at.remedy || other.group == at.group && other.resource == at.resource)
		})
		if !isImplied {
			found = append(found, at.finding(denied[at]))
		}
	}
	return found
}

// finding returns the finding for a denial of verbs.
func (d denial) finding(verbs []string) Finding {
	what := qualified(d.resource, d.group)
	if d.name != "" {
		what += " " + d.name
	}
	finding := Finding{
		Code: d.code, Severity: Error, Object: named("ServiceAccount", d.account.Namespace, d.account.Name),
		Message: fmt.Sprintf("not allowed to %s %s in %s: %s", strings.Join(verbs, ", "), what, where(d.namespace), cmp.Or(d.optional, d.loss)),
		Remedy:  d.remedy,
	}
	if d.optional != "" {
		finding.Code, finding.Severity = ForbiddenInPart, Warning
	}
	return finding
}

// groupResource formats a resource with its API group.
func qualified(resource, group string) string {
	if group == "" {
		return resource
	}
	return resource + "." + group
}

// scope formats a namespace.
func where(namespace string) string {
	if namespace == "" {
		return "all namespaces"
	}
	return "namespace " + namespace
}
