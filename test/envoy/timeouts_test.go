package envoy_test

import (
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
			if got := p.mustGet(t, "http://shop.example.com/slow", nil); got.status != c.want {
				t.Errorf("got %d, want %d", got.status, c.want)
			}
		})
	}
}
