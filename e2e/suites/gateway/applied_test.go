package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/kube"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// inspector reads the configuration that the proxy in front of a guide's app applies.
type inspector struct {
	// find are the arguments of `kubectl get` for the object with the proxy's Pod, port that of the interface in this Pod,
	// and path that of the configuration.
	find       []string
	port, path string
	// parse returns the splits in the configuration of a route's proxy.
	parse func(text []byte, r route) ([]split, error)
	// hasCounters means that the interface also has envoyCounters.
	hasCounters bool
}

// split are the weights of a rule in the configuration of a proxy.
type split struct {
	weights map[string]int // by the names of the Services
	// since is when the proxy applied them; zero if its configuration does not contain that.
	since time.Time
}

// appliedSince returns the split with this weight for the canary Service.
func appliedSince(splits []split, stable, canary string, weight int) (found split, ok bool) {
	for _, s := range splits {
		if s.weights[stable] == 100-weight && s.weights[canary] == weight {
			return s, true
		}
	}
	return split{}, false
}

// inspect forwards a port to the interface of the proxy until the test ends.
func (c *guideRun) inspect(t *testing.T) {
	t.Helper()
	object := c.do(t, append([]string{"kubectl", "get", "-o", "name"}, c.proxy.inspector.find...)...)
	object, _, _ = strings.Cut(object, "\n")
	namespace := c.proxy.inspector.find[1]
	ctx, cancel := context.WithCancel(t.Context())
	var forwards sync.WaitGroup
	forwards.Go(func() {
		kube.Forward(ctx, c.runner, &c.admin, "kubectl", "-n", namespace, "port-forward", object, ":"+c.proxy.inspector.port)
	})
	t.Cleanup(func() { cancel(); forwards.Wait() })
}

// errInspect means that a proxy did not return its configuration.
var errInspect = errors.New("the proxy did not return its configuration")

// splits reads the splits that the proxy applies.
func (c *guideRun) splits(ctx context.Context) ([]split, error) {
	text, err := c.read(ctx, c.proxy.inspector.path)
	if err != nil {
		return nil, err
	}
	return c.proxy.inspector.parse(text, c.seen.Get())
}

// readTimeout is the time limit of one read.
const readTimeout = 10 * time.Second

// read returns the answer of the interface of the proxy.
func (c *guideRun) read(ctx context.Context, path string) ([]byte, error) {
	address := c.admin.Get()
	if address == "" {
		return nil, fmt.Errorf("%w: no port is forwarded yet", errInspect)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	//testbounds:allow reads repeat until the caller gives up
	response, err := (&http.Client{Timeout: readTimeout}).Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("%w: %s", errInspect, response.Status), err)
	}
	return text, nil
}

// applied waits until the proxy applies a weight, and describes how long after a moment it did. Without a time in the
// proxy's configuration, that is how long after the moment it was read. It gives up when the route has another weight.
func (c *guideRun) applied(t *testing.T, weight int, moment time.Time) string {
	t.Helper()
	var found split
	var ok bool
	var err error
	await.Described(t, fmt.Sprintf("the proxy to apply weight %d", weight), func() bool {
		var all []split
		all, err = c.splits(t.Context())
		found, ok = appliedSince(all, c.stable, c.canary, weight)
		return ok || !c.hasWeight(weight)
	}, func() string { return fmt.Sprintf("%v; %s", err, c.state()) })
	switch {
	case !ok:
		return fmt.Sprintf("never seen (%v)", err)
	case found.since.IsZero():
		return fmt.Sprintf("at most %s after its acceptance", time.Since(moment).Round(time.Millisecond))
	default:
		return fmt.Sprintf("%s after its acceptance", found.since.Sub(moment).Round(time.Millisecond))
	}
}

// envoyCounters is the path of the counters of accepted and rejected updates in Envoy's administration interface.
const envoyCounters = "/stats?filter=update_(success|rejected)$"

// checkUpdates checks that the proxy has accepted routes and rejected nothing. Neither the status of the Gateway nor
// that of the route would show it.
func (c *guideRun) checkUpdates(t *testing.T) {
	t.Helper()
	if c.proxy.inspector == nil || !c.proxy.inspector.hasCounters {
		return
	}
	var text []byte
	var err error
	await.Described(t, "the counters of the proxy", func() bool {
		text, err = c.read(t.Context(), envoyCounters)
		return err == nil
	}, func() string { return fmt.Sprint(err) })
	accepted, rejected := countUpdates(string(text))
	t.Logf("the proxy accepted %d updates of its routes, and rejected %d updates", accepted, rejected)
	if accepted == 0 || rejected > 0 {
		t.Errorf("the proxy accepted %d updates of its routes, and rejected %d updates:\n%s", accepted, rejected, text)
	}
}

// countUpdates sums up the counters of accepted updates of routes, and of all rejected updates.
func countUpdates(text string) (accepted, rejected int) {
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		n, err := strconv.Atoi(value)
		switch {
		case err != nil:
		case strings.HasSuffix(name, ".update_rejected"):
			rejected += n
		case strings.HasSuffix(name, ".update_success") && strings.Contains(name, ".rds."):
			accepted += n
		}
	}
	return accepted, rejected
}

// envoyRoutes is the path of the routes in Envoy's administration interface, with the times of their updates.
const envoyRoutes = "/config_dump?resource=dynamic_route_configs"

// routeSplits returns a parser for envoyRoutes. service returns the name of a cluster's Service.
func routeSplits(service func(cluster string) string) func(text []byte, r route) ([]split, error) {
	return func(text []byte, _ route) ([]split, error) {
		var dump struct {
			Configs []struct {
				// LastUpdated is when Envoy's main thread applied the configuration. Its workers follow within milliseconds.
				LastUpdated time.Time `json:"last_updated"`
				RouteConfig struct {
					VirtualHosts []struct {
						Routes []struct {
							Route struct {
								Cluster          string `json:"cluster"`
								WeightedClusters struct {
									Clusters []struct {
										Name   string `json:"name"`
										Weight int    `json:"weight"`
									} `json:"clusters"`
								} `json:"weighted_clusters"`
							} `json:"route"`
						} `json:"routes"`
					} `json:"virtual_hosts"`
				} `json:"route_config"`
			} `json:"configs"`
		}
		if err := json.Unmarshal(text, &dump); err != nil {
			return nil, fmt.Errorf("read Envoy's routes: %w", err)
		}
		var all []split
		for _, config := range dump.Configs {
			for _, host := range config.RouteConfig.VirtualHosts {
				for _, r := range host.Routes {
					weights := map[string]int{service(r.Route.Cluster): 100} // a backend without weight is omitted
					for _, cluster := range r.Route.WeightedClusters.Clusters {
						weights[service(cluster.Name)] = cluster.Weight
					}
					all = append(all, split{weights, config.LastUpdated})
				}
			}
		}
		return all, nil
	}
}

// envoyEndpoints is the path of the endpoints in Envoy's administration interface.
const envoyEndpoints = "/config_dump?include_eds&resource=dynamic_endpoint_configs"

// endpointSplits parses envoyEndpoints of Envoy Gateway, which has one cluster for all Services of a rule. The locality
// of an endpoint ends with the numbers of the rule and of the backend in the route.
func endpointSplits(text []byte, r route) ([]split, error) {
	var dump struct {
		Configs []struct {
			EndpointConfig struct {
				Endpoints []struct {
					Locality struct {
						Region string `json:"region"`
					} `json:"locality"`
					Weight int `json:"load_balancing_weight"`
				} `json:"endpoints"`
			} `json:"endpoint_config"`
		} `json:"configs"`
	}
	if err := json.Unmarshal(text, &dump); err != nil {
		return nil, fmt.Errorf("read Envoy's endpoints: %w", err)
	}
	pattern := regexp.MustCompile(`/` + regexp.QuoteMeta(r.Metadata.Name) + `/rule/(\d+)/backend/(\d+)$`)
	var all []split
	for _, config := range dump.Configs {
		weights := map[string]int{}
		for _, endpoints := range config.EndpointConfig.Endpoints {
			match := pattern.FindStringSubmatch(endpoints.Locality.Region)
			if match == nil {
				continue
			}
			rule, _ := strconv.Atoi(match[1]) // digits
			backend, _ := strconv.Atoi(match[2])
			if rule < len(r.Spec.Rules) && backend < len(r.Spec.Rules[rule].BackendRefs) {
				weights[r.Spec.Rules[rule].BackendRefs[backend].Name] = endpoints.Weight
			}
		}
		if len(weights) == 1 { // it has the weight of the route, or of an only backend, and receives all requests
			for name := range weights {
				weights[name] = 100
			}
		}
		all = append(all, split{weights: weights})
	}
	return all, nil
}

// traefikServices is the path of the services in Traefik's API.
const traefikServices = "/api/http/services?per_page=1000"

// serviceSplits parses traefikServices. The name of a child ends with the namespace and the name of its Service, and
// with the number of the backend in the rule.
func serviceSplits(text []byte, r route) ([]split, error) {
	var services []struct {
		Weighted struct {
			Services []struct {
				Name   string `json:"name"`
				Weight int    `json:"weight"`
			} `json:"services"`
		} `json:"weighted"`
	}
	if err := json.Unmarshal(text, &services); err != nil {
		return nil, fmt.Errorf("read Traefik's services: %w", err)
	}
	var all []split
	for _, service := range services {
		weights := map[string]int{}
		for _, child := range service.Weighted.Services {
			for _, rule := range r.Spec.Rules {
				for _, backend := range rule.BackendRefs {
					if strings.Contains(child.Name, "-svc-default-"+backend.Name+"-") {
						weights[backend.Name] = child.Weight
					}
				}
			}
		}
		all = append(all, split{weights: weights})
	}
	return all, nil
}
