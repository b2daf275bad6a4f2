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
	// adminPort is where proxies have Envoy's admin interface, see config/kedify-proxy/configmap.yaml.
	adminPort = "9901"
	// requestsCounter is Envoy's counter of the requests that it has sent to a cluster
	// (https://www.envoyproxy.io/docs/envoy/latest/configuration/upstream/cluster_manager/cluster_stats).
	requestsCounter = "upstream_rq_total"
	// mostAtOnce is how many proxies are asked at a time.
	mostAtOnce = 16
)

// errCounters says that a proxy's answer is not what Envoy's admin interface says.
var errCounters = errors.New("not Envoy statistics")

// Sent asks each Ready proxy that serves an HTTPScaledObject what it has sent to which Service since its start. The API server asks the proxy's Pod, which
// takes the right to get pods/proxy. They are in the order of their names. An error says that the proxies are not known.
func (r *Reader) Sent(ctx context.Context, cluster *facts.Facts, object *httpv1alpha1.HTTPScaledObject) ([]facts.Sent, error) {
	fleet := cluster.Fleet(object)
	slicesOfProxies, err := list[discoveryv1.EndpointSlice](ctx, r, "discovery.k8s.io/v1", "endpointslices", fleet, slicesOf([]string{facts.ProxyService}))
	if err != nil {
		return nil, fmt.Errorf("proxies in namespace %s: %w", fleet, err)
	}
	all := make([]facts.Sent, 0, mostAtOnce)
	for _, name := range readyPods(slicesOfProxies) {
		all = append(all, facts.Sent{Proxy: name})
	}
	var asked sync.WaitGroup
	free := make(chan struct{}, mostAtOnce)
	for i := range all {
		asked.Go(func() {
			free <- struct{}{}
			all[i].Requests, all[i].Problem = r.counters(ctx, fleet, all[i].Proxy, object.Namespace+"/"+object.Name+"/")
			<-free
		})
	}
	asked.Wait()
	return all, nil
}

// readyPods are the names of the Pods behind ready endpoints, each once, sorted.
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

// counters asks one proxy for the requests to clusters that begin with prefix, by what their names have behind it.
func (r *Reader) counters(ctx context.Context, namespace, pod, prefix string) (map[string]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	body, err := r.client.Do(ctx, kube.Request{
		Path: []string{"api", "v1", "namespaces", namespace, "pods", pod + ":" + adminPort, "proxy", "stats"},
		Query: map[string]string{
			"format": "json", "filter": "^cluster\\." + regexp.QuoteMeta(prefix) + `[^/]+\.` + requestsCounter + "$",
		},
	})
	if err != nil {
		return nil, err
	}
	return readCounters(body, "cluster."+prefix)
}

// readCounters reads the answer of Envoy's admin interface. Without a counter there is no request.
func readCounters(body []byte, prefix string) (map[string]int64, error) {
	var answer struct {
		Stats *[]struct {
			Name  string `json:"name"`
			Value *int64 `json:"value"`
		} `json:"stats"`
	}
	if err := json.Unmarshal(body, &answer); err != nil || answer.Stats == nil {
		return nil, fmt.Errorf("%w: %.80q", errCounters, body)
	}
	requests := map[string]int64{}
	for _, counter := range *answer.Stats {
		service, is := strings.CutPrefix(strings.TrimSuffix(counter.Name, "."+requestsCounter), prefix)
		if is && counter.Value != nil {
			requests[service] = *counter.Value
		}
	}
	return requests, nil
}
