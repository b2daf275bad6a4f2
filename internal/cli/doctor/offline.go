package doctor

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/output"
)

// NewOfflineReport examines the objects of files. Objects that are not in the files may exist in the cluster, so a
// missing object is a warning only.
func NewOfflineReport(cluster *facts.Facts, filter Filter) Report {
	findings := slices.DeleteFunc(append(Examine(cluster), pluginList(cluster)...), func(finding Finding) bool {
		return !slices.Contains(staticCodes(), finding.Code)
	})
	for i := range findings {
		if slices.Contains([]Code{ServiceNotFound, HTTPScaledObjectNotFound, RouteNotFound}, findings[i].Code) {
			findings[i].Severity = Warning
			findings[i].Message += ", as far as the files show"
		}
	}
	findings = finish(findings)
	report := reportOf(cluster, rules(), findings, "", filter)
	for i := range report.Checks {
		if check := &report.Checks[i]; check.Status == output.Passed && !slices.Contains(staticTitles(), check.Title) {
			check.Status, check.Detail = output.Skipped, "requires a cluster"
			report.Summary.Passed, report.Summary.Skipped = report.Summary.Passed-1, report.Summary.Skipped+1
		}
	}
	report.Unknown = []string{
		"permissions, plugin files, readiness and versions of components, endpoints and conditions require a cluster",
	}
	return report
}

// staticCodes returns the codes that manifests alone show.
func staticCodes() []Code {
	return []Code{
		PluginsMalformed, PluginNameMalformed, PluginKeyUnknown, PluginTwice, PluginNotRegistered, LocationInvalid,
		ChecksumMalformed, ChecksumRepeated, RouterNameWrong, RouterMissing, RouterConfig, RolloutServices,
		ServiceNotFound, HTTPScaledObjectNotFound, RouteNotFound, RouteWithoutRule,
	}
}

// staticTitles returns the titles of the checks that manifests alone can pass.
func staticTitles() []string { return []string{titleNames, titleConfiguration, titleRoutes} }

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
