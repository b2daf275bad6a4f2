package autowire_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/agent/autowire"
)

// TestHealthChecks has load balancers whose health checks the proxies answer differently from the application.
func TestHealthChecks(t *testing.T) {
	t.Parallel()
	const (
		wired   = "Wired: Ingress web, shop.test/"
		secured = "Wired: Ingress web, shop.test/ over TLS"
		failing = "UnsupportedAnnotation: Ingress web, shop.test/: annotation "
		codes   = alb + "success-codes"
		check   = alb + "healthcheck-protocol"
		version = alb + "backend-protocol-version"
		accept  = "http.kedify.io/autowire-accept"
	)
	tests := map[string]struct {
		annotations []string // of the Ingress
		proxy       string   // annotations of Service kedify-proxy
		says        string
	}{
		"codes":             {[]string{codes, "200"}, "", wired},
		"list":              {[]string{codes, "404, 200"}, "", wired},
		"range":             {[]string{codes, "200-399"}, "", wired},
		"inside of a range": {[]string{codes, "401,100 - 299"}, "", wired},
		"without 200": {
			[]string{codes, "401"},
			"",
			failing + codes + `: "401" does not contain the answer of the proxies to health checks, status 200; add annotation ` +
				codes + `: "200" to Service kedify-proxy`,
		},
		"range without 200":    {[]string{codes, "201-499"}, "", failing + codes + `: "201-499"`},
		"no number":            {[]string{codes, "2xx"}, "", failing},
		"the proxies' codes":   {[]string{codes, "401"}, codes + `: "200"`, wired},
		"wrong on the Service": {[]string{codes, "200"}, codes + `: "204"`, failing + codes + `: "204" of Service kedify-proxy does not`},
		"accepted":             {[]string{codes, "401", accept, codes}, "", wired},
		"gRPC": {
			[]string{version, "GRPC"},
			"",
			failing + version + `: "GRPC" makes the load balancer expect grpc-status 12 from health checks, which the proxies answer ` +
				`with grpc-status 2; add annotation ` + codes + `: 0-99 to Service kedify-proxy`,
		},
		"gRPC, all codes":            {[]string{version, "grpc", codes, "0-99"}, "", wired},
		"gRPC, this code":            {[]string{version, "GRPC", codes, "0,2,12"}, "", wired},
		"gRPC, another code":         {[]string{version, "GRPC", codes, "12"}, "", failing + codes + `: "12" does not contain the answer of the proxies to health checks, grpc-status 2; add annotation ` + codes + `: "2" to Service kedify-proxy`},
		"gRPC, an HTTP status":       {[]string{version, "GRPC", codes, "200"}, "", failing},
		"gRPC, the proxies' codes":   {[]string{version, "GRPC"}, codes + ": 0-99", wired},
		"gRPC, accepted":             {[]string{version, "GRPC", accept, codes}, "", wired},
		"HTTP/2":                     {[]string{version, "HTTP2"}, "", wired},
		"HTTP/2, codes of gRPC":      {[]string{version, "HTTP2", codes, "0-99"}, "", failing},
		"over TLS to clear text":     {[]string{check, "HTTPS"}, "", failing + check + `: "HTTPS" sets the protocol of health checks, and port 8080 of Service kedify-proxy accepts clear text; add annotation ` + check + `: HTTP to Service kedify-proxy`},
		"over TLS, the proxies'":     {[]string{check, "HTTPS"}, check + ": HTTP", wired},
		"in clear text":              {[]string{check, "http"}, "", wired},
		"in clear text to TLS":       {[]string{check, "HTTP", alb + "backend-protocol", "HTTPS"}, "", failing + check + `: "HTTP" sets the protocol of health checks, and port 8443 of Service kedify-proxy accepts TLS; add annotation ` + check + ": HTTPS"},
		"over TLS to TLS":            {[]string{check, "HTTPS", alb + "backend-protocol", "HTTPS"}, "", secured},
		"Azure, path":                {[]string{appgw + "health-probe-path", "/healthz"}, "", failing + appgw + `health-probe-path: "/healthz" sets a health check that the proxies answer with an error; remove it, or list it in annotation http.kedify.io/autowire-accept of the Ingress if the proxies send it to an application that answers it`},
		"Azure, path of the proxies": {[]string{appgw + "health-probe-path", "/ready"}, "", wired},
		"Azure, port":                {[]string{appgw + "health-probe-port", "8080"}, "", failing},
		"Azure, port of the proxies": {[]string{appgw + "health-probe-port", "9901"}, "", wired},
		"Azure, accepted":            {[]string{appgw + "health-probe-path", "/healthz", accept, appgw + "health-probe-path"}, "", wired},
		"Azure, host":                {[]string{appgw + "health-probe-hostname", "shop.internal"}, "", wired},
		"Azure, status":              {[]string{appgw + "health-probe-status-codes", "200-399, 401"}, "", wired},
		"Azure, another status":      {[]string{appgw + "health-probe-status-codes", "401"}, "", failing + appgw + `health-probe-status-codes: "401" does not contain the answer of the proxies to health checks, status 200; add 200 to it`},
		"Azure, interval":            {[]string{appgw + "health-probe-interval", "5"}, "", wired},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t, store("/", test.annotations...))
			port := corev1.ServicePort{Port: 80}
			if strings.Contains(strings.Join(test.annotations, " "), alb+"backend-protocol HTTPS") {
				port.AppProtocol = new("https")
			}
			w.Services["shop"], w.HasTLSProxy = service("", port), true
			w.Services["kedify-proxy"].Annotations = service(test.proxy).Annotations
			w.Services["kedify-proxy"].Spec.Type = corev1.ServiceTypeNodePort
			w.Targets = []autowire.Target{target("shop", "shop.test")}
			w.Targets[0].Certificate = autowire.CertificateActive
			w.expect(t, test.says)
		})
	}
}
