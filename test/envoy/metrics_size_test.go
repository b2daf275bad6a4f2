package envoy_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/port"
	"github.com/kedify/argo-rollouts-plugin/test/kit/samples"
	"github.com/kedify/argo-rollouts-plugin/test/kit/traffic"
)

// TestThousandsOfClusters makes a proxy with 3000 clusters report, with the installed bootstrap and with one that
// includes all metrics of a cluster, as the public one does. bench/demand measures the cost of a flush.
func TestThousandsOfClusters(t *testing.T) {
	const clusters, flushes = 3000, 2
	app := startBackend(t, "shop")
	objects, metricObjects := []*httpv1alpha1.HTTPScaledObject{}, map[model.Key]*metrics.Object{}
	for i := range clusters {
		name := fmt.Sprintf("app-%04d", i)
		objects = append(objects, kit.NewScaledObject(namespace, name, "shop", 1, name+".example.com"))
		metricObjects[model.Key{Namespace: namespace, Name: name}] = &metrics.Object{
			Fleet: namespace, Spec: rateOver(time.Minute), Services: []string{"shop"},
		}
	}
	resources := translated(t, newInputs(t, []*backend{app}, objects...), translate.DefaultOptions())
	for name, test := range map[string]struct {
		changes [][2]string
		metrics float64 // maximum per cluster in a flush
	}{
		"installed": {nil, 8},
		// With the race detector on a busy machine the sink may be too slow, and Envoy would buffer flush after flush.
		"all of every cluster": {[][2]string{
			{"- prefix: server.", "- prefix: cluster."}, {interval, "stats_flush_interval: 5s"},
		}, 60},
	} {
		t.Run(name, func(t *testing.T) {
			sink := startSink(t, port.Open(t), metricObjects)
			s := serve(t, "DELTA_GRPC", resources, append(test.changes, sinkAddressChange(t, sink.address))...)
			s.await(t, resources)
			counter := func(name string) float64 { return samples.Value(t, sink.registry, "kedify_metric_sink_"+name+"_total") }
			measure := func(state string) {
				awaitFlush(t, sink)
				begin, size, metrics := counter("messages"), counter("received_bytes"), counter("received_metrics")
				for range flushes {
					awaitFlush(t, sink)
				}
				count := counter("messages") - begin
				each := (counter("received_metrics") - metrics) / count
				t.Logf("%s, %d clusters %s: %.0f metrics, %.0f kB a flush", name, clusters, state, each,
					(counter("received_bytes")-size)/count/1000)
				if each > test.metrics*clusters {
					t.Errorf("a flush has %.0f metrics, want %.0f at most", each, test.metrics*clusters)
				}
			}
			measure("idle")
			missing := slices.Collect(maps.Keys(metricObjects))
			await.Described(t, "a rate of each object", func() bool {
				for _, key := range missing {
					if answer, err := traffic.Get(t.Context(), "http://"+s.address+"/", key.Name+".example.com", nil); err != nil ||
						answer.Status != http.StatusOK {
						t.Fatal(answer, err)
					}
				}
				measure("used")
				// A late flush may cover several intervals: then its requests are unknown and are sent again.
				report, _ := sink.Report()
				missing = slices.DeleteFunc(missing, func(key model.Key) bool {
					value, err := metrics.Merge(key, []metrics.Report{report}, nil)
					return err == nil && value.RequestRate > 0
				})
				return len(missing) == 0
			}, func() string { return fmt.Sprintf("no rate of %v", missing) })
		})
	}
}
