package gather

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	discoveryv1 "k8s.io/api/discovery/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
)

const (
	// statusPort is the port of proxies for statistics, see config/kedify-proxy/configmap.yaml.
	statusPort = "9901"
	// requestsCounter is Envoy's counter of the requests that it has sent to a cluster
	// (https://www.envoyproxy.io/docs/envoy/latest/configuration/upstream/cluster_manager/cluster_stats).
	requestsCounter = "upstream_rq_total"
	// maxParallel is the maximum number of parallel requests to proxies.
	maxParallel = 16
)

// errNotEnvoyStats reports a response that does not contain Envoy's statistics.
var errNotEnvoyStats = errors.New("not Envoy statistics")

// ProxyRequests returns how many requests each Ready proxy of an HTTPScaledObject has sent to each Service since its
// start, sorted by proxy. It queries the proxies through the API server, which requires permission to get pods/proxy.
// It fails if the proxies cannot be listed.
func (r *Reader) ProxyRequests(ctx context.Context, cluster *facts.Facts,
	object *httpv1alpha1.HTTPScaledObject,
) ([]facts.ProxyRequests, error) {
	fleet := cluster.Fleet(object)
	proxySlices, err := list[discoveryv1.EndpointSlice](ctx, r, "discovery.k8s.io/v1", "endpointslices", fleet,
		sliceSelector([]string{facts.ProxyService}))
	if err != nil {
		return nil, fmt.Errorf("proxies in namespace %s: %w", fleet, err)
	}
	all := make([]facts.ProxyRequests, 0, maxParallel)
	for _, name := range readyPods(proxySlices) {
		all = append(all, facts.ProxyRequests{Proxy: name})
	}
	var group sync.WaitGroup
	slots := make(chan struct{}, maxParallel)
	for i := range all {
		group.Go(func() {
			slots <- struct{}{}
			all[i].Requests, all[i].Err = r.counters(ctx, fleet, all[i].Proxy, object.Namespace+"/"+object.Name+"/")
			<-slots
		})
	}
	group.Wait()
	return all, nil
}

// readyPods returns the sorted names of the Pods of ready endpoints, without duplicates.
func readyPods(all []discoveryv1.EndpointSlice) []string {
	var names []string
	for _, slice := range all {
		for _, endpoint := range slice.Endpoints {
			if isReady := endpoint.Conditions.Ready; endpoint.TargetRef != nil && (isReady == nil || *isReady) {
				names = append(names, endpoint.TargetRef.Name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// counters returns the request counters of one proxy for clusters with the prefix, by the rest of the cluster name.
func (r *Reader) counters(ctx context.Context, namespace, pod, prefix string) (map[string]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	body, err := r.client.Do(ctx, kube.Request{
		Path: []string{"api", "v1", "namespaces", namespace, "pods", pod + ":" + statusPort, "proxy", "stats"},
		Query: map[string]string{
			"format": "json", "filter": "^cluster\\." + regexp.QuoteMeta(prefix) + `[^/]+\.` + requestsCounter + "$",
		},
	})
	if err != nil {
		return nil, err
	}
	return parseCounters(body, "cluster."+prefix)
}

// parseCounters parses Envoy's statistics in JSON. A missing counter means no requests.
func parseCounters(body []byte, prefix string) (map[string]int64, error) {
	var response struct {
		Stats *[]struct {
			Name  string `json:"name"`
			Value *int64 `json:"value"`
		} `json:"stats"`
	}
	if err := json.Unmarshal(body, &response); err != nil || response.Stats == nil {
		return nil, fmt.Errorf("%w: %.80q", errNotEnvoyStats, body)
	}
	requests := map[string]int64{}
	for _, counter := range *response.Stats {
		service, ok := strings.CutPrefix(strings.TrimSuffix(counter.Name, "."+requestsCounter), prefix)
		if ok && counter.Value != nil {
			requests[service] = *counter.Value
		}
	}
	return requests, nil
}
