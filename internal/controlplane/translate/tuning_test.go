package translate_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// tunedRoute is a Route of one object with settings.
func tunedRoute(tuning *model.Tuning) model.Route {
	shop := model.Key{Namespace: "apps", Name: "shop"}
	return model.Route{
		Owner: shop, Fleet: "apps", Match: model.Match{Host: "shop.test", PathPrefix: "/"}, Tuning: tuning, Timeouts: model.Timeouts{ResponseHeader: 3 * time.Second},
		Backends: []model.Backend{{Service: shop, Port: 80, Weight: 1, Protocol: model.HTTP1}},
	}
}

// TestSettingsOfClusters has the load balancing of each policy, and what changes with it.
func TestSettingsOfClusters(t *testing.T) {
	t.Parallel()
	share := model.Given[float64]{Value: 1, IsGiven: true}
	for name, test := range map[string]struct {
		tuning model.ClusterTuning
		want   string
	}{
		"round robin": {model.ClusterTuning{Balance: model.Balance{Policy: "ROUND_ROBIN", SlowStart: time.Minute, MinWeight: share}, ConnectTimeout: time.Second}, `
			{"connectTimeout": "1s", "roundRobinLbConfig": {"slowStartConfig": {"slowStartWindow": "60s", "minWeightPercent": {"value": 1}}}}`},
		"least request": {model.ClusterTuning{Balance: model.Balance{Policy: "LEAST_REQUEST", ChoiceCount: 4}}, `
			{"connectTimeout": "5s", "lbPolicy": "LEAST_REQUEST", "leastRequestLbConfig": {"choiceCount": 4}}`},
		"by chance": {model.ClusterTuning{Balance: model.Balance{Policy: "RANDOM"}, MaxRequests: 5}, `{"connectTimeout": "5s", "lbPolicy": "RANDOM"}`},
		"a breaker": {model.ClusterTuning{MaxRequests: 5}, `{"connectTimeout": "5s", "lbPolicy": "LEAST_REQUEST"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			route := tunedRoute(&model.Tuning{Cluster: test.tuning})
			resources, err := translate.Envoy(model.Config{Routes: []model.Route{route}, Services: map[model.ServicePort]model.Endpoints{route.Backends[0].ServicePort(): {}}})
			if err != nil {
				t.Fatal(err)
			}
			checkValid(t, resources)
			made, is := resources[resourcev3.ClusterType]["apps/shop/shop"].(*clusterv3.Cluster)
			if !is {
				t.Fatalf("%v", resources[resourcev3.ClusterType])
			}
			breakers := made.GetCircuitBreakers().GetThresholds()[0]
			if want := max(test.tuning.MaxRequests, 5); test.tuning.MaxRequests > 0 && breakers.GetMaxRequests().GetValue() != want || breakers.GetMaxConnections().GetValue() != 8192 {
				t.Errorf("circuit breakers %v", breakers)
			}
			want := new(clusterv3.Cluster)
			if err := protojson.Unmarshal([]byte(test.want), want); err != nil {
				t.Fatal(err)
			}
			got := &clusterv3.Cluster{ConnectTimeout: made.GetConnectTimeout(), LbPolicy: made.GetLbPolicy(), LbConfig: made.GetLbConfig()}
			if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestSettingsChange follows an object whose settings change: what they are about is told anew, and nothing else.
func TestSettingsChange(t *testing.T) {
	t.Parallel()
	translator, err := translate.NewTranslator(translate.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	for i, step := range []struct {
		tuning   *model.Tuning
		clusters int
	}{
		{nil, 1},
		{&model.Tuning{Route: model.RouteTuning{RetryOn: "5xx"}}, 0},
		{&model.Tuning{Route: model.RouteTuning{RetryOn: "5xx"}, Cluster: model.ClusterTuning{MaxRequests: 1}}, 1},
		{&model.Tuning{Cluster: model.ClusterTuning{MaxRequests: 1}}, 0},
		{nil, 1},
	} {
		route := tunedRoute(step.tuning)
		config := model.Config{Routes: []model.Route{route}, Services: map[model.ServicePort]model.Endpoints{route.Backends[0].ServicePort(): {}}}
		out, err := translator.Update(model.Update{Objects: map[model.Key]model.Config{route.Owner: config}, Hosts: map[model.Host]model.Config{"shop.test": config}})
		if err != nil {
			t.Fatal(err)
		}
		names := slices.Collect(maps.Keys(out.Changed[resourcev3.ClusterType]))
		if len(names) != step.clusters {
			t.Errorf("step %d: clusters %v are told, want %d", i, names, step.clusters)
		}
	}
}
