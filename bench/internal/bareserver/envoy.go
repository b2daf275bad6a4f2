package bareserver

import (
	"context"
	"fmt"
	"net/netip"
	"os"

	"github.com/kedify/argo-rollouts-plugin/test/kit/envoyproc"
)

// ReceivedBytes is the Envoy counter of the bytes received from the discovery server, for an Envoy that Proxy.Start
// started.
const ReceivedBytes = "cluster.xds_cluster.upstream_cx_rx_bytes_total"

// Proxy is an Envoy with the bootstrap of config/kedify-proxy, except the addresses, and with one worker.
type Proxy struct {
	// Binary is the path of Envoy. Repository is the folder of the repository. Start creates a folder for the proxy in
	// Folder.
	Binary, Repository, Folder string
	// Discovery is the address of the discovery server. Sink is the address of the metric sink; if it is empty, the
	// proxy sends no metrics.
	Discovery, Sink netip.AddrPort
	// Source is the source address of its connections, by which an interceptor identifies its Pod. If it is empty, the
	// kernel chooses.
	Source netip.Addr
	// CA is the PEM of the discovery server's CA, and Token the Pod's token: the proxy then has the agent's bootstrap with
	// TLS. Without them it has that of config/kedify-proxy.
	CA    []byte
	Token string
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
	dir, err := os.MkdirTemp(p.Folder, "envoy")
	if err != nil {
		return nil, err
	}
	bootstrap, err := p.bootstrap(dir,
		[2]string{timeout, from},
		[2]string{"address: " + service + ", port_value: 5678", at(p.Discovery)},
		[2]string{"address: " + service + ", port_value: 9901", at(sink)},
		[2]string{"address: 0.0.0.0, port_value: 9901", "address: 127.0.0.1, port_value: 0"},
		[2]string{"port_value: 9902", "port_value: 0"},
		[2]string{"- prefix: control_plane.", "- prefix: control_plane.\n        - exact: " + ReceivedBytes},
	)
	if err != nil {
		return nil, err
	}
	return envoyproc.Start(ctx, p.Binary, dir, bootstrap, 1)
}

// bootstrap returns the bootstrap with changes. Its files are in folder.
func (p Proxy) bootstrap(folder string, changes ...[2]string) (string, error) {
	if p.CA == nil {
		return envoyproc.InstalledBootstrap(p.Repository, changes...)
	}
	return envoyproc.AgentBootstrap(folder, p.CA, p.Token, changes...)
}
