package main

import (
	"context"
	"os"
	"strconv"

	"github.com/kedify/argo-rollouts-plugin/internal/testkit/envoyproc"
)

// startEnvoy starts Envoy with the bootstrap of config/kedify-proxy, but for the addresses, and adds it to the proxies.
func (s *stage) startEnvoy(ctx context.Context, xdsPort int) error {
	const service = "keda-add-ons-http-interceptor-kedify-proxy-metric-sink.keda"
	bootstrap, err := envoyproc.InstalledBootstrap(s.repo,
		[2]string{"address: " + service + ", port_value: 5678", "address: 127.0.0.1, port_value: " + strconv.Itoa(xdsPort)},
		[2]string{"address: " + service, "address: 127.0.0.1"},
		[2]string{"address: 0.0.0.0, port_value: 9901", "address: 127.0.0.1, port_value: 0"},
	)
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp(s.folder, "envoy")
	if err != nil {
		return err
	}
	proxy, err := envoyproc.Start(ctx, s.envoy, folder, bootstrap, 1)
	if err != nil {
		return err
	}
	s.proxies = append(s.proxies, proxy)
	return nil
}
