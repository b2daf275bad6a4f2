package trigger

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/model/affinity"
	"github.com/kedify/argo-rollouts-plugin/internal/model/sources"
)

// The keys of a trigger's metadata (https://docs.kedify.io/scalers/http-scaler/), and activationTargetValue, a key of
// KEDA's triggers.
const (
	KeyHosts                  = "hosts"
	KeyPathPrefixes           = "pathPrefixes"
	KeyHeaders                = "headers"
	KeyService                = "service"
	KeyPort                   = "port"
	KeyPortName               = "portName"
	KeyFallbackService        = "fallbackService"
	KeyScalingMetric          = "scalingMetric"
	KeyTargetValue            = "targetValue"
	KeyActivationTargetValue  = "activationTargetValue"
	KeyGranularity            = "granularity"
	KeyWindow                 = "window"
	KeyExternalProxyMetricKey = "externalProxyMetricKey"
	KeyExternalProxySources   = "externalProxySources"
	KeyTrafficAutowire        = "trafficAutowire"
	KeyHealthcheckPath        = "healthcheckPath"
	KeyHealthcheckResponse    = "healthcheckResponse"
	KeyHealthcheckPathPrefix  = "healthcheckPathPrefix"
	KeyLoadBalancing          = "loadbalancing"
	KeyTLSSecretName          = "tlsSecretName"
	KeyWaitingPageEnabled     = "coldStartWaitingPageEnabled"
	KeyWaitingPageConfigMap   = "coldStartWaitingPageConfigMapRef"
	KeySessionAffinity        = "sessionAffinity"
	KeyStaticResponses        = "staticResponses"
	KeyPlaceholderResponse    = "placeholderResponse"
	KeyConditionWaitTimeout   = "conditionWaitTimeout"
	KeyResponseHeaderTimeout  = "responseHeaderTimeout"
	KeyRequestTimeout         = "requestTimeout"
	KeyIdleTimeout            = "idleTimeout"
)

// MaxElements is the maximum number of hosts and of path prefixes, that of the schema of HTTPScaledObject.
const MaxElements = 256

// key is one row of the table of keys.
type key struct {
	name string
	// fallback is the default value; empty for none.
	fallback string
	// read parses a value, which is not empty, into the Trigger. Its error describes the allowed values.
	read func(t *Trigger, value string) error
	// isRoute reports whether an invalid value leaves no route, or the wrong one, unless rest returns a part of it, or
	// choosePort finds the port. Other invalid values are ignored.
	isRoute bool
	// rest returns the valid part of an invalid value that read has stored, empty for none; nil if it stores nothing.
	rest func(t *Trigger) string
	// needs is the key, and needsValue its value, without which this one has no effect; empty if it always has an effect.
	needs, needsValue string
}

// ineffective returns why the key has no effect in metadata; empty if it has one.
func (k key) ineffective(metadata map[string]string) string {
	if k.needs == "" {
		return ""
	}
	other := strings.TrimSpace(metadata[k.needs])
	for _, row := range keys() {
		if row.name == k.needs && other == "" {
			other = row.fallback
		}
	}
	switch {
	case k.needsValue == "" && other == "":
		return "has no effect without " + k.needs
	case k.needsValue != "" && !strings.EqualFold(other, k.needsValue):
		return fmt.Sprintf("has no effect unless %s is %s", k.needs, k.needsValue)
	}
	return ""
}

// keys returns the table of all keys, in the order in which they are parsed.
func keys() []key {
	return slices.Concat(routingKeys(), scalingKeys(), otherKeys())
}

// scalingKeys returns the keys that the scaler uses; it parses them in each call.
func scalingKeys() []key {
	return []key{
		{name: KeyScalingMetric, fallback: string(MetricRequestRate), read: readEnum(
			func(t *Trigger) *Metric { return &t.Metric }, MetricRequestRate, MetricConcurrency)},
		{name: KeyTargetValue, fallback: "100", read: readTargetValue},
		{name: KeyActivationTargetValue, fallback: "0", read: readActivation},
	}
}

// routingKeys returns the keys that select requests and their destination.
func routingKeys() []key {
	return []key{
		{
			name: KeyHosts, isRoute: true, read: readHosts,
			rest: func(t *Trigger) string { return strings.Join(t.Hosts, ",") },
		},
		{
			name: KeyPathPrefixes, isRoute: true, read: readPathPrefixes,
			rest: func(t *Trigger) string { return strings.Join(t.PathPrefixes, ",") },
		},
		{name: KeyHeaders, isRoute: true, read: readHeaders, rest: formatHeaders},
		{name: KeyService, isRoute: true, read: readServiceName(func(t *Trigger) *string { return &t.Service })},
		{name: KeyPort, isRoute: true, read: readPort},
		{name: KeyPortName, isRoute: true, read: readPortName},
		{
			name: KeyFallbackService,
			read: readServiceName(func(t *Trigger) *string { return &t.FallbackService }),
		},
	}
}

// otherKeys returns all other keys.
func otherKeys() []key {
	return []key{
		{
			name: KeyGranularity, fallback: "1s",
			needs: KeyScalingMetric, needsValue: string(MetricRequestRate),
			read: readDuration(func(t *Trigger) *time.Duration { return &t.Granularity }),
		},
		{
			name: KeyWindow, fallback: "1m",
			needs: KeyScalingMetric, needsValue: string(MetricRequestRate),
			read: readDuration(func(t *Trigger) *time.Duration { return &t.Window }),
		},
		{name: KeyExternalProxyMetricKey, read: readMetricKey},
		{name: KeyExternalProxySources, needs: KeyExternalProxyMetricKey, read: readSources},
		{
			name: KeyTrafficAutowire, fallback: "ingress,httproute,virtualservice,route",
			read: readAutowire, rest: formatAutowire,
		},
		{name: KeyHealthcheckPath, read: readHealthcheckPath},
		{name: KeyHealthcheckResponse, needs: KeyHealthcheckPath, read: readHealthcheckResponse},
		{name: KeyHealthcheckPathPrefix, read: rejectEmbeddedHost},
		{
			name: KeyTLSSecretName,
			read: readObjectName("Secret", func(t *Trigger) *string { return &t.TLSSecretName }),
		},
		{name: KeyWaitingPageEnabled, fallback: "false", read: readWaitingPage},
		{
			name: KeyWaitingPageConfigMap, needs: KeyWaitingPageEnabled, needsValue: "true",
			read: readObjectName("ConfigMap", func(t *Trigger) *string { return &t.WaitingPageConfigMap }),
		},
		{name: KeySessionAffinity, read: readAffinity},
		{name: KeyLoadBalancing, fallback: LoadBalancingEDS, read: readLoadBalancing},
		{name: KeyStaticResponses, read: readStaticResponses},
		{name: KeyPlaceholderResponse, read: readPlaceholder},
		{name: KeyConditionWaitTimeout, read: readTimeout(func(t *Trigger) **time.Duration { return &t.ConditionWaitTimeout })},
		{
			name: KeyResponseHeaderTimeout,
			read: readTimeout(func(t *Trigger) **time.Duration { return &t.ResponseHeaderTimeout }),
		},
		{name: KeyRequestTimeout, read: readTimeout(func(t *Trigger) **time.Duration { return &t.RequestTimeout })},
		{name: KeyIdleTimeout, read: readTimeout(func(t *Trigger) **time.Duration { return &t.IdleTimeout })},
	}
}

// Key is one key of a trigger.
type Key struct {
	// Name is the key.
	Name string
	// Default is the default value; empty if there is none.
	Default string
}

// Keys returns all keys of a TypeHTTP trigger, in the order in which problems are reported.
func Keys() []Key { return published(keys()) }

// published returns the keys of a table.
func published(table []key) []Key {
	var all []Key
	for _, k := range table {
		all = append(all, Key{k.name, k.fallback})
	}
	return all
}

// readHosts parses a list of hosts, and stores the valid ones.
func readHosts(t *Trigger, value string) error {
	valid, invalid := parseList(value, func(host string) error {
		_, err := model.ParseHost(host)
		return err
	})
	t.Hosts, t.HostsIncomplete = valid, len(invalid) > 0
	return joinErrors(invalid)
}

// readPathPrefixes parses a list of path prefixes, and stores the valid ones.
func readPathPrefixes(t *Trigger, value string) error {
	valid, invalid := parseList(value, func(prefix string) error {
		_, err := model.ParsePathPrefix(prefix)
		return err
	})
	t.PathPrefixes, t.PathPrefixesIncomplete = valid, len(invalid) > 0
	return joinErrors(invalid)
}

// readPort parses the number of a port.
func readPort(t *Trigger, value string) error {
	port, err := strconv.ParseUint(value, 10, 16)
	if err != nil || port == 0 {
		return errors.New("use a whole number from 1 to 65535, or portName for a name")
	}
	t.Port = int32(port)
	return nil
}

// readPortName parses the name of a port.
func readPortName(t *Trigger, value string) error {
	if !isDNSLabel(value) {
		return errors.New("use the name of a port of the Service: " + labelRule)
	}
	t.PortName = value
	return nil
}

// readTargetValue parses the target value per replica.
func readTargetValue(t *Trigger, value string) error {
	target, err := strconv.ParseInt(value, 10, 32)
	if err != nil || target < 1 {
		return errors.New("use a whole number of at least 1, such as 100")
	}
	t.TargetValue = int32(target)
	return nil
}

// readActivation parses the activation threshold.
func readActivation(t *Trigger, value string) error {
	threshold, err := strconv.ParseFloat(value, 64)
	if err != nil || math.IsNaN(threshold) || math.IsInf(threshold, 0) || threshold < 0 {
		return errors.New("use a number of at least 0, such as 0 or 2.5")
	}
	t.ActivationTargetValue = threshold
	return nil
}

// readMetricKey parses the cluster name in the user's own Envoy.
func readMetricKey(t *Trigger, value string) error {
	t.ExternalProxyMetricKey = value
	return nil
}

// readSources checks the addresses of the user's own Envoys.
func readSources(t *Trigger, value string) error {
	t.ExternalProxySources = value
	if _, err := sources.Parse(value); err != nil {
		return fmt.Errorf("use at most %d IP addresses and CIDRs, separated by commas, such as 10.0.0.0/8,192.0.2.7",
			sources.MaxEntries)
	}
	return nil
}

// readAutowire parses the kinds of objects that may be redirected to the proxy.
func readAutowire(t *Trigger, value string) error {
	if value == AutowireOff {
		return nil
	}
	all := []AutowireKind{
		AutowireIngress, AutowireHTTPRoute, AutowireVirtualService, AutowireRoute, AutowireService,
	}
	_, invalid := parseList(value, func(kind string) error {
		if !slices.Contains(all, AutowireKind(kind)) {
			return fmt.Errorf("use a list of %s, separated by commas, or %s for none", joinValues(all), AutowireOff)
		}
		return nil
	})
	for text := range strings.SplitSeq(value, ",") {
		kind := AutowireKind(strings.TrimSpace(text))
		if slices.Contains(all, kind) && !slices.Contains(t.Autowire, kind) {
			t.Autowire = append(t.Autowire, kind)
		}
	}
	return joinErrors(invalid[:min(1, len(invalid))]) // All have the same fix.
}

// formatAutowire returns the value for the kinds of objects.
func formatAutowire(t *Trigger) string {
	if len(t.Autowire) == 0 {
		return AutowireOff
	}
	return strings.ReplaceAll(joinValues(t.Autowire), " ", "")
}

// readAffinity parses the session affinity.
func readAffinity(t *Trigger, value string) error {
	if _, err := affinity.Parse(value); err != nil {
		return err
	}
	t.SessionAffinity = value
	return nil
}

// readStaticResponses stores the static responses. The interceptor validates them: for an invalid text, it keeps the
// previous responses, which a missing annotation would remove.
func readStaticResponses(t *Trigger, value string) error {
	t.StaticResponses = value
	return nil
}

// readPlaceholder stores the placeholder, as readStaticResponses does.
func readPlaceholder(t *Trigger, value string) error {
	t.PlaceholderResponse = value
	return nil
}

// readHealthcheckPath parses the path of health checks, which the application answers unless healthcheckResponse is
// set.
func readHealthcheckPath(t *Trigger, value string) error {
	if value[0] != '/' {
		return errors.New("must begin with /")
	}
	if _, err := model.ParsePathPrefix(value); err != nil {
		return err
	}
	t.HealthcheckPath, t.HealthcheckResponse = value, HealthcheckPassthrough
	return nil
}

// healthcheckPathEmbeddedHost is the value of key healthcheckResponse for health checks whose path contains the host,
// see KeyHealthcheckPathPrefix.
const healthcheckPathEmbeddedHost = "pathEmbeddedHost"

// readHealthcheckResponse parses who answers health checks.
func readHealthcheckResponse(t *Trigger, value string) error {
	if value == healthcheckPathEmbeddedHost {
		return rejectEmbeddedHost(t, value)
	}
	return readEnum(func(t *Trigger) *HealthcheckResponse { return &t.HealthcheckResponse },
		HealthcheckStatic, HealthcheckPassthrough)(t, value)
}

// rejectEmbeddedHost rejects the routing of health checks by a host in their path. A path of all hosts of a fleet would
// belong to one tenant, and the health checks are answered without it.
func rejectEmbeddedHost(*Trigger, string) error {
	return errors.New("not supported: the proxies answer the health checks of load balancers for every Host that no " +
		"object has, such as an IP address, with any path and with 200; remove it")
}

// LoadBalancingEDS is the only value of key loadbalancing: the proxies send requests to the Pods, which they receive by
// EDS, and not to the address of the Service.
const LoadBalancingEDS = "eds"

// readLoadBalancing checks how the proxies select a Pod.
func readLoadBalancing(_ *Trigger, value string) error {
	if value != LoadBalancingEDS {
		return errors.New("use eds: the proxies always send requests to the Pods; see sessionAffinity for their choice")
	}
	return nil
}

// readWaitingPage parses whether the waiting page is enabled.
func readWaitingPage(t *Trigger, value string) error {
	enabled, err := strconv.ParseBool(value)
	if err != nil {
		return errors.New("use true or false")
	}
	t.WaitingPage = enabled
	return nil
}
