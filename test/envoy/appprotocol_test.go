package envoy_test

import (
	"context"
	"net"
	"net/http/httptest"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
)

// appProtocols returns the protocols that the proxies use to applications.
func appProtocols() []model.Protocol { return []model.Protocol{model.HTTP1, model.HTTP2, model.HTTPS} }

// startBackendFor starts an app that accepts a protocol. The app stops with the test.
func startBackendFor(t *testing.T, name string, protocol model.Protocol) *backend {
	t.Helper()
	if protocol != model.HTTPS {
		return startBackend(t, name)
	}
	b := newBackend(name)
	b.server.EnableHTTP2 = true
	b.server.StartTLS()
	b.closeAfter(t)
	return b
}

// startRawBackend starts an app whose connections are served by a function. The app stops with the test.
func startRawBackend(t *testing.T, name string, serve func(net.Conn)) *backend {
	t.Helper()
	listener := listen(t)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return // The test has ended.
			}
			stop := context.AfterFunc(t.Context(), func() { _ = connection.Close() })
			serving.Go(func() {
				serve(connection)
				stop()
				_ = connection.Close()
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		serving.Wait()
	})
	return &backend{name: name, server: &httptest.Server{Listener: listener}}
}

// shopInputs returns inputs with app shop, which accepts a protocol. startSecureReplica has a certificate for its host.
func shopInputs(t *testing.T, app *backend, protocol model.Protocol) resolve.Inputs {
	t.Helper()
	inputs := newInputs(t, []*backend{app},
		withTLSSecret(kit.NewScaledObject(namespace, "shop", "shop", 1, "shop.example.com"), "shop-tls"))
	inputs.Services[0].Ports[0].Protocol = protocol
	return inputs
}

// startSecureReplica is startWithReplica for a proxy with the TLS listener, and a certificate for shop.example.com.
func startSecureReplica(t *testing.T, inputs resolve.Inputs) *replica {
	t.Helper()
	r := startReplica(t, manyQueued())
	r.options.TLS = true
	r.secrets = []*corev1.Secret{kit.NewTLSSecret(t, namespace, "shop-tls", 1, "shop.example.com")}
	r.proxy = &proxy{}
	resources := r.publishInputs(t, inputs)
	r.run(t, "DELTA_GRPC", r.grpcAddress)
	r.await(t, resources)
	return r
}

// dialShop opens a connection for shop.example.com, in clear text or over TLS with the protocols of the client.
func (r *replica) dialShop(t *testing.T, isSecure bool, protocols ...string) *rawClient {
	t.Helper()
	if !isSecure {
		return dial(t, r.address)
	}
	return dialTLS(t, r.tlsAddress(t), "shop.example.com", protocols...)
}

// schemeOf returns the scheme of a client's requests.
func schemeOf(isSecure bool) string {
	if isSecure {
		return "https"
	}
	return "http"
}
