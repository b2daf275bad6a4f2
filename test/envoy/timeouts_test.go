package envoy_test

import (
	"math"
	"net/http"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve/envoysettings"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
)

// TestTimeToTheFirstByte: the object's timeout has precedence over the settings of its namespace, and 0s means no limit
// in both. The app responds after chunkPause.
func TestTimeToTheFirstByte(t *testing.T) {
	t.Parallel()
	const short = chunkPause / 3
	app := startBackend(t, "shop")
	for name, c := range map[string]struct {
		object   *metav1.Duration
		settings string
		want     int
	}{
		"no timeout":              {nil, "", http.StatusOK},
		"of the object":           {&metav1.Duration{Duration: short}, "", http.StatusGatewayTimeout},
		"of the settings":         {nil, "{retry_policy: {per_try_timeout: 0.1s}}", http.StatusGatewayTimeout},
		"none of the object":      {&metav1.Duration{}, "{retry_policy: {per_try_timeout: 0.1s}}", http.StatusOK},
		"longer of the object":    {&metav1.Duration{Duration: time.Hour}, "{retry_policy: {per_try_timeout: 0.1s}}", http.StatusOK},
		"centuries of the object": {&metav1.Duration{Duration: math.MaxInt64}, "{retry_policy: {per_try_timeout: 0.1s}}", http.StatusOK},
		"negative of the object":  {&metav1.Duration{Duration: -time.Hour}, "", http.StatusOK},
		"a nanosecond":            {&metav1.Duration{Duration: 1}, "", http.StatusGatewayTimeout},
		"a nanosecond as a whole": {nil, "{timeout: 1ns}", http.StatusGatewayTimeout},
		"zero without a unit":     {nil, "{timeout: 0, idle_timeout: 0, retry_policy: {per_try_timeout: 0}}", http.StatusOK},
		"longest in the settings": {nil, "{timeout: 24h, idle_timeout: 24h, retry_policy: {per_try_timeout: 24h}}", http.StatusOK},
		"none in the settings":    {nil, "{timeout: 0s, idle_timeout: 0s, retry_policy: {per_try_timeout: 0s}}", http.StatusOK},
		"idle in the settings":    {nil, "{idle_timeout: 1s}", http.StatusOK},
		"whole in the settings":   {nil, "{timeout: 0.1s}", http.StatusGatewayTimeout},
		"whole beside the object": {&metav1.Duration{}, "{timeout: 0.1s}", http.StatusGatewayTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := kit.NewScaledObject(namespace, "shop", "shop", 1, "shop.example.com")
			object.Spec.Timeouts = &httpv1alpha1.Timeouts{ResponseHeader: c.object}
			inputs := newInputs(t, []*backend{app}, object)
			parsed := envoysettings.Parse(map[string]string{
				envoysettings.KeyRoute: c.settings, envoysettings.KeyCluster: "connect_timeout: 0s",
			})
			settings, conflicts := parsed.Settings()
			if len(parsed.Problems)+len(conflicts) > 0 {
				t.Fatal(parsed.Problems, conflicts)
			}
			inputs.EnvoySettings = resolve.SettingsByNamespace{namespace: settings}
			p := start(t, translated(t, inputs, translate.DefaultOptions()))
			got, reason := p.mustGet(t, "http://shop.example.com/slow", nil), ""
			if c.want != http.StatusOK {
				reason = translate.ReasonTimeout // so that the response differs from one of the app
			}
			if got.status != c.want || got.header.Get(translate.ReasonHeader) != reason || got.header.Get("Retry-After") != "" {
				t.Errorf("got %d %v, want %d with reason %q", got.status, got.header, c.want, reason)
			}
		})
	}
}
