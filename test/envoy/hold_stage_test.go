package envoy_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding/extauthz"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding/page"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/ingest"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/xds"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// replica is what a replica of the interceptor is to a proxy: it serves its configuration, and answers
// for requests at zero.
type replica struct {
	served

	checks   *extauthz.Server
	holding  *controlplane.Holding
	registry *prometheus.Registry
	over     *grpc.Server
	options  translate.Options
	at       string
	page     page.Page // of each object that asks for one
}

// startReplica runs a replica until the test ends. limits are those of held requests.
func startReplica(t *testing.T, limits holding.Limits) *replica {
	t.Helper()
	r := &replica{registry: prometheus.NewRegistry(), options: translate.DefaultOptions(), page: page.Default()}
	var err error
	if r.checks, err = extauthz.New(extauthz.Options{
		Limits: limits, Registerer: r.registry, Notify: func(model.Key, holding.Reason) {},
	}); err != nil {
		t.Fatal(err)
	}
	r.holding = &controlplane.Holding{Server: r.checks, Timeout: 30 * time.Minute}
	r.server = xds.NewServer(xds.Options{Grace: xds.DefaultGrace, Callbacks: r.holding})
	r.server.SetMembers(map[netip.Addr][]string{netip.MustParseAddr("127.0.0.1"): {namespace}})
	r.over = grpc.NewServer(append(xds.GRPCOptions(), extauthz.GRPCOption())...)
	r.server.Register(r.over)
	r.checks.Register(r.over)
	listener := listen(t)
	r.at = listener.Addr().String()
	// Proxies of one machine share its abstract sockets.
	r.options.Hold = translate.Hold{Checks: netip.MustParseAddrPort(r.at), Socket: "@kedify-hold-" + rand.Text()}
	serveOver(t, r.over, listener)
	return r
}

// startHolding runs a replica with one proxy, which serves a world.
func startHolding(t *testing.T, form string, first resolve.Inputs) *replica {
	t.Helper()
	r := startReplica(t, holding.Limits{Object: 1000, Namespace: 1000, Proxy: 1000, Total: 1000})
	r.proxy = &proxy{}
	r.show(t, first)
	r.run(t, form, r.at)
	return r
}

// show publishes a world, as the interceptor does.
func (r *replica) show(t *testing.T, world resolve.Inputs) translate.Resources {
	t.Helper()
	resources := translated(t, world, r.options)
	r.publish(t, resources)
	r.tell(t, world)
	return resources
}

// tell tells what holds requests of the objects of a world.
func (r *replica) tell(t *testing.T, world resolve.Inputs) {
	t.Helper()
	config, _ := resolve.Build(world)
	told := map[model.Key]ingest.Object{}
	for _, object := range world.ScaledObjects {
		key := model.Key{Namespace: object.Namespace, Name: object.Name}
		own := model.Config{Services: config.Services}
		for _, route := range config.Routes {
			if route.Owner == key {
				own.Routes = append(own.Routes, route)
			}
		}
		told[key] = ingest.Object{ScaledObject: object, Published: own, Page: r.page}
	}
	r.holding.Observe(ingest.Pass{Objects: told})
}

// without is a world in which Services have no endpoint.
func without(world resolve.Inputs, services ...string) resolve.Inputs {
	kept := slices.Clone(world.EndpointSlices)
	world.EndpointSlices = slices.DeleteFunc(kept, func(slice *resolve.EndpointSlice) bool {
		return slices.Contains(services, slice.Service.Name)
	})
	return world
}

// held is how many requests of an object wait.
func (r *replica) held(name string) holding.Count {
	counts, _ := r.checks.Counts()
	return counts[model.Key{Namespace: namespace, Name: name}]
}

// awaitHeld waits until so many do.
func (r *replica) awaitHeld(t *testing.T, name string, count int) {
	t.Helper()
	await.True(t, "requests are held", func() bool { return r.held(name).Waiting == count })
}

// calls are how many calls were answered, by what they came to.
func (r *replica) calls(t *testing.T) map[string]int {
	t.Helper()
	families, err := r.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	for _, family := range families {
		if family.GetName() != "kedify_hold_requests_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			found[metric.GetLabel()[0].GetValue()] = int(metric.GetCounter().GetValue())
		}
	}
	return found
}

// answered is the answer to a request, or why there is none.
type answered struct {
	status int
	header http.Header
	body   string
	err    error
}

// by is the backend that has answered, "" if none has.
func (a answered) by() string {
	var is seen
	if a.status != http.StatusOK || json.Unmarshal([]byte(a.body), &is) != nil {
		return ""
	}
	return is.Backend
}

// isCold says that the answer tells of a cold start.
func (a answered) isCold() bool { return a.header.Get(extauthz.ColdStartHeader) == "true" }

// ask makes a request on a connection of its own.
func (s *served) ask(ctx context.Context, protocol, host, path string, header http.Header, body io.Reader) answered {
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetHTTP1(protocol == "HTTP/1.1")
	transport.Protocols.SetUnencryptedHTTP2(protocol == "HTTP/2")
	connection, err := transport.NewClientConn(ctx, "http", s.address)
	if err != nil {
		return answered{err: err}
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(ctx, await.Patience())
	defer cancel()
	method := http.MethodGet
	if body != nil {
		method = http.MethodPost
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://"+s.address+path, body)
	if err != nil {
		return answered{err: err}
	}
	request.Host = host
	maps.Copy(request.Header, header)
	return answerTo(request, connection)
}

// askOver makes a request over connections that others use, too.
func askOver(ctx context.Context, client *http.Transport, address, host string) answered {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/", http.NoBody)
	if err != nil {
		return answered{err: err}
	}
	request.Host = host
	return answerTo(request, client)
}

// answerTo reads the answer to a request.
func answerTo(request *http.Request, over http.RoundTripper) answered {
	response, err := over.RoundTrip(request)
	if err != nil {
		return answered{err: err}
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return answered{response.StatusCode, response.Header, string(text), err}
}

// begin makes a request whose answer comes later.
func (s *served) begin(t *testing.T, protocol, host string) <-chan answered {
	t.Helper()
	return s.beginWith(t, protocol, host, "/", nil)
}

// beginWith is begin for one path, with headers.
func (s *served) beginWith(t *testing.T, protocol, host, path string, header http.Header) <-chan answered {
	t.Helper()
	answer := make(chan answered, 1)
	go func() { answer <- s.ask(t.Context(), protocol, host, path, header, nil) }()
	return answer
}

// canaryWorld has one object whose requests two backends share.
func canaryWorld(t *testing.T, stable, canary string) resolve.Inputs {
	t.Helper()
	object := kit.NewScaledObject(namespace, "shop", "shop-stable", 1, "shop.example.com")
	object.Annotations = map[string]string{httpv1alpha1.AnnotationWeightedBackends: strings.NewReplacer("STABLE", stable, "CANARY", canary).Replace(
		"[{service: shop-stable, weight: STABLE}, {service: shop-canary, weight: CANARY}]")}
	return world(t, []*backend{startBackend(t, "shop-stable"), startBackend(t, "shop-canary")}, object)
}

// coldStart are timeouts of an object whose requests are held for so long at most.
func coldStart(patience time.Duration) *httpv1alpha1.Timeouts {
	return &httpv1alpha1.Timeouts{ConditionWait: &metav1.Duration{Duration: patience}}
}

// hasEndpoints says that the proxy has confirmed all endpoints as they are published.
func (s *served) hasEndpoints(resources translate.Resources) bool {
	hasAll := false
	s.server.Poll(func(state xds.StreamState) {
		hasAll = true
		for name := range resources[resourcev3.EndpointType] {
			acked := state.Resource(resourcev3.EndpointType, name).Acked
			hasAll = hasAll && acked != "" && acked == s.server.Versions()(namespace, resourcev3.EndpointType, name)
		}
	})
	return hasAll
}
