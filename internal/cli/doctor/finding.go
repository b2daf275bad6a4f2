package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
	"github.com/kedify/argo-rollouts-plugin/internal/kube/events"
)

// Severity is the severity of a finding.
type Severity string

const (
	// Error is for a problem that prevents a canary or its scaling.
	Error Severity = "error"
	// Warning is for a problem that does not prevent it now, and for objects that cannot be checked.
	Warning Severity = "warning"
)

// Finding is a problem and its fix.
type Finding struct {
	// Code identifies the kind of finding for programs. It is stable across versions.
	Code Code `json:"code"`
	// Severity is the severity.
	Severity Severity `json:"severity"`
	// Object is the kind, namespace and name of the object that has the problem or is missing.
	Object string `json:"object"`
	// Field is the field of the object; empty for the object as a whole.
	Field string `json:"field,omitempty"`
	// Message describes the problem.
	Message string `json:"message"`
	// Fix describes how to fix the problem.
	Fix string `json:"fix"`
	// URL is the address of the code's row in the documentation. Examine sets it.
	URL string `json:"url"`
}

// Code identifies a kind of finding.
type Code string

// url returns the address of the code's row in the documentation.
func (c Code) url() string { return events.FindingsPage + "#" + strings.ToLower(string(c)) }

// The codes of findings. docs/reference/findings.md explains them.
const (
	NotExamined Code = "NotExamined"

	KubernetesTooOld Code = "KubernetesTooOld"
	InstallForbidden Code = "InstallForbidden"

	ControllerNotFound   Code = "ControllerNotFound"
	ControllerNotReady   Code = "ControllerNotReady"
	ControllerOutdated   Code = "ControllerOutdated"
	PluginsMalformed     Code = "PluginsMalformed"
	PluginNameMalformed  Code = "PluginNameMalformed"
	PluginKeyUnknown     Code = "PluginKeyUnknown"
	PluginTwice          Code = "PluginTwice"
	PluginNotRegistered  Code = "PluginNotRegistered"
	LocationInvalid      Code = "LocationInvalid"
	FileNotProvided      Code = "FileNotProvided"
	ChecksumMalformed    Code = "ChecksumMalformed"
	ChecksumRepeated     Code = "ChecksumRepeated"
	ArchitectureMismatch Code = "ArchitectureMismatch"
	ArchitectureMixed    Code = "ArchitectureMixed"

	RouterNameWrong  Code = "RouterNameWrong"
	RouterMissing    Code = "RouterMissing"
	RouterConfig     Code = "RouterConfig"
	RolloutServices  Code = "RolloutServices"
	ServiceNotFound  Code = "ServiceNotFound"
	NoStableEndpoint Code = "NoStableEndpoint"
	NoCanaryEndpoint Code = "NoCanaryEndpoint"
	RolloutInvalid   Code = "RolloutInvalid"
	CanaryNotStarted Code = "CanaryNotStarted"

	Forbidden       Code = "Forbidden"
	ForbiddenInPart Code = "ForbiddenInPart"

	CRDNotFound                 Code = "CRDNotFound"
	CRDOwnedByOther             Code = "CRDOwnedByOther"
	OtherProductInstalled       Code = "OtherProductInstalled"
	InterceptorNotFound         Code = "InterceptorNotFound"
	InterceptorNotReady         Code = "InterceptorNotReady"
	NoReadyProxy                Code = "NoReadyProxy"
	ProxyWithoutToken           Code = "ProxyWithoutToken"
	InvalidProxyAuthentication  Code = "InvalidProxyAuthentication"
	HTTPScaledObjectNotFound    Code = "HTTPScaledObjectNotFound"
	HTTPScaledObjectNotAccepted Code = "HTTPScaledObjectNotAccepted"
	HTTPScaledObjectUnreported  Code = "HTTPScaledObjectUnreported"
	ProxyNotInstalled           Code = "ProxyNotInstalled"
	CertificateNotReady         Code = "CertificateNotReady"
	NotWired                    Code = "NotWired"
	HostClaimedByOther          Code = "HostClaimedByOther"
	AnyAddressAccepted          Code = "AnyAddressAccepted"
	WaitingPageNotAccepted      Code = "WaitingPageNotAccepted"
	ScalingFieldsNotApplied     Code = "ScalingFieldsNotApplied"
	FieldsNotSupported          Code = "FieldsNotSupported"
	EnvoySettingsNotAccepted    Code = "EnvoySettingsNotAccepted"

	RouteNotFound    Code = "RouteNotFound"
	RouteWithoutRule Code = "RouteWithoutRule"
	RouteNotAccepted Code = "RouteNotAccepted"

	KEDANotFound   Code = "KEDANotFound"
	KEDATooOld     Code = "KEDATooOld"
	KEDANotReady   Code = "KEDANotReady"
	ScalerNotFound Code = "ScalerNotFound"
	ScalerNotReady Code = "ScalerNotReady"

	InterceptorCertificateMissing Code = "InterceptorCertificateMissing"

	AgentNotFound        Code = "AgentNotFound"
	AgentNotReady        Code = "AgentNotReady"
	AgentForbidden       Code = "AgentForbidden"
	WebhookNotFound      Code = "WebhookNotFound"
	WebhookNotReady      Code = "WebhookNotReady"
	TriggerNotConverted  Code = "TriggerNotConverted"
	TriggerInvalid       Code = "TriggerInvalid"
	ScaledRefKinds       Code = "ScaledRefKinds"
	ScaledObjectNotReady Code = "ScaledObjectNotReady"
	AutoscalerNotActive  Code = "AutoscalerNotActive"
)

// Examine returns the findings of an installation, errors first, sorted by object, field and code. It is empty for a
// healthy installation.
func Examine(cluster *facts.Facts) []Finding {
	var findings []Finding
	for _, check := range []func(*facts.Facts) []Finding{
		unreadResources, controller, registration, rollouts, permissions, otherProducts, dataPlane, connections,
		routes, agent, autoscaling,
	} {
		findings = append(findings, check(cluster)...)
	}
	if !HasError(findings) {
		findings = append(findings, notStarted(cluster)...)
	}
	return finish(findings)
}

// finish sets the addresses of findings, sorts them, and removes duplicates.
func finish(findings []Finding) []Finding {
	for i := range findings {
		findings[i].URL = findings[i].Code.url()
	}
	slices.SortStableFunc(findings, compareFindings)
	return slices.Compact(findings)
}

// HasError reports whether any finding is an error.
func HasError(findings []Finding) bool {
	return slices.ContainsFunc(findings, func(f Finding) bool { return f.Severity == Error })
}

// unreadResources reports the resources that could not be read.
func unreadResources(cluster *facts.Facts) []Finding {
	var findings []Finding
	for part, err := range cluster.Unread {
		findings = append(findings, Finding{
			Code: NotExamined, Severity: Warning, Object: string(part),
			Message: fmt.Sprintf("cannot be read, so nothing that depends on them is checked: %v", err),
			Fix: "run the command as a user who may get and list them, e.g. with ClusterRole view and access to " +
				"nodes, customresourcedefinitions and mutatingwebhookconfigurations",
		})
	}
	return findings
}

// objectName formats the name of an object in findings.
func objectName(kind, namespace, name string) string {
	if namespace == "" {
		return kind + " " + name
	}
	return kind + " " + namespace + "/" + name
}
