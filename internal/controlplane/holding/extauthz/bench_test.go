package extauthz_test

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding/extauthz"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

const (
	// benchProxies and benchWorkloads are the proxies and workloads of a large installation.
	benchProxies, benchWorkloads = 100, 10_000
	// benchChanges is the number of workloads that change at the same time, every benchInterval.
	benchChanges, benchInterval = 50, 10 * time.Millisecond
)

// BenchmarkCheck measures calls of proxies in parallel, whose requests are released at once: with one processor and with
// all (-cpu), while nothing else happens, while workloads change and ACKs arrive at the rate of a busy loop, and next to a
// proxy whose session is busy. The calls of the busy proxy wait, and no others.
func BenchmarkCheck(b *testing.B) {
	for name, disturb := range map[string]func(*checkBench, context.Context){
		"quiet":        func(*checkBench, context.Context) {},
		"changes":      (*checkBench).change,
		"busy session": (*checkBench).keepBusy,
	} {
		b.Run(name, func(b *testing.B) {
			s := newCheckBench(b)
			ctx, cancel := context.WithCancel(b.Context())
			var disturbing sync.WaitGroup
			disturbing.Go(func() { disturb(s, ctx) })
			var last atomic.Int64
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				from := int(last.Add(1)) % benchProxies
				call := callContextFor(b.Context(), proxyAt(from), clusterAt(from))
				for pb.Next() {
					response, err := check(call, s.Server, new(authv3.CheckRequest))
					if err != nil || response.GetOkResponse() == nil {
						b.Errorf("%v, %v", response, err)
						return
					}
				}
			})
			b.StopTimer()
			cancel()
			close(s.busy.release)
			disturbing.Wait()
			s.Close()
		})
	}
}

// checkBench is a Server with many proxies and workloads. The session of a further proxy is busy.
type checkBench struct {
	*extauthz.Server

	busy *blockedStream
}

// blockedStream is the stream of a busy session.
type blockedStream struct {
	stream

	release chan struct{}
}

func (s *blockedStream) Serves(string) bool {
	<-s.release
	return true
}

// newCheckBench returns a checkBench whose other proxies serve every workload.
func newCheckBench(b *testing.B) *checkBench {
	b.Helper()
	server, err := extauthz.New(extauthz.Options{
		Limits:     holding.Limits{Object: 1000, Namespace: 4000, Proxy: 1500, Total: 10_000},
		Registerer: prometheus.NewRegistry(), Notify: func(model.Key, holding.Reason) {},
	})
	if err != nil {
		b.Fatal(err)
	}
	s := &checkBench{server, &blockedStream{stream{number: 1, fleet: "apps"}, make(chan struct{})}}
	server.SetWorkloads(workloadsOf(0, benchWorkloads))
	for i := range benchProxies {
		serving := &stream{number: uint64(i + 2), fleet: "apps"}
		serving.serves.Store(true)
		server.Opened(proxyAt(i), serving)
	}
	server.Opened(proxyAt(benchProxies), s.busy)
	return s
}

// change changes workloads, and has a proxy ACK endpoints, until ctx ends.
func (s *checkBench) change(ctx context.Context) {
	passes := time.NewTicker(benchInterval)
	defer passes.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-passes.C:
		}
		s.SetWorkloads(workloadsOf(i*benchChanges%benchWorkloads, benchChanges))
		s.EndpointsAcked(proxyAt(i % benchProxies))
	}
}

// keepBusy has calls of the proxy with a busy session wait.
func (s *checkBench) keepBusy(ctx context.Context) {
	var waiting sync.WaitGroup
	for i := range 100 {
		waiting.Go(func() {
			_, _ = check(callContextFor(ctx, proxyAt(benchProxies), clusterAt(i)), s.Server, new(authv3.CheckRequest))
		})
	}
	waiting.Wait()
}

// workloadsOf returns workloads, by the number of the first one.
func workloadsOf(first, count int) map[model.Key]*holding.Workload {
	workloads := make(map[model.Key]*holding.Workload, count)
	for i := first; i < first+count; i++ {
		changed := workload()
		changed.Clusters = []string{clusterAt(i)}
		workloads[model.Key{Namespace: "apps", Name: fmt.Sprint("shop-", i)}] = changed
	}
	return workloads
}

// clusterAt returns the name of the cluster of a workload.
func clusterAt(workload int) string { return fmt.Sprintf("%s-%d", cluster, workload) }

// proxyAt returns the address of a proxy.
func proxyAt(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 1, byte(i / 256), byte(i % 256)}) }
