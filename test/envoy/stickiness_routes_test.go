package envoy_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/model/managedroute"
	"github.com/kedify/argo-rollouts-plugin/internal/model/split"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// TestStickinessAndManagedRoutes: a header route wins over a user's cookie and sets none. A mirrored request stays on
// the user's side, and its response sets the cookie.
func TestStickinessAndManagedRoutes(t *testing.T) {
	t.Parallel()
	annotations := stickyBy("cookie: {}")
	annotations[httpv1alpha1.AnnotationManagedRoutes] = managedroute.Format([]managedroute.Route{
		{Name: "copy", MirrorPercent: 100, Matches: []managedroute.Match{{Path: condition(managedroute.Prefix, "/api")}}},
		{Name: "qa", Matches: []managedroute.Match{{Headers: []managedroute.HeaderMatch{
			onHeader("role", condition(managedroute.Exact, "qa")),
		}}}},
	})
	s := serve(t, "DELTA_GRPC", translated(t, newInputs(t, stickyBackends(t), stickyObject(30, annotations)),
		translate.DefaultOptions()))
	c := s.newCrowd(t, "HTTP/1.1", 200)
	mirrored := c.visit(t, stickyURL+"api")
	if mirrored.Cookies() != 200 || mirrored.Count("shop-canary") == 0 || mirrored.Count("shop-stable") == 0 {
		t.Errorf("mirrored: %d cookies, %d on the canary", mirrored.Cookies(), mirrored.Count("shop-canary"))
	}
	plain := c.visit(t, stickyURL)
	plain.checkMoves(t, "after a mirrored request", mirrored, "")
	for i := range c.Headers {
		c.Headers[i] = http.Header{"Role": {"qa"}}
	}
	if routed := c.visit(t, stickyURL); routed.Count("shop-canary") != 200 || routed.Cookies() > 0 {
		t.Errorf("%d of 200 users of the header route on the canary, %d cookies", routed.Count("shop-canary"),
			routed.Cookies())
	}
	clear(c.Headers)
	last := c.visit(t, stickyURL)
	last.checkMoves(t, "after the header route", plain, "")
	if n := plain.Cookies() + last.Cookies(); n > 0 {
		t.Errorf("%d cookies were set again", n)
	}
	newcomers := s.newCrowd(t, "HTTP/1.1", 20)
	for i := range newcomers.Headers {
		newcomers.Headers[i] = http.Header{"Role": {"qa"}}
	}
	if n := newcomers.visit(t, stickyURL).Cookies(); n > 0 {
		t.Errorf("a header route set %d cookies", n)
	}
}

// TestStickinessWithoutEndpoints: while the canary or an experiment has no endpoint, its users are on the stable
// version, and later on their own one again. No other user moves.
func TestStickinessWithoutEndpoints(t *testing.T) {
	t.Parallel()
	names := []string{"shop-stable", "shop-canary", "shop-a", "shop-b"}
	weights := []uint32{40, 30, 20, 10}
	var (
		backends []*backend
		entries  []split.Backend
	)
	for i, name := range names {
		backends = append(backends, startBackend(t, name))
		entries = append(entries, split.Backend{Service: name, Weight: weights[i]})
	}
	all := newInputs(t, backends, kit.WithSplit(stickyObject(-1, stickyBy("cookie: {}")), entries...))
	s := serve(t, "DELTA_GRPC", translated(t, all, translate.DefaultOptions()))
	c := s.newCrowd(t, "HTTP/1.1", 500)
	usual := c.visit(t, stickyURL)
	for _, gone := range names[1:] {
		s.apply(t, without(all, gone))
		now := c.visit(t, stickyURL)
		now.checkMoves(t, "without "+gone, usual, gone+" → shop-stable")
		if now.Count(gone) > 0 {
			t.Errorf("%d users on %s, which has no endpoint", now.Count(gone), gone)
		}
		s.apply(t, all)
		c.visit(t, stickyURL).checkMoves(t, "with "+gone+" again", usual, "")
	}
}

// TestStickyGRPC: gRPC calls stay on one version, by the cookie of the first response or by a header of the client.
func TestStickyGRPC(t *testing.T) {
	t.Parallel()
	backends := []*backend{startNamedGRPC(t, "shop-stable"), startNamedGRPC(t, "shop-canary")}
	for name, key := range map[string]string{"cookie": "cookie: {}", "header": "header: x-user"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inputs := newInputs(t, backends, stickyObject(50, stickyBy(key)))
			for _, service := range inputs.Services {
				service.Ports[0].Protocol = model.HTTP2
			}
			s := serve(t, "DELTA_GRPC", translated(t, inputs, translate.DefaultOptions()))
			connection, err := grpc.NewClient(s.address, grpc.WithTransportCredentials(insecure.NewCredentials()),
				grpc.WithAuthority("shop.example.com"))
			if err != nil {
				t.Fatal(err)
			}
			defer connection.Close()
			sides := map[string]int{}
			for i := range 60 {
				user := metadata.Pairs("x-user", fmt.Sprintf("user-%d", i))
				side, header := callNamed(t, connection, user)
				sides[side]++
				if name == "cookie" {
					value, _, _ := strings.Cut(strings.Join(header.Get("set-cookie"), "\n"), ";")
					user.Set("cookie", "theme=dark", value) // sent as two fields, as HTTP/2 permits
				}
				for range 3 {
					if again, header := callNamed(t, connection, user); again != side || len(header.Get("set-cookie")) > 0 {
						t.Errorf("user %d: by %s, then by %s with %v", i, side, again, header)
					}
				}
			}
			if len(sides) != 2 || sides[""] > 0 {
				t.Errorf("answered by %v", sides)
			}
		})
	}
}

// startNamedGRPC starts a gRPC app that sends its name as a header.
func startNamedGRPC(t *testing.T, name string) *backend {
	t.Helper()
	calls := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		if err := stream.SetHeader(metadata.Pairs("backend", name)); err != nil {
			return err
		}
		return echoStream(nil, stream)
	}))
	b := &backend{name: name, server: httptest.NewUnstartedServer(calls)}
	b.server.Config.Protocols = new(http.Protocols)
	b.server.Config.Protocols.SetUnencryptedHTTP2(true)
	b.server.Start()
	b.closeAfter(t)
	return b
}

// callNamed makes a call and returns the name of the app and the header of the response.
func callNamed(t *testing.T, connection *grpc.ClientConn, request metadata.MD) (string, metadata.MD) {
	t.Helper()
	var header metadata.MD
	message := &grpc_health_v1.HealthCheckRequest{Service: "x"}
	err := connection.Invoke(metadata.NewOutgoingContext(t.Context(), request), "/test.Talk/Talk", message,
		new(grpc_health_v1.HealthCheckRequest), grpc.Header(&header))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(header.Get("backend"), " "), header
}

// TestStickyQueuedRequests: while one version is at zero, the requests of its users are queued and then answered by it,
// also those of new users, whose cookie is set once. The users of the other version are answered at once.
func TestStickyQueuedRequests(t *testing.T) {
	t.Parallel()
	for _, protocol := range protocols() {
		for _, zero := range []string{"shop-stable", "shop-canary"} {
			t.Run(protocol+" "+zero, func(t *testing.T) {
				t.Parallel()
				weight := map[string]int{"shop-stable": 50, "shop-canary": 100}[zero] // A canary waits at the full weight.
				all := newInputs(t, stickyBackends(t), stickyObject(weight, stickyBy("cookie: {name: side}")))
				r := startWithReplica(t, "DELTA_GRPC", all)
				r.await(t, translated(t, all, r.options))
				known := map[string]string{} // the side of each cookie
				for i := range 40 {
					cookie := fmt.Sprintf("side=known-%d", i)
					known[cookie] = r.send(t.Context(), protocol, "shop.example.com", "/", http.Header{"Cookie": {cookie}},
						nil).backend()
				}
				r.await(t, r.publishInputs(t, without(all, zero)))
				waiting := map[string]<-chan result{}
				expected := 0
				for cookie, side := range known {
					waiting[cookie] = r.startWith(t, protocol, "shop.example.com", "/", http.Header{"Cookie": {cookie}})
					if side == zero {
						expected++
					}
				}
				r.awaitQueued(t, "shop", expected)
				var newcomers []<-chan result
				for range 20 {
					newcomers = append(newcomers, r.start(t, protocol, "shop.example.com"))
				}
				awaitAllQueuedOrAnswered(t, r, expected, newcomers)
				r.publishInputs(t, all)
				for cookie, answer := range waiting {
					got := <-answer
					if got.backend() != known[cookie] || got.isCold() != (known[cookie] == zero) ||
						len(got.header.Values("Set-Cookie")) > 0 {
						t.Errorf("%s: on %s before, now %+v", cookie, known[cookie], got)
					}
				}
				for _, answer := range newcomers {
					got := <-answer
					cookie, _, _ := strings.Cut(strings.Join(got.header.Values("Set-Cookie"), "\n"), ";")
					again := r.send(t.Context(), protocol, "shop.example.com", "/", http.Header{"Cookie": {cookie}}, nil)
					if got.backend() == "" || again.backend() != got.backend() || len(got.header.Values("Set-Cookie")) != 1 ||
						len(again.header.Values("Set-Cookie")) > 0 {
						t.Errorf("a new user: %+v, then with %q %+v", got, cookie, again)
					}
				}
			})
		}
	}
}

// TestStickyRequestsViaFallback: requests that a lagging worker sends to the fallback listener stay on their side, by a
// cookie and by the address of a client behind a trusted Ingress.
func TestStickyRequestsViaFallback(t *testing.T) {
	t.Parallel()
	for name, annotations := range map[string]map[string]string{
		"cookie": stickyBy("cookie: {name: side}"), "address": {httpv1alpha1.AnnotationSessionAffinity: "sourceAddress: {}"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := newInputs(t, stickyBackends(t), stickyObject(50, annotations))
			r := startReplicaBehindIngress(t, all)
			user := func(i int) http.Header {
				return http.Header{
					"Cookie": {fmt.Sprintf("side=known-%d", i)}, "X-Forwarded-For": {fmt.Sprintf("192.0.2.%d", i)},
				}
			}
			before := make([]string, 40)
			for i := range before {
				before[i] = r.send(t.Context(), "HTTP/1.1", "shop.example.com", "/", user(i), nil).backend()
			}
			if !slices.Contains(before, "shop-stable") || !slices.Contains(before, "shop-canary") {
				t.Fatalf("all users are on one side: %v", before)
			}
			lag(t, r, all, "shop-stable")
			var waiting []<-chan result
			for i := range before {
				waiting = append(waiting, r.startWith(t, "HTTP/1.1", "shop.example.com", "/", user(i)))
			}
			awaitAllQueuedOrAnswered(t, r, 0, waiting)
			if got := r.queued("shop"); got.ViaFallback != got.Waiting || got.Waiting == 0 {
				t.Errorf("queue: %+v", got)
			}
			r.publishInputs(t, all)
			for i, answer := range waiting {
				if got := <-answer; got.backend() != before[i] || len(got.header.Values("Set-Cookie")) > 0 {
					t.Errorf("user %d: on %s before, now %+v", i, before[i], got)
				}
			}
		})
	}
}

// TestStickinessAndFailover: the failover Service answers the users of a version that does not become ready, and later
// they are on their side again.
func TestStickinessAndFailover(t *testing.T) {
	t.Parallel()
	object := stickyObject(50, stickyBy("cookie: {name: side}"))
	object.Spec.ColdStartTimeoutFailoverRef = &httpv1alpha1.ColdStartTimeoutFailoverRef{
		Service: "shop-failover", Port: 80, TimeoutSeconds: new(int32(1)),
	}
	all := newInputs(t, append(stickyBackends(t), startBackend(t, "shop-failover")), object)
	r := startWithReplica(t, "DELTA_GRPC", all)
	r.await(t, translated(t, all, r.options))
	visit := func(i int) string {
		return r.send(t.Context(), "HTTP/1.1", "shop.example.com", "/",
			http.Header{"Cookie": {fmt.Sprintf("side=known-%d", i)}}, nil).backend()
	}
	before := make([]string, 8)
	for i := range before {
		before[i] = visit(i)
	}
	r.await(t, r.publishInputs(t, without(all, "shop-stable")))
	for i, side := range before {
		want := map[string]string{"shop-stable": "shop-failover", "shop-canary": "shop-canary"}[side]
		if got := visit(i); got != want {
			t.Errorf("user %d of %s: by %q, want %q", i, side, got, want)
		}
	}
	r.await(t, r.publishInputs(t, all))
	for i, side := range before {
		if got := visit(i); got != side {
			t.Errorf("user %d: by %q, was on %q", i, got, side)
		}
	}
}

// startReplicaBehindIngress is startWithReplica for a proxy that trusts the X-Forwarded-For of its peer.
func startReplicaBehindIngress(t *testing.T, inputs resolve.Inputs) *replica {
	t.Helper()
	r := startReplica(t, holding.Limits{Object: 1000, Namespace: 1000, Proxy: 1000, Total: 1000})
	r.options.TrustedHops, r.proxy = 1, &proxy{}
	resources := r.publishInputs(t, inputs)
	r.run(t, "DELTA_GRPC", r.grpcAddress)
	r.await(t, resources)
	return r
}

// awaitAllQueuedOrAnswered waits until each of the requests is queued, in addition to others, or answered.
func awaitAllQueuedOrAnswered(t *testing.T, r *replica, others int, requests []<-chan result) {
	t.Helper()
	await.True(t, "each request is queued or answered", func() bool {
		answered := 0
		for _, request := range requests {
			answered += len(request)
		}
		return answered+r.queued("shop").Waiting == len(requests)+others
	})
}

// lag publishes that a Service has no endpoint, while the routes stay as they are.
func lag(t *testing.T, r *replica, inputs resolve.Inputs, zero string) {
	t.Helper()
	lagging := translated(t, without(inputs, zero), r.options)
	lagging[resourcev3.ScopedRouteType] = translated(t, inputs, r.options)[resourcev3.ScopedRouteType]
	r.publish(t, lagging)
	await.True(t, "the endpoints are acknowledged", func() bool { return r.hasEndpoints(lagging) })
}
