package trigger

import (
	"fmt"
	"strings"
	"time"
)

// Trigger is what the metadata of a trigger says, with defaults filled in.
type Trigger struct {
	// Hosts are the host names whose requests count and are routed, as they were written, in their
	// order. There is at least one.
	Hosts []string
	// PathPrefixes narrow the hosts down. None means every path.
	PathPrefixes []string
	// Headers narrow the requests down further: all of them must match. No name is there twice,
	// whatever its letter case.
	Headers []Header
	// Service is the name of the Service that requests go to. Empty where it was not given: then
	// the target has to be a Rollout, which names it.
	Service string
	// Port is the number of the Service's port, or 0 where PortName says it.
	Port int32
	// PortName is the name of the Service's port, or empty where Port says it.
	PortName string
	// FallbackService is the real backend behind a Service that autowire has rewritten. Empty
	// where there is none.
	FallbackService string
	// Metric is what is measured.
	Metric Metric
	// TargetValue is how much of Metric one replica takes: requests per second, or requests in
	// flight. It is at least 1.
	TargetValue int32
	// ActivationTargetValue is what Metric has to exceed for a workload to leave zero replicas.
	ActivationTargetValue float64
	// Granularity is the length of the slices in which requests are counted, Window the time over
	// which their rate is averaged and at least as long. Both are positive, and mean something for
	// MetricRequestRate only.
	Granularity, Window time.Duration
	// ExternalProxyMetricKey is the cluster name in an Envoy of the user's own whose requests count
	// in place of ours. Empty where there is none.
	ExternalProxyMetricKey string
	// Autowire are the kinds of objects that may be pointed at the proxy. None means none.
	Autowire []AutowireKind
	// HealthcheckPath is the path of health checks from outside, or empty.
	HealthcheckPath string
	// HealthcheckResponse says who answers them. Empty without HealthcheckPath.
	HealthcheckResponse HealthcheckResponse
	// TLSSecretName is the Secret with the certificate for the hosts, or empty.
	TLSSecretName string
	// WaitingPage says that a request at zero replicas is answered with a waiting page, not held.
	WaitingPage bool
	// WaitingPageConfigMap is the ConfigMap with that page, or empty for the standard one.
	WaitingPageConfigMap string
}

// Header is one condition on a request's headers.
type Header struct {
	// Name is the header's name as it was written.
	Name string
	// Value is what the header must be, exactly; nil if any value will do.
	Value *string
}

// Metric is a measure that replicas are scaled by.
type Metric string

// The values of the key scalingMetric.
const (
	// MetricRequestRate counts requests per second.
	MetricRequestRate Metric = "requestRate"
	// MetricConcurrency counts requests in flight.
	MetricConcurrency Metric = "concurrency"
)

// AutowireKind is a kind of objects that route requests.
type AutowireKind string

// The values of the key trafficAutowire beside AutowireOff.
const (
	AutowireIngress        AutowireKind = "ingress"        // networking.k8s.io Ingress
	AutowireHTTPRoute      AutowireKind = "httproute"      // gateway.networking.k8s.io HTTPRoute
	AutowireVirtualService AutowireKind = "virtualservice" // networking.istio.io VirtualService
	AutowireRoute          AutowireKind = "route"          // route.openshift.io Route
	AutowireService        AutowireKind = "service"        // the Service itself
)

// AutowireOff is the value of the key trafficAutowire that allows no kind.
const AutowireOff = "false"

// HealthcheckResponse says who answers health checks from outside.
type HealthcheckResponse string

// The values of the key healthcheckResponse.
const (
	// HealthcheckStatic has the proxy answer while there are no replicas.
	HealthcheckStatic HealthcheckResponse = "static"
	// HealthcheckPassthrough has the application answer, as any other request.
	HealthcheckPassthrough HealthcheckResponse = "passthrough"
)

// Problem is one mistake in a trigger's metadata.
type Problem struct {
	// Key is the key that it is about.
	Key string
	// Value is what the key has; empty where it has none.
	Value string
	// Remedy says what is wrong and what is allowed.
	Remedy string
	// Ignored says that the key was left out and the rest counts. Otherwise the trigger as a whole
	// cannot be understood.
	Ignored bool
}

// shownValue is how much of a value is repeated in a message, in bytes.
const shownValue = 80

// String names the key, the value and the remedy.
func (p Problem) String() string {
	if p.Value == "" {
		return p.Key + ": " + p.Remedy
	}
	return fmt.Sprintf("%s %.*q: %s", p.Key, shownValue, p.Value, p.Remedy)
}

// Usable says whether a trigger with these problems can be understood: all of them are ignored.
func Usable(problems []Problem) bool {
	for _, problem := range problems {
		if !problem.Ignored {
			return false
		}
	}
	return true
}

// Parse reads the metadata of a trigger that Recognise takes for ours. It returns every mistake, in
// the order of the table of keys, unknown keys last. Unless the problems are Usable the Trigger is
// only a part. A key with an empty value counts as absent, which is what templates leave behind.
func Parse(metadata map[string]string) (Trigger, []Problem) {
	parsed, problems := read(metadata, keys())
	problems = append(problems, contradictions(parsed, metadata, problems)...)
	return parsed, append(problems, unknown(metadata)...)
}

// ParseScaling reads what the scaler goes by, of any TypePush trigger that leads to it: Metric, TargetValue
// and ActivationTargetValue, as Parse reads them. Other keys are passed over, mistakes included: the
// HTTPScaledObject is as it was before them.
func ParseScaling(metadata map[string]string) (Trigger, []Problem) {
	return read(metadata, scalingKeys())
}

// read reads the keys of a table, and returns the mistakes in each by itself.
func read(metadata map[string]string, table []key) (parsed Trigger, problems []Problem) {
	for _, known := range table {
		value, given := known.fallback, false
		if text := strings.TrimSpace(metadata[known.name]); text != "" {
			value, given = text, true
		}
		if value == "" {
			continue
		}
		if err := known.read(&parsed, value); err != nil {
			problems = append(problems, Problem{Key: known.name, Value: value, Remedy: err.Error()})
		} else if reason := known.pointless(metadata); given && reason != "" {
			problems = append(problems, Problem{known.name, value, reason, true})
		}
	}
	return parsed, problems
}

// contradictions are the mistakes that no key has by itself.
func contradictions(parsed Trigger, metadata map[string]string, found []Problem) []Problem {
	wrong := map[string]bool{}
	for _, problem := range found {
		wrong[problem.Key] = true
	}
	var problems []Problem
	if len(parsed.Hosts) == 0 && !wrong[KeyHosts] {
		problems = append(problems, Problem{
			Key:    KeyHosts,
			Remedy: `is required: name at least one host, such as shop.example.com, or "*" for all`,
		})
	}
	port, portName := has(metadata, KeyPort), has(metadata, KeyPortName)
	switch {
	case port && portName:
		problems = append(problems, Problem{
			Key: KeyPortName, Value: metadata[KeyPortName], Remedy: "set exactly one of port and portName",
		})
	case !port && !portName:
		problems = append(problems, Problem{
			Key:    KeyPort,
			Remedy: "is required: set exactly one of port and portName, to a port of the Service",
		})
	}
	if parsed.Window < parsed.Granularity && !wrong[KeyWindow] && !wrong[KeyGranularity] {
		problems = append(problems, Problem{
			Key: KeyWindow, Value: parsed.Window.String(),
			Remedy: fmt.Sprintf("is shorter than the granularity of %v; use a multiple of it",
				parsed.Granularity),
		})
	}
	return problems
}

// has says whether a key has a value.
func has(metadata map[string]string, key string) bool {
	return strings.TrimSpace(metadata[key]) != ""
}
