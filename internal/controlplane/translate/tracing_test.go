package translate_test

import (
	"bytes"
	"math"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	corev1 "k8s.io/api/core/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
)

// TestTracing: all listeners trace requests, and the collector is a cluster for which Envoy does not wait. Without an
// endpoint there is neither.
func TestTracing(t *testing.T) {
	t.Parallel()
	ca := string(kit.NewTLSSecret(t, "apps", "otel", 1, "otel.tracing").Data[corev1.TLSCertKey])
	for name, test := range map[string]struct {
		tracing translate.Tracing
		address string
		port    uint32
		isTLS   bool
	}{
		"off":          {tracing: translate.Tracing{Sampling: 1}},
		"a host":       {translate.Tracing{Endpoint: "http://otel.tracing", Sampling: 0.25}, "otel.tracing", 4317, false},
		"an address":   {translate.Tracing{Endpoint: "http://[2001:db8::1]:14317/"}, "2001:db8::1", 14317, false},
		"with a CA":    {translate.Tracing{Endpoint: "https://otel.tracing:443", CA: ca}, "otel.tracing", 443, true},
		"a final dot":  {translate.Tracing{Endpoint: "HTTPS://otel.tracing.:443", CA: ca}, "otel.tracing.", 443, true},
		"TLS by IP":    {translate.Tracing{Endpoint: "https://10.0.0.7", CA: ca}, "10.0.0.7", 4317, true},
		"without a CA": {translate.Tracing{Endpoint: "http://otel.tracing:1", CA: "ca"}, "otel.tracing", 1, false},
	} {
		options := holdOptions()
		options.Tracing = test.tracing
		if err := options.Tracing.Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for listener, manager := range managersOf(t, options) {
			tracing := manager.GetTracing()
			if (tracing != nil) != (test.address != "") || tracing.GetRandomSampling().GetValue() != test.tracing.Sampling*100 &&
				tracing != nil {
				t.Errorf("%s: listener %s: %v", name, listener, tracing)
			}
		}
		resources, err := options.Envoy(model.Config{})
		if err != nil {
			t.Fatal(err)
		}
		cluster, _ := resources[resourcev3.ClusterType][translate.TracingName].(*clusterv3.Cluster)
		if (cluster != nil) != (test.address != "") {
			t.Errorf("%s: cluster %v", name, cluster)
		}
		if cluster == nil {
			continue
		}
		at := cluster.GetLoadAssignment().GetEndpoints()[0].GetLbEndpoints()[0].GetEndpoint().GetAddress().GetSocketAddress()
		if at.GetAddress() != test.address || at.GetPortValue() != test.port ||
			(cluster.GetTransportSocket() != nil) != test.isTLS || cluster.GetWaitForWarmOnInit().GetValue() {
			t.Errorf("%s: cluster %v", name, cluster)
		}
		if bytes.Contains(cluster.GetTransportSocket().GetTypedConfig().GetValue(), []byte("otel.tracing.")) {
			t.Errorf("%s: the name of the certificate ends with a dot: %v", name, cluster)
		}
	}
}

// TestTracingErrors: an invalid setting is rejected with the flag and the fix.
func TestTracingErrors(t *testing.T) {
	t.Parallel()
	secret := kit.NewTLSSecret(t, "apps", "otel", 1, "otel.tracing").Data
	ca, key := string(secret[corev1.TLSCertKey]), string(secret[corev1.TLSPrivateKeyKey])
	for name, test := range map[string]struct {
		tracing translate.Tracing
		want    string
	}{
		"no URL":              {translate.Tracing{Endpoint: "otel.tracing:4317"}, "--tracing-endpoint"},
		"another scheme":      {translate.Tracing{Endpoint: "grpc://otel.tracing:4317"}, "--tracing-endpoint"},
		"a path of OTLP/HTTP": {translate.Tracing{Endpoint: "http://otel.tracing:4318/v1/traces"}, "OTLP over gRPC"},
		"port 0":              {translate.Tracing{Endpoint: "http://otel.tracing:0"}, "1 to 65535"},
		"https without a CA":  {translate.Tracing{Endpoint: "https://otel.tracing"}, "--tracing-ca-file"},
		"a zone":              {translate.Tracing{Endpoint: "http://[fe80::1%25eth0]:4317"}, "--tracing-endpoint"},
		"not a DNS name":      {translate.Tracing{Endpoint: "http://otel$:4317"}, "--tracing-endpoint"},
		"not UTF-8":           {translate.Tracing{Endpoint: "http://otel%ff:4317"}, "--tracing-endpoint"},
		"no ratio":            {translate.Tracing{Endpoint: "http://otel.tracing", Sampling: math.NaN()}, "use 0 to 1"},
		"no certificate":      {translate.Tracing{Endpoint: "https://otel.tracing", CA: "ca"}, "--tracing-ca-file"},
		"a key":               {translate.Tracing{Endpoint: "https://otel.tracing", CA: ca + key}, "--tracing-ca-file"},
		"a percentage":        {translate.Tracing{Endpoint: "http://otel.tracing", Sampling: 50}, "use 0 to 1"},
	} {
		if err := test.tracing.Check(); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, test.want)
		}
	}
}
