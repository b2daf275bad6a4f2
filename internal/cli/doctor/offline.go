package doctor

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
)

// NewOfflineReport examines the objects of files. Objects that are not in the files may exist in the cluster, so a
// missing object is a warning only.
func NewOfflineReport(cluster *facts.Facts, filter Filter) Report {
	findings := slices.DeleteFunc(Examine(cluster), func(finding Finding) bool { return finding.Code == NotExamined })
	findings = append(findings, pluginList(cluster)...)
	for i := range findings {
		if slices.Contains([]Code{ServiceNotFound, HTTPScaledObjectNotFound, RouteNotFound}, findings[i].Code) {
			findings[i].Severity = Warning
			findings[i].Message += ", as far as the files show"
		}
	}
	findings = finish(findings)
	report := reportOf(cluster, rules(), findings, "", filter)
	report.Unknown = []string{
		"the plugin files of the controller, permissions, readiness and versions of components, endpoints and conditions: " +
			"they require a cluster",
	}
	return report
}

// pluginList checks the list of plugins in a file, except for what depends on the controller and its nodes.
func pluginList(cluster *facts.Facts) []Finding {
	if cluster.Plugins == nil {
		return nil
	}
	assumed := *cluster
	assumed.Unread, assumed.Nodes = nil, nil
	assumed.Controller = &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: cluster.Plugins.Namespace, Name: defaultControllerNamespace,
	}}
	return slices.DeleteFunc(registration(&assumed), func(finding Finding) bool {
		return slices.Contains([]Code{FileNotProvided, ArchitectureMismatch, ArchitectureMixed}, finding.Code)
	})
}
