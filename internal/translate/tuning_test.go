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

	"github.com/kedify/argo-rollouts-plugin/internal/ir"
	"github.com/kedify/argo-rollouts-plugin/internal/translate"
)

// tunedRoute is a Route of one object with settings.
func tunedRoute(tuning *ir.Tuning) ir.Route {
	shop := ir.Key{Namespace: "apps", Name: "shop"}
	return ir.Route{
		Owner: shop, Fleet: "apps", Match: ir.Match{Host: "shop.test", PathPrefix: "/"}, Tuning: tuning, Timeouts: ir.Timeouts{ResponseHeader: 3 * time.Second},
		Backends: []ir.Backend{{Service: shop, Port: 80, Weight: 1, Protocol: ir.HTTP1}},
	}
}

// TestSettingsOfClusters has the load balancing of each policy, and what changes with it.
func TestSettingsOfClusters(t *testing.T) {
	t.Parallel()
	share := ir.Given[float64]{Value: 1, IsGiven: true}
	for name, test := range map[string]struct {
		tuning ir.ClusterTuning
		want   string
	}{
		"round robin": {ir.ClusterTuning{Balance: ir.Balance{Policy: "ROUND_ROBIN", SlowStart: time.Minute, MinWeight: share}, ConnectTimeout: time.Second}, `
			{"connectTimeout": "1s", "roundRobinLbConfig": {"slowStartConfig": {"slowStartWindow": "60s", "minWeightPercent": {"value": 1}}}}`},
		"least request": {ir.ClusterTuning{Balance: ir.Balance{Policy: "LEAST_REQUEST", ChoiceCount: 4}}, `
			{"connectTimeout": "5s", "lbPolicy": "LEAST_REQUEST", "leastRequestLbConfig": {"choiceCount": 4}}`},
		"by chance": {ir.ClusterTuning{Balance: ir.Balance{Policy: "RANDOM"}, MaxRequests: 5}, `{"connectTimeout": "5s", "lbPolicy": "RANDOM"}`},
		"a breaker": {ir.ClusterTuning{MaxRequests: 5}, `{"connectTimeout": "5s", "lbPolicy": "LEAST_REQUEST"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			route := tunedRoute(&ir.Tuning{Cluster: test.tuning})
			resources, err := translate.Envoy(ir.Config{Routes: []ir.Route{route}, Services: map[ir.ServicePort]ir.Endpoints{route.Backends[0].ServicePort(): {}}})
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
		tuning   *ir.Tuning
		clusters int
	}{
		{nil, 1},
		{&ir.Tuning{Route: ir.RouteTuning{RetryOn: "5xx"}}, 0},
		{&ir.Tuning{Route: ir.RouteTuning{RetryOn: "5xx"}, Cluster: ir.ClusterTuning{MaxRequests: 1}}, 1},
		{&ir.Tuning{Cluster: ir.ClusterTuning{MaxRequests: 1}}, 0},
		{nil, 1},
	} {
		route := tunedRoute(step.tuning)
		config := ir.Config{Routes: []ir.Route{route}, Services: map[ir.ServicePort]ir.Endpoints{route.Backends[0].ServicePort(): {}}}
		out, err := translator.Update(ir.Update{Objects: map[ir.Key]ir.Config{route.Owner: config}, Hosts: map[ir.Host]ir.Config{"shop.test": config}})
		if err != nil {
			t.Fatal(err)
		}
		names := slices.Collect(maps.Keys(out.Changed[resourcev3.ClusterType]))
		if len(names) != step.clusters {
			t.Errorf("step %d: clusters %v are told, want %d", i, names, step.clusters)
		}
	}
}
