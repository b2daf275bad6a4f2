package main

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"

	"github.com/kedify/argo-rollouts-plugin/bench/internal/benchresult"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/model/affinity"
)

func TestVerdictNamesValueAndLimit(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		ours, unqueued, control []float64 // relative to a plain table's 10 µs
		want                    string
	}{
		"within the limits": {[]float64{10.1, 10.3, 14}, []float64{10.1, 10.3, 14}, []float64{10, 10.1, 10.2}, ""},
		"too dear": {
			[]float64{10, 10.6, 14},
			[]float64{10, 10.6, 14},
			[]float64{10, 10, 10},
			"16 at a time, × a static table is 1.06, at most 1.05 is allowed",
		},
		"dear to hold": {
			[]float64{10, 10.3, 10.3},
			[]float64{10, 10, 10},
			[]float64{10, 10, 10},
			"that never waits is 1.03, at most 1.02 is allowed",
		},
		"too noisy": {
			[]float64{10, 10, 10},
			[]float64{10, 10, 10},
			[]float64{9.7, 9.7, 10},
			"of the control from 1 is 0.03, at most 0.02 is allowed",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			results := report{Lines: []line{{
				Kind: kinds()[1], ours: test.ours, unqueued: test.unqueued, sticky: test.ours, session: test.ours,
				plain: []float64{10, 10, 10}, control: test.control,
			}}}
			results.summarise()
			results.table(io.Discard)
			switch err := benchresult.Verdict(results.Limits); {
			case (err != nil) != (test.want != ""):
				t.Errorf("verdict is %v", err)
			case err != nil && !strings.Contains(err.Error(), test.want):
				t.Errorf("verdict %q lacks %q", err, test.want)
			}
		})
	}
}

func TestAPlainTableHasTheSameHosts(t *testing.T) {
	t.Parallel()
	none := affinity.Key{}
	resources, err := translate.Envoy(configOf(2, netip.MustParseAddrPort("127.0.0.1:80"), none, none))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := plainTable(resources)
	if err != nil {
		t.Fatal(err)
	}
	listener, ok := plain[resourcev3.ListenerType][translate.ListenerName].(*listenerv3.Listener)
	if !ok {
		t.Fatal("there is no listener")
	}
	manager := new(hcmv3.HttpConnectionManager)
	if err := listener.GetFilterChains()[0].GetFilters()[0].GetTypedConfig().UnmarshalTo(manager); err != nil {
		t.Fatal(err)
	}
	var domains []string
	for _, host := range manager.GetRouteConfig().GetVirtualHosts() {
		domains = append(domains, host.GetDomains()[0])
	}
	want := "*.wild.test web-00000.shop.test web-00001.shop.test"
	if got := strings.Join(domains, " "); got != want || len(manager.GetHttpFilters()) != 1 {
		t.Errorf("the table has %s and %d filters, want %s and the router", got, len(manager.GetHttpFilters()), want)
	}
}

// TestTableComparesVariants: the table has the ratios of the sticky canary and of session affinity to the proxy that
// has neither, and not to a plain table.
func TestTableComparesVariants(t *testing.T) {
	t.Parallel()
	results := report{Lines: []line{{
		Kind: kinds()[4], plain: []float64{10, 10}, control: []float64{10, 10}, unqueued: []float64{20, 20},
		ours: []float64{20, 20}, sticky: []float64{22, 22}, session: []float64{25, 25},
	}}}
	results.summarise()
	var table strings.Builder
	results.table(&table)
	const want = "a hit with a cookie, 20 bytes, 16 at a time 10.0 2.000 2.000–2.000 1.000 1.000–1.000 " +
		"1.000 1.000–1.000 1.100 1.100–1.100 1.250 1.250–1.250"
	if got := strings.Join(strings.Fields(table.String()), " "); !strings.Contains(got, want) {
		t.Errorf("the table is\n%s, want %s", table.String(), want)
	}
}

// TestVariants: with stickiness the hash of the cookie selects the Service that receives a request, and with session
// affinity the Pod. Requests of kind "a hit with a cookie" have this cookie.
func TestVariants(t *testing.T) {
	t.Parallel()
	at := netip.MustParseAddrPort("127.0.0.1:80")
	byCookie, err := affinity.Parse("cookie: {}")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		stickiness, session affinity.Key
		routes              int // of each host: with the cookie, and without
		hasMaglev           bool
	}{
		"neither":          {routes: 1},
		"stickiness":       {stickiness: byCookie, routes: 2},
		"session affinity": {session: byCookie, routes: 2, hasMaglev: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			resources, err := translate.Envoy(configOf(2, at, c.stickiness, c.session))
			if err != nil {
				t.Fatal(err)
			}
			table, err := tableOf(resources[resourcev3.ScopedRouteType])
			if err != nil {
				t.Fatal(err)
			}
			for _, host := range table.GetVirtualHosts() {
				weighted := host.GetRoutes()[0].GetRoute().GetWeightedClusters()
				if len(host.GetRoutes()) != c.routes || weighted.GetUseHashPolicy().GetValue() != (c.routes == 2) {
					t.Errorf("%s has %d routes, want %d: %v", host.GetName(), len(host.GetRoutes()), c.routes, weighted)
				}
			}
			for _, message := range resources[resourcev3.ClusterType] {
				cluster, _ := message.(*clusterv3.Cluster)
				if (cluster.GetLoadBalancingPolicy() != nil) != c.hasMaglev {
					t.Errorf("%s: %v", cluster.GetName(), cluster.GetLoadBalancingPolicy())
				}
			}
		})
	}
	client, proxy := net.Pipe()
	requests := load{kind: kinds()[4], hosts: 1}
	go func() { _ = requests.sendOver(client, 0, 1) }()
	request, err := http.ReadRequest(bufio.NewReader(proxy))
	if err != nil {
		t.Fatal(err)
	}
	if cookie, err := request.Cookie(byCookie.Cookie.Name); err != nil || cookie.Value == "" {
		t.Errorf("cookie %v, %v, want one with a value", cookie, err)
	}
	if err := errors.Join(client.Close(), proxy.Close()); err != nil {
		t.Fatal(err)
	}
}
