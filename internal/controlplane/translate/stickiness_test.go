package translate_test

import (
	"net/netip"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/model/affinity"
)

// byCookie returns a Key with a cookie of that name.
func byCookie(name string) affinity.Key {
	key := affinity.Key{Cookie: affinity.DefaultCookie()}
	key.Cookie.Name = name
	return key
}

// routesOf returns the routes of the first host of a scope.
func routesOf(t *testing.T, resources translate.Resources, name string) []*routev3.Route {
	t.Helper()
	return scope(t, resources, name).GetVirtualHosts()[0].GetRoutes()
}

// TestCookiesAreSetOnce: the first route that matches a request sets exactly the cookies that the request lacks, for
// any combination of cookies.
func TestCookiesAreSetOnce(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		stickiness, session affinity.Key
		want                []string // the cookies
	}{
		"stickiness":               {byCookie("side"), affinity.Key{}, []string{"side"}},
		"session affinity":         {affinity.Key{}, byCookie("pod"), []string{"pod"}},
		"both":                     {byCookie("side"), byCookie("pod"), []string{"pod", "side"}},
		"both, by one cookie":      {byCookie("pod"), byCookie("pod"), []string{"pod"}},
		"a cookie and a header":    {byCookie("side"), affinity.Key{Header: "x-user"}, []string{"side"}},
		"a header and a cookie":    {affinity.Key{Header: "x-user"}, byCookie("pod"), []string{"pod"}},
		"by the source address":    {affinity.Key{}, affinity.Key{SourceAddress: true}, nil},
		"neither by the way":       {affinity.Key{}, affinity.Key{}, nil},
		"a header decides nothing": {affinity.Key{Header: "x-user"}, affinity.Key{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := canary(80, 20)
			config.Routes[0].Match.Headers = nil
			config.Routes[0].Stickiness, config.Routes[0].Affinity = test.stickiness, test.session
			routes := routesOf(t, envoy(t, config), "shop.example.com")
			if len(routes) != 1<<len(test.want) {
				t.Errorf("%d routes for the cookies %v", len(routes), test.want)
			}
			for present := range 1 << len(test.want) {
				var have, lack []string
				for i, cookie := range test.want {
					if present&(1<<i) != 0 {
						have = append(have, cookie)
					} else {
						lack = append(lack, cookie)
					}
				}
				if diff := cmp.Diff(lack, setBy(t, routes, have)); diff != "" {
					t.Errorf("a request with the cookies %v (-lacks +set):\n%s", have, diff)
				}
			}
		})
	}
}

// setBy returns the names of the cookies that the first matching route sets for a request with these cookies.
func setBy(t *testing.T, routes []*routev3.Route, have []string) (names []string) {
	t.Helper()
	has := map[string]bool{}
	for _, name := range have {
		has[name] = true
	}
	for _, route := range routes {
		matches := true
		for _, matcher := range route.GetMatch().GetCookies() {
			matches = matches && has[matcher.GetName()]
		}
		if !matches {
			continue
		}
		for _, header := range route.GetResponseHeadersToAdd() {
			name, value, _ := strings.Cut(header.GetHeader().GetValue(), "=")
			if header.GetHeader().GetKey() != "set-cookie" || !strings.HasPrefix(value, "%REQ(x-request-id)%;") {
				t.Errorf("the header %s", header)
			}
			names = append(names, name)
		}
		return names
	}
	t.Errorf("no route matches a request with the cookies %v", have)
	return nil
}

// TestSetCookie tests the text of Set-Cookie. Envoy's formatter uses percent signs, so those of a name are doubled.
func TestSetCookie(t *testing.T) {
	t.Parallel()
	for want, cookie := range map[string]affinity.Cookie{
		"kedify-session=%REQ(x-request-id)%; Path=/; HttpOnly; SameSite=Lax": affinity.DefaultCookie(),
		"a%%b=%REQ(x-request-id)%; Path=/%%20; SameSite=Lax": {
			Name: "a%b", Path: "/%20", SameSite: affinity.Lax,
		},
		"__Host-a=%REQ(x-request-id)%; Path=/; Max-Age=60; Secure; SameSite=None": {
			Name: "__Host-a", Path: "/", MaxAge: 60, Secure: true, SameSite: affinity.None,
		},
	} {
		config := canary(80, 20)
		config.Routes[0].Stickiness = affinity.Key{Cookie: cookie}
		routes := routesOf(t, envoy(t, config), "shop.example.com")
		if got := routes[1].GetResponseHeadersToAdd()[0].GetHeader().GetValue(); got != want {
			t.Errorf("%+v: %s\nwant %s", cookie, got, want)
		}
		if got := routes[1].GetRoute().GetHashPolicy()[0].GetCookie(); got.GetName() != cookie.Name || got.GetTtl() != nil {
			t.Errorf("%+v: hash policy %v", cookie, got)
		}
	}
}

// TestQueuedClustersOfASplit: with and without stickiness, the hold filter is enabled for exactly the clusters with
// queued requests, also for the range of a canary whose requests go to the stable Service.
func TestQueuedClustersOfASplit(t *testing.T) {
	t.Parallel()
	options := translate.DefaultOptions()
	options.Hold = translate.Hold{Checks: netip.MustParseAddrPort("10.0.0.9:9000")}
	for name, test := range map[string]struct {
		stickiness affinity.Key
		ready      []bool // of stable and canary
		want       string // the clusters in order, those with queued requests in parentheses
	}{
		"stable":               {affinity.Key{}, []bool{false, true}, "(shop-stable), shop-canary"},
		"stable, sticky":       {byCookie("side"), []bool{false, true}, "(shop-stable), shop-canary"},
		"canary":               {affinity.Key{}, []bool{true, false}, "shop-stable, shop-canary"},
		"canary, sticky":       {byCookie("side"), []bool{true, false}, "shop-stable, shop-stable"},
		"both":                 {affinity.Key{}, []bool{false, false}, "(shop-stable), shop-canary"},
		"both, sticky":         {byCookie("side"), []bool{false, false}, "(shop-stable), (shop-stable)"},
		"none":                 {affinity.Key{}, []bool{true, true}, "shop-stable, shop-canary"},
		"none, sticky":         {byCookie("side"), []bool{true, true}, "shop-stable, shop-canary"},
		"none, by user":        {affinity.Key{Header: "x-user"}, []bool{true, true}, "shop-stable, shop-canary"},
		"stable, by client IP": {affinity.Key{SourceAddress: true}, []bool{false, true}, "(shop-stable), shop-canary"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := canary(80, 20)
			config.Routes[0].Stickiness = test.stickiness
			for i, backend := range config.Routes[0].Backends {
				if !test.ready[i] {
					config.Services[backend.ServicePort()] = model.Endpoints{}
				}
			}
			resources, err := options.Envoy(config)
			if err != nil {
				t.Fatal(err)
			}
			checkValid(t, resources)
			for _, route := range routesOf(t, resources, "shop.example.com") {
				if route.GetRoute() == nil {
					continue // the 404
				}
				var names []string
				for _, cluster := range route.GetRoute().GetWeightedClusters().GetClusters() {
					name := strings.TrimPrefix(cluster.GetName(), "apps/shop/")
					if cluster.GetTypedPerFilterConfig()[translate.HoldName] != nil {
						name = "(" + name + ")"
					}
					names = append(names, name)
				}
				if got := strings.Join(names, ", "); got != test.want {
					t.Errorf("%s, want %s", got, test.want)
				}
			}
		})
	}
}

// TestAffinityReplacesBalance: session affinity replaces the load balancing policy of the settings, which have no other
// effect on it. A change of the affinity updates the cluster.
func TestAffinityReplacesBalance(t *testing.T) {
	t.Parallel()
	config := canary(80, 20)
	config.Routes[0].EnvoySettings = &model.EnvoySettings{Cluster: model.ClusterSettings{
		Balance: model.Balance{Policy: "RANDOM"},
	}}
	cluster := func() *clusterv3.Cluster {
		return as[*clusterv3.Cluster](t, envoy(t, config)[resourcev3.ClusterType]["apps/shop/shop-canary"])
	}
	if got := cluster(); got.GetLbPolicy() != clusterv3.Cluster_RANDOM || got.GetLoadBalancingPolicy() != nil {
		t.Errorf("without session affinity: %v, %v", got.GetLbPolicy(), got.GetLoadBalancingPolicy())
	}
	config.Routes[0].Stickiness = byCookie("side")
	if got := cluster(); got.GetLoadBalancingPolicy() != nil {
		t.Errorf("with stickiness alone: %v", got.GetLoadBalancingPolicy())
	}
	config.Routes[0].Affinity = affinity.Key{SourceAddress: true}
	got := cluster()
	if got.GetLbPolicy() != 0 || got.GetLbConfig() != nil || len(got.GetLoadBalancingPolicy().GetPolicies()) != 1 {
		t.Errorf("with session affinity: %v", got)
	}
}

// TestFallbackListenerHasTheSameClient: the fallback listener counts the same trusted hops as the first listener, so
// that the client's address, by which an endpoint may be selected, is the same in both.
func TestFallbackListenerHasTheSameClient(t *testing.T) {
	t.Parallel()
	options := translate.DefaultOptions()
	options.TrustedHops, options.Hold.Checks = 2, netip.MustParseAddrPort("10.0.0.9:9000")
	resources, err := options.Envoy(canary(80, 20))
	if err != nil {
		t.Fatal(err)
	}
	listener := as[*listenerv3.Listener](t, resources[resourcev3.ListenerType][translate.HoldName])
	manager := new(hcmv3.HttpConnectionManager)
	if err := listener.GetFilterChains()[0].GetFilters()[0].GetTypedConfig().UnmarshalTo(manager); err != nil {
		t.Fatal(err)
	}
	if manager.GetXffNumTrustedHops() != 2 || manager.GetUseRemoteAddress().GetValue() || !manager.GetSkipXffAppend() {
		t.Errorf("%d trusted hops, remote address %v, append skipped %t", manager.GetXffNumTrustedHops(),
			manager.GetUseRemoteAddress(), manager.GetSkipXffAppend())
	}
}
