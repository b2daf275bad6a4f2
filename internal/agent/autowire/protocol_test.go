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
		want        string // the condition's reason and message, or the beginning of it
		wantPort    int    // the port of the proxies in the backend, 0 if it is not wired
	}{
		"plain HTTP":                       {annotated("a", "b"), autowire.CertificateActive, http, inClear, 8080},
		"plain HTTP, explicit":             {annotated(nginx, "HTTP"), autowire.CertificateActive, http, inClear, 8080},
		"ingress-nginx":                    {annotated(nginx, "HTTPS"), autowire.CertificateActive, https, secured, 8443},
		"HAProxy Ingress":                  {annotated("haproxy-ingress.github.io/backend-protocol", "h1-ssl"), autowire.CertificateActive, https, secured, 8443},
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
		"gRPC, unnamed port":               {annotated(nginx, "GRPC"), autowire.CertificateActive, port(""), inClear, 8080},
		"gRPC, port name for HTTP/1.1":     {annotated(nginx, "GRPC"), autowire.CertificateActive, http, inClear, 8080},
		"gRPC, port for HTTP/1.1":          {annotated(nginx, "GRPC"), autowire.CertificateActive, corev1.ServicePort{Name: "grpc", Port: 80, AppProtocol: new("http")}, `ProtocolMismatch: Ingress web, shop.test/: annotation ` + nginx + `: "GRPC" uses HTTP/2 to the application, and the proxies would use HTTP/1.1; set appProtocol: kubernetes.io/h2c on port 80 of Service shop`, 0},
		"gRPC, port name for TLS":          {annotated(nginx, "GRPC"), autowire.CertificateActive, port("https"), "ProtocolMismatch", 0},
		"gRPC over TLS, unnamed port":      {annotated(nginx, "GRPCS"), autowire.CertificateActive, port(""), "ProtocolMismatch", 0},
		"AWS, gRPC over TLS":               {store("/", alb+"backend-protocol", "HTTPS", alb+"backend-protocol-version", "GRPC"), autowire.CertificateActive, port(""), "ProtocolMismatch", 0},
		"AWS, gRPC in clear text":          {store("/", alb+"backend-protocol", "HTTP", alb+"backend-protocol-version", "GRPC", alb+"success-codes", "0-99"), autowire.CertificateActive, port(""), inClear, 8080},
		"gRPC, appProtocol":                {annotated(nginx, "GRPC"), autowire.CertificateActive, h2c, inClear, 8080},
		"gRPC, port name":                  {annotated(nginx, "GRPC"), autowire.CertificateActive, port("grpc"), inClear, 8080},
		"gRPC, port name with a suffix":    {annotated("haproxy-ingress.github.io/backend-protocol", "h2"), autowire.CertificateActive, port("grpc-api"), inClear, 8080},
		"HTTP/2, port name":                {annotated("haproxy.org/server-proto", "h2"), autowire.CertificateActive, port("http2-web"), inClear, 8080},
		"HTTP/2 in clear text, port name":  {annotated("alb.ingress.kubernetes.io/backend-protocol-version", "HTTP2"), autowire.CertificateActive, port("h2c"), inClear, 8080},
		"a name that only begins alike":    {annotated(nginx, "GRPC"), autowire.CertificateActive, port("grpcweb"), inClear, 8080},
		"gRPC-Web":                         {annotated(nginx, "GRPC"), autowire.CertificateActive, port("grpc-web"), inClear, 8080},
		"TLS, port name":                   {annotated(nginx, "HTTPS"), autowire.CertificateActive, port("https-web"), secured, 8443},
		"AWS, gRPC":                        {store("/", alb+"backend-protocol-version", "GRPC", alb+"success-codes", "0-99"), autowire.CertificateActive, http, inClear, 8080},
		"NGINX, gRPC":                      {annotated("nginx.org/grpc-services", "cart,shop,kedify-proxy"), autowire.CertificateActive, http, inClear, 8080},
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
			message := condition.Reason + ": " + condition.Message
			if test.wantPort != 0 && message != test.want || !strings.HasPrefix(message, test.want) {
				t.Errorf("condition %q, want %q", message, test.want)
			}
			names := fmt.Sprintf(`{"name":"kedify-proxy","port":{"number":%d}}`, test.wantPort)
			if got := strings.Contains(w.stored[0], names); got != (test.wantPort != 0) {
				t.Errorf("backend with port %d of the proxies: %v\n%s", test.wantPort, got, asYAML(t, w.stored[0]))
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
	step := func(what, wantReason, wantBackend string) {
		t.Helper()
		found := w.converge(t)
		if got := found.Conditions["shop"].Reason; got != wantReason || !strings.Contains(w.stored[0], wantBackend) {
			t.Errorf("%s: %s, want %s with %s\n%s", what, got, wantReason, wantBackend, asYAML(t, w.stored[0]))
		}
	}
	const tls, inClear, app = `"port":{"number":8443}`, `"port":{"number":8080}`, `"service":{"name":"shop","port":{"number":80}}`
	step("at first", "Wired", inClear)
	setTLS := func(value string) {
		port := corev1.ServicePort{Name: "http", Port: 80}
		if value == "true" {
			port.AppProtocol = new("https")
		}
		w.Services["shop"] = service("", port)
		w.stored[0] = edited(t, w.stored[0], func(ingress map[string]any) {
			ingress["metadata"].(map[string]any)["annotations"].(map[string]any)["haproxy.org/server-ssl"] = value
		})
	}
	setTLS("true")
	step("TLS", "Wired", tls)
	w.Targets[0].Certificate = autowire.CertificateMaybeActive
	step("perhaps one from before", "Wired", tls)
	w.Targets[0].Certificate = autowire.CertificateMissing
	step("none", "NoCertificate", app)
	w.Targets[0].Certificate = autowire.CertificateActive
	step("again", "Wired", tls)
	w.HasTLSProxy = false
	step("the port is lost", "ProxyUnavailable", app)
	setTLS("false")
	w.Now = w.Now.Add(w.CoolDown)
	step("clear text again", "Wired", inClear)
}

// http2Proxies returns Service kedify-proxy with the ports that the agent installs.
func http2Proxies(annotations string) *corev1.Service {
	return service(annotations,
		corev1.ServicePort{Name: "http", Port: 8080}, corev1.ServicePort{Name: "https", Port: 8443},
		corev1.ServicePort{Name: "h2c", Port: 8081, AppProtocol: new("kubernetes.io/h2c")})
}

// TestHTTP2Backends has applications with HTTP/2 in clear text. A Gateway or Ingress controller uses HTTP/2 to the
// proxies only because of the port of a Service, or of an annotation.
func TestHTTP2Backends(t *testing.T) {
	t.Parallel()
	const contour = "projectcontour.io/upstream-protocol.h2c"
	const noPort = `ProtocolMismatch: HTTPRoute web, shop.test/: port 80 of Service shop uses HTTP/2, and the proxies would receive ` +
		`HTTP/1.1; add port 8081 to Service kedify-proxy, with appProtocol: kubernetes.io/h2c and the targetPort of its port 8080`
	port := func(name, protocol string) *corev1.Service {
		made := corev1.ServicePort{Name: name, Port: 80}
		if protocol != "" {
			made.AppProtocol = &protocol
		}
		return service("", made)
	}
	h2c := port("web", "kubernetes.io/h2c")
	annotatedApp := func(name, value string) *corev1.Service {
		made := port("grpc", "")
		made.Annotations = map[string]string{name: value}
		return made
	}
	openApp := func(name, value string) *corev1.Service {
		made := port("", "")
		made.Annotations = map[string]string{name: value}
		return made
	}
	withPort := func(number int32, protocol string) *corev1.Service {
		return service("", corev1.ServicePort{Name: "http", Port: 8080, AppProtocol: new("http")},
			corev1.ServicePort{Name: "other", Port: number, AppProtocol: &protocol})
	}
	older := service("", corev1.ServicePort{Name: "http", Port: 8080})
	httpRoute, web := route("shop.test", toShop), ingress("shop.test", "Prefix", "/", port80)
	grpc := annotated("nginx.ingress.kubernetes.io/backend-protocol", "GRPC")
	tests := map[string]struct {
		object     string
		app, proxy *corev1.Service
		want       string // the condition's reason and message, or the beginning of it
		wantPort   int    // the port of the proxies in the backend, 0 if it is not wired
	}{
		"HTTPRoute, appProtocol":           {httpRoute, h2c, http2Proxies(""), "Wired: HTTPRoute web, shop.test/ over HTTP/2", 8081},
		"HTTPRoute, port name":             {httpRoute, port("grpc-api", ""), http2Proxies(""), "Wired: HTTPRoute web, shop.test/ over HTTP/2", 8081},
		"HTTPRoute, Envoy Gateway's value": {httpRoute, port("web", "gateway.envoyproxy.io/h2c"), http2Proxies(""), "Wired: HTTPRoute web, shop.test/ over HTTP/2", 8081},
		"HTTPRoute, HTTP/1.1 by name":      {httpRoute, port("grpc-web", ""), http2Proxies(""), "Wired: HTTPRoute web, shop.test/", 8080},
		"HTTPRoute, appProtocol over name": {httpRoute, port("grpc", "http"), http2Proxies(""), "Wired: HTTPRoute web, shop.test/", 8080},
		"HTTPRoute, WebSocket":             {httpRoute, port("web", "kubernetes.io/ws"), http2Proxies(""), "Wired: HTTPRoute web, shop.test/", 8080},
		"older proxies":                    {httpRoute, h2c, older, noPort, 0},
		"the agent's Service, before it has the port": {
			httpRoute, h2c, func() *corev1.Service {
				made := service("", corev1.ServicePort{Name: "http", Port: 8080})
				made.Labels = map[string]string{"app.kubernetes.io/managed-by": "kedify-http-agent"}
				return made
			}(), "ProxyUnavailable: HTTPRoute web, shop.test/: Service kedify-proxy has no ready endpoint, or no port 8081", 0,
		},
		"a port of another protocol": {httpRoute, h2c, withPort(8081, "http"), noPort, 0},
		"another port number":        {httpRoute, h2c, withPort(9000, "kubernetes.io/h2c"), noPort, 0},
		"HTTP/2 on port 8080": {
			httpRoute, h2c, service("", corev1.ServicePort{Name: "http", Port: 8080, AppProtocol: new("kubernetes.io/h2c")}),
			"Wired: HTTPRoute web, shop.test/", 8080,
		},
		"no proxies":                     {httpRoute, h2c, nil, "ProxyUnavailable: HTTPRoute web, shop.test/: Service kedify-proxy has no ready endpoint, or no port 8081", 0},
		"Ingress, appProtocol":           {web, h2c, http2Proxies(""), "Wired: Ingress web, shop.test/ over HTTP/2", 8081},
		"Ingress, older proxies":         {web, h2c, older, strings.Replace(noPort, "HTTPRoute", "Ingress", 1), 0},
		"ingress-nginx":                  {grpc, h2c, http2Proxies(""), "Wired: Ingress web, shop.test/", 8080},
		"ingress-nginx, older proxies":   {grpc, h2c, older, "Wired: Ingress web, shop.test/", 8080},
		"Contour":                        {web, annotatedApp(contour, "80"), http2Proxies(contour + `: "8081"`), "Wired: Ingress web, shop.test/ over HTTP/2", 8081},
		"Contour, open port":             {web, openApp(contour, "80"), http2Proxies(contour + `: "8081"`), "Wired: Ingress web, shop.test/ over HTTP/2", 8081},
		"ingress-nginx, open port":       {grpc, port("", ""), http2Proxies(""), "Wired: Ingress web, shop.test/", 8080},
		"Contour, port 8080":             {web, annotatedApp(contour, "80"), http2Proxies(contour + `: "8080"`), "Wired: Ingress web, shop.test/", 8080},
		"Contour, no annotation":         {web, annotatedApp(contour, "grpc"), http2Proxies(""), "UnsupportedAnnotation: Ingress web, shop.test/: annotation " + contour + `: "grpc" of Service shop uses HTTP/2, and would not apply to the proxies; add annotation ` + contour, 0},
		"Traefik, no annotation":         {web, annotatedApp("traefik.ingress.kubernetes.io/service.serversscheme", "h2c"), http2Proxies(""), "UnsupportedAnnotation", 0},
		"Traefik":                        {web, annotatedApp("traefik.ingress.kubernetes.io/service.serversscheme", "h2c"), http2Proxies(`traefik.ingress.kubernetes.io/service.serversscheme: h2c`), "Wired: Ingress web, shop.test/", 8080},
		"a manual backend of the port":   {route("shop.test", `backendRefs: [{name: kedify-proxy, port: 8081}]`), h2c, http2Proxies(""), "Wired: HTTPRoute web, shop.test/", 8081},
		"HTTPRoute with Kong's protocol": {httpRoute, annotatedApp("konghq.com/protocol", "grpc"), http2Proxies(""), "Wired: HTTPRoute web, shop.test/ over HTTP/2", 8081},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t, test.object)
			w.Services["shop"], w.Services["kedify-proxy"] = test.app, test.proxy
			w.HasProxy, w.HasHTTP2Proxy = test.proxy != nil, test.proxy != nil && len(test.proxy.Spec.Ports) == 3
			w.Targets = []autowire.Target{target("shop", "shop.test")}
			condition := w.converge(t).Conditions["shop"]
			message := condition.Reason + ": " + condition.Message
			if test.wantPort != 0 && message != test.want || !strings.HasPrefix(message, test.want) {
				t.Errorf("condition %q, want %q", message, test.want)
			}
			isWired := strings.Contains(w.stored[0], fmt.Sprintf(`"number":%d`, test.wantPort)) ||
				strings.Contains(w.stored[0], fmt.Sprintf(`"port":%d`, test.wantPort))
			if isWired != (test.wantPort != 0) || isWired != strings.Contains(w.stored[0], "kedify-proxy") {
				t.Errorf("backend with port %d of the proxies: %v\n%s", test.wantPort, isWired, asYAML(t, w.stored[0]))
			}
			if diff := cmp.Diff(canonicalJSON(t, test.object), w.unwired(t)[0]); diff != "" {
				t.Errorf("unwired (-want +got):\n%s", diff)
			}
		})
	}
}

// TestHTTP2PortIsAdded adds the port to Service kedify-proxy while a route is wired, then the endpoints, and removes
// both.
func TestHTTP2PortIsAdded(t *testing.T) {
	t.Parallel()
	const original, port8080, port8081 = `"port":80}`, `"port":8080}`, `"port":8081}`
	for name, test := range map[string]struct{ labels, want map[string]string }{
		"the agent's": {
			map[string]string{"app.kubernetes.io/managed-by": "kedify-http-agent"}, map[string]string{"no port": port8080},
		},
		"another owner's": {nil, map[string]string{"no port": original}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t, route("shop.test", toShop))
			w.Services["kedify-proxy"] = service("", corev1.ServicePort{Name: "http", Port: 8080})
			w.Services["kedify-proxy"].Labels = test.labels
			w.Targets = []autowire.Target{target("shop", "shop.test")}
			step := func(what, port string) {
				t.Helper()
				if condition := w.converge(t).Conditions["shop"]; !strings.Contains(w.stored[0], port) {
					t.Errorf("%s: %+v, want %s\n%s", what, condition, port, asYAML(t, w.stored[0]))
				}
			}
			step("HTTP/1.1", port8080)
			w.Services["shop"] = service("", corev1.ServicePort{Name: "grpc", Port: 80})
			step("no port", test.want["no port"])
			w.Services["kedify-proxy"].Spec.Ports = http2Proxies("").Spec.Ports
			step("no endpoints with the port", test.want["no port"])
			w.HasHTTP2Proxy = true
			step("port", port8081)
			w.HasHTTP2Proxy = false
			step("the port is lost", original)
			w.Services["shop"] = service("", corev1.ServicePort{Name: "http", Port: 80})
			w.Now = w.Now.Add(w.CoolDown)
			step("HTTP/1.1 again", port8080)
		})
	}
}

// TestHTTP2InSharedFleet has a route whose proxies are those of another namespace.
func TestHTTP2InSharedFleet(t *testing.T) {
	t.Parallel()
	w := newSharedFixture(t, route("shop.test", toShop))
	w.Services["shop"] = service("", corev1.ServicePort{Name: "grpc", Port: 80})
	w.Services["kedify-proxy"], w.HasHTTP2Proxy = http2Proxies(""), true // the namespace's own do not matter
	w.Shared.Service = service("", corev1.ServicePort{Name: "http", Port: 8080})
	condition := w.converge(t).Conditions["shop"]
	if want := "add port 8081 to Service kedify-proxy in namespace keda, with"; condition.Reason != "ProtocolMismatch" ||
		!strings.Contains(condition.Message, want) {
		t.Errorf("without the port: %+v, want %q", condition, want)
	}
	w.Shared.Service, w.Shared.HasHTTP2Proxy = http2Proxies(""), true
	condition = w.converge(t).Conditions["shop"]
	if want := "HTTPRoute web, shop.test/ over HTTP/2 in namespace keda"; condition.Message != want ||
		!strings.Contains(w.stored[0], `"name":"kedify-proxy","namespace":"keda","port":8081`) {
		t.Errorf("with the port: %+v, want %q\n%s", condition, want, asYAML(t, w.stored[0]))
	}
	if diff := cmp.Diff(canonicalJSON(t, route("shop.test", toShop)), w.unwired(t)[0]); diff != "" {
		t.Errorf("unwired (-want +got):\n%s", diff)
	}
}
