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
	corev1 "k8s.io/api/core/v1"
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
	"github.com/kedify/argo-rollouts-plugin/internal/server/grpcserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/samples"
)

// replica is a replica of the interceptor: it serves xDS and answers the external authorization calls of queued
// requests.
type replica struct {
	served

	checks      *extauthz.Server
	holding     *controlplane.Holding
	registry    *prometheus.Registry
	grpcServer  *grpcserver.Server
	options     translate.Options
	grpcAddress string
	page        page.Page        // of the objects with a waiting page
	secrets     []*corev1.Secret // certificates of hosts, with options.TLS
}

// startReplica starts a replica that stops with the test. limits are those of queued requests.
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
	r.server.SetMembers(xds.Members{Fleets: map[netip.Addr][]string{netip.MustParseAddr("127.0.0.1"): {namespace}}})
	r.grpcServer = grpcserver.New(grpcserver.Options{})
	r.server.Register(r.grpcServer)
	r.checks.Register(r.grpcServer)
	listener := listen(t)
	r.grpcAddress = listener.Addr().String()
	// The proxies of one machine share its abstract sockets.
	r.options.Hold = translate.Hold{Checks: netip.MustParseAddrPort(r.grpcAddress), Socket: "@kedify-hold-" + rand.Text()}
	serveGRPC(t, r.grpcServer, listener)
	return r
}

// manyQueued returns limits that no test reaches.
func manyQueued() holding.Limits {
	return holding.Limits{Object: 1000, Namespace: 1000, Proxy: 1000, Total: 1000}
}

// startWithReplica starts a replica and one proxy, and publishes inputs.
func startWithReplica(t *testing.T, form string, inputs resolve.Inputs) *replica {
	t.Helper()
	r := startReplica(t, manyQueued())
	r.proxy = &proxy{}
	r.publishInputs(t, inputs)
	r.run(t, form, r.grpcAddress)
	return r
}

// publishInputs publishes inputs as the interceptor does.
func (r *replica) publishInputs(t *testing.T, inputs resolve.Inputs) translate.Resources {
	t.Helper()
	resources := r.translated(t, inputs)
	r.publish(t, resources)
	r.observe(t, inputs)
	return resources
}

// translated translates inputs with the options of the replica, and with its certificates if it has any.
func (r *replica) translated(t *testing.T, inputs resolve.Inputs) translate.Resources {
	t.Helper()
	if len(r.secrets) == 0 {
		return translated(t, inputs, r.options)
	}
	return withCertificates(t, r.options, namespace, inputs, r.secrets...)
}

// observe updates the queue with the objects of inputs.
func (r *replica) observe(t *testing.T, inputs resolve.Inputs) {
	t.Helper()
	r.holding.Observe(passOf(inputs, r.page))
}

// passOf returns the pass that the queue observes for inputs. All objects have the same waiting page.
func passOf(inputs resolve.Inputs, waiting page.Page) ingest.Pass {
	config, _ := resolve.Build(inputs)
	objects := map[model.Key]ingest.Object{}
	for _, object := range inputs.ScaledObjects {
		key := model.Key{Namespace: object.Namespace, Name: object.Name}
		published := model.Config{Services: config.Services}
		for _, route := range config.Routes {
			if route.Owner == key {
				published.Routes = append(published.Routes, route)
			}
		}
		objects[key] = ingest.Object{ScaledObject: object, Published: published, Page: waiting}
	}
	return ingest.Pass{Objects: objects}
}

// without returns inputs in which services have no endpoint.
func without(inputs resolve.Inputs, services ...string) resolve.Inputs {
	kept := slices.Clone(inputs.EndpointSlices)
	inputs.EndpointSlices = slices.DeleteFunc(kept, func(slice *resolve.EndpointSlice) bool {
		return slices.Contains(services, slice.Service.Name)
	})
	return inputs
}

// queued returns the number of queued requests of an object.
func (r *replica) queued(name string) holding.Count {
	counts, _ := r.checks.Counts()
	return counts[model.Key{Namespace: namespace, Name: name}]
}

// awaitQueued waits until count requests are queued.
func (r *replica) awaitQueued(t *testing.T, name string, count int) {
	t.Helper()
	await.True(t, "requests are queued", func() bool { return r.queued(name).Waiting == count })
}

// calls returns the number of answered calls by result.
func (r *replica) calls(t *testing.T) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for outcome, count := range samples.ByLabel(t, r.registry, "kedify_hold_requests_total", "outcome") {
		if count > 0 {
			counts[outcome] = int(count)
		}
	}
	return counts
}

// result is the response to a request, or its error.
type result struct {
	status  int
	header  http.Header
	body    string
	trailer http.Header
	err     error
}

// backend returns the name of the backend that has answered, "" for none.
func (a result) backend() string {
	var echo echoed
	if a.status != http.StatusOK || json.Unmarshal([]byte(a.body), &echo) != nil {
		return ""
	}
	return echo.Backend
}

// isCold reports whether the response has the cold start header.
func (a result) isCold() bool { return a.header.Get(extauthz.ColdStartHeader) == "true" }

// send sends a request on a new connection.
func (s *served) send(ctx context.Context, protocol, host, path string, header http.Header, body io.Reader) result {
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetHTTP1(protocol == "HTTP/1.1")
	transport.Protocols.SetUnencryptedHTTP2(protocol == "HTTP/2")
	connection, err := transport.NewClientConn(ctx, "http", s.address)
	if err != nil {
		return result{err: err}
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
		return result{err: err}
	}
	request.Host = host
	maps.Copy(request.Header, header)
	return roundTrip(request, connection)
}

// getOver sends a GET request over shared connections.
func getOver(ctx context.Context, client *http.Transport, address, host string) result {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/", http.NoBody)
	if err != nil {
		return result{err: err}
	}
	request.Host = host
	return roundTrip(request, client)
}

// roundTrip sends a request and reads the response.
func roundTrip(request *http.Request, transport http.RoundTripper) result {
	response, err := transport.RoundTrip(request)
	if err != nil {
		return result{err: err}
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return result{response.StatusCode, response.Header, string(text), response.Trailer, err}
}

// start sends a GET request for / and returns a channel with its result.
func (s *served) start(t *testing.T, protocol, host string) <-chan result {
	t.Helper()
	return s.startWith(t, protocol, host, "/", nil)
}

// startWith is start for a path, with headers.
func (s *served) startWith(t *testing.T, protocol, host, path string, header http.Header) <-chan result {
	t.Helper()
	answer := make(chan result, 1)
	go func() { answer <- s.send(t.Context(), protocol, host, path, header, nil) }()
	return answer
}

// canaryInputs returns inputs with one object that splits its requests between two backends.
func canaryInputs(t *testing.T, stable, canary string) resolve.Inputs {
	t.Helper()
	object := kit.NewScaledObject(namespace, "shop", "shop-stable", 1, "shop.example.com")
	object.Annotations = map[string]string{httpv1alpha1.AnnotationWeightedBackends: strings.NewReplacer("STABLE", stable,
		"CANARY", canary).Replace(
		"[{service: shop-stable, weight: STABLE}, {service: shop-canary, weight: CANARY}]")}
	return newInputs(t, []*backend{startBackend(t, "shop-stable"), startBackend(t, "shop-canary")}, object)
}

// queueDeadline returns timeouts with a queue deadline.
func queueDeadline(deadline time.Duration) *httpv1alpha1.Timeouts {
	return &httpv1alpha1.Timeouts{ConditionWait: &metav1.Duration{Duration: deadline}}
}

// hasEndpoints reports whether the proxy has acknowledged the published version of all endpoints.
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
