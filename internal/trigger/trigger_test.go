package trigger_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/internal/trigger"
)

// minimal returns the smallest valid metadata.
func minimal() map[string]string { return map[string]string{"hosts": "shop.example.com", "port": "80"} }

// with returns minimal with additional keys. An empty value removes a key.
func with(more map[string]string) map[string]string {
	metadata := minimal()
	for key, value := range more {
		if value == "" {
			delete(metadata, key)
			continue
		}
		metadata[key] = value
	}
	return metadata
}

// missingHosts is the fix of missing hosts.
const missingHosts = `missing: a new object gets all hosts of the namespace, an existing one keeps its own; name ` +
	`them, such as shop.example.com, or "*" for all`

// defaults returns the Trigger of minimal.
func defaults() trigger.Trigger {
	return trigger.Trigger{
		Hosts: []string{"shop.example.com"}, Port: 80,
		Metric: trigger.MetricRequestRate, TargetValue: 100, Granularity: time.Second, Window: time.Minute,
		Autowire: []trigger.AutowireKind{"ingress", "httproute", "virtualservice", "route"},
	}
}

// TestParse lists each key in the order of the guide's table: its valid values and their meaning.
func TestParse(t *testing.T) {
	t.Parallel()
	changed := func(change func(*trigger.Trigger)) trigger.Trigger {
		parsed := defaults()
		change(&parsed)
		return parsed
	}
	tests := map[string]struct {
		metadata map[string]string
		want     trigger.Trigger
	}{
		"defaults": {minimal(), defaults()},
		"empty is not given": {map[string]string{
			"hosts": "shop.example.com", "port": "80", "targetValue": " ",
			"headers": "",
		}, defaults()},
		"several hosts": {
			with(map[string]string{"hosts": "a.test, *.b.test,*,"}),
			changed(func(t *trigger.Trigger) { t.Hosts = []string{"a.test", "*.b.test", "*"} }),
		},
		"path prefixes": {
			with(map[string]string{"pathPrefixes": "/,/api"}),
			changed(func(t *trigger.Trigger) { t.PathPrefixes = []string{"/", "/api"} }),
		},
		"headers": {
			with(map[string]string{"headers": "- name: X-Team\n  value: a\n- name: X-Any\n"}),
			changed(func(t *trigger.Trigger) {
				t.Headers = []trigger.Header{{Name: "X-Team", Value: new("a")}, {Name: "X-Any"}}
			}),
		},
		"headers with patterns": {
			with(map[string]string{"headers": "- name: X-Agent\n  valueWildcard: 'Python*'\n- name: X-V\n  valueRegex: '1\\.[0-9]+'\n"}),
			changed(func(t *trigger.Trigger) {
				t.Headers = []trigger.Header{{Name: "X-Agent", Wildcard: new("Python*")}, {Name: "X-V", Regex: new(`1\.[0-9]+`)}}
			}),
		},
		"headers as JSON": {
			with(map[string]string{"headers": `[{"name": "X-N", "value": 7}]`}),
			changed(func(t *trigger.Trigger) { t.Headers = []trigger.Header{{Name: "X-N", Value: new("7")}} }),
		},
		"service": {
			with(map[string]string{"service": "shop"}),
			changed(func(t *trigger.Trigger) { t.Service = "shop" }),
		},
		"port name": {
			with(map[string]string{"port": "", "portName": "http"}),
			changed(func(t *trigger.Trigger) { t.Port, t.PortName = 0, "http" }),
		},
		"fallback service": {
			with(map[string]string{"fallbackService": "shop-direct"}),
			changed(func(t *trigger.Trigger) { t.FallbackService = "shop-direct" }),
		},
		"concurrency": {
			with(map[string]string{"scalingMetric": "concurrency"}),
			changed(func(t *trigger.Trigger) { t.Metric = trigger.MetricConcurrency }),
		},
		"target value": {
			with(map[string]string{"targetValue": "5"}),
			changed(func(t *trigger.Trigger) { t.TargetValue = 5 }),
		},
		"activation": {
			with(map[string]string{"activationTargetValue": "2.5"}),
			changed(func(t *trigger.Trigger) { t.ActivationTargetValue = 2.5 }),
		},
		"window": {
			with(map[string]string{"window": "1m30s", "granularity": "500ms"}),
			changed(func(t *trigger.Trigger) { t.Window, t.Granularity = 90*time.Second, 500*time.Millisecond }),
		},
		"external proxy": {
			with(map[string]string{"externalProxyMetricKey": "outbound|80||shop"}),
			changed(func(t *trigger.Trigger) { t.ExternalProxyMetricKey = "outbound|80||shop" }),
		},
		"addresses of external proxies": {
			with(map[string]string{"externalProxyMetricKey": "x", "externalProxySources": "10.0.0.0/8, 192.0.2.7"}),
			changed(func(t *trigger.Trigger) {
				t.ExternalProxyMetricKey, t.ExternalProxySources = "x", "10.0.0.0/8, 192.0.2.7"
			}),
		},
		"autowire some": {
			with(map[string]string{"trafficAutowire": "service, ingress,ingress"}),
			changed(func(t *trigger.Trigger) { t.Autowire = []trigger.AutowireKind{"service", "ingress"} }),
		},
		"autowire none": {
			with(map[string]string{"trafficAutowire": "false"}),
			changed(func(t *trigger.Trigger) { t.Autowire = nil }),
		},
		"health check": {
			with(map[string]string{"healthcheckPath": "/healthz"}),
			changed(func(t *trigger.Trigger) { t.HealthcheckPath, t.HealthcheckResponse = "/healthz", "passthrough" }),
		},
		"static health check": {
			with(map[string]string{"healthcheckPath": "/healthz", "healthcheckResponse": "static"}),
			changed(func(t *trigger.Trigger) { t.HealthcheckPath, t.HealthcheckResponse = "/healthz", "static" }),
		},
		"TLS": {
			with(map[string]string{"tlsSecretName": "shop.example.com-tls"}),
			changed(func(t *trigger.Trigger) { t.TLSSecretName = "shop.example.com-tls" }),
		},
		"waiting page": {
			with(map[string]string{"coldStartWaitingPageEnabled": "true", "coldStartWaitingPageConfigMapRef": "page"}),
			changed(func(t *trigger.Trigger) { t.WaitingPage, t.WaitingPageConfigMap = true, "page" }),
		},
		"session affinity": {
			with(map[string]string{"sessionAffinity": "{cookie: {name: route}}"}),
			changed(func(t *trigger.Trigger) { t.SessionAffinity = "{cookie: {name: route}}" }),
		},
		"static responses": {
			with(map[string]string{"staticResponses": "[{body: down}]", "placeholderResponse": "body: soon"}),
			changed(func(t *trigger.Trigger) { t.StaticResponses, t.PlaceholderResponse = "[{body: down}]", "body: soon" }),
		},
		"timeouts": {
			with(map[string]string{"conditionWaitTimeout": "5m", "responseHeaderTimeout": "0s"}),
			changed(func(t *trigger.Trigger) {
				t.ConditionWaitTimeout, t.ResponseHeaderTimeout = new(5*time.Minute), new(time.Duration(0))
			}),
		},
		"timeouts of the whole request": {
			with(map[string]string{"requestTimeout": "30s", "idleTimeout": "0"}),
			changed(func(t *trigger.Trigger) {
				t.RequestTimeout, t.IdleTimeout = new(30*time.Second), new(time.Duration(0))
			}),
		},
		"timeouts without a limit, and of centuries": {
			with(map[string]string{"conditionWaitTimeout": "0", "responseHeaderTimeout": "2562047h47m"}),
			changed(func(t *trigger.Trigger) {
				t.ConditionWaitTimeout, t.ResponseHeaderTimeout = new(time.Duration(0)), new(2562047*time.Hour+47*time.Minute)
			}),
		},
		"timeouts of negative zero": {
			with(map[string]string{"conditionWaitTimeout": "-0s", "responseHeaderTimeout": " 0ms "}),
			changed(func(t *trigger.Trigger) {
				t.ConditionWaitTimeout, t.ResponseHeaderTimeout = new(time.Duration(0)), new(time.Duration(0))
			}),
		},
		"the keys of a converted trigger, and KEDA's own": {
			with(map[string]string{
				"scalerAddress": "s.keda:9090", "httpScaledObject": "shop", "convertedFrom": "kedify-http",
				"enableTLS": "true", "unsafeSsl": "false",
			}),
			defaults(),
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, problems := trigger.Parse(test.metadata)
			if len(problems) > 0 {
				t.Errorf("problems: %v", problems)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("trigger (-want +got):\n%s", diff)
			}
		})
	}
}

// TestProblems lists each validation error with its exact text. Those that begin with "(ignored)" do not invalidate the
// trigger.
func TestProblems(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		metadata     map[string]string
		wantMessages []string
	}{
		"nothing at all": {nil, []string{
			`(ignored) hosts: ` + missingHosts,
			`port: is required: set exactly one of port and portName, to a port of the Service`,
		}},
		"a host that is none": {with(map[string]string{"hosts": "b_/c"}), []string{
			`hosts "b_/c": "b_/c": not a host name: use letters, digits and hyphens between dots, such as ` +
				`shop.example.com, *.example.com or *`,
		}},
		"a host that is none next to another": {with(map[string]string{"hosts": "a.test,b_/c"}), []string{
			`(ignored) hosts "a.test,b_/c": "b_/c": not a host name: use letters, digits and hyphens between dots, such as ` +
				`shop.example.com, *.example.com or *; ignored, the other elements apply`,
		}},
		"several prefixes without a slash": {with(map[string]string{"pathPrefixes": "a,/ok,b,c,d"}), []string{
			`(ignored) pathPrefixes "a,/ok,b,c,d": "a": not a path prefix: must begin with /; "b": not a path prefix: must ` +
				`begin with /; "c": not a path prefix: must begin with /; 1 more; ignored, the other elements apply`,
		}},
		"nothing between commas": {
			with(map[string]string{"hosts": "a.test,,b.test"}),
			[]string{
				`(ignored) hosts "a.test,,b.test": has an empty element between two commas; ignored, the other elements apply`,
			},
		},
		"only a comma": {
			with(map[string]string{"hosts": ","}),
			[]string{`hosts ",": has an empty element between two commas`},
		},
		"a prefix without a slash": {
			with(map[string]string{"pathPrefixes": "app"}),
			[]string{`pathPrefixes "app": "app": not a path prefix: must begin with /`},
		},
		"headers that are no list": {with(map[string]string{"headers": "X-Team: a"}), []string{
			`headers "X-Team: a": ` + headersSyntax,
		}},
		"headers with other keys": {with(map[string]string{"headers": "[{name: a, value: b, type: c}]"}), []string{
			`(ignored) headers "[{name: a, value: b, type: c}]": [0]: unknown field "type": use name, and one of value, valueWildcard and ` +
				`valueRegex; ignored, the other elements apply`,
		}},
		"headers with another key for the value": {with(map[string]string{"headers": "[{name: a, regex: b}]"}), []string{
			`headers "[{name: a, regex: b}]": [0]: unknown field "regex": use name, and one of value, valueWildcard and ` +
				`valueRegex`,
		}},
		"headers with a pattern without a text": {with(map[string]string{"headers": "[{name: a, valueRegex: }]"}), []string{
			`headers "[{name: a, valueRegex: }]": [0]: valueRegex is no text: write one in quotes, or remove the field`,
		}},
		"headers with two conditions": {with(map[string]string{"headers": "[{name: a, value: b, valueRegex: b}]"}), []string{
			`headers "[{name: a, value: b, valueRegex: b}]": "a": not a header: it has several of value, valueWildcard and ` +
				`valueRegex: keep one`,
		}},
		"headers with an invalid pattern": {with(map[string]string{"headers": "[{name: a, valueRegex: b(}]"}), []string{
			`headers "[{name: a, valueRegex: b(}]": "a": not a header: valueRegex: not a regular expression that Envoy ` +
				`accepts: "b(": missing closing ): correct it (RE2 syntax)`,
		}},
		"headers without a list": {with(map[string]string{"headers": "# [{name: a}]"}), []string{
			`headers "# [{name: a}]": ` + headersSyntax,
		}},
		"headers of two documents": {with(map[string]string{"headers": "- name: a\n---\n- name: b\n"}), []string{
			`headers "- name: a\n---\n- name: b": ` + headersSyntax,
		}},
		"headers with other keys and a typo": {with(map[string]string{
			"headers": "[{name: a, value: b, type: Exact}, {name: c d, value: e, invert: true}]",
		}), []string{
			`headers "[{name: a, value: b, type: Exact}, {name: c d, value: e, invert: true}]": "c d": not a header: a name ` +
				"has letters, digits and !#$%&'*+-.^_`|~ only",
		}},
		"headers of other types": {with(map[string]string{"headers": "[{name: a, value: [b]}]"}), []string{
			`headers "[{name: a, value: [b]}]": ` + headersSyntax,
		}},
		"a header twice": {with(map[string]string{"headers": "[{name: A}, {name: a}]"}), []string{
			`headers "[{name: A}, {name: a}]": "a" is a duplicate, because names are case-insensitive: keep one, all headers ` +
				`must match`,
		}},
		"an alias": {
			with(map[string]string{"headers": "[{name: &a x}, {name: *a}]"}),
			[]string{`headers "[{name: &a x}, {name: *a}]": YAML anchors and aliases are not allowed`},
		},
		"a header with a space": {
			with(map[string]string{"headers": "[{name: a b}]"}),
			[]string{"headers \"[{name: a b}]\": \"a b\": not a header: a name has letters, digits and !#$%&'*+-.^_`|~ only"},
		},
		"a Service elsewhere": {with(map[string]string{"service": "shop.other"}), []string{
			`service "shop.other": use the name of a Service of the same namespace: at most 63 lower-case letters, digits and ` +
				`hyphens`,
		}},
		"a port by name": {
			with(map[string]string{"port": "http"}),
			[]string{
				`(ignored) port "http": not a number from 1 to 65535: use portName for a name; a new object gets portName http, ` +
					`an existing one keeps its own`,
			},
		},
		"a number with a typo": {
			with(map[string]string{"port": "8080a"}),
			[]string{`port "8080a": use a whole number from 1 to 65535, or portName for a name`},
		},
		"a port out of range": {
			with(map[string]string{"port": "65536"}),
			[]string{`port "65536": use a whole number from 1 to 65535, or portName for a name`},
		},
		"port zero": {
			with(map[string]string{"port": "0"}),
			[]string{`port "0": use a whole number from 1 to 65535, or portName for a name`},
		},
		"both ports": {
			with(map[string]string{"portName": "http"}),
			[]string{`(ignored) portName "http": set exactly one of port and portName; a new object gets port 80, ` +
				`an existing one keeps its own`},
		},
		"an invalid port and a name": {
			with(map[string]string{"port": "0", "portName": "http"}),
			[]string{`(ignored) port "0": set exactly one of port and portName; a new object gets portName http, ` +
				`an existing one keeps its own`},
		},
		"two names": {
			with(map[string]string{"port": "web", "portName": "http"}),
			[]string{`(ignored) port "web": set exactly one of port and portName; a new object gets portName http, ` +
				`an existing one keeps its own`},
		},
		"a number as a name": {
			with(map[string]string{"port": "", "portName": "8080"}),
			[]string{`(ignored) portName "8080": not a name: use port for a number; a new object gets port 8080, ` +
				`an existing one keeps its own`},
		},
		"two invalid ports": {with(map[string]string{"port": "-1", "portName": "HTTP"}), []string{
			`port "-1": use a whole number from 1 to 65535, or portName for a name`,
			`portName "HTTP": use the name of a port of the Service: at most 63 lower-case letters, digits and hyphens`,
		}},
		"no port": {
			with(map[string]string{"port": " "}),
			[]string{`port: is required: set exactly one of port and portName, to a port of the Service`},
		},
		"no hosts": {with(map[string]string{"hosts": ""}), []string{
			`(ignored) hosts: ` + missingHosts,
		}},
		"misspelt hosts": {with(map[string]string{"hosts": "", "host": "a.test"}), []string{
			`(ignored) hosts: ` + missingHosts,
			`(ignored) host "a.test": unknown key, ignored; did you mean hosts?`,
		}},
		"another metric": {
			with(map[string]string{"scalingMetric": "rps"}),
			[]string{`(ignored) scalingMetric "rps": use one of requestRate, concurrency; the default requestRate applies`},
		},
		"a target of zero": {
			with(map[string]string{"targetValue": "0"}),
			[]string{`(ignored) targetValue "0": use a whole number of at least 1, such as 100; the default 100 applies`},
		},
		"a target with a unit": {
			with(map[string]string{"targetValue": "5rps"}),
			[]string{`(ignored) targetValue "5rps": use a whole number of at least 1, such as 100; the default 100 applies`},
		},
		"a negative threshold": {
			with(map[string]string{"activationTargetValue": "-1"}),
			[]string{`(ignored) activationTargetValue "-1": use a number of at least 0, such as 0 or 2.5; the default 0 applies`},
		},
		"a window without unit": {with(map[string]string{"window": "60"}), []string{
			`(ignored) window "60": use a positive duration, e.g. 1s or 1m30s; the default 1m applies`,
		}},
		"a window below the granularity": {with(map[string]string{"window": "1s", "granularity": "10s"}), []string{
			`(ignored) window "1s": is shorter than the granularity of 10s, which applies; use a multiple of it`,
		}},
		"a window of a concurrency": {with(map[string]string{"scalingMetric": "concurrency", "window": "30s"}), []string{
			`(ignored) window "30s": has no effect unless scalingMetric is requestRate`,
		}},
		"too many hosts": {with(map[string]string{"hosts": strings.Repeat("a.test,", 257)}), []string{
			fmt.Sprintf("hosts %.80q: has 257 elements, the limit is 256: use several ScaledObjects", strings.Repeat("a.test,", 257)),
		}},
		"too many headers": {with(map[string]string{"headers": "[" + strings.Repeat("{name: a},", 17) + "]"}), []string{
			fmt.Sprintf("headers %.80q: has 17 headers, the limit is 16", "["+strings.Repeat("{name: a},", 17)+"]"),
		}},
		"a host name for an address": {
			with(map[string]string{"externalProxyMetricKey": "x", "externalProxySources": "gateway.test"}), []string{
				`(ignored) externalProxySources "gateway.test": use at most 64 IP addresses and CIDRs, separated by commas, such as ` +
					`10.0.0.0/8,192.0.2.7; ignored`,
			},
		},
		"addresses without a cluster": {with(map[string]string{"externalProxySources": "10.0.0.0/8"}), []string{
			`(ignored) externalProxySources "10.0.0.0/8": has no effect without externalProxyMetricKey`,
		}},
		"another kind to wire": {with(map[string]string{"trafficAutowire": "ingress,Gateway"}), []string{
			`(ignored) trafficAutowire "ingress,Gateway": "Gateway": use a list of ingress, httproute, virtualservice, route, ` +
				`service, separated by commas, or false for none; ingress applies`,
		}},
		"no known kind to wire": {with(map[string]string{"trafficAutowire": "gloo"}), []string{
			`(ignored) trafficAutowire "gloo": "gloo": use a list of ingress, httproute, virtualservice, route, service, ` +
				`separated by commas, or false for none; false applies`,
		}},
		"health checks by host": {with(map[string]string{
			"healthcheckResponse": "pathEmbeddedHost", "healthcheckPathPrefix": "/kedify-proxy/hc.test",
		}), []string{
			`(ignored) healthcheckResponse "pathEmbeddedHost": ` + notEmbedded,
			`(ignored) healthcheckPathPrefix "/kedify-proxy/hc.test": ` + notEmbedded,
		}},
		"session affinity without a kind": {with(map[string]string{"sessionAffinity": "route"}), []string{
			`(ignored) sessionAffinity "route": not a mapping with one of the keys cookie, header and sourceAddress; ignored`,
		}},
		"timeouts of the whole request": {with(map[string]string{"requestTimeout": "-1s", "idleTimeout": "1"}), []string{
			`(ignored) requestTimeout "-1s": use a duration, e.g. 30s or 10m, or 0s for no limit; ignored`,
			`(ignored) idleTimeout "1": use a duration, e.g. 30s or 10m, or 0s for no limit; ignored`,
		}},
		"a negative timeout": {with(map[string]string{"responseHeaderTimeout": "-1s"}), []string{
			`(ignored) responseHeaderTimeout "-1s": use a duration, e.g. 30s or 10m, or 0s for no limit; ignored`,
		}},
		"a timeout without unit": {with(map[string]string{"conditionWaitTimeout": "30"}), []string{
			`(ignored) conditionWaitTimeout "30": use a duration, e.g. 30s or 10m, or 0s for no limit; ignored`,
		}},
		"a timeout beyond the range": {with(map[string]string{"responseHeaderTimeout": "99999999h"}), []string{
			`(ignored) responseHeaderTimeout "99999999h": use a duration, e.g. 30s or 10m, or 0s for no limit; ignored`,
		}},
		"a negative wait": {with(map[string]string{"conditionWaitTimeout": "-20m"}), []string{
			`(ignored) conditionWaitTimeout "-20m": use a duration, e.g. 30s or 10m, or 0s for no limit; ignored`,
		}},
		"a window and a granularity of zero": {with(map[string]string{"window": "0s", "granularity": "0"}), []string{
			`(ignored) granularity "0": use a positive duration, e.g. 1s or 1m30s; the default 1s applies`,
			`(ignored) window "0s": use a positive duration, e.g. 1s or 1m30s; the default 1m applies`,
		}},
		"a negative granularity, and a window beyond the range": {
			with(map[string]string{"window": "99999999h", "granularity": "-1s"}), []string{
				`(ignored) granularity "-1s": use a positive duration, e.g. 1s or 1m30s; the default 1s applies`,
				`(ignored) window "99999999h": use a positive duration, e.g. 1s or 1m30s; the default 1m applies`,
			},
		},
		"true to wire": {with(map[string]string{"trafficAutowire": "true"}), []string{
			`(ignored) trafficAutowire "true": "true": use a list of ingress, httproute, virtualservice, route, service, ` +
				`separated by commas, or false for none; false applies`,
		}},
		"an answerer in another case": {with(map[string]string{"healthcheckPath": "/", "healthcheckResponse": "Static"}), []string{
			`(ignored) healthcheckResponse "Static": use one of static, passthrough; ignored`,
		}},
		"keys of Kedify that are not supported": {with(map[string]string{
			"pathRegex": "^/v[0-9]+", "loadbalancing": "roundRobin", "coldStartWaitingPageEnabled": "2",
		}), []string{
			`(ignored) coldStartWaitingPageEnabled "2": use true or false; the default false applies`,
			`(ignored) loadbalancing "roundRobin": use eds: the proxies always send requests to the Pods; see sessionAffinity ` +
				`for their choice; the default eds applies`,
			`(ignored) pathRegex "^/v[0-9]+": unknown key, ignored; remove it`,
		}},
		"a health check elsewhere": {
			with(map[string]string{"healthcheckPath": "healthz"}),
			[]string{`(ignored) healthcheckPath "healthz": must begin with /; ignored`},
		},
		"another answerer": {with(map[string]string{"healthcheckPath": "/", "healthcheckResponse": "ok"}), []string{
			`(ignored) healthcheckResponse "ok": use one of static, passthrough; ignored`,
		}},
		"an answer without a path": {with(map[string]string{"healthcheckResponse": "static"}), []string{
			`(ignored) healthcheckResponse "static": has no effect without healthcheckPath`,
		}},
		"a Secret elsewhere": {with(map[string]string{"tlsSecretName": "other/tls"}), []string{
			`(ignored) tlsSecretName "other/tls": use the name of a Secret of the same namespace: lower-case letters, digits, ` +
				`hyphens and dots; ignored`,
		}},
		"neither true nor false": {with(map[string]string{"coldStartWaitingPageEnabled": "yes"}), []string{
			`(ignored) coldStartWaitingPageEnabled "yes": use true or false; the default false applies`,
		}},
		"a page that is off": {with(map[string]string{"coldStartWaitingPageConfigMapRef": "page"}), []string{
			`(ignored) coldStartWaitingPageConfigMapRef "page": has no effect unless coldStartWaitingPageEnabled is true`,
		}},
		"a misspelt key": {with(map[string]string{"pathPrefix": "/app", "targetvalue": "5", "host": "x"}), []string{
			`(ignored) host "x": unknown key, ignored; did you mean hosts?`,
			`(ignored) pathPrefix "/app": unknown key, ignored; did you mean pathPrefixes?`,
			`(ignored) targetvalue "5": unknown key, ignored; did you mean targetValue?`,
		}},
		"a key of another scaler": {with(map[string]string{"serverAddress": "http://prometheus"}), []string{
			`(ignored) serverAddress "http://prometheus": unknown key, ignored; remove it`,
		}},
		"an InterceptorRoute": {with(map[string]string{"interceptorRoute": "shop"}), []string{
			`(ignored) interceptorRoute "shop": the scaler uses the metrics of this InterceptorRoute, not those of the ` +
				`trigger's HTTPScaledObject; remove it, or all keys that select requests`,
		}},
		"all errors at once": {with(map[string]string{"hosts": "", "port": "X", "colour": "red"}), []string{
			`port "X": use a whole number from 1 to 65535, or portName for a name`,
			`(ignored) hosts: ` + missingHosts,
			`(ignored) colour "red": unknown key, ignored; remove it`,
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, problems := trigger.Parse(test.metadata)
			var got []string
			for _, problem := range problems {
				text := problem.String()
				if problem.Ignored {
					text = "(ignored) " + text
				}
				got = append(got, text)
			}
			if diff := cmp.Diff(test.wantMessages, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			fatal := slices.ContainsFunc(test.wantMessages,
				func(text string) bool { return !strings.HasPrefix(text, "(ignored)") })
			if trigger.Usable(problems) == fatal {
				t.Errorf("Usable = %v", !fatal)
			}
		})
	}
}

// TestValidElements: invalid hosts and path prefixes cost only themselves, but a list without a valid one is no route.
func TestValidElements(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		hosts, prefixes         string
		wantHosts, wantPrefixes []string
		isUsable                bool
	}{
		"an invalid host":        {"http://a, b.test", "", []string{"b.test"}, nil, true},
		"a port that is none":    {"a.test:http,*.b.test", "", []string{"*.b.test"}, nil, true},
		"only invalid hosts":     {"a b,c/d", "", nil, nil, false},
		"only commas":            {",,,", "", nil, nil, false},
		"an invalid prefix":      {"a.test", "/a,b,/c?d", []string{"a.test"}, []string{"/a"}, true},
		"only invalid prefixes":  {"a.test", "a,b", []string{"a.test"}, nil, false},
		"both":                   {"a.test,?", "a,/b", []string{"a.test"}, []string{"/b"}, true},
		"too many, some of them": {strings.Repeat("a.test,?,", 200), "", nil, nil, false},
	} {
		parsed, problems := trigger.Parse(with(map[string]string{"hosts": c.hosts, "pathPrefixes": c.prefixes}))
		if !cmp.Equal(parsed.Hosts, c.wantHosts) || !cmp.Equal(parsed.PathPrefixes, c.wantPrefixes) ||
			trigger.Usable(problems) != c.isUsable || len(problems) == 0 {
			t.Errorf("%s: hosts %q, prefixes %q, problems %q", name, parsed.Hosts, parsed.PathPrefixes, problems)
		}
		// A list is incomplete exactly if it has a problem.
		isInvalid := map[string]bool{}
		for _, problem := range problems {
			isInvalid[problem.Key] = true
		}
		if parsed.HostsIncomplete != isInvalid["hosts"] || parsed.PathPrefixesIncomplete != isInvalid["pathPrefixes"] {
			t.Errorf("%s: incomplete hosts %t, prefixes %t, problems %q", name, parsed.HostsIncomplete,
				parsed.PathPrefixesIncomplete, problems)
		}
	}
}

// TestAmbiguousPorts: of port and portName, the port that is meant applies, if there is one.
func TestAmbiguousPorts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		port, portName string
		want           trigger.Trigger // Port and PortName
		isGuess        bool
	}{
		"a number":                 {"80", "", trigger.Trigger{Port: 80}, false},
		"a name":                   {"", "http", trigger.Trigger{PortName: "http"}, false},
		"a name in port":           {"http", "", trigger.Trigger{PortName: "http"}, true},
		"a number in portName":     {"", " 443 ", trigger.Trigger{Port: 443}, true},
		"both":                     {"80", "http", trigger.Trigger{Port: 80}, true},
		"both, swapped":            {"http", "80", trigger.Trigger{PortName: "http"}, true},
		"two numbers":              {"80", "8080", trigger.Trigger{Port: 80}, true},
		"two names":                {"web", "http", trigger.Trigger{PortName: "http"}, true},
		"an invalid one, a name":   {"70000", "http", trigger.Trigger{PortName: "http"}, true},
		"an invalid one, a number": {"-", "8080", trigger.Trigger{Port: 8080}, true},
		"a number, an invalid one": {"80", "-", trigger.Trigger{Port: 80}, true},
		"a typo, and a number":     {"8080a", "443", trigger.Trigger{Port: 443}, true},
		"a name, an invalid one":   {"http-2", "_", trigger.Trigger{PortName: "http-2"}, true},
	} {
		parsed, problems := trigger.Parse(with(map[string]string{"port": c.port, "portName": c.portName}))
		if parsed.Port != c.want.Port || parsed.PortName != c.want.PortName || !trigger.Usable(problems) ||
			len(problems) > 0 != c.isGuess || parsed.IsPortGuess != c.isGuess {
			t.Errorf("%s: port %d, portName %q, problems %q", name, parsed.Port, parsed.PortName, problems)
		}
	}
}

// notEmbedded is the fix for health checks with a host in their path.
const notEmbedded = `not supported: the proxies answer the health checks of load balancers for every Host that no object ` +
	`has, such as an IP address, with any path and with 200; remove it; ignored`

// headersSyntax is the fix for headers that are no list.
const headersSyntax = `use a YAML list of {name, value}, such as [{name: X-Team, value: a}], with valueWildcard or ` +
	`valueRegex instead of value for a pattern; without any of them, any value matches`

// TestUnknownFieldsOfHeaders: an unknown field is ignored next to a value. Without one, it may be the misspelled value.
func TestUnknownFieldsOfHeaders(t *testing.T) {
	t.Parallel()
	a, b := trigger.Header{Name: "X-A", Value: new("1")}, trigger.Header{Name: "X-B", Value: new("")}
	wildcard := trigger.Header{Name: "X-A", Wildcard: new("1*")}
	for text, want := range map[string][]trigger.Header{
		`[{name: X-A, valueWildcard: 1*, type: Wildcard}]`: {wildcard},
		`[{name: X-A, valueWildCard: 1*}]`:                 nil,
		`[{name: X-A, value: "1", regex: ".*"}]`:           {a},
		`[{name: X-A, value: 1, type: Exact}]`:             {a},
		`[{"name":"X-B","value":"","present":true}]`:       {b},
		`[{name: X-A, value: 1}, {name: X-B, val: 2}]`:     nil,
		`[{name: X-A, Value: a}]`:                          nil,
		`[{name: X-A, value: null, regex: a}]`:             nil,
		`[{"name": "X-B", "present": true, "type": ""}]`:   nil,
		`[{name: X-A, value: 1, name: X-B}]`:               nil,
		`[{Name: X-A, value: 1}]`:                          nil,
		`[{regex: x}]`:                                     nil,
	} {
		metadata := with(map[string]string{"headers": text})
		parsed, problems := trigger.Parse(metadata)
		if !cmp.Equal(parsed.Headers, want) || len(problems) != 1 || trigger.Usable(problems) != (want != nil) {
			t.Errorf("%s: %+v, problems %q", text, parsed.Headers, problems)
		}
		if want == nil {
			continue
		}
		if again, problems := trigger.Parse(trigger.Accepted(metadata, problems)); !cmp.Equal(again.Headers, want) ||
			len(problems) > 0 {
			t.Errorf("%s, what applies: %+v, problems %q", text, again.Headers, problems)
		}
	}
}

// TestHeadersWithoutList: a text without a list is an error. An empty list means no condition.
func TestHeadersWithoutList(t *testing.T) {
	t.Parallel()
	for text, isUsable := range map[string]bool{
		"# [{name: X-A}]": false, "null": false, "~": false, "---": false, "---\n---\n[{name: X-A}]": false, "{}": false,
		"''": false, "[{name: X-A}]\n---\n": false, "[{name: X-A}]\n---\n{": false,
		"[]": true, "--- []\n": true, "[{name: X-A}] # all": true, "---\n- name: X-A\n...\n": true,
	} {
		parsed, problems := trigger.Parse(with(map[string]string{"headers": text}))
		if trigger.Usable(problems) != isUsable || !isUsable && len(parsed.Headers) > 0 {
			t.Errorf("%q: %+v, problems %q", text, parsed.Headers, problems)
		}
	}
}

// TestMisspelledLists: the lists below a misspelled key are incomplete, as is the Service. Hosts are, too, if they are
// missing.
func TestMisspelledLists(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		metadata                          map[string]string
		hosts, prefixes, headers, service bool
	}{
		"none":              {map[string]string{"headers": "", "service": " "}, false, false, false, false},
		"hosts":             {map[string]string{"hosts": "", "host": "a.test"}, true, false, false, false},
		"hosts and host":    {map[string]string{"host": "a.test"}, false, false, false, false},
		"missing hosts":     {map[string]string{"hosts": "", "host": " "}, true, false, false, false},
		"all hosts":         {map[string]string{"hosts": "*", "host": "a.test"}, false, false, false, false},
		"another key":       {map[string]string{"colour": "red"}, false, false, false, false},
		"prefixes":          {map[string]string{"pathPrefix": "/a"}, false, true, false, false},
		"prefixes in lower": {map[string]string{"Hosts": "a.test", "pathprefixes": "/a"}, false, true, false, false},
		"headers":           {map[string]string{"header": "[{name: a}]"}, false, false, true, false},
		"service":           {map[string]string{"servcie": "web"}, false, false, false, true},
		"service, given":    {map[string]string{"servcie": "web", "service": "shop"}, false, false, false, false},
	} {
		parsed, problems := trigger.Parse(with(c.metadata))
		if parsed.HostsIncomplete != c.hosts || parsed.PathPrefixesIncomplete != c.prefixes ||
			parsed.HeadersIncomplete != c.headers || parsed.ServiceIncomplete != c.service || !trigger.Usable(problems) {
			t.Errorf("%s: %+v, problems %q", name, parsed, problems)
		}
	}
}

// TestAccepted has the metadata without its invalid values.
func TestAccepted(t *testing.T) {
	t.Parallel()
	metadata := with(map[string]string{
		"healthcheckPath": "/", "healthcheckResponse": "pathEmbeddedHost", "trafficAutowire": "httproute, gloo,ingress",
		"window": "1", "tlsSecretName": "a", "coldStartWaitingPageConfigMapRef": "page",
	})
	_, problems := trigger.Parse(metadata)
	want := with(map[string]string{
		"healthcheckPath": "/", "trafficAutowire": "httproute,ingress", "tlsSecretName": "a",
		"coldStartWaitingPageConfigMapRef": "page",
	})
	want["healthcheckResponse"], want["window"] = "", ""
	if diff := cmp.Diff(want, trigger.Accepted(metadata, problems)); diff != "" || !trigger.Usable(problems) {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestParseScaling has validation errors that ParseScaling returns, and others that it ignores.
func TestParseScaling(t *testing.T) {
	t.Parallel()
	got, problems := trigger.ParseScaling(map[string]string{
		"hosts": "a b", "port": "x", "colour": "red", "scalingMetric": "concurrency", "targetValue": "0",
		"activationTargetValue": " 2.5 ",
	})
	want := trigger.Trigger{Metric: trigger.MetricConcurrency, TargetValue: 100, ActivationTargetValue: 2.5}
	if diff := cmp.Diff(want, got); diff != "" || len(problems) > 0 {
		t.Errorf("trigger (-want +got), problems %q:\n%s", problems, diff)
	}
	_, problems = trigger.ParseScaling(map[string]string{"httpScaledObject": "shop", "targetValue": "0", "scalingMetric": "rps"})
	if len(problems) != 2 || problems[1].Key != "targetValue" {
		t.Errorf("problems of a trigger that no agent reports: %q", problems)
	}
	for metadata, want := range map[string]string{"": "shop", " ": "shop", " api ": "api"} {
		if got := trigger.ObjectName(map[string]string{"httpScaledObject": metadata}, "shop"); got != want {
			t.Errorf("httpScaledObject %q means %q, want %q", metadata, got, want)
		}
	}
}

func TestClassify(t *testing.T) {
	t.Parallel()
	const address = "scaler.keda:9090"
	tests := map[string]struct {
		triggerType string
		metadata    map[string]string
		want        trigger.Class
	}{
		"as the guides write it": {"kedify-http", minimal(), trigger.Unconverted},
		"of external Envoys":     {"kedify-envoy-http", nil, trigger.Unconverted},
		"of external Envoys, converted": {"external-push", map[string]string{
			"convertedFrom": "kedify-envoy-http", "scalerAddress": "elsewhere:1",
		}, trigger.Managed},
		"converted": {"external-push", with(map[string]string{
			"convertedFrom": "kedify-http",
			"scalerAddress": "elsewhere:1",
		}), trigger.Managed},
		"manual": {"external-push", with(map[string]string{"scalerAddress": address}), trigger.Managed},
		"manual, the long name": {
			"external-push", with(map[string]string{"scalerAddress": "Scaler.keda.svc.cluster.local.:9090"}), trigger.Managed,
		},
		"manual, .svc": {
			"external-push", with(map[string]string{"scalerAddress": "scaler.keda.svc:9090"}),
			trigger.Managed,
		},
		"manual, without hosts": {
			"external-push",
			map[string]string{"scalerAddress": address, "port": "80"},
			trigger.Managed,
		},
		"manual, misspelt": {"external-push", map[string]string{
			"scalerAddress": address, "host": "a.test",
			"httpScaledObject": "shop",
		}, trigger.Managed},
		"only what to scale by": {
			"external-push",
			map[string]string{"scalerAddress": address, "targetValue": "5"},
			trigger.Reference,
		},
		"of the HTTP add-on": {"external-push", map[string]string{
			"scalerAddress":    address,
			"httpScaledObject": "shop",
		}, trigger.Reference},
		"another scaler's": {
			"external-push", with(map[string]string{"scalerAddress": "other.keda:9090"}),
			trigger.OtherScaler,
		},
		"another port": {
			"external-push", with(map[string]string{"scalerAddress": "scaler.keda:9091"}),
			trigger.OtherScaler,
		},
		"another namespace": {
			"external-push", with(map[string]string{"scalerAddress": "scaler.keda2:9090"}),
			trigger.OtherScaler,
		},
		"another scaler, no hosts": {
			"external-push",
			map[string]string{"scalerAddress": "other.keda:9090"},
			trigger.Unrelated,
		},
		"a scaler that KEDA polls":    {"external", with(map[string]string{"scalerAddress": address}), trigger.Unrelated},
		"another kind, though marked": {"cpu", with(map[string]string{"convertedFrom": "kedify-http"}), trigger.Unrelated},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := trigger.Classify(test.triggerType, test.metadata, address); got != test.want {
				t.Errorf("Recognise = %d, want %d", got, test.want)
			}
		})
	}
}

// TestConversionMetadataMakesATriggerManaged is the round trip: a converted trigger is Managed and parses to the same
// Trigger.
func TestConversionMetadataMakesATriggerManaged(t *testing.T) {
	t.Parallel()
	for name, address := range map[string]string{"ours": "", "the user's own": "mine.team:9090"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			metadata := with(map[string]string{"scalerAddress": address})
			added := trigger.ConversionMetadata(trigger.TypeHTTP, metadata, "scaler.keda:9090", "shop")
			maps.Copy(metadata, added)
			if want := address; want != "" && metadata["scalerAddress"] != want {
				t.Errorf("scalerAddress is %q, want %q", metadata["scalerAddress"], want)
			}
			if got := trigger.Classify(trigger.TypePush, metadata, "another.keda:9090"); got != trigger.Managed {
				t.Errorf("Recognise = %d", got)
			}
			if got, problems := trigger.Parse(metadata); len(problems) > 0 || !cmp.Equal(got, defaults()) {
				t.Errorf("Parse = %+v, %v", got, problems)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add("hosts", "a.test", "port", "80", "window", "1m")
	f.Add("headers", "[{name: &a x, value: *a}]", "hosts", "*,", "trafficAutowire", "false")
	f.Add("pathPrefix", "/é", "portName", "-", "granularity", "-1s")
	f.Fuzz(func(t *testing.T, key1, value1, key2, value2, key3, value3 string) {
		metadata := map[string]string{key1: value1, key2: value2, key3: value3}
		parsed, problems := trigger.Parse(metadata)
		for _, problem := range problems {
			if problem.Key == "" && key1 != "" && key2 != "" && key3 != "" || problem.Fix == "" {
				t.Errorf("a problem without words: %#v", problem)
			}
		}
		if !trigger.Usable(problems) {
			return
		}
		if (parsed.Port == 0) == (parsed.PortName == "") || parsed.TargetValue < 1 ||
			parsed.Granularity <= 0 || parsed.Window < parsed.Granularity || parsed.Metric == "" ||
			parsed.ActivationTargetValue < 0 {
			t.Errorf("usable, but not whole: %+v", parsed)
		}
		// The scaler uses the same values.
		scaling, problems := trigger.ParseScaling(metadata)
		want := trigger.Trigger{
			Metric: parsed.Metric, TargetValue: parsed.TargetValue, ActivationTargetValue: parsed.ActivationTargetValue,
		}
		if diff := cmp.Diff(want, scaling); diff != "" || len(problems) > 0 {
			t.Errorf("for the scaler: %v (-want +got)\n%s", problems, diff)
		}
	})
}

// TestInterceptorRouteOf: only a trigger for this project's scaler names an InterceptorRoute that it serves.
func TestInterceptorRouteOf(t *testing.T) {
	t.Parallel()
	const scaler = "scaler.keda:9090"
	for name, c := range map[string]struct{ kind, address, route, want string }{
		"a route":                 {trigger.TypePush, scaler, "shop", "shop"},
		"a name with blanks":      {trigger.TypePush, "scaler.keda.svc.cluster.local:9090", " shop ", "shop"},
		"no route":                {trigger.TypePush, scaler, "", ""},
		"a route of the add-on":   {trigger.TypePush, "scaler.other:9090", "shop", ""},
		"a trigger to convert":    {trigger.TypeHTTP, scaler, "shop", ""},
		"a trigger of Prometheus": {"prometheus", scaler, "shop", ""},
	} {
		metadata := map[string]string{trigger.KeyScalerAddress: c.address, trigger.KeyInterceptorRoute: c.route}
		if got := trigger.InterceptorRouteOf(c.kind, metadata, scaler); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
