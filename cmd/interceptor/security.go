package main

import (
	"context"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/identity"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/ingest"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics/sink"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/status"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/transport"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/xds"
	"github.com/kedify/argo-rollouts-plugin/internal/server"
)

// connectionsPerProxy limits the connections of one address to each of the ports for proxies. Each of a proxy's workers
// has one of its own for questions about queued requests, and there is another one for each 100 of them. All proxies
// together have no limit: it would lock out some of them.
const connectionsPerProxy = 512

// security is what the ports for proxies and for the scaler need for TLS. Without TLS it is empty.
type security struct {
	certificates *transport.Certificates
	identities   *controlplane.Identities
	callers      *identity.Verifier // of the admin port
}

// newSecurity returns the security of the ports. It sends no request.
func newSecurity(chosen settings, api clients, logger *slog.Logger) security {
	if chosen.interceptorTLSSecret == "" {
		return security{}
	}
	return security{
		certificates: &transport.Certificates{Name: transport.Name(chosen.podNamespace)},
		identities:   &controlplane.Identities{Verifier: identity.New(api.reviewToken, time.Now), Logger: logger},
		callers:      identity.New(api.reviewToken, time.Now),
	}
}

// dashboardPath is the path of the live page on the admin port.
const dashboardPath = "/dashboard/"

// admin makes the port for the scaler use TLS, and require a token of the scaler, except for the live page, which
// requires one of a user. Without TLS it does not serve the page, because others could read the tokens.
func (s security) admin(
	port server.Port, namespace string, page http.Handler, logger *slog.Logger,
) server.Port {
	if s.certificates == nil {
		return port
	}
	port.TLS = s.certificates.HTTPConfig()
	port.Handler = &controlplane.Admin{Verifier: s.callers, Namespace: namespace, Next: port.Handler, Logger: logger}
	if page != nil {
		mux := http.NewServeMux()
		mux.Handle("/", port.Handler)
		mux.Handle(dashboardPath, http.StripPrefix(strings.TrimSuffix(dashboardPath, "/"), page))
		port.Handler = mux
	}
	return port
}

// discovery adds the proof of fleets to the options of the discovery server.
func (s security) discovery(options xds.Options) xds.Options {
	if s.identities != nil {
		options.Identify = s.identities.Fleet
	}
	return options
}

// sink adds the proof of proxies to the options of the metric sink.
func (s security) sink(options sink.Options) sink.Options {
	if s.identities != nil {
		options.Identify, options.ConnContext = s.identities.Proxy, server.ConnContext
	}
	return options
}

// peers adds TLS and the proof of replicas to the options of the status reporter.
func (s security) peers(options status.Options) status.Options {
	if s.certificates != nil {
		options.PeerCredentials, options.IsReplica = s.certificates.Credentials(), s.certificates.IsReplica
	}
	return options
}

// ingest adds the certificate to the options of the loop.
func (s security) ingest(options ingest.Options) ingest.Options {
	if s.certificates != nil {
		options.SetCertificate, options.Translate.Hold.Name = s.certificates.Set, s.certificates.Name
	}
	return options
}

// listen opens a port for proxies, which serves TLS in addition to plaintext if there are certificates. Only known
// addresses can connect.
func (s security) listen(
	ctx context.Context, purpose, address, flag string, isKnown func(netip.Addr) bool, logger *slog.Logger,
) (net.Listener, error) {
	listener, err := server.Listen(ctx, purpose, address, flag)
	if err != nil {
		return nil, err
	}
	limited := server.LimitConnections(listener, server.ConnectionLimits{
		Total: math.MaxInt, PerAddress: connectionsPerProxy,
	}, logger)
	return transport.Listen(limited, transport.Options{
		Certificates: s.certificates, IsKnown: isKnown, Hint: membershipHint, Logger: logger,
	}), nil
}
