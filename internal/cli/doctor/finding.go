package doctor

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
)

// Severity says how much a finding matters.
type Severity string

const (
	// Error is for what keeps a canary, or its scaling, from working.
	Error Severity = "error"
	// Warning is for what works, but not as it should, or not for long, and for what could not be examined.
	Warning Severity = "warning"
)

// Finding is one thing that is wrong.
type Finding struct {
	// Code tells findings apart for programs. It stays what it is from version to version.
	Code Code `json:"code"`
	// Severity says how much it matters.
	Severity Severity `json:"severity"`
	// Object is the object that is wrong, or missing: kind, namespace and name.
	Object string `json:"object"`
	// Field is where in the object; empty where it is about all of it.
	Field string `json:"field,omitempty"`
	// Message says what is wrong.
	Message string `json:"message"`
	// Remedy says what to do about it.
	Remedy string `json:"remedy"`
}

// Code is the name of a sort of finding.
type Code string

// The sorts of findings. docs/reference/cli.md has them all.
const (
	NotExamined Code = "NotExamined"

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

	Forbidden       Code = "Forbidden"
	ForbiddenInPart Code = "ForbiddenInPart"

	DefinitionMissing          Code = "DefinitionMissing"
	DefinitionForeign          Code = "DefinitionForeign"
	InterceptorNotFound        Code = "InterceptorNotFound"
	InterceptorNotReady        Code = "InterceptorNotReady"
	NoReadyProxy               Code = "NoReadyProxy"
	HTTPScaledObjectNotFound   Code = "HTTPScaledObjectNotFound"
	HTTPScaledObjectRefused    Code = "HTTPScaledObjectRefused"
	HTTPScaledObjectUnreported Code = "HTTPScaledObjectUnreported"
	ProxyNotInstalled          Code = "ProxyNotInstalled"
	CertificateNotReady        Code = "CertificateNotReady"
	NotWired                   Code = "NotWired"

	RouteNotFound    Code = "RouteNotFound"
	RouteWithoutRule Code = "RouteWithoutRule"
	RouteNotAccepted Code = "RouteNotAccepted"

	KEDANotFound         Code = "KEDANotFound"
	KEDATooOld           Code = "KEDATooOld"
	KEDANotReady         Code = "KEDANotReady"
	ScalerNotFound       Code = "ScalerNotFound"
	ScalerNotReady       Code = "ScalerNotReady"
	AgentNotFound        Code = "AgentNotFound"
	AgentNotReady        Code = "AgentNotReady"
	AgentForbidden       Code = "AgentForbidden"
	WebhookNotFound      Code = "WebhookNotFound"
	WebhookNotReady      Code = "WebhookNotReady"
	TriggerNotConverted  Code = "TriggerNotConverted"
	TriggerMistaken      Code = "TriggerMistaken"
	ScaledRefKinds       Code = "ScaledRefKinds"
	ScaledObjectNotReady Code = "ScaledObjectNotReady"
	AutoscalerNotActive  Code = "AutoscalerNotActive"
)

// Examine returns what is wrong with an installation, errors first, in the order of the objects and their fields. It
// is empty for a sound one.
func Examine(cluster *facts.Facts) []Finding {
	var found []Finding
	for _, check := range []func(*facts.Facts) []Finding{
		unread, controller, registration, rollouts, permissions, dataPlane, routes, agent, autoscaling,
	} {
		found = append(found, check(cluster)...)
	}
	slices.SortStableFunc(found, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Severity, b.Severity), cmp.Compare(a.Object, b.Object), cmp.Compare(a.Field, b.Field), cmp.Compare(a.Code, b.Code))
	})
	return slices.Compact(found)
}

// HasError says whether any finding is an error.
func HasError(findings []Finding) bool {
	return slices.ContainsFunc(findings, func(f Finding) bool { return f.Severity == Error })
}

// unread says what could not be examined.
func unread(cluster *facts.Facts) []Finding {
	var found []Finding
	for part, err := range cluster.Unread {
		found = append(found, Finding{
			Code: NotExamined, Severity: Warning, Object: string(part),
			Message: fmt.Sprintf("cannot be read, so nothing that depends on them is checked: %v", err),
			Remedy:  "run the command as a user who may get and list them, e.g. with ClusterRole view and access to nodes, customresourcedefinitions and mutatingwebhookconfigurations",
		})
	}
	return found
}

// named is an object as findings name it.
func named(kind, namespace, name string) string {
	if namespace == "" {
		return kind + " " + name
	}
	return kind + " " + namespace + "/" + name
}
