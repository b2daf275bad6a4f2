package translate_test

import (
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	upstreamhttpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/model/managedroute"
)

// routeWithSettings returns a Route of one object with settings.
func routeWithSettings(settings *model.EnvoySettings) model.Route {
	shop := model.Key{Namespace: "apps", Name: "shop"}
	return model.Route{
		Owner: shop, Fleet: "apps", Match: model.Match{
			Host:       "shop.test",
			PathPrefix: "/",
		}, EnvoySettings: settings, Timeouts: model.Timeouts{ResponseHeader: model.TimeoutOf(3 * time.Second)},
		Backends: []model.Backend{{Service: shop, Port: 80, Weight: 1, Protocol: model.HTTP1}},
	}
}

// TestSettingsOfClusters checks the load balancing of each policy and its options.
func TestSettingsOfClusters(t *testing.T) {
	t.Parallel()
	share := model.Given[float64]{Value: 1, IsGiven: true}
	for name, test := range map[string]struct {
		settings model.ClusterSettings
		want     string
	}{
		"round robin": {model.ClusterSettings{Balance: model.Balance{Policy: "ROUND_ROBIN", SlowStart: time.Minute, MinWeight: share}, ConnectTimeout: model.TimeoutOf(time.Second)}, `
			{"connectTimeout": "1s", "roundRobinLbConfig": {"slowStartConfig": {"slowStartWindow": "60s", "minWeightPercent": {"value": 1}}}}`},
		"least request": {model.ClusterSettings{Balance: model.Balance{Policy: "LEAST_REQUEST", ChoiceCount: 4}}, `
			{"connectTimeout": "2s", "lbPolicy": "LEAST_REQUEST", "leastRequestLbConfig": {"choiceCount": 4}}`},
		"random": {
			model.ClusterSettings{Balance: model.Balance{Policy: "RANDOM"}, MaxRequests: 5},
			`{"connectTimeout": "2s", "lbPolicy": "RANDOM"}`,
		},
		"circuit breaker": {model.ClusterSettings{MaxRequests: 5}, `{"connectTimeout": "2s", "lbPolicy": "LEAST_REQUEST"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			route := routeWithSettings(&model.EnvoySettings{Cluster: test.settings})
			resources, err := translate.Envoy(model.Config{
				Routes:   []model.Route{route},
				Services: map[model.ServicePort]model.Endpoints{route.Backends[0].ServicePort(): {}},
			})
			if err != nil {
				t.Fatal(err)
			}
			checkValid(t, resources)
			made, is := resources[resourcev3.ClusterType]["apps/shop/shop"].(*clusterv3.Cluster)
			if !is {
				t.Fatalf("%v", resources[resourcev3.ClusterType])
			}
			breakers := made.GetCircuitBreakers().GetThresholds()[0]
			if want := max(test.settings.MaxRequests, 5); test.settings.MaxRequests > 0 &&
				breakers.GetMaxRequests().GetValue() != want || breakers.GetMaxConnections().GetValue() != 8192 {
				t.Errorf("circuit breakers %v", breakers)
			}
			want := new(clusterv3.Cluster)
			if err := protojson.Unmarshal([]byte(test.want), want); err != nil {
				t.Fatal(err)
			}
			got := &clusterv3.Cluster{
				ConnectTimeout: made.GetConnectTimeout(), LbPolicy: made.GetLbPolicy(),
				LbConfig: made.GetLbConfig(),
			}
			if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestFailuresOfConnections has the limit of retries and the ejection of endpoints, without settings and with all of
// them.
func TestFailuresOfConnections(t *testing.T) {
	t.Parallel()
	const ejection = `"splitExternalLocalOriginErrors": true, "consecutive5xx": 0, "enforcingConsecutive5xx": 0,
		"enforcingSuccessRate": 0, "enforcingLocalOriginSuccessRate": 0, `
	for name, test := range map[string]struct {
		settings model.ClusterSettings
		want     string
	}{
		"default": {model.ClusterSettings{}, `{"circuitBreakers": {"thresholds": [{"maxConnections": 8192,
			"maxPendingRequests": 8192, "maxRequests": 8192, "maxRetries": 4294967295}]}, "outlierDetection": {` + ejection + `
			"consecutiveLocalOriginFailure": 5, "maxEjectionPercent": 50, "interval": "10s", "baseEjectionTime": "30s",
			"maxEjectionTime": "300s"}}`},
		"a number of retries, and long ejections": {
			model.ClusterSettings{MaxRetries: 7, Outliers: model.Outliers{Base: time.Hour}},
			`{"circuitBreakers": {"thresholds": [{"maxConnections": 8192, "maxPendingRequests": 8192, "maxRequests": 8192,
			"maxRetries": 7}]}, "outlierDetection": {` + ejection + `"consecutiveLocalOriginFailure": 5,
			"maxEjectionPercent": 50, "interval": "10s", "baseEjectionTime": "3600s", "maxEjectionTime": "3600s"}}`,
		},
		"everything, and zeros": {
			model.ClusterSettings{
				RetryBudget: model.RetryBudget{
					Percent:        model.Given[float64]{Value: 0, IsGiven: true},
					MinConcurrency: model.Given[uint32]{Value: 9, IsGiven: true},
				},
				Outliers: model.Outliers{
					Failures:   model.Given[uint32]{Value: 0, IsGiven: true},
					MaxPercent: model.Given[uint32]{Value: 10, IsGiven: true},
					Interval:   time.Second, Base: 2 * time.Second, Max: 3 * time.Second,
				},
			},
			`{"circuitBreakers": {"thresholds": [{"maxConnections": 8192, "maxPendingRequests": 8192, "maxRequests": 8192,
			"maxRetries": 3, "retryBudget": {"budgetPercent": {"value": 0}, "minRetryConcurrency": 9}}]},
			"outlierDetection": {` + ejection + `"consecutiveLocalOriginFailure": 0, "maxEjectionPercent": 10,
			"interval": "1s", "baseEjectionTime": "2s", "maxEjectionTime": "3s"}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			route := routeWithSettings(&model.EnvoySettings{Cluster: test.settings})
			resources := envoy(t, model.Config{
				Routes:   []model.Route{route},
				Services: map[model.ServicePort]model.Endpoints{route.Backends[0].ServicePort(): {}},
			})
			made := as[*clusterv3.Cluster](t, resources[resourcev3.ClusterType]["apps/shop/shop"])
			want := new(clusterv3.Cluster)
			if err := protojson.Unmarshal([]byte(test.want), want); err != nil {
				t.Fatal(err)
			}
			got := &clusterv3.Cluster{CircuitBreakers: made.GetCircuitBreakers(), OutlierDetection: made.GetOutlierDetection()}
			if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestLimitOfRetries: retries of requests that a workload may have received have a budget. Others have one only if the
// settings or the options do.
func TestLimitOfRetries(t *testing.T) {
	t.Parallel()
	type limits struct {
		most, least uint32 // least is 0 without a budget
		retries     uint32 // of a request
		conditions  string
	}
	const unlimited, safe = math.MaxUint32, "connect-failure,refused-stream"
	for name, c := range map[string]struct {
		options  uint32
		settings model.EnvoySettings
		want     limits
	}{
		"the defaults": {0, model.EnvoySettings{}, limits{unlimited, 0, 10, safe}},
		"an operator's number": {
			5, model.EnvoySettings{}, limits{5, 5, 10, safe},
		},
		"fewer retries": {
			0,
			model.EnvoySettings{Route: model.RouteSettings{Retries: model.Given[uint32]{Value: 1, IsGiven: true}}},
			limits{unlimited, 0, 1, safe},
		},
		"no retries": {
			0,
			model.EnvoySettings{Route: model.RouteSettings{Retries: model.Given[uint32]{IsGiven: true}}},
			limits{unlimited, 0, 0, safe},
		},
		"other conditions": {
			0, model.EnvoySettings{Route: model.RouteSettings{RetryOn: "5xx"}}, limits{3, 3, 2, "5xx"},
		},
		"other conditions, and an operator's number": {
			7, model.EnvoySettings{Route: model.RouteSettings{RetryOn: "reset"}}, limits{7, 7, 2, "reset"},
		},
		"a number": {
			0, model.EnvoySettings{Cluster: model.ClusterSettings{MaxRetries: 9}}, limits{9, 0, 10, safe},
		},
		"a budget": {
			0, model.EnvoySettings{Cluster: model.ClusterSettings{RetryBudget: model.RetryBudget{
				Percent: model.Given[float64]{Value: 20, IsGiven: true},
			}}}, limits{3, 3, 10, safe},
		},
		"a connect timeout": {
			0,
			model.EnvoySettings{Cluster: model.ClusterSettings{ConnectTimeout: model.TimeoutOf(10 * time.Second)}},
			limits{unlimited, 0, 2, safe},
		},
		"no connect timeout": {
			0,
			model.EnvoySettings{Cluster: model.ClusterSettings{ConnectTimeout: model.TimeoutOf(0)}},
			limits{unlimited, 0, 2, safe},
		},
		"a connect timeout, and a number of retries": {
			0, model.EnvoySettings{
				Route:   model.RouteSettings{Retries: model.Given[uint32]{Value: 7, IsGiven: true}},
				Cluster: model.ClusterSettings{ConnectTimeout: model.TimeoutOf(time.Second)},
			}, limits{unlimited, 0, 7, safe},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options := translate.DefaultOptions()
			options.MaxRetries = c.options
			route := routeWithSettings(&c.settings)
			resources, err := options.Envoy(model.Config{
				Routes:   []model.Route{route},
				Services: map[model.ServicePort]model.Endpoints{route.Backends[0].ServicePort(): {}},
			})
			if err != nil {
				t.Fatal(err)
			}
			checkValid(t, resources)
			threshold := as[*clusterv3.Cluster](t, resources[resourcev3.ClusterType]["apps/shop/shop"]).
				GetCircuitBreakers().GetThresholds()[0]
			scope := as[*routev3.ScopedRouteConfiguration](t, resources[resourcev3.ScopedRouteType]["shop.test"])
			routes := scope.GetRouteConfiguration().GetVirtualHosts()[0].GetRoutes()
			policy := routes[len(routes)-1].GetRoute().GetRetryPolicy()
			got := limits{
				threshold.GetMaxRetries().GetValue(), threshold.GetRetryBudget().GetMinRetryConcurrency().GetValue(),
				policy.GetNumRetries().GetValue(), policy.GetRetryOn(),
			}
			if got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

// TestConnectTimeout: the handshake of TLS is part of a connection attempt.
func TestConnectTimeout(t *testing.T) {
	t.Parallel()
	for protocol, want := range map[model.Protocol]time.Duration{
		model.HTTP1: 2 * time.Second, model.HTTP2: 2 * time.Second, model.HTTPS: 5 * time.Second,
	} {
		route := routeWithSettings(nil)
		route.Backends[0].Protocol = protocol
		resources := envoy(t, model.Config{
			Routes:   []model.Route{route},
			Services: map[model.ServicePort]model.Endpoints{route.Backends[0].ServicePort(): {}},
		})
		made := as[*clusterv3.Cluster](t, resources[resourcev3.ClusterType]["apps/shop/shop"])
		if got := made.GetConnectTimeout().AsDuration(); got != want {
			t.Errorf("%s: %v, want %v", protocol, got, want)
		}
	}
}

// TestTimeoutOfCopies: the cluster of mirrored requests ends them after 30 s or the time in the settings, and 0 means
// no limit. Other requests have no such limit.
func TestTimeoutOfCopies(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		settings *model.EnvoySettings
		want     *durationpb.Duration
	}{
		"the default":    {nil, durationpb.New(30 * time.Second)},
		"other settings": {&model.EnvoySettings{Route: model.RouteSettings{RetryOn: "5xx"}}, durationpb.New(30 * time.Second)},
		"shorter": {
			&model.EnvoySettings{Route: model.RouteSettings{MirrorTimeout: model.TimeoutOf(time.Second)}},
			durationpb.New(time.Second),
		},
		"no limit": {&model.EnvoySettings{Route: model.RouteSettings{MirrorTimeout: model.TimeoutOf(0)}}, nil},
	} {
		for _, protocol := range []model.Protocol{model.HTTP1, model.HTTP2, model.HTTPS} {
			route := routeWithMirror(c.settings, protocol)
			resources := envoy(t, model.Config{Routes: []model.Route{route}, Services: servicesOf(route)})
			for cluster, want := range map[string]*durationpb.Duration{
				"apps/shop/shop": nil, "apps/shop/canary": nil, "apps/shop/canary/mirror": c.want,
			} {
				made := as[*clusterv3.Cluster](t, resources[resourcev3.ClusterType][cluster])
				options := new(upstreamhttpv3.HttpProtocolOptions)
				for _, packed := range made.GetTypedExtensionProtocolOptions() {
					if err := packed.UnmarshalTo(options); err != nil {
						t.Fatal(err)
					}
				}
				if got := options.GetCommonHttpProtocolOptions().GetMaxStreamDuration(); !proto.Equal(got, want) {
					t.Errorf("%s: cluster %s, %s: %v, want %v", name, cluster, protocol, got, want)
				}
			}
		}
	}
}

// routeWithMirror returns a Route with a canary that receives copies of all requests.
func routeWithMirror(settings *model.EnvoySettings, protocol model.Protocol) model.Route {
	route := routeWithSettings(settings)
	stable, canary := route.Backends[0], route.Backends[0]
	stable.Protocol, canary.Protocol, canary.Service.Name, canary.Weight = protocol, protocol, "canary", 0
	route.Backends = []model.Backend{stable, canary}
	route.Managed = []managedroute.Route{{
		Name: "copy", MirrorPercent: 100,
		Matches: []managedroute.Match{{Path: managedroute.StringMatch{Type: managedroute.Prefix, Value: "/"}}},
	}}
	return route
}

// servicesOf returns the Services of a Route, without endpoints.
func servicesOf(route model.Route) map[model.ServicePort]model.Endpoints {
	services := map[model.ServicePort]model.Endpoints{}
	for _, port := range route.Destinations() {
		services[port] = model.Endpoints{}
	}
	return services
}

// TestChangedTimeoutOfCopies: a change of the setting updates the cluster of mirrored requests only.
func TestChangedTimeoutOfCopies(t *testing.T) {
	t.Parallel()
	translator, err := translate.NewTranslator(translate.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	for i, step := range []struct {
		timeout model.Timeout
		want    []string
	}{
		{model.Timeout{}, []string{"apps/shop/canary", "apps/shop/canary/mirror", "apps/shop/shop"}},
		{model.TimeoutOf(time.Second), []string{"apps/shop/canary/mirror"}},
		{model.TimeoutOf(time.Second), nil},
		{model.TimeoutOf(0), []string{"apps/shop/canary/mirror"}},
		{model.Timeout{}, []string{"apps/shop/canary/mirror"}},
		{model.TimeoutOf(30 * time.Second), nil},
	} {
		route := routeWithMirror(&model.EnvoySettings{Route: model.RouteSettings{MirrorTimeout: step.timeout}}, model.HTTP1)
		config := model.Config{Routes: []model.Route{route}, Services: servicesOf(route)}
		out, err := translator.Update(model.Update{
			Objects: map[model.Key]model.Config{route.Owner: config}, Hosts: map[model.Host]model.Config{"shop.test": config},
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.Sorted(maps.Keys(out.Changed[resourcev3.ClusterType])); !slices.Equal(got, step.want) {
			t.Errorf("step %d: clusters %v are updated, want %v", i, got, step.want)
		}
	}
}

// TestSettingsChange changes the settings of an object: only the affected resources are updated.
func TestSettingsChange(t *testing.T) {
	t.Parallel()
	translator, err := translate.NewTranslator(translate.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	for i, step := range []struct {
		settings *model.EnvoySettings
		clusters int
	}{
		{nil, 1},
		{&model.EnvoySettings{Route: model.RouteSettings{Timeout: model.Given[time.Duration]{Value: 1, IsGiven: true}}}, 0},
		{&model.EnvoySettings{Route: model.RouteSettings{RetryOn: "5xx"}}, 1}, // Its retries have a limit.
		{&model.EnvoySettings{Route: model.RouteSettings{RetryOn: "reset"}}, 0},
		{&model.EnvoySettings{Route: model.RouteSettings{RetryOn: "5xx"}, Cluster: model.ClusterSettings{MaxRequests: 1}}, 1},
		{&model.EnvoySettings{Cluster: model.ClusterSettings{MaxRequests: 1}}, 1},
		{nil, 1},
	} {
		route := routeWithSettings(step.settings)
		config := model.Config{
			Routes:   []model.Route{route},
			Services: map[model.ServicePort]model.Endpoints{route.Backends[0].ServicePort(): {}},
		}
		out, err := translator.Update(model.Update{
			Objects: map[model.Key]model.Config{route.Owner: config},
			Hosts:   map[model.Host]model.Config{"shop.test": config},
		})
		if err != nil {
			t.Fatal(err)
		}
		names := slices.Collect(maps.Keys(out.Changed[resourcev3.ClusterType]))
		if len(names) != step.clusters {
			t.Errorf("step %d: clusters %v are updated, want %d", i, names, step.clusters)
		}
	}
}
