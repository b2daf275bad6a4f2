package status_test

import (
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"strconv"
	"testing"

	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"

	"github.com/kedify/argo-rollouts-plugin/internal/ir"
	"github.com/kedify/argo-rollouts-plugin/internal/status"
)

// BenchmarkLook is what a publication and a look at 10 proxies cost when one object among many in a canary changes, beside a look at everything.
func BenchmarkLook(b *testing.B) {
	for _, count := range []int{10, 1000} {
		b.Run(strconv.Itoa(count), func(b *testing.B) { benchmarkLook(b, count) })
	}
}

func benchmarkLook(b *testing.B, count int) {
	b.Helper()
	config := ir.Config{Services: map[ir.ServicePort]ir.Endpoints{}}
	for i := range count {
		route := ir.Route{Owner: ir.Key{Namespace: "apps", Name: fmt.Sprint("shop-", i)}, Match: ir.Match{Host: ir.Host(fmt.Sprint(i, ".test")), PathPrefix: "/"}}
		for _, service := range []string{"stable", "canary"} {
			backend := ir.Backend{Service: ir.Key{Namespace: "apps", Name: fmt.Sprint(service, i)}, Port: 80, Weight: 50, Protocol: ir.HTTP1}
			route.Backends = append(route.Backends, backend)
			config.Services[backend.ServicePort()] = ready("10.1.0.1")
		}
		config.Routes = append(config.Routes, route)
	}
	ledger, source := status.NewLedger(), newProxies()
	source.publish(config)
	var fleet status.Fleet
	for i := range 10 {
		address := netip.AddrFrom4([4]byte{10, 0, 0, byte(i)})
		source.confirm(netip.AddrPortFrom(address, 1).String())
		fleet.Proxies = append(fleet.Proxies, status.Proxy{Namespace: "apps", Addresses: []netip.Addr{address}})
	}
	parts := source.parts(config)
	ledger.Record(parts)
	source.look(ledger, "interceptor-0")
	one := ir.Key{Namespace: "apps", Name: "shop-7"}
	forms := []status.Part{parts[one], parts[one]}
	forms[1].Digest = "other"
	b.Run("whole", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			status.Merge(fleet, parts, []status.Acks{source.look(ledger, "interceptor-0")})
		}
	})
	b.Run("one", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			changed := map[ir.Key]status.Part{one: forms[i%2]}
			ledger.Record(changed)
			source.Poll(func(stream status.Stream) {
				stream.Changed = changedScope
				ledger.Look(stream)
			})
			status.Merge(fleet, changed, []status.Acks{ledger.Acks("interceptor-0")})
		}
	})
}

// changedScope is what has changed with a weight.
func changedScope(typeURL string) iter.Seq[string] {
	if typeURL == resourcev3.ScopedRouteType {
		return slices.Values([]string{"7.test"})
	}
	return slices.Values[[]string](nil)
}
