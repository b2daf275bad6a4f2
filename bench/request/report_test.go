package main

import (
	"io"
	"net/netip"
	"strings"
	"testing"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"

	"github.com/kedify/argo-rollouts-plugin/bench/internal/benchresult"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
)

func TestVerdictNamesValueAndLimit(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		ours, unheld, control []float64 // relative to a plain table's 10 µs
		want                  string
	}{
		"within the limits": {[]float64{10.1, 10.3, 14}, []float64{10.1, 10.3, 14}, []float64{10, 10.1, 10.2}, ""},
		"too dear": {
			[]float64{10, 10.4, 14},
			[]float64{10, 10.4, 14},
			[]float64{10, 10, 10},
			"16 at a time is 1.04, at most 1.03 is allowed",
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
				Kind: kinds()[1], ours: test.ours, unheld: test.unheld, plain: []float64{10, 10, 10}, control: test.control,
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
	resources, err := translate.Envoy(configOf(2, netip.MustParseAddrPort("127.0.0.1:80")))
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
