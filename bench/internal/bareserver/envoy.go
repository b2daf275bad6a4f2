package bareserver

import (
	"context"
	"fmt"
	"net/netip"
	"os"

	"github.com/kedify/argo-rollouts-plugin/test/kit/envoyproc"
)

// ReceivedBytes is the counter of an Envoy, started by Proxy.Start, of the bytes that its discovery
// server has sent it.
const ReceivedBytes = "cluster.xds_cluster.upstream_cx_rx_bytes_total"

// Proxy is an Envoy with the bootstrap of config/kedify-proxy, but for the addresses, and one worker.
type Proxy struct {
	// Binary is the file of Envoy, Repository the folder of the repository, and Folder one that it gets a folder of its own in.
	Binary, Repository, Folder string
	// Discovery is where it is served, and Sink where its metrics go: nowhere, where that is not set.
	Discovery, Sink netip.AddrPort
	// Source is the address that it connects from, by which an interceptor tells its Pod; where it is not set, the kernel chooses.
	Source netip.Addr
}

// Start starts it, and waits until it is ready.
func (p Proxy) Start(ctx context.Context) (*envoyproc.Envoy, error) {
	const service = "keda-add-ons-http-interceptor-kedify-proxy-metric-sink.keda"
	sink := p.Sink
	if !sink.IsValid() {
		sink = netip.MustParseAddrPort("127.0.0.1:9901")
	}
	at := func(address netip.AddrPort) string {
		return fmt.Sprintf("address: %s, port_value: %d", address.Addr(), address.Port())
	}
	const timeout = "connect_timeout: 2s"
	from := timeout
	if p.Source.IsValid() {
		from += fmt.Sprintf("\n      upstream_bind_config: {source_address: {address: %s, port_value: 0}}", p.Source)
	}
	bootstrap, err := envoyproc.InstalledBootstrap(p.Repository,
		[2]string{timeout, from},
		[2]string{"address: " + service + ", port_value: 5678", at(p.Discovery)},
		[2]string{"address: " + service + ", port_value: 9901", at(sink)},
		[2]string{"address: 0.0.0.0, port_value: 9901", "address: 127.0.0.1, port_value: 0"},
		[2]string{"- prefix: control_plane.", "- prefix: control_plane.\n        - exact: " + ReceivedBytes},
	)
	if err != nil {
		return nil, err
	}
	own, err := os.MkdirTemp(p.Folder, "envoy")
	if err != nil {
		return nil, err
	}
	return envoyproc.Start(ctx, p.Binary, own, bootstrap, 1)
}
