package status_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/ir"
	"github.com/kedify/argo-rollouts-plugin/internal/status"
)

// BenchmarkLook is what one look at 10 proxies with 1000 objects in a canary costs, beside what a publication does.
func BenchmarkLook(b *testing.B) {
	config := ir.Config{Services: map[ir.ServicePort]ir.Endpoints{}}
	for i := range 1000 {
		route := ir.Route{Owner: ir.Key{Namespace: "apps", Name: fmt.Sprint("shop-", i)}, Match: ir.Match{Host: ir.Host(fmt.Sprint(i, ".test")), PathPrefix: "/"}}
		for _, service := range []string{"stable", "canary"} {
			backend := ir.Backend{Service: ir.Key{Namespace: "apps", Name: fmt.Sprint(service, i)}, Port: 80, Weight: 50, Protocol: ir.HTTP1}
			route.Backends = append(route.Backends, backend)
			config.Services[backend.ServicePort()] = ready("10.1.0.1")
		}
		config.Routes = append(config.Routes, route)
	}
	ledger, source := status.NewLedger(), newProxies()
	source.publish("1", config)
	var fleet status.Fleet
	for i := range 10 {
		address := netip.AddrFrom4([4]byte{10, 0, 0, byte(i)})
		source.confirm(netip.AddrPortFrom(address, 1).String())
		fleet.Proxies = append(fleet.Proxies, status.Proxy{Namespace: "apps", Addresses: []netip.Addr{address}})
	}
	streams := source.Streams()
	parts := status.Parts(config, source.Versions)
	b.Run("publication", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			ledger.Record("1", status.Parts(config, source.Versions))
		}
	})
	b.Run("look", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			status.Merge(fleet, parts, []status.Acks{ledger.Acks("interceptor-0", streams)})
		}
	})
}
