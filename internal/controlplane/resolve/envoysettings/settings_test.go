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
		want model.Tuning
	}{
		"nothing":       {nil, model.Tuning{}},
		"nothing in it": {map[string]string{"route": "", "cluster": "# later"}, model.Tuning{}},
		"everything of a route": {map[string]string{"route": `{timeout: 0s, idle_timeout: 5m, retry_policy: {retry_on: "5xx, reset", num_retries: 0,
			per_try_timeout: 1.5s, retry_back_off: {base_interval: 1s, max_interval: 10s}, retriable_status_codes: [502, 503]}}`}, model.Tuning{Route: model.RouteTuning{
			Timeout: model.Given[time.Duration]{IsGiven: true}, IdleTimeout: 5 * time.Minute, RetryOn: "5xx,reset", Retries: model.Given[uint32]{IsGiven: true},
			PerTryTimeout: 1500 * time.Millisecond, BackOff: model.BackOff{Base: time.Second, Max: 10 * time.Second}, RetryCodes: [model.MaxRetryCodes]uint32{502, 503},
		}}},
		"everything of a cluster": {map[string]string{"cluster": `{connect_timeout: 1s, lb_policy: LEAST_REQUEST, least_request_lb_config: {choice_count: 3,
			slow_start_config: {slow_start_window: 60s, min_weight_percent: {value: 0}}},
			circuit_breakers: {thresholds: [{max_connections: 1, max_pending_requests: 2, max_requests: 3, max_retries: 4}]}}`}, model.Tuning{Cluster: model.ClusterTuning{
			ConnectTimeout: time.Second, MaxConnections: 1, MaxPendingRequests: 2, MaxRequests: 3, MaxRetries: 4, Balance: model.Balance{
				Policy: "LEAST_REQUEST", ChoiceCount: 3, SlowStart: time.Minute, MinWeight: model.Given[float64]{IsGiven: true},
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

func TestMistakes(t *testing.T) {
	t.Parallel()
	route := func(text string) map[string]string { return map[string]string{"route": text} }
	cluster := func(text string) map[string]string { return map[string]string{"cluster": text} }
	for name, test := range map[string]struct {
		data map[string]string
		says string
	}{
		"another key":               {map[string]string{"listener": ""}, `it cannot be used: key "listener"; allowed are route and cluster`},
		"no YAML":                   {route("a: [b"), "it cannot be used: key route: this is no YAML: "},
		"one key twice":             {route("timeout: 1s\ntimeout: 2s"), "it cannot be used: key route: this is no YAML: "},
		"no object":                 {route("[timeout]"), `it cannot be used: key route: "[timeout]"; allowed is an object with Envoy's fields`},
		"too much":                  {route(strings.Repeat("#", 20000)), "it cannot be used: key route: 20000 bytes; allowed are 16384"},
		"what Envoy has":            {route("{cluster: other}"), "it cannot be used: route.cluster: it is not among the settings that may be changed"},
		"a second threshold":        {cluster("{circuit_breakers: {thresholds: [{max_retries: 1}, {max_retries: 2}]}}"), "it cannot be used: cluster.circuit_breakers.thresholds[1].max_retries: it is not"},
		"too many":                  {route("{retry_policy: {num_retries: 50}}"), `it cannot be used: route.retry_policy.num_retries: "50"; allowed: a whole number from 0 to 10`},
		"less than none":            {route("{retry_policy: {num_retries: -1}}"), `it cannot be used: route.retry_policy.num_retries: "-1"; allowed: `},
		"no time":                   {route("{timeout: 10}"), `it cannot be used: route.timeout: "10"; allowed: a time from 0s to 24h0m0s, such as 10s`},
		"too long":                  {cluster("{connect_timeout: 10m}"), `it cannot be used: cluster.connect_timeout: "10m"; allowed: a time from 100ms to 5m0s, such as 10s`},
		"another condition":         {route("{retry_policy: {retry_on: '5xx,always'}}"), `it cannot be used: route.retry_policy.retry_on: "5xx,always"; allowed: some of 5xx, `},
		"another code":              {route("{retry_policy: {retriable_status_codes: [200]}}"), `it cannot be used: route.retry_policy.retriable_status_codes: "200"; allowed: up to 10 numbers from 400 to 599`},
		"too many codes":            {route("{retry_policy: {retriable_status_codes: [500,501,502,503,504,505,506,507,508,509,510]}}"), "it cannot be used: route.retry_policy.retriable_status_codes: "},
		"another policy":            {cluster("{lb_policy: MAGLEV}"), `it cannot be used: cluster.lb_policy: "MAGLEV"; allowed: one of ROUND_ROBIN, LEAST_REQUEST, RANDOM`},
		"two policies":              {cluster("{lb_policy: 'RANDOM,RANDOM'}"), "it cannot be used: cluster.lb_policy: "},
		"settings of another one":   {cluster("{lb_policy: RANDOM, least_request_lb_config: {choice_count: 2}}"), `it cannot be used: cluster.least_request_lb_config.choice_count: "2"; allowed: a whole number from 2 to 10, with lb_policy: LEAST_REQUEST`},
		"settings of none":          {cluster("{least_request_lb_config: {choice_count: 2}}"), "it cannot be used: cluster.lb_policy: it has to be there"},
		"a share of nothing":        {cluster("{lb_policy: ROUND_ROBIN, round_robin_lb_config: {slow_start_config: {min_weight_percent: {value: 1}}}}"), "it cannot be used: cluster: min_weight_percent is of use only"},
		"no share":                  {cluster("{lb_policy: ROUND_ROBIN, round_robin_lb_config: {slow_start_config: {min_weight_percent: {value: NaN}}}}"), "it cannot be used: cluster.round_robin_lb_config"},
		"the last before the first": {route("{retry_policy: {retry_back_off: {base_interval: 2s, max_interval: 1s}}}"), `it cannot be used: route.retry_policy.retry_back_off.max_interval: "1s"; allowed: not less than`},
		"two at once":               {map[string]string{"cluster": "{a: 1}", "route": "{b: 2}"}, "it cannot be used: cluster.a: it is not among the settings that may be changed; route.b: "},
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

// TestTheDocument holds docs/how-to/envoy-settings.md against what is known, and reads its ConfigMap.
func TestTheDocument(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../../docs/how-to/envoy-settings.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented, known []string
	for _, row := range regexp.MustCompile("(?m)^\\| `((?:route|cluster)\\..*)` \\| (.*) \\|$").FindAllSubmatch(page, -1) {
		documented = append(documented, string(row[1])+": "+string(row[2]))
	}
	for _, setting := range envoysettings.Known() {
		known = append(known, setting.Path+": "+setting.Allowed)
	}
	if diff := cmp.Diff(known, documented); diff != "" {
		t.Errorf("settings (-known +documented):\n%s", diff)
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
