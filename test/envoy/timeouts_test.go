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
	"github.com/kedify/argo-rollouts-plugin/internal/model/managedroute"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
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

// TestAnnotatedTimeouts: the timeouts of an object have precedence over the settings of its namespace, and 0s means no
// limit. The app responds after chunkPause.
func TestAnnotatedTimeouts(t *testing.T) {
	t.Parallel()
	const request, idle = httpv1alpha1.AnnotationRequestTimeout, httpv1alpha1.AnnotationIdleTimeout
	short := (chunkPause / 3).String()
	app := startBackend(t, "shop")
	for name, c := range map[string]struct {
		annotations          map[string]string
		settings, path, want string // want is the reason of a 504, empty for 200
	}{
		"a request":          {map[string]string{request: short}, "", "slow", translate.ReasonTimeout},
		"an idle request":    {map[string]string{idle: short}, "", "slow", translate.ReasonTimeout},
		"a longer request":   {map[string]string{request: "1h"}, "{timeout: 0.1s}", "slow", ""},
		"no limit":           {map[string]string{request: "0s", idle: "0"}, "{timeout: 0.1s, idle_timeout: 1s}", "slow", ""},
		"a stream":           {map[string]string{idle: "1m"}, "{idle_timeout: 1h}", "stream", ""},
		"a shorter request":  {map[string]string{request: short}, "{timeout: 1h}", "slow", translate.ReasonTimeout},
		"of the settings":    {map[string]string{idle: "1h"}, "{timeout: 0.1s}", "slow", translate.ReasonTimeout},
		"nothing of its own": {nil, "{idle_timeout: 1h}", "slow", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := kit.NewScaledObject(namespace, "shop", "shop", 1, "shop.example.com")
			for annotation, value := range c.annotations {
				object = kit.WithAnnotation(object, annotation, value)
			}
			inputs := newInputs(t, []*backend{app}, object)
			parsed := envoysettings.Parse(map[string]string{envoysettings.KeyRoute: c.settings})
			settings, conflicts := parsed.Settings()
			if len(parsed.Problems)+len(conflicts) > 0 {
				t.Fatal(parsed.Problems, conflicts)
			}
			inputs.EnvoySettings = resolve.SettingsByNamespace{namespace: settings}
			p := start(t, translated(t, inputs, translate.DefaultOptions()))
			status := http.StatusOK
			if c.want != "" {
				status = http.StatusGatewayTimeout
			}
			got := p.mustGet(t, "http://shop.example.com/"+c.path, nil)
			if got.status != status || got.header.Get(translate.ReasonHeader) != c.want {
				t.Errorf("got %d %v, want %d with reason %q", got.status, got.header, status, c.want)
			}
		})
	}
}

// TestQueuedRequestIsNotIdle: a request waits in the queue for longer than the idle timeout of its object.
func TestQueuedRequestIsNotIdle(t *testing.T) {
	t.Parallel()
	all := hostInputs(t)
	for i, object := range all.ScaledObjects {
		if object.Name == "shop" {
			all.ScaledObjects[i] = kit.WithAnnotation(object, httpv1alpha1.AnnotationIdleTimeout, (chunkPause / 3).String())
		}
	}
	r := startWithReplica(t, "DELTA_GRPC", all)
	r.enter(t, "at zero", all)
	client, answer := dial(t, r.address), make(chan result, 1)
	go func() { answer <- client.send("GET / HTTP/1.1", "Host: shop.example.com") }()
	await.True(t, "the request is queued", func() bool { return len(answer)+r.queued("shop").Waiting == 1 })
	// Its response comes after chunkPause.
	if got := dial(t, r.address).send("GET /slow HTTP/1.1", "Host: a.example.com"); got.backend() != "wide" {
		t.Errorf("the other app: %+v", got)
	}
	r.await(t, r.publishInputs(t, all))
	if got := <-answer; got.backend() != "shop" {
		t.Errorf("the queued request: %+v", got)
	}
	if got := dial(t, r.address).send("GET /slow HTTP/1.1", "Host: shop.example.com"); got.status != http.StatusGatewayTimeout {
		t.Errorf("when the app is ready: %+v, want 504", got)
	}
}

// TestTimeToTheEndOfTheHeaders: a client that does not complete the header of its request in time is answered with 408,
// regardless of the application. One that does is served.
func TestTimeToTheEndOfTheHeaders(t *testing.T) {
	t.Parallel()
	options := translate.DefaultOptions()
	options.RequestHeadersTimeout = chunkPause
	object := kit.NewScaledObject(namespace, "shop", "shop", 1, "shop.example.com")
	p := start(t, translated(t, newInputs(t, []*backend{startBackend(t, "shop")}, object), options))
	client := dial(t, p.address)
	if _, err := client.Write([]byte("GET / HTTP/1.1\r\nHost: shop.example.com\r\nX-Slow: ")); err != nil {
		t.Fatal(err)
	}
	if got := client.read(http.MethodGet); got.status != http.StatusRequestTimeout {
		t.Errorf("an incomplete header: %d, %v, want 408", got.status, got.err)
	}
	if got := dial(t, p.address).send("GET /slow HTTP/1.1", "Host: shop.example.com"); got.backend() != "shop" {
		t.Errorf("a complete header: %+v", got)
	}
}

// TestTimeOfCopies: the setting of a namespace limits mirrored requests and does not affect the requests themselves.
// The apps respond after chunkPause.
func TestTimeOfCopies(t *testing.T) {
	t.Parallel()
	stable, canary := startBackend(t, "stable"), startBackend(t, "canary")
	for name, c := range map[string]struct {
		settings       string
		dropped, ended int
	}{
		"the default": {"", 0, 1},
		"shorter":     {"request_mirror_policies: [{timeout: 0.1s}]", 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := canaryWith(0, managedroute.Route{
				Name: "copy", MirrorPercent: 100, Matches: []managedroute.Match{{Path: condition(managedroute.Exact, "/slow")}},
			})
			inputs := newInputs(t, []*backend{stable, canary}, object)
			parsed := envoysettings.Parse(map[string]string{envoysettings.KeyRoute: c.settings})
			settings, conflicts := parsed.Settings()
			if len(parsed.Problems)+len(conflicts) > 0 {
				t.Fatal(parsed.Problems, conflicts)
			}
			inputs.EnvoySettings = resolve.SettingsByNamespace{namespace: settings}
			p := start(t, translated(t, inputs, translate.DefaultOptions()))
			if got := p.mustGet(t, "http://shop.example.com/slow", nil); got.status != http.StatusOK {
				t.Errorf("the request: %d", got.status)
			}
			const copies = "cluster.apps/shop/canary/mirror.upstream_rq_"
			await.True(t, "the copy ends", func() bool {
				return p.stat(t, copies+"max_duration_reached") == c.dropped && p.stat(t, copies+"200") == c.ended
			})
		})
	}
}
