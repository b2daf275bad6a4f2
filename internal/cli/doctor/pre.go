package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
)

// oldestKubernetes is the oldest supported version (docs/reference/compatibility.md).
const oldestKubernetes = "1.30.0"

// defaultControllerNamespace is the namespace of Argo Rollouts if it is not installed.
const defaultControllerNamespace = "argo-rollouts"

// NewPreReport checks whether a cluster is ready for an installation, and returns the result of each check.
func NewPreReport(cluster *facts.Facts, filter Filter) Report {
	return reportOf(cluster, preRules(), ExaminePre(cluster), "", filter)
}

// ExaminePre returns the findings about a cluster that an installation depends on, sorted as those of Examine.
func ExaminePre(cluster *facts.Facts) []Finding {
	var findings []Finding
	for _, check := range []func(*facts.Facts) []Finding{
		unreadResources, kubernetes, userPermissions, controller, registration, foreignObjects, installedKEDA,
	} {
		findings = append(findings, check(cluster)...)
	}
	return finish(findings)
}

// preRules returns the checks before an installation, in the order of the output.
func preRules() []rule {
	controllers := controllerRules()
	return slices.Concat(
		[]rule{
			{
				category: Cluster, title: "Kubernetes is new enough", page: "reference/compatibility.md",
				codes:  []Code{KubernetesTooOld},
				detail: func(cluster *facts.Facts) (string, bool) { return cluster.ServerVersion, cluster.ServerVersion != "" },
			},
			{
				category: Cluster, title: "you may install the components", page: "reference/findings.md#installforbidden",
				codes: []Code{InstallForbidden},
				detail: func(cluster *facts.Facts) (string, bool) {
					return count(len(cluster.UserAllowed), "permission"), len(cluster.UserAllowed) > 0
				},
			},
		},
		clusterRules(), controllers[:3],
		[]rule{
			{
				category: DataPlane, title: "no other product owns the objects of this project", page: "how-to/migrate.md",
				needs: []facts.Resource{facts.CRDs, facts.Deployments}, codes: []Code{CRDOwnedByOther, OtherProductInstalled},
			},
			{
				category: Autoscaling, title: "KEDA is ready", page: "how-to/without-keda.md",
				needs: []facts.Resource{facts.Deployments}, codes: []Code{KEDATooOld, KEDANotReady},
				detail: func(cluster *facts.Facts) (string, bool) {
					if cluster.Operator == nil {
						return "KEDA is not installed: canaries do not need it, scaling by requests does", false
					}
					return deploymentDetail(cluster.Operator), true
				},
			},
		})
}

// kubernetes checks the version of the API server.
func kubernetes(cluster *facts.Facts) []Finding {
	live, err := version.ParseGeneric(cluster.ServerVersion)
	if err != nil || live.AtLeast(version.MustParseGeneric(oldestKubernetes)) {
		return nil
	}
	return []Finding{{
		Code: KubernetesTooOld, Severity: Error, Object: "API server",
		Message: fmt.Sprintf("Kubernetes %s: the proxies and the agent use fields that exist from %s on",
			cluster.ServerVersion, oldestKubernetes),
		Fix: "upgrade the cluster, or use router " + facts.GatewayRouter + " without components " +
			"(docs/reference/compatibility.md)",
	}}
}

// InstallPermissions returns the permissions that the user needs to install the routers and all components.
func InstallPermissions(cluster *facts.Facts) []facts.Permission {
	controller := defaultControllerNamespace
	if cluster.Controller != nil {
		controller = cluster.Controller.Namespace
	}
	const components = httpv1alpha1.DefaultInterceptorNamespace
	var all []facts.Permission
	for _, access := range []struct{ group, resource, namespace string }{
		{"apiextensions.k8s.io", "customresourcedefinitions", ""},
		{"rbac.authorization.k8s.io", "clusterroles", ""},
		{"rbac.authorization.k8s.io", "clusterrolebindings", ""},
		{"admissionregistration.k8s.io", "mutatingwebhookconfigurations", ""},
		{"", "configmaps", controller},
		{"apps", "deployments", controller},
		{"apps", "deployments", components},
		{"", "services", components},
		{"", "serviceaccounts", components},
		{"rbac.authorization.k8s.io", "roles", components},
		{"rbac.authorization.k8s.io", "rolebindings", components},
	} {
		for _, verb := range []string{"create", "patch"} {
			all = append(all, facts.Permission{
				Verb: verb, Group: access.group, Resource: access.resource, Namespace: access.namespace,
			})
		}
	}
	return all
}

// userPermissions reports the permissions that the user lacks, one finding for each namespace.
func userPermissions(cluster *facts.Facts) []Finding {
	missing := map[string][]string{}
	order := slices.SortedFunc(maps.Keys(cluster.UserAllowed), func(a, b facts.Permission) int {
		return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Group, b.Group), cmp.Compare(a.Verb, b.Verb))
	})
	for _, permission := range order {
		if !cluster.UserAllowed[permission] {
			missing[permission.Namespace] = append(missing[permission.Namespace],
				permission.Verb+" "+groupResource(permission.Resource, permission.Group))
		}
	}
	var findings []Finding
	for _, namespace := range slices.Sorted(maps.Keys(missing)) {
		findings = append(findings, Finding{
			Code: InstallForbidden, Severity: Error, Object: "your user",
			Message: fmt.Sprintf("not allowed in %s: %s", scope(namespace), strings.Join(missing[namespace], ", ")),
			Fix: "run the installation as a cluster administrator, or have one apply the manifests " +
				"(docs/how-to/install.md)",
		})
	}
	return findings
}

// foreignObjects reports a CRD of another owner, and products that change the same objects.
func foreignObjects(cluster *facts.Facts) []Finding {
	var findings []Finding
	if definition, _ := crd(cluster); len(definition) > 0 && definition[0].Code == CRDOwnedByOther {
		findings = definition
	}
	return append(findings, products(cluster)...)
}

// installedKEDA checks KEDA if it is installed.
func installedKEDA(cluster *facts.Facts) []Finding {
	if !cluster.HasRead(facts.Deployments) || cluster.Operator == nil {
		return nil
	}
	if _, isDefined := cluster.CRDs[facts.ScaledObjectsCRD]; !isDefined {
		return nil
	}
	findings, _ := kedaOperator(cluster)
	return findings
}
