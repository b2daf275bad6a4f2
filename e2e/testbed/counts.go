package testbed

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// CountsOfEnvoys returns how many requests each proxy has sent to the stable Service and to the canary since its start,
// by the counters of their admin interfaces.
func (b *Testbed) CountsOfEnvoys(ctx context.Context) (map[string][]int64, error) {
	all := map[string][]int64{}
	for _, proxy := range b.Proxies {
		transport := b.AdminTransport(proxy)
		transport.DisableKeepAlives = true
		client := &http.Client{Timeout: await.Patience(), Transport: transport}
		for _, service := range []string{App + "-stable", App + "-canary"} {
			counter := "cluster." + Namespace + "/" + App + "/" + service + ".upstream_rq_total"
			count, err := readCounter(ctx, client,
				"http://"+AdminAddress()+"/stats?format=json&filter="+url.QueryEscape("^"+counter+"$"), counter)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", proxy.Name, err)
			}
			all[proxy.Name] = append(all[proxy.Name], count)
		}
	}
	return all, nil
}

// readCounter reads one counter; a counter that Envoy does not have yet is 0.
func readCounter(ctx context.Context, client *http.Client, address, counter string) (int64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return 0, err
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	var answer struct {
		Stats []struct {
			Name  string `json:"name"`
			Value int64  `json:"value"`
		} `json:"stats"`
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return 0, err
	}
	for _, stat := range answer.Stats {
		if stat.Name == counter {
			return stat.Value, nil
		}
	}
	return 0, nil
}
