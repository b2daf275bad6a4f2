package envoysettings_test

import (
	"os"
	"regexp"
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
			per_try_timeout: 1.5s, retry_back_off: {base_interval: 1s, max_interval: 10s}, retriable_status_codes: [502, 503]}}`}, model.EnvoySettings{Route: model.RouteSettings{
			Timeout: model.Given[time.Duration]{IsGiven: true}, IdleTimeout: model.TimeoutOf(5 * time.Minute), RetryOn: "5xx,reset",
			Retries:       model.Given[uint32]{IsGiven: true},
			PerTryTimeout: model.TimeoutOf(1500 * time.Millisecond), BackOff: model.BackOff{
				Base: time.Second,
				Max:  10 * time.Second,
			}, RetryCodes: [model.MaxRetryCodes]uint32{502, 503},
		}}},
		"no time limits": {
			map[string]string{
				"route":   "{timeout: 0s, idle_timeout: 0s, retry_policy: {per_try_timeout: 0ms}}",
				"cluster": "connect_timeout: 0s",
			},
			model.EnvoySettings{
				Route: model.RouteSettings{
					Timeout:     model.Given[time.Duration]{IsGiven: true},
					IdleTimeout: model.TimeoutOf(0), PerTryTimeout: model.TimeoutOf(0),
				},
				Cluster: model.ClusterSettings{ConnectTimeout: model.TimeoutOf(0)},
			},
		},
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
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := envoysettings.Parse(test.data)
			if err != nil {
				t.Fatal(err)
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
	for name, test := range map[string]struct {
		data map[string]string
		says string
	}{
		"unknown key": {
			map[string]string{"listener": ""},
			`invalid settings: unknown key "listener": use route or cluster`,
		},
		"no YAML":       {route("a: [b"), "invalid settings: key route: invalid YAML: "},
		"duplicate key": {route("timeout: 1s\ntimeout: 2s"), "invalid settings: key route: invalid YAML: "},
		"no object": {
			route("[timeout]"),
			`invalid settings: key route: "[timeout]" is not an object: use Envoy's field names as keys`,
		},
		"too much": {
			route(strings.Repeat("#", 20000)),
			"invalid settings: key route: 20000 bytes exceed the limit of 16384",
		},
		"unsupported setting": {
			route("{cluster: other}"),
			"invalid settings: route.cluster: unsupported setting: remove it",
		},
		"a second threshold": {
			cluster("{circuit_breakers: {thresholds: [{max_retries: 1}, {max_retries: 2}]}}"),
			"invalid settings: cluster.circuit_breakers.thresholds[1].max_retries: unsupported setting",
		},
		"too many": {
			route("{retry_policy: {num_retries: 50}}"),
			`invalid settings: route.retry_policy.num_retries: invalid value "50": use a whole number from 0 to 10`,
		},
		"negative number": {
			route("{retry_policy: {num_retries: -1}}"),
			`invalid settings: route.retry_policy.num_retries: invalid value "-1": use `,
		},
		"no duration": {
			route("{timeout: 10}"),
			`invalid settings: route.timeout: invalid value "10": use a time from 0s to 24h0m0s, such as 10s`,
		},
		"too long": {
			cluster("{connect_timeout: 10m}"),
			`invalid settings: cluster.connect_timeout: invalid value "10m": use a time from 100ms to 5m0s, such as 10s`,
		},
		"unknown condition": {
			route("{retry_policy: {retry_on: '5xx,always'}}"),
			`invalid settings: route.retry_policy.retry_on: invalid value "5xx,always": use one or more of 5xx, `,
		},
		"invalid code": {
			route("{retry_policy: {retriable_status_codes: [200]}}"),
			`invalid settings: route.retry_policy.retriable_status_codes: invalid value "200": use up to 10 numbers from 400 ` +
				`to 599`,
		},
		"too many codes": {
			route("{retry_policy: {retriable_status_codes: [500,501,502,503,504,505,506,507,508,509,510]}}"),
			"invalid settings: route.retry_policy.retriable_status_codes: ",
		},
		"unknown policy": {
			cluster("{lb_policy: MAGLEV}"),
			`invalid settings: cluster.lb_policy: invalid value "MAGLEV": use one of ROUND_ROBIN, LEAST_REQUEST, RANDOM`,
		},
		"two policies": {cluster("{lb_policy: 'RANDOM,RANDOM'}"), "invalid settings: cluster.lb_policy: "},
		"settings of another policy": {
			cluster("{lb_policy: RANDOM, least_request_lb_config: {choice_count: 2}}"),
			`invalid settings: cluster.least_request_lb_config.choice_count: invalid value "2": use a whole number from 2 to ` +
				`10, with lb_policy: LEAST_REQUEST`,
		},
		"settings without a policy": {
			cluster("{least_request_lb_config: {choice_count: 2}}"),
			"invalid settings: cluster.lb_policy: missing: ",
		},
		"minimum weight without slow start": {cluster("{lb_policy: ROUND_ROBIN, round_robin_lb_config: {slow_start_config: " +
			"{min_weight_percent: {value: 1}}}}"), "invalid settings: cluster: min_weight_percent requires"},
		"not a number": {cluster("{lb_policy: ROUND_ROBIN, round_robin_lb_config: {slow_start_config: " +
			"{min_weight_percent: {value: NaN}}}}"), "invalid settings: cluster.round_robin_lb_config"},
		"maximum interval below base interval": {
			route("{retry_policy: {retry_back_off: {base_interval: 2s, max_interval: 1s}}}"),
			`invalid settings: route.retry_policy.retry_back_off.max_interval: invalid value "1s": set ` +
				`route.retry_policy.retry_back_off.base_interval too`,
		},
		"all Pods ejected": {
			cluster("{outlier_detection: {max_ejection_percent: 100}}"),
			`invalid settings: cluster.outlier_detection.max_ejection_percent: invalid value "100": use a whole number from 0 ` +
				`to 99`,
		},
		"an ejection by status": {
			cluster("{outlier_detection: {consecutive_5xx: 5}}"),
			"invalid settings: cluster.outlier_detection.consecutive_5xx: unsupported setting",
		},
		"maximum below the default ejection time": {
			cluster("{outlier_detection: {max_ejection_time: 20s}}"),
			`invalid settings: cluster.outlier_detection.max_ejection_time: invalid value "20s": use at least ` +
				`base_ejection_time, 30s`,
		},
		"a budget and a number": {
			cluster("{circuit_breakers: {thresholds: [{max_retries: 5, retry_budget: {budget_percent: {value: 20}}}]}}"),
			"invalid settings: cluster.circuit_breakers.thresholds[0].max_retries: Envoy ignores it",
		},
		"two errors": {
			map[string]string{"cluster": "{a: 1}", "route": "{b: 2}"},
			"invalid settings: cluster.a: unsupported setting: remove it; route.b: ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := envoysettings.Parse(test.data)
			if err == nil || got != nil || !strings.HasPrefix(err.Error(), test.says) {
				t.Errorf("%+v, error %v; want one that begins with %q", got, err, test.says)
			}
		})
	}
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
	if _, err := envoysettings.Parse(object.Data); err != nil || object.Name != envoysettings.Name {
		t.Errorf("ConfigMap %s: %v", object.Name, err)
	}
}
