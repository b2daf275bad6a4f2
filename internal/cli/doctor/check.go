package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/output"
	"github.com/kedify/argo-rollouts-plugin/internal/kube/events"
)

// Category is a group of checks, as printed and as a value of flag --category.
type Category string

// The categories, in the order of the output.
const (
	Cluster      Category = "Cluster"
	ArgoRollouts Category = "Argo Rollouts"
	Permissions  Category = "Permissions"
	Applications Category = "Applications"
	DataPlane    Category = "Data plane"
	GatewayAPI   Category = "Gateway API"
	Agent        Category = "Agent"
	Autoscaling  Category = "Autoscaling"
)

// Flag returns the category as a value of flag --category, such as data-plane.
func (c Category) Flag() string { return strings.ToLower(strings.ReplaceAll(string(c), " ", "-")) }

// Categories returns all categories.
func Categories() []Category {
	return []Category{Cluster, ArgoRollouts, Permissions, Applications, DataPlane, GatewayAPI, Agent, Autoscaling}
}

// Check is the result of one check.
type Check struct {
	Category Category `json:"category"`
	// Title is what holds if the check has passed.
	Title string `json:"title"`
	// Status is "passed", "failed", "warning" or "skipped".
	Status output.Level `json:"status"`
	// Detail describes what was checked, or why nothing was.
	Detail string `json:"detail,omitempty"`
	// URL is the address of the documentation.
	URL string `json:"url"`
	// Findings are the findings of the check.
	Findings []Finding `json:"findings,omitempty"`
}

// rule is a check: its title, the codes that violate it, and when it applies.
type rule struct {
	category Category
	title    string
	page     string // of the documentation, below the folder docs
	codes    []Code
	needs    []facts.Resource
	// detail describes what is checked. It is followed by false if there is nothing to check.
	detail func(*facts.Facts) (string, bool)
}

// url returns the address of the documentation of a rule.
func (r *rule) url() string { return events.DocumentationURL + r.page }

// evaluate returns the result of a rule.
func (r *rule) evaluate(cluster *facts.Facts, findings []Finding) Check {
	check := Check{Category: r.category, Title: r.title, Status: output.Passed, URL: r.url()}
	for _, finding := range findings {
		if slices.Contains(r.codes, finding.Code) {
			check.Findings = append(check.Findings, finding)
		}
	}
	switch {
	case HasError(check.Findings):
		check.Status = output.Failed
		return check
	case len(check.Findings) > 0:
		check.Status = output.Warned
		return check
	}
	for _, resource := range r.needs {
		if !cluster.HasRead(resource) {
			check.Status, check.Detail = output.Skipped, string(resource)+" cannot be read"
			return check
		}
	}
	if r.detail != nil {
		detail, applies := r.detail(cluster)
		check.Detail = detail
		if !applies {
			check.Status = output.Skipped
		}
	}
	return check
}

// Report is the result of all checks.
type Report struct {
	// Namespace is the namespace of the applications that were checked; empty for all namespaces.
	Namespace string `json:"namespace,omitempty"`
	// Summary are the numbers of checks and findings.
	Summary Summary `json:"summary"`
	// Findings are all findings, errors first.
	Findings []Finding `json:"findings"`
	// Checks are all checks in the order of the output.
	Checks []Check `json:"checks"`
	// Unknown lists what was not checked because only files were read.
	Unknown []string `json:"unknown,omitempty"`
}

// Summary are numbers of a report.
type Summary struct {
	Passed   int `json:"passed"`
	Skipped  int `json:"skipped"`
	Errors   int `json:"errors"`
	Warnings int `json:"warnings"`
}

// Filter selects checks and findings. The zero value selects all.
type Filter struct {
	// Categories are the selected categories; empty for all.
	Categories []Category
	// Suppressed are the findings to leave out: CODE, or CODE=OBJECT such as "NotWired=HTTPScaledObject shop/shop".
	Suppressed []string
}

// isSuppressed reports whether a finding is left out.
func (f *Filter) isSuppressed(finding Finding) bool {
	return slices.ContainsFunc(f.Suppressed, func(entry string) bool {
		code, object, hasObject := strings.Cut(entry, "=")
		return strings.EqualFold(code, string(finding.Code)) && (!hasObject || object == finding.Object)
	})
}

// NewReport examines an installation and returns the result of each check. The namespace is that of the applications.
func NewReport(cluster *facts.Facts, namespace string, filter Filter) Report {
	return reportOf(cluster, rules(), Examine(cluster), namespace, filter)
}

// reportOf returns the results of rules, given all findings.
func reportOf(cluster *facts.Facts, all []rule, findings []Finding, namespace string, filter Filter) Report {
	report := Report{Namespace: namespace, Findings: []Finding{}, Checks: []Check{}}
	findings = slices.DeleteFunc(slices.Clone(findings), filter.isSuppressed)
	for i := range all {
		if len(filter.Categories) > 0 && !slices.Contains(filter.Categories, all[i].category) {
			continue
		}
		check := all[i].evaluate(cluster, findings)
		report.Findings = append(report.Findings, check.Findings...)
		switch check.Status {
		case output.Passed:
			report.Summary.Passed++
		case output.Skipped:
			report.Summary.Skipped++
		case output.Failed, output.Warned:
		}
		report.Checks = append(report.Checks, check)
	}
	for _, finding := range report.Findings {
		if finding.Severity == Error {
			report.Summary.Errors++
		} else {
			report.Summary.Warnings++
		}
	}
	slices.SortStableFunc(report.Findings, compareFindings)
	return report
}

// compareFindings orders findings: errors first, then by object, field and code.
func compareFindings(a, b Finding) int {
	return cmp.Or(cmp.Compare(a.Severity, b.Severity), cmp.Compare(a.Object, b.Object), cmp.Compare(a.Field, b.Field),
		cmp.Compare(a.Code, b.Code))
}

// Fails reports whether a report fails at a threshold: "error", "warning" or "never".
func (r *Report) Fails(threshold string) bool {
	switch threshold {
	case "never":
		return false
	case string(Warning):
		return r.Summary.Errors+r.Summary.Warnings > 0
	default:
		return r.Summary.Errors > 0
	}
}

// count formats a number of things.
func count(n int, singular string) string {
	if n == 1 {
		return "1 " + singular
	}
	return fmt.Sprintf("%d %ss", n, singular)
}
