package status_test

import (
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"strconv"
	"testing"

	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/status"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/status/peers"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// BenchmarkChanges measures a publication and the comparison with 10 proxies when one of many objects in a canary
// changes, and a full comparison.
func BenchmarkChanges(b *testing.B) {
	for _, count := range []int{10, 1000} {
		b.Run(strconv.Itoa(count), func(b *testing.B) { benchmarkChanges(b, count) })
	}
}

func benchmarkChanges(b *testing.B, count int) {
	b.Helper()
	config := model.Config{Services: map[model.ServicePort]model.Endpoints{}}
	for i := range count {
		route := model.Route{
			Owner: model.Key{Namespace: "apps", Name: fmt.Sprint("shop-", i)}, Fleet: "apps",
			Match: model.Match{Host: model.Host(fmt.Sprint(i, ".test")), PathPrefix: "/"},
		}
		for _, service := range []string{"stable", "canary"} {
			backend := model.Backend{
				Service: model.Key{Namespace: "apps", Name: fmt.Sprint(service, i)}, Port: 80,
				Weight: 50, Protocol: model.HTTP1,
			}
			route.Backends = append(route.Backends, backend)
			config.Services[backend.ServicePort()] = ready("10.1.0.1")
		}
		config.Routes = append(config.Routes, route)
	}
	r := newReplica()
	r.publish(config)
	r.known = publications(config)
	r.tracker.Record(r.known, r.Versions())
	var fleet []model.Proxy
	for i := range 10 {
		address := netip.AddrFrom4([4]byte{10, 0, 0, byte(i)})
		r.confirm(netip.AddrPortFrom(address, 1).String())
		fleet = append(fleet, readyProxy(address.String(), address.String()))
	}
	r.sync()
	one := model.Key{Namespace: "apps", Name: "shop-7"}
	forms := []status.Publication{r.known[one], r.known[one]}
	forms[1].Digest = "other"
	b.Run("whole", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			fresh := &replica{r.proxies, status.NewAckTracker(), peers.NewServer(nil, nil), r.known}
			fresh.tracker.Record(r.known, r.Versions())
			fresh.sync()
			for key := range r.known {
				countAcks(key, fresh, fleet, fresh)
			}
		}
	})
	b.Run("one", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			r.tracker.Record(map[model.Key]status.Publication{one: forms[i%2]}, r.Versions())
			streams := r.Poll()
			for i := range streams {
				changed := streams[i].(stream)
				changed.changed = changedScope
				streams[i] = changed
			}
			r.server.Apply(r.tracker.Changes(streams))
			countAcks(one, r, fleet, r)
		}
	})
}

// changedScope returns the resource that changes with a weight.
func changedScope(typeURL string) iter.Seq[string] {
	if typeURL == resourcev3.ScopedRouteType {
		return slices.Values([]string{"7.test"})
	}
	return slices.Values[[]string](nil)
}
