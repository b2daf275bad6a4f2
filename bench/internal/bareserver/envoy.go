package bareserver

import (
	"context"
	"fmt"
	"net/netip"
	"os"

	"github.com/kedify/argo-rollouts-plugin/internal/testkit/envoyproc"
)

// ReceivedBytes is the counter of an Envoy, started by StartEnvoy, of the bytes that its discovery
// server has sent it.
const ReceivedBytes = "cluster.xds_cluster.upstream_cx_rx_bytes_total"

// StartEnvoy starts the Envoy of a file with the bootstrap of config/kedify-proxy in the repository,
// but for the addresses, and one worker. It is served at xdsAt, and has its files in a folder of its
// own below folder.
func StartEnvoy(
	ctx context.Context, binary, repository, folder string, xdsAt netip.AddrPort,
) (*envoyproc.Envoy, error) {
	const service = "keda-add-ons-http-interceptor-kedify-proxy-metric-sink.keda"
	bootstrap, err := envoyproc.InstalledBootstrap(repository,
		[2]string{
			"address: " + service + ", port_value: 5678",
			fmt.Sprintf("address: %s, port_value: %d", xdsAt.Addr(), xdsAt.Port()),
		},
		[2]string{"address: " + service, "address: 127.0.0.1"},
		[2]string{"address: 0.0.0.0, port_value: 9901", "address: 127.0.0.1, port_value: 0"},
		[2]string{"- prefix: control_plane.", "- prefix: control_plane.\n        - exact: " + ReceivedBytes},
	)
	if err != nil {
		return nil, err
	}
	own, err := os.MkdirTemp(folder, "envoy")
	if err != nil {
		return nil, err
	}
	return envoyproc.Start(ctx, binary, own, bootstrap, 1)
}
