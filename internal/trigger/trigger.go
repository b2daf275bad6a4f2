package trigger

import (
	"fmt"
	"maps"
	"strings"
	"time"
)

// Trigger is the metadata of a trigger, with defaults filled in.
type Trigger struct {
	// Hosts are the hosts whose requests are routed and counted, as written, in their order. None means all hosts of the
	// namespace.
	Hosts []string
	// PathPrefixes limit the requests to paths. None means all paths.
	PathPrefixes []string
	// HostsIncomplete and PathPrefixesIncomplete report whether Hosts and PathPrefixes lack invalid elements, or those
	// of a misspelled key. HeadersIncomplete and ServiceIncomplete report the latter of Headers and Service. Hosts are
	// also incomplete if they are missing: "*" selects all.
	HostsIncomplete, PathPrefixesIncomplete, HeadersIncomplete, ServiceIncomplete bool
	// Headers limit the requests further: all of them must match. Names are unique, case-insensitively.
	Headers []Header
	// Service is the name of the destination Service. If it is empty, the target must be a Rollout, which names the
	// Service.
	Service string
	// Port is the number of the Service's port, or 0 if PortName is set.
	Port int32
	// PortName is the name of the Service's port, or empty if Port is set.
	PortName string
	// IsPortGuess reports whether Port and PortName are a guess, because the metadata is ambiguous.
	IsPortGuess bool
	// FallbackService is the real backend of a Service that autowire has rewritten, or empty.
	FallbackService string
	// Metric is the metric to scale by.
	Metric Metric
	// TargetValue is the value of Metric per replica: requests per second, or concurrent requests. It is at least 1.
	TargetValue int32
	// ActivationTargetValue is the value that Metric must exceed to activate a workload at zero replicas.
	ActivationTargetValue float64
	// Granularity is the length of the intervals in which requests are counted. Window is the time over which the rate is
	// averaged, at least Granularity. Both are positive and apply to MetricRequestRate only.
	Granularity, Window time.Duration
	// ExternalProxyMetricKey is the cluster name in the user's own Envoy whose requests are counted instead of those of
	// this project's proxies, or empty.
	ExternalProxyMetricKey string
	// ExternalProxySources are the IP addresses and CIDRs of the user's own Envoys, separated by commas, or empty.
	ExternalProxySources string
	// Autowire are the kinds of objects that may be redirected to the proxy. None means none.
	Autowire []AutowireKind
	// HealthcheckPath is the path of external health checks, or empty.
	HealthcheckPath string
	// HealthcheckResponse is who answers them. Empty without HealthcheckPath.
	HealthcheckResponse HealthcheckResponse
	// TLSSecretName is the Secret with the certificate of the hosts, or empty.
	TLSSecretName string
	// WaitingPage means that a request at zero replicas is answered with a waiting page instead of being queued.
	WaitingPage bool
	// WaitingPageConfigMap is the ConfigMap with that page, or empty for the default page.
	WaitingPageConfigMap string
	// SessionAffinity selects the Pod for a client's requests, as YAML or JSON, or is empty. See package model/affinity.
	SessionAffinity string
	// StaticResponses and PlaceholderResponse are responses of the proxies, as YAML or JSON, or empty. See package
	// model/staticresponse.
	StaticResponses, PlaceholderResponse string
	// ConditionWaitTimeout is how long a request waits for a ready Pod. ResponseHeaderTimeout is how long the application
	// may take, from the end of the request, to send the response headers, and RequestTimeout the whole response.
	// IdleTimeout is how long a request may be without a byte in either direction. Nil is the interceptor's default.
	ConditionWaitTimeout, ResponseHeaderTimeout, RequestTimeout, IdleTimeout *time.Duration
}

// Header is one condition on a request's headers.
type Header struct {
	// Name is the header's name, as written.
	Name string
	// Value is the exact value of the header. Wildcard and Regex are patterns for it, see model.HeaderText. At most one of
	// the three is set; without them, any value matches.
	Value, Wildcard, Regex *string
}

// Metric is a metric to scale by.
type Metric string

// The values of key scalingMetric.
const (
	// MetricRequestRate is the number of requests per second.
	MetricRequestRate Metric = "requestRate"
	// MetricConcurrency is the number of concurrent requests.
	MetricConcurrency Metric = "concurrency"
)

// AutowireKind is a kind of object that routes requests.
type AutowireKind string

// The values of key trafficAutowire, except AutowireOff.
const (
	AutowireIngress        AutowireKind = "ingress"        // networking.k8s.io Ingress
	AutowireHTTPRoute      AutowireKind = "httproute"      // gateway.networking.k8s.io HTTPRoute
	AutowireVirtualService AutowireKind = "virtualservice" // networking.istio.io VirtualService
	AutowireRoute          AutowireKind = "route"          // route.openshift.io Route
	AutowireService        AutowireKind = "service"        // the Service itself
)

// AutowireOff is the value of key trafficAutowire that disables autowiring.
const AutowireOff = "false"

// HealthcheckResponse is who answers external health checks.
type HealthcheckResponse string

// The values of key healthcheckResponse.
const (
	// HealthcheckStatic means that the proxy answers while there are no replicas, and load balancers at all times.
	HealthcheckStatic HealthcheckResponse = "static"
	// HealthcheckPassthrough means that the application answers, as any other request.
	HealthcheckPassthrough HealthcheckResponse = "passthrough"
)

// Problem is one validation error in a trigger's metadata.
type Problem struct {
	// Key is the invalid key.
	Key string
	// Value is the key's value; empty if it has none.
	Value string
	// Fix describes the problem and the allowed values.
	Fix string
	// Ignored means that the rest of the trigger is valid. Otherwise the trigger defines no route.
	Ignored bool
	// Applied is what applies of an ignored value; empty for nothing, so that the default applies.
	Applied string
	// IsGuess means that what applies instead is a guess, for a new object only. An existing one keeps its own value.
	IsGuess bool
}

// maxShownValue is the maximum length of a value in a message, in bytes.
const maxShownValue = 80

// keepsOwn follows what applies to a new object in the text of a Problem.
const keepsOwn = ", an existing one keeps its own"

// Guessed returns the problem as an ignored one, because a new object gets a guessed value. An existing one keeps its
// own.
func (p Problem) Guessed(value string) Problem {
	p.Ignored, p.IsGuess = true, true
	p.Fix += "; a new object gets " + value + keepsOwn
	return p
}

// String returns key, value and fix.
func (p Problem) String() string {
	if p.Value == "" {
		return p.Key + ": " + p.Fix
	}
	return fmt.Sprintf("%s %.*q: %s", p.Key, maxShownValue, p.Value, p.Fix)
}

// Usable reports whether a trigger with these problems is valid: all of them are ignored.
func Usable(problems []Problem) bool {
	for _, problem := range problems {
		if !problem.Ignored {
			return false
		}
	}
	return true
}

// Parse parses the metadata of a Managed or Unconverted trigger. It returns all problems, in the order of the table
// of keys, unknown keys last. Unless the problems are Usable, the Trigger is incomplete. An invalid value of a key
// that defines no route is ignored, and the default applies. Of hosts and path prefixes, invalid ones are ignored if
// there is a valid one. So is an unknown field of a header that has a value. If it is clear which port is meant by an
// invalid or ambiguous one, that is a guess. A key with an empty value counts as missing, because templates produce
// such keys.
func Parse(metadata map[string]string) (Trigger, []Problem) {
	parsed, problems := parseTable(metadata, keys())
	problems = parsed.choosePort(metadata, problems)
	problems = append(problems, crossKeyProblems(&parsed, metadata, problems)...)
	return parsed, append(problems, unknownKeys(metadata, keys())...)
}

// ParseScaling parses what the scaler uses of any TypePush trigger: Metric, TargetValue and ActivationTargetValue, as
// Parse does. It ignores all other keys and their errors: the HTTPScaledObject still has the previous valid values. For
// a Managed trigger it returns no problem, because the agent reports it, and the defaults apply. No one else reports
// those of a Reference.
func ParseScaling(metadata map[string]string) (Trigger, []Problem) {
	parsed, problems := parseTable(metadata, scalingKeys())
	if hasRoutingKeys(metadata) || IsUserType(metadata[KeyConvertedFrom]) {
		return parsed, nil
	}
	return parsed, problems
}

// Accepted returns the metadata without what the problems ignore.
func Accepted(metadata map[string]string, problems []Problem) map[string]string {
	accepted := maps.Clone(metadata)
	for _, problem := range problems {
		if problem.Ignored {
			accepted[problem.Key] = problem.Applied
		}
	}
	return accepted
}

// parseTable parses the keys of a table, and returns the problems of single keys.
func parseTable(metadata map[string]string, table []key) (parsed Trigger, problems []Problem) {
	for _, k := range table {
		value, isSet := k.fallback, false
		if text := strings.TrimSpace(metadata[k.name]); text != "" {
			value, isSet = text, true
		}
		if value == "" {
			continue
		}
		if err := k.read(&parsed, value); err != nil {
			hasRest := k.rest != nil && k.rest(&parsed) != ""
			problem := Problem{Key: k.name, Value: value, Fix: err.Error(), Ignored: !k.isRoute || hasRest}
			if problem.Ignored {
				problem.Applied, problem.Fix = k.fallBack(&parsed, problem.Fix)
			}
			problems = append(problems, problem)
		} else if reason := k.ineffective(metadata); isSet && reason != "" {
			problems = append(problems, Problem{Key: k.name, Value: value, Fix: reason, Ignored: true, Applied: value})
		}
	}
	return parsed, problems
}

// fallBack applies what is left of an invalid value, or the default. It returns what applies, in metadata and in a
// message about the validation error.
func (k key) fallBack(parsed *Trigger, fix string) (applied, message string) {
	switch {
	case k.isRoute:
		return k.rest(parsed), fix + "; ignored, the other elements apply"
	case k.rest != nil:
		applied = k.rest(parsed)
		return applied, fix + "; " + applied + " applies"
	case k.fallback == "":
		return "", fix + "; ignored"
	case k.read(parsed, k.fallback) != nil: // the default is always valid
		return "", fix
	}
	return "", fix + "; the default " + k.fallback + " applies"
}

// crossKeyProblems returns the problems that concern several keys, or missing ones.
func crossKeyProblems(parsed *Trigger, metadata map[string]string, known []Problem) []Problem {
	isInvalid := map[string]bool{}
	for _, problem := range known {
		isInvalid[problem.Key] = true
	}
	var problems []Problem
	if len(parsed.Hosts) == 0 && !isInvalid[KeyHosts] {
		parsed.HostsIncomplete = true
		problems = append(problems, Problem{
			Key: KeyHosts, Ignored: true,
			Fix: "missing: a new object gets all hosts of the namespace" + keepsOwn +
				`; name them, such as shop.example.com, or "*" for all`,
		})
	}
	parsed.PathPrefixesIncomplete = parsed.PathPrefixesIncomplete || isMisspelled(metadata, KeyPathPrefixes)
	parsed.HeadersIncomplete = isMisspelled(metadata, KeyHeaders)
	parsed.ServiceIncomplete = isMisspelled(metadata, KeyService)
	if !hasValue(metadata, KeyPort) && !hasValue(metadata, KeyPortName) {
		problems = append(problems, Problem{
			Key: KeyPort,
			Fix: "is required: set exactly one of port and portName, to a port of the Service",
		})
	}
	return append(problems, parsed.windowProblems()...)
}

// windowProblems returns the problem of a window that is too short, and corrects it.
func (t *Trigger) windowProblems() []Problem {
	if t.Window >= t.Granularity {
		return nil
	}
	problem := Problem{
		Key: KeyWindow, Value: t.Window.String(), Ignored: true,
		Fix: fmt.Sprintf("is shorter than the granularity of %v, which applies; use a multiple of it", t.Granularity),
	}
	t.Window = t.Granularity
	return []Problem{problem}
}

// hasValue reports whether a key has a value.
func hasValue(metadata map[string]string, key string) bool {
	return strings.TrimSpace(metadata[key]) != ""
}
