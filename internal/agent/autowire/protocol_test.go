package autowire_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/agent/autowire"
)

// annotated returns an Ingress for shop.test with an annotation.
func annotated(name, value string) string {
	return strings.Replace(ingress("shop.test", "Prefix", "/", port80), "name: web", fmt.Sprintf("name: web, annotations: {%s: %q}", name, value), 1)
}

// TestBackendProtocols has Ingress controllers that use TLS to backends because of the Ingress or the Service.
func TestBackendProtocols(t *testing.T) {
	t.Parallel()
	const nginx = "nginx.ingress.kubernetes.io/backend-protocol"
	const inClear, secured = "Wired: Ingress web, shop.test/", "Wired: Ingress web, shop.test/ over TLS"
	http, https := corev1.ServicePort{Name: "http", Port: 80}, corev1.ServicePort{Name: "web", Port: 80, AppProtocol: new("HTTPS")}
	h2c := corev1.ServicePort{Name: "web", Port: 80, AppProtocol: new("kubernetes.io/h2c")}
	port := func(name string) corev1.ServicePort { return corev1.ServicePort{Name: name, Port: 80} }
	tests := map[string]struct {
		ingress     string
		certificate autowire.Certificate
		port        corev1.ServicePort
		says        string // the condition's reason and message, or the beginning of it
		goesTo      int    // the port of the proxies, or 0
	}{
		"plain HTTP":                       {annotated("a", "b"), autowire.CertificateActive, http, inClear, 8080},
		"plain HTTP, explicit":             {annotated(nginx, "HTTP"), autowire.CertificateActive, http, inClear, 8080},
		"ingress-nginx":                    {annotated(nginx, "HTTPS"), autowire.CertificateActive, https, secured, 8443},
		"gRPC over TLS":                    {annotated(nginx, " grpcs"), autowire.CertificateActive, h2c, secured, 8443},
		"HAProxy Ingress":                  {annotated("haproxy-ingress.github.io/backend-protocol", "h2-ssl"), autowire.CertificateActive, h2c, secured, 8443},
		"HAProxy Ingress, secure-backends": {annotated("ingress.kubernetes.io/secure-backends", "true"), autowire.CertificateActive, https, secured, 8443},
		"HAProxy Technologies":             {annotated("haproxy.org/server-ssl", "true"), autowire.CertificateActive, https, secured, 8443},
		"disabled":                         {annotated("haproxy.org/server-ssl", "false"), autowire.CertificateActive, http, inClear, 8080},
		"AWS":                              {annotated("alb.ingress.kubernetes.io/backend-protocol", "HTTPS"), autowire.CertificateActive, https, secured, 8443},
		"Azure":                            {annotated("appgw.ingress.kubernetes.io/backend-protocol", "https"), autowire.CertificateActive, https, secured, 8443},
		"NGINX, another Service":           {annotated("nginx.org/ssl-services", "shop,cart"), autowire.CertificateActive, https, inClear, 8080},
		"NGINX, the proxies":               {annotated("nginx.org/ssl-services", "shop, kedify-proxy"), autowire.CertificateActive, https, secured, 8443},
		"unsupported protocol":             {annotated(nginx, "FCGI"), autowire.CertificateActive, http, "UnsupportedSetting: Ingress web, shop.test/: annotation " + nginx + `: "FCGI" sets a protocol that the proxies do not support; use HTTP or HTTPS`, 0},
		"either":                           {annotated(nginx, "AUTO_HTTP"), autowire.CertificateActive, http, "UnsupportedSetting", 0},
		"no Secret":                        {annotated(nginx, "HTTPS"), autowire.CertificateNotConfigured, https, "UnsupportedSetting: Ingress web, shop.test/: annotation " + nginx + `: "HTTPS" requires TLS to the backends, and HTTPScaledObject "shop" has no certificate; set tlsSecretName in its trigger`, 0},
		"no certificate":                   {annotated(nginx, "HTTPS"), autowire.CertificateMissing, https, `NoCertificate: Ingress web, shop.test/: the proxies lack a certificate for a host of HTTPScaledObject "shop"; see its condition TLSReady`, 0},
		"possibly active certificate":      {annotated(nginx, "HTTPS"), autowire.CertificateMaybeActive, https, "NoCertificate", 0},
		"the Service's protocol":           {annotated("a", "b"), autowire.CertificateActive, https, secured, 8443},
		"the port's name":                  {annotated("a", "b"), autowire.CertificateActive, corev1.ServicePort{Name: "https-web", Port: 80}, secured, 8443},
		"the Service's, no Secret":         {annotated("a", "b"), autowire.CertificateNotConfigured, https, inClear, 8080},
		"gRPC, unnamed port":               {annotated(nginx, "GRPC"), autowire.CertificateActive, port(""), `ProtocolMismatch: Ingress web, shop.test/: annotation ` + nginx + `: "GRPC" uses HTTP/2 to the application, and the proxies would use HTTP/1.1; set appProtocol: kubernetes.io/h2c on port 80 of Service shop`, 0},
		"gRPC, port for HTTP/1.1":          {annotated(nginx, "GRPC"), autowire.CertificateActive, corev1.ServicePort{Name: "grpc", Port: 80, AppProtocol: new("http")}, "ProtocolMismatch", 0},
		"gRPC, appProtocol":                {annotated(nginx, "GRPC"), autowire.CertificateActive, h2c, inClear, 8080},
		"gRPC, port name":                  {annotated(nginx, "GRPC"), autowire.CertificateActive, port("grpc"), inClear, 8080},
		"gRPC, port name with a suffix":    {annotated("haproxy-ingress.github.io/backend-protocol", "h2"), autowire.CertificateActive, port("grpc-api"), inClear, 8080},
		"HTTP/2, port name":                {annotated("haproxy.org/server-proto", "h2"), autowire.CertificateActive, port("http2-web"), inClear, 8080},
		"HTTP/2 in clear text, port name":  {annotated("alb.ingress.kubernetes.io/backend-protocol-version", "HTTP2"), autowire.CertificateActive, port("h2c"), inClear, 8080},
		"a name that only begins alike":    {annotated(nginx, "GRPC"), autowire.CertificateActive, port("grpcweb"), "ProtocolMismatch", 0},
		"gRPC-Web":                         {annotated(nginx, "GRPC"), autowire.CertificateActive, port("grpc-web"), "ProtocolMismatch", 0},
		"TLS, port name":                   {annotated(nginx, "HTTPS"), autowire.CertificateActive, port("https-web"), secured, 8443},
		"AWS, gRPC":                        {annotated("alb.ingress.kubernetes.io/backend-protocol-version", "GRPC"), autowire.CertificateActive, http, "ProtocolMismatch", 0},
		"NGINX, gRPC":                      {annotated("nginx.org/grpc-services", "cart,shop"), autowire.CertificateActive, http, "ProtocolMismatch: Ingress web, shop.test/: annotation nginx.org/grpc-services", 0},
		"NGINX, gRPC, not the proxies":     {annotated("nginx.org/grpc-services", "cart,shop"), autowire.CertificateActive, h2c, `UnsupportedAnnotation: Ingress web, shop.test/: annotation nginx.org/grpc-services: "cart,shop" uses HTTP/2, and would not apply to the proxies; add Service kedify-proxy to the annotation`, 0},
		"NGINX, gRPC, the proxies too":     {annotated("nginx.org/grpc-services", "shop,kedify-proxy"), autowire.CertificateActive, h2c, inClear, 8080},
		"gRPC over TLS, HTTP/1.1 port":     {annotated(nginx, "GRPCS"), autowire.CertificateActive, https, "ProtocolMismatch", 0},
		"TLS, clear text port":             {annotated(nginx, "HTTPS"), autowire.CertificateActive, http, `ProtocolMismatch: Ingress web, shop.test/: annotation ` + nginx + `: "HTTPS" uses TLS to the application, and the proxies would use clear text; set appProtocol: https on port 80 of Service shop`, 0},
		"another port's":                   {annotated("a", "b"), autowire.CertificateActive, corev1.ServicePort{Name: "https", Port: 443}, inClear, 8080},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t, test.ingress)
			w.HasTLSProxy, w.Services["shop"] = true, service("", test.port)
			w.Services["kedify-proxy"].Spec.Type = corev1.ServiceTypeNodePort
			w.Targets = []autowire.Target{target("shop", "shop.test")}
			w.Targets[0].Certificate = test.certificate
			condition := w.converge(t).Conditions["shop"]
			says := condition.Reason + ": " + condition.Message
			if test.goesTo != 0 && says != test.says || !strings.HasPrefix(says, test.says) {
				t.Errorf("condition %q, want %q", says, test.says)
			}
			names := fmt.Sprintf(`{"name":"kedify-proxy","port":{"number":%d}}`, test.goesTo)
			if got := strings.Contains(w.stored[0], names); got != (test.goesTo != 0) {
				t.Errorf("goes to port %d: %v\n%s", test.goesTo, got, asYAML(t, w.stored[0]))
			}
			if diff := cmp.Diff(canonicalJSON(t, test.ingress), w.unwired(t)[0]); diff != "" {
				t.Errorf("unwired (-want +got):\n%s", diff)
			}
		})
	}
}

// TestProtocolChangesWhileWired changes the backend protocol and the certificates of a wired Ingress.
func TestProtocolChangesWhileWired(t *testing.T) {
	t.Parallel()
	original := ingress("shop.test", "Prefix", "/", port80)
	w := newFixture(t, original)
	w.HasTLSProxy = true
	w.Targets = []autowire.Target{target("shop", "shop.test")}
	w.Targets[0].Certificate = autowire.CertificateActive
	step := func(what, wantReason, goesTo string) {
		t.Helper()
		found := w.converge(t)
		if got := found.Conditions["shop"].Reason; got != wantReason || !strings.Contains(w.stored[0], goesTo) {
			t.Errorf("%s: %s, want %s with %s\n%s", what, got, wantReason, goesTo, asYAML(t, w.stored[0]))
		}
	}
	const tls, inClear, app = `"port":{"number":8443}`, `"port":{"number":8080}`, `"service":{"name":"shop","port":{"number":80}}`
	step("at first", "Wired", inClear)
	says := func(value string) {
		port := corev1.ServicePort{Name: "http", Port: 80}
		if value == "true" {
			port.AppProtocol = new("https")
		}
		w.Services["shop"] = service("", port)
		w.stored[0] = edited(t, w.stored[0], func(ingress map[string]any) {
			ingress["metadata"].(map[string]any)["annotations"].(map[string]any)["haproxy.org/server-ssl"] = value
		})
	}
	says("true")
	step("TLS", "Wired", tls)
	w.Targets[0].Certificate = autowire.CertificateMaybeActive
	step("perhaps one from before", "Wired", tls)
	w.Targets[0].Certificate = autowire.CertificateMissing
	step("none", "NoCertificate", app)
	w.Targets[0].Certificate = autowire.CertificateActive
	step("again", "Wired", tls)
	w.HasTLSProxy = false
	step("the port is lost", "ProxyUnavailable", app)
	says("false")
	w.Now = w.Now.Add(w.CoolDown)
	step("clear text again", "Wired", inClear)
}
