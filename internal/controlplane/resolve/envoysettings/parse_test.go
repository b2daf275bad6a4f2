package envoysettings_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve/envoysettings"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		data map[string]string
		want model.EnvoySettings
	}{
		"nothing":      {nil, model.EnvoySettings{}},
		"empty values": {map[string]string{"route": "", "cluster": "# later"}, model.EnvoySettings{}},
		"all route settings": {map[string]string{"route": `{timeout: 0s, idle_timeout: 5m, retry_policy: {retry_on: "5xx, reset", num_retries: 0,
			per_try_timeout: 1.5s, retry_back_off: {base_interval: 1s, max_interval: 10s}, retriable_status_codes: [502, 503]},
			request_mirror_policies: [{timeout: 1m}]}`}, model.EnvoySettings{Route: model.RouteSettings{
			Timeout: model.Given[time.Duration]{IsGiven: true}, IdleTimeout: model.TimeoutOf(5 * time.Minute), RetryOn: "5xx,reset",
			Retries:       model.Given[uint32]{IsGiven: true},
			PerTryTimeout: model.TimeoutOf(1500 * time.Millisecond), BackOff: model.BackOff{
				Base: time.Second,
				Max:  10 * time.Second,
			}, RetryCodes: [model.MaxRetryCodes]uint32{502, 503}, MirrorTimeout: model.TimeoutOf(time.Minute),
		}}},
		"no time limits": {
			map[string]string{
				"route": "{timeout: 0s, idle_timeout: 0s, retry_policy: {per_try_timeout: 0ms}, " +
					"request_mirror_policies: [{timeout: 0s}]}",
				"cluster": "connect_timeout: 0s",
			},
			model.EnvoySettings{
				Route: model.RouteSettings{
					Timeout:     model.Given[time.Duration]{IsGiven: true},
					IdleTimeout: model.TimeoutOf(0), PerTryTimeout: model.TimeoutOf(0), MirrorTimeout: model.TimeoutOf(0),
				},
				Cluster: model.ClusterSettings{ConnectTimeout: model.TimeoutOf(0)},
			},
		},
		"no time limits, without a unit": {
			map[string]string{
				"route":   "{timeout: 0, idle_timeout: '0', retry_policy: {per_try_timeout: -0s}}",
				"cluster": "connect_timeout: 0",
			},
			model.EnvoySettings{
				Route: model.RouteSettings{
					Timeout:     model.Given[time.Duration]{IsGiven: true},
					IdleTimeout: model.TimeoutOf(0), PerTryTimeout: model.TimeoutOf(0),
				},
				Cluster: model.ClusterSettings{ConnectTimeout: model.TimeoutOf(0)},
			},
		},
		"nulls, which set nothing": {map[string]string{
			"route":                "idle_timeout:\nretry_policy: ~\ntimeout: 1s",
			"cluster":              "{lb_policy: null, circuit_breakers: {thresholds: [{max_requests: }]}, outlier_detection: {}}",
			"envoy-config-cluster": "cluster:\n  connect_timeout:\n",
		}, model.EnvoySettings{Route: model.RouteSettings{Timeout: model.Given[time.Duration]{Value: time.Second, IsGiven: true}}}},
		"all cluster settings": {map[string]string{"cluster": `{connect_timeout: 1s, lb_policy: LEAST_REQUEST, least_request_lb_config: {choice_count: 3,
			slow_start_config: {slow_start_window: 60s, min_weight_percent: {value: 0}}},
			circuit_breakers: {thresholds: [{max_connections: 1, max_pending_requests: 2, max_requests: 3, max_retries: 4}]}}`}, model.EnvoySettings{Cluster: model.ClusterSettings{
			ConnectTimeout: model.TimeoutOf(time.Second), MaxConnections: 1, MaxPendingRequests: 2, MaxRequests: 3, MaxRetries: 4, Balance: model.Balance{
				Policy: "LEAST_REQUEST", ChoiceCount: 3, SlowStart: time.Minute, MinWeight: model.Given[float64]{IsGiven: true},
			},
		}}},
		"all failure settings": {map[string]string{"cluster": `{circuit_breakers: {thresholds: [{retry_budget: {budget_percent: {value: 12.5},
			min_retry_concurrency: 0}}]}, outlier_detection: {consecutive_local_origin_failure: 0, max_ejection_percent: 99,
			interval: 1s, base_ejection_time: 5s, max_ejection_time: 5s}}`}, model.EnvoySettings{Cluster: model.ClusterSettings{
			RetryBudget: model.RetryBudget{
				Percent:        model.Given[float64]{Value: 12.5, IsGiven: true},
				MinConcurrency: model.Given[uint32]{IsGiven: true},
			},
			Outliers: model.Outliers{
				Failures: model.Given[uint32]{IsGiven: true}, MaxPercent: model.Given[uint32]{Value: 99, IsGiven: true},
				Interval: time.Second, Base: 5 * time.Second, Max: 5 * time.Second,
			},
		}}},
		"Kedify's agent": {map[string]string{
			"content":            "logging: {format: plaintext}\n# not YAML: [",
			"envoy-config-route": "route:\n  idle_timeout: 3600s\n", "envoy-config-cluster": "lb_policy: ROUND_ROBIN\n",
		}, model.EnvoySettings{
			Route:   model.RouteSettings{IdleTimeout: model.TimeoutOf(time.Hour)},
			Cluster: model.ClusterSettings{Balance: model.Balance{Policy: "ROUND_ROBIN"}},
		}},
		"Kedify's agent, cluster level, no route": {map[string]string{
			"envoy-config-route": "route:\n", "envoy-config-cluster": "cluster: {connect_timeout: 2s}",
		}, model.EnvoySettings{Cluster: model.ClusterSettings{ConnectTimeout: model.TimeoutOf(2 * time.Second)}}},
		"both keys": {map[string]string{
			"envoy-config-route": "route: {idle_timeout: 1m, timeout: 1s}", "route": "idle_timeout: 2m",
			"envoy-config-cluster": "connect_timeout: 1s", "cluster": "connect_timeout: 2s",
		}, model.EnvoySettings{
			Route: model.RouteSettings{
				IdleTimeout: model.TimeoutOf(2 * time.Minute), Timeout: model.Given[time.Duration]{Value: time.Second, IsGiven: true},
			},
			Cluster: model.ClusterSettings{ConnectTimeout: model.TimeoutOf(2 * time.Second)},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			parsed := envoysettings.Parse(test.data)
			got, conflicts := parsed.Settings()
			if len(parsed.Problems)+len(conflicts) > 0 {
				t.Fatal(parsed.Problems, conflicts)
			}
			if diff := cmp.Diff(&test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseErrors(t *testing.T) {
	t.Parallel()
	route := func(text string) map[string]string { return map[string]string{"route": text} }
	cluster := func(text string) map[string]string { return map[string]string{"cluster": text} }
	rest := map[string]model.EnvoySettings{ // what is left of the settings; nothing for the other cases
		"a second threshold":                   {Cluster: model.ClusterSettings{MaxRetries: 1}},
		"settings of another policy":           {Cluster: model.ClusterSettings{Balance: model.Balance{Policy: "RANDOM"}}},
		"minimum weight without slow start":    {Cluster: model.ClusterSettings{Balance: model.Balance{Policy: "ROUND_ROBIN"}}},
		"not a number":                         {Cluster: model.ClusterSettings{Balance: model.Balance{Policy: "ROUND_ROBIN"}}},
		"maximum interval below base interval": {Route: model.RouteSettings{BackOff: model.BackOff{Base: 2 * time.Second}}},
		"a budget and a number": {Cluster: model.ClusterSettings{RetryBudget: model.RetryBudget{
			Percent: model.Given[float64]{Value: 20, IsGiven: true},
		}}},
		"one of three":             {Route: model.RouteSettings{IdleTimeout: model.TimeoutOf(time.Minute)}, Cluster: model.ClusterSettings{MaxRequests: 7}},
		"Kedify's key, one of two": {Cluster: model.ClusterSettings{ConnectTimeout: model.TimeoutOf(time.Second)}},
	}
	for name, test := range map[string]struct {
		data map[string]string
		says string
	}{
		"unknown key": {
			map[string]string{"listener": ""},
			`unknown key "listener": use route or cluster`,
		},
		"no YAML":       {route("a: [b"), "key route: invalid YAML: "},
		"duplicate key": {route("timeout: 1s\ntimeout: 2s"), "key route: invalid YAML: "},
		"no object": {
			route("[timeout]"),
			`key route: "[timeout]" is not an object: use Envoy's field names as keys`,
		},
		"too much": {
			route(strings.Repeat("#", 20000)),
			"key route: 20000 bytes exceed the limit of 16384",
		},
		"unsupported setting": {
			route("{cluster: other}"),
			"route.cluster: unsupported setting: remove it",
		},
		"a second threshold": {
			cluster("{circuit_breakers: {thresholds: [{max_retries: 1}, {max_retries: 2}]}}"),
			"cluster.circuit_breakers.thresholds[1].max_retries: unsupported setting",
		},
		"too many": {
			route("{retry_policy: {num_retries: 50}}"),
			`route.retry_policy.num_retries: invalid value "50": use a whole number from 0 to 10`,
		},
		"negative number": {
			route("{retry_policy: {num_retries: -1}}"),
			`route.retry_policy.num_retries: invalid value "-1": use `,
		},
		"no duration": {
			route("{timeout: 10}"),
			`route.timeout: invalid value "10": use a time from 0s to 24h0m0s, such as 10s`,
		},
		"too long": {
			cluster("{connect_timeout: 10m}"),
			`cluster.connect_timeout: invalid value "10m": use a time from 100ms to 5m0s, such as 10s`,
		},
		"unknown condition": {
			route("{retry_policy: {retry_on: '5xx,always'}}"),
			`route.retry_policy.retry_on: invalid value "5xx,always": use one or more of 5xx, `,
		},
		"invalid code": {
			route("{retry_policy: {retriable_status_codes: [200]}}"),
			`route.retry_policy.retriable_status_codes: invalid value "200": use up to 10 numbers from 400 ` +
				`to 599`,
		},
		"too many codes": {
			route("{retry_policy: {retriable_status_codes: [500,501,502,503,504,505,506,507,508,509,510]}}"),
			"route.retry_policy.retriable_status_codes: ",
		},
		"unknown policy": {
			cluster("{lb_policy: MAGLEV}"),
			`cluster.lb_policy: invalid value "MAGLEV": use one of ROUND_ROBIN, LEAST_REQUEST, RANDOM`,
		},
		"two policies": {cluster("{lb_policy: 'RANDOM,RANDOM'}"), "cluster.lb_policy: "},
		"settings of another policy": {
			cluster("{lb_policy: RANDOM, least_request_lb_config: {choice_count: 2}}"),
			`cluster.least_request_lb_config.choice_count: invalid value "2": use a whole number from 2 to ` +
				`10, with lb_policy: LEAST_REQUEST`,
		},
		"settings without a policy": {
			cluster("{least_request_lb_config: {choice_count: 2}}"),
			"cluster.lb_policy: missing: ",
		},
		"minimum weight without slow start": {cluster("{lb_policy: ROUND_ROBIN, round_robin_lb_config: {slow_start_config: " +
			"{min_weight_percent: {value: 1}}}}"), "cluster: min_weight_percent requires"},
		"not a number": {cluster("{lb_policy: ROUND_ROBIN, round_robin_lb_config: {slow_start_config: " +
			"{min_weight_percent: {value: NaN}}}}"), "cluster.round_robin_lb_config"},
		"maximum interval below base interval": {
			route("{retry_policy: {retry_back_off: {base_interval: 2s, max_interval: 1s}}}"),
			`route.retry_policy.retry_back_off.max_interval: invalid value "1s": set ` +
				`route.retry_policy.retry_back_off.base_interval too`,
		},
		"all Pods ejected": {
			cluster("{outlier_detection: {max_ejection_percent: 100}}"),
			`cluster.outlier_detection.max_ejection_percent: invalid value "100": use a whole number from 0 ` +
				`to 99`,
		},
		"an ejection by status": {
			cluster("{outlier_detection: {consecutive_5xx: 5}}"),
			"cluster.outlier_detection.consecutive_5xx: unsupported setting",
		},
		"maximum below the default ejection time": {
			cluster("{outlier_detection: {max_ejection_time: 20s}}"),
			`cluster.outlier_detection.max_ejection_time: invalid value "20s": use at least ` +
				`base_ejection_time, 30s`,
		},
		"a budget and a number": {
			cluster("{circuit_breakers: {thresholds: [{max_retries: 5, retry_budget: {budget_percent: {value: 20}}}]}}"),
			"cluster.circuit_breakers.thresholds[0].max_retries: Envoy ignores it",
		},
		"a CA that is none": {
			cluster(validation("{trusted_ca: {inline_string: yes}}")),
			`cluster.transport_socket.typed_config.common_tls_context.validation_context.trusted_ca.inline_string: ` +
				`invalid value "true": use one or more certificates in PEM`,
		},
		"a key in a CA": {
			cluster(validation(`{trusted_ca: {inline_string: "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"}}`)),
			`cluster.transport_socket.typed_config.common_tls_context.validation_context.trusted_ca.inline_string: `,
		},
		"half a certificate": {
			cluster(validation(`{trusted_ca: {inline_string: "-----BEGIN CERTIFICATE-----\nAAAA\n"}}`)),
			`cluster.transport_socket.typed_config.common_tls_context.validation_context.trusted_ca.inline_string: `,
		},
		"a name without a CA": {
			cluster(validation("{match_typed_subject_alt_names: [{matcher: {exact: shop.apps.svc}}]}")),
			`cluster.transport_socket.typed_config.common_tls_context.validation_context.trusted_ca.inline_string: missing: `,
		},
		"a suffix without a dot": {
			cluster(validation("{match_typed_subject_alt_names: [{matcher: {suffix: apps.svc}}]}")),
			`cluster.transport_socket.typed_config.common_tls_context.validation_context.match_typed_subject_alt_names[0].` +
				`matcher.suffix: invalid value "apps.svc": use a dot and a DNS name`,
		},
		"a list of names": {
			cluster(validation("{match_typed_subject_alt_names: [{matcher: {exact: 'a.test,b.test'}}]}")),
			`cluster.transport_socket.typed_config.common_tls_context.validation_context.match_typed_subject_alt_names[0].` +
				`matcher.exact: invalid value "a.test,b.test": use a DNS name`,
		},
		"one of three": {
			map[string]string{
				"route": "{idle_timeout: 1m, timeout: never}", "cluster": "{circuit_breakers: {thresholds: [{max_requests: 7}]}}",
			},
			`route.timeout: invalid value "never": use a time`,
		},
		"Kedify's key, one of two": {
			map[string]string{"envoy-config-cluster": "{connect_timeout: 1s, lb_policy: RING_HASH}", "envoy-config-route": "route: [a"},
			`cluster.lb_policy: invalid value "RING_HASH"`,
		},
		"negative time": {
			route("{timeout: -1s}"),
			`route.timeout: invalid value "-1s": use a time from 0s to 24h0m0s, such as 10s, or 0s for no limit`,
		},
		"negative time without activity": {route("{idle_timeout: -1ns}"), `route.idle_timeout: invalid value "-1ns"`},
		"time beyond the range": {
			route("{retry_policy: {per_try_timeout: 99999999h}}"),
			`route.retry_policy.per_try_timeout: invalid value "99999999h"`,
		},
		"negative connect timeout": {cluster("{connect_timeout: -0.5s}"), `cluster.connect_timeout: invalid value "-0.5s"`},
		"pause of zero": {
			route("{retry_policy: {retry_back_off: {base_interval: 0s}}}"),
			`route.retry_policy.retry_back_off.base_interval: invalid value "0s": use a time from 1ms`,
		},
		"ejection without end": {
			cluster("{outlier_detection: {base_ejection_time: 99999999h}}"),
			`cluster.outlier_detection.base_ejection_time: invalid value "99999999h"`,
		},
		"interval of zero": {
			cluster("{outlier_detection: {interval: 0}}"), `cluster.outlier_detection.interval: invalid value "0"`,
		},
		"slow start of zero": {
			cluster("{round_robin_lb_config: {slow_start_config: {slow_start_window: 0s}}}"),
			`cluster.round_robin_lb_config.slow_start_config.slow_start_window: invalid value "0s"`,
		},
		"Kedify's key, a text": {
			map[string]string{"envoy-config-route": "3600s"}, `key envoy-config-route: "3600s" is not an object`,
		},
		"Kedify's key, a list": {
			map[string]string{"envoy-config-cluster": "- lb_policy: RANDOM"},
			`key envoy-config-cluster: "- lb_policy: RANDOM" is not an object`,
		},
		"Kedify's key, a number below it": {
			map[string]string{"envoy-config-route": "route: 5"}, "route.route: unsupported setting: remove it",
		},
		"Kedify's key, seconds as a number": {
			map[string]string{"envoy-config-route": "route: {idle_timeout: 3600}"},
			`route.idle_timeout: invalid value "3600": use a time`,
		},
		"Kedify's key, seconds as an object": {
			map[string]string{"envoy-config-route": "route: {idle_timeout: {seconds: 3600}}"},
			"route.idle_timeout.seconds: unsupported setting: remove it",
		},
		"Kedify's key, a Boolean for a policy": {
			map[string]string{"envoy-config-cluster": "lb_policy: yes"}, `cluster.lb_policy: invalid value "`,
		},
		"Kedify's key, a text for a number": {
			map[string]string{"envoy-config-cluster": "cluster: {circuit_breakers: {thresholds: [{max_requests: many}]}}"},
			`cluster.circuit_breakers.thresholds[0].max_requests: invalid value "many"`,
		},
		"two errors": {
			map[string]string{"cluster": "{a: 1}", "route": "{b: 2}"},
			"cluster.a: unsupported setting: remove it; route.b: ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			parsed := envoysettings.Parse(test.data)
			got, conflicts := parsed.Settings()
			if says := strings.Join(slices.Concat(parsed.Problems, conflicts), "; "); !strings.HasPrefix(says, test.says) || says == "" {
				t.Errorf("problems %q, want %q", says, test.says)
			}
			if diff := cmp.Diff(new(rest[name]), got); diff != "" {
				t.Errorf("settings (-want +got):\n%s", diff)
			}
		})
	}
}

// validation returns the text of key cluster with a validation context.
func validation(context string) string {
	return "{transport_socket: {typed_config: {common_tls_context: {validation_context: " + context + "}}}}"
}

// TestTLSSettings has a CA of two certificates and a name. Text between the certificates is ignored.
func TestTLSSettings(t *testing.T) {
	t.Parallel()
	first, second := certificate(t), certificate(t)
	for matcher, want := range map[string]model.UpstreamTLS{
		"":                                {CA: first + second},
		"{exact: shop.apps.svc}":          {CA: first + second, Name: "shop.apps.svc"},
		"{suffix: .apps.svc}":             {CA: first + second, NameSuffix: ".apps.svc"},
		"{exact: a.test, suffix: .a.com}": {CA: first + second, Name: "a.test"},
	} {
		names := ""
		if matcher != "" {
			names = ", match_typed_subject_alt_names: [{matcher: " + matcher + "}]"
		}
		text, err := json.Marshal("# ours\n" + first + "\n# theirs\n" + second)
		if err != nil {
			t.Fatal(err)
		}
		parsed := envoysettings.Parse(map[string]string{
			"cluster": validation("{trusted_ca: {inline_string: " + string(text) + "}" + names + "}"),
		})
		got, conflicts := parsed.Settings()
		isConflict := want.Name != "" && strings.Contains(matcher, "suffix")
		if diff := cmp.Diff(want, got.Cluster.TLS); diff != "" || len(parsed.Problems) > 0 || len(conflicts) > 0 != isConflict {
			t.Errorf("%s: %v, %v (-want +got):\n%s", matcher, parsed.Problems, conflicts, diff)
		}
	}
}

// certificate returns a certificate in PEM.
func certificate(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// TestOver corrects and breaks a ConfigMap: an invalid value keeps its previous one, and nothing else.
func TestOver(t *testing.T) {
	t.Parallel()
	var active envoysettings.Parsed
	step := func(what string, data map[string]string, idle time.Duration, connect time.Duration, problems int) {
		t.Helper()
		active = envoysettings.Parse(data).Over(active)
		settings, _ := active.Settings()
		if settings.Route.IdleTimeout.Value != idle || settings.Cluster.ConnectTimeout.Value != connect || len(active.Problems) != problems {
			t.Errorf("%s: %+v, %q; want %v, %v and %d problems", what, settings, active.Problems, idle, connect, problems)
		}
	}
	step("valid", map[string]string{"route": "idle_timeout: 1m", "cluster": "connect_timeout: 1s"}, time.Minute, time.Second, 0)
	step("one invalid value", map[string]string{"route": "idle_timeout: never", "cluster": "connect_timeout: 2s"}, time.Minute, 2*time.Second, 1)
	step("still invalid", map[string]string{"route": "idle_timeout: 1", "cluster": "connect_timeout: 2s"}, time.Minute, 2*time.Second, 1)
	step("an unreadable key", map[string]string{"route": "idle_timeout: 2m", "cluster": "[a"}, 2*time.Minute, 2*time.Second, 1)
	step("an unsupported setting", map[string]string{"route": "{idle_timeout: 3m, prefix_rewrite: /}"}, 3*time.Minute, 0, 1)
	step("unset", map[string]string{"listener": "a"}, 0, 0, 1)
	step("invalid from the beginning", map[string]string{"route": "idle_timeout: -1s"}, 0, 0, 1)
}

// TestDocumentedSettings compares docs/how-to/envoy-settings.md with the supported settings and parses its ConfigMap.
func TestDocumentedSettings(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../../docs/how-to/envoy-settings.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented, supported []string
	for _, row := range regexp.MustCompile("(?m)^\\| `((?:route|cluster)\\..*)` \\| (.*) \\|$").FindAllSubmatch(page, -1) {
		documented = append(documented, string(row[1])+": "+string(row[2]))
	}
	for _, setting := range envoysettings.Supported() {
		supported = append(supported, setting.Path+": "+setting.Allowed)
	}
	if diff := cmp.Diff(supported, documented); diff != "" {
		t.Errorf("settings (-supported +documented):\n%s", diff)
	}
	block := regexp.MustCompile("(?s)```yaml settings\n(.*?)```").FindSubmatch(page)
	if block == nil {
		t.Fatal("there is no block: yaml settings")
	}
	var object corev1.ConfigMap
	if err := yaml.UnmarshalStrict(block[1], &object); err != nil {
		t.Fatal(err)
	}
	if parsed := envoysettings.Parse(object.Data); len(parsed.Problems) > 0 || object.Name != envoysettings.Name {
		t.Errorf("ConfigMap %s: %v", object.Name, parsed.Problems)
	}
}
