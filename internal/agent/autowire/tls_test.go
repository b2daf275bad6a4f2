package autowire_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/agent/autowire"
)

// TestTLSToApplication has applications that are reached over TLS because of an annotation, with ports for which the
// proxies use clear text or HTTP/1.1 over TLS.
func TestTLSToApplication(t *testing.T) {
	t.Parallel()
	const (
		protocol = nginx + "backend-protocol"
		inClear  = "ProtocolMismatch: Ingress web, shop.test/: annotation "
		noHTTP2  = ` uses HTTP/2 over TLS to the application, which the proxies do not support; let port 80 of Service shop serve ` +
			`HTTP/1.1 over TLS and set its appProtocol: https, or HTTP/2 in clear text and set its appProtocol: ` +
			`kubernetes.io/h2c, and use the same protocol in the annotation`
		useTLS = ` uses TLS to the application, and the proxies would use clear text; set appProtocol: https on port 80 of Service shop`
		secure = "Wired: Ingress web, shop.test/ over TLS"
	)
	named := func(name string) corev1.ServicePort { return corev1.ServicePort{Name: name, Port: 80} }
	selected := func(name string) corev1.ServicePort { return corev1.ServicePort{Port: 80, AppProtocol: &name} }
	tests := map[string]struct {
		ingress string
		shop    string // annotations of Service shop
		port    corev1.ServicePort
		says    string
	}{
		"nginx, GRPCS, grpc":            {store("/", protocol, "GRPCS"), "", named("grpc"), inClear + protocol + `: "GRPCS"` + noHTTP2},
		"nginx, grpcs, h2c":             {store("/", protocol, " grpcs"), "", selected("kubernetes.io/h2c"), inClear + protocol + `: "grpcs"` + noHTTP2},
		"nginx, GRPCS, appProtocol TLS": {store("/", protocol, "GRPCS"), "", selected("https"), inClear + protocol + `: "GRPCS"` + noHTTP2},
		"nginx, HTTPS, http2":           {store("/", protocol, "HTTPS"), "", named("http2"), inClear + protocol + `: "HTTPS"` + useTLS},
		"nginx, HTTPS, grpc-api":        {store("/", protocol, "HTTPS"), "", named("grpc-api"), inClear + protocol + `: "HTTPS"` + useTLS},
		"nginx, HTTPS, H2C":             {store("/", protocol, "https"), "", selected("Kubernetes.IO/H2C"), inClear + protocol + `: "https"` + useTLS},
		"nginx, HTTPS, WebSocket":       {store("/", protocol, "HTTPS"), "", selected("kubernetes.io/ws"), inClear},
		"nginx, HTTPS, unknown":         {store("/", protocol, "HTTPS"), "", selected("example.com/app"), inClear},
		"nginx, HTTPS, secure socket":   {store("/", protocol, "HTTPS"), "", selected("kubernetes.io/wss"), secure},
		"nginx, HTTPS over a name":      {store("/", protocol, "HTTPS"), "", corev1.ServicePort{Name: "grpc", Port: 80, AppProtocol: new("https")}, secure},
		"nginx, HTTP, name for TLS":     {store("/", protocol, "HTTP"), "", named("https-web"), inClear + protocol + `: "HTTP" uses clear text to the application, and the proxies would use TLS; set appProtocol: http on port 80 of Service shop`},
		"HAProxy Ingress, h2-ssl, h2c":  {store("/", "haproxy-ingress.github.io/backend-protocol", "h2-ssl"), "", named("h2c"), inClear + `haproxy-ingress.github.io/backend-protocol: "h2-ssl"` + noHTTP2},
		"HAProxy Ingress, h1-ssl, http": {store("/", "ingress.kubernetes.io/backend-protocol", "h1-ssl"), "", selected("http"), inClear + `ingress.kubernetes.io/backend-protocol: "h1-ssl"` + useTLS},
		"HAProxy Ingress, of a Service": {store("/"), "haproxy-ingress.github.io/backend-protocol: grpcs", named("grpc"), inClear + `haproxy-ingress.github.io/backend-protocol: "grpcs" of Service shop` + noHTTP2},
		"HAProxy, TLS and HTTP/2":       {store("/", "haproxy.org/server-ssl", "true", "haproxy.org/server-proto", "h2"), "", named("grpc"), inClear + `haproxy.org/server-ssl: "true", with annotation haproxy.org/server-proto: "h2",` + noHTTP2},
		"HAProxy, TLS, HTTP/2 by name":  {store("/", "haproxy.com/server-ssl", "true"), "", named("http2-web"), inClear + `haproxy.com/server-ssl: "true"` + useTLS},
		"HAProxy, TLS of a Service":     {store("/"), `haproxy.org/server-ssl: "true"`, named("grpc"), inClear + `haproxy.org/server-ssl: "true" of Service shop` + useTLS},
		"HAProxy, no TLS":               {store("/", "haproxy.org/server-ssl", "false", "haproxy.org/server-proto", "h2"), "", named("grpc"), "Wired: "},
		"AWS, gRPC":                     {store("/", alb+"backend-protocol", "HTTPS", alb+"backend-protocol-version", "GRPC"), "", named("grpc"), inClear + alb + `backend-protocol: "HTTPS", with annotation ` + alb + `backend-protocol-version: "GRPC",` + noHTTP2},
		"AWS, HTTP/2, appProtocol TLS":  {store("/", alb+"backend-protocol", "HTTPS", alb+"backend-protocol-version", "HTTP2"), "", selected("https"), inClear + alb + "backend-protocol"},
		"AWS, HTTP/1.1, HTTP/2 by name": {store("/", alb+"backend-protocol", "HTTPS", alb+"backend-protocol-version", "HTTP1"), "", named("http2"), inClear + alb + `backend-protocol: "HTTPS"` + useTLS},
		"Azure, HTTPS, grpc":            {store("/", appgw+"backend-protocol", "https"), "", named("grpc"), inClear + appgw + `backend-protocol: "https"` + useTLS},
		"F5, both lists":                {store("/", "nginx.org/ssl-services", "shop", "nginx.org/grpc-services", "cart,shop"), "", named("grpc"), inClear + `nginx.org/ssl-services: "shop", with annotation nginx.org/grpc-services: "cart,shop",` + noHTTP2},
		"F5, TLS, grpc":                 {store("/", "nginx.org/ssl-services", "shop"), "", named("grpc"), inClear + `nginx.org/ssl-services: "shop"` + useTLS},
		"Contour, h2":                   {store("/"), "projectcontour.io/upstream-protocol.h2: grpc", named("grpc"), inClear + `projectcontour.io/upstream-protocol.h2: "grpc" of Service shop` + noHTTP2},
		"Contour, h2, legacy prefix":    {store("/"), `contour.heptio.com/upstream-protocol.h2: "443,80"`, selected("h2c"), inClear},
		"Contour, tls":                  {store("/"), `projectcontour.io/upstream-protocol.tls: "80"`, named("http2"), inClear + `projectcontour.io/upstream-protocol.tls: "80" of Service shop` + useTLS},
		"Traefik, https":                {store("/"), traefik + "service.serversscheme: https", named("grpc"), inClear + traefik + `service.serversscheme: "https" of Service shop` + useTLS},
		"Kong, https":                   {store("/"), "konghq.com/protocol: https", named("http2"), inClear + `konghq.com/protocol: "https" of Service shop` + useTLS},
		"Kong, grpcs":                   {store("/"), "konghq.com/protocol: grpcs", named("grpc"), inClear + `konghq.com/protocol: "grpcs" of Service shop` + noHTTP2},
		"Google, HTTP2":                 {store("/"), `cloud.google.com/app-protocols: '{"grpc":"HTTP2"}'`, named("grpc"), inClear + `cloud.google.com/app-protocols: "{\"grpc\":\"HTTP2\"}" of Service shop` + noHTTP2},
		"Google, HTTPS":                 {store("/"), `cloud.google.com/app-protocols: '{"grpc":"HTTPS"}'`, named("grpc"), inClear},
		"Kong, HTTPRoute":               {route("shop.test", toShop), "konghq.com/protocol: https", named(""), `ProtocolMismatch: HTTPRoute web, shop.test/: annotation konghq.com/protocol: "https" of Service shop` + useTLS},
		"Kong, HTTPRoute, gRPC":         {route("shop.test", toShop), "konghq.com/protocol: grpcs", named("grpc"), `ProtocolMismatch: HTTPRoute web, shop.test/: annotation konghq.com/protocol: "grpcs" of Service shop` + noHTTP2},
		"Contour, HTTPRoute":            {route("shop.test", toShop), `projectcontour.io/upstream-protocol.tls: "80"`, named("web"), `ProtocolMismatch: HTTPRoute web, shop.test/: annotation projectcontour.io/upstream-protocol.tls: "80" of Service shop` + useTLS},
		"Contour, HTTPRoute, TLS port":  {route("shop.test", toShop), `projectcontour.io/upstream-protocol.tls: "80"`, selected("https"), "Wired: HTTPRoute web, shop.test/"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t, test.ingress)
			w.HasTLSProxy, w.HasHTTP2Proxy = true, true
			w.Services["shop"] = service(test.shop, test.port)
			w.Services["kedify-proxy"] = http2Proxies("")
			w.Services["kedify-proxy"].Spec.Type = corev1.ServiceTypeNodePort
			w.Targets = []autowire.Target{target("shop", "shop.test")}
			w.Targets[0].Certificate = autowire.CertificateActive
			w.expect(t, test.says)
		})
	}
}

// TestTraefikPorts has ports to which Traefik uses TLS because of their number or name.
func TestTraefikPorts(t *testing.T) {
	t.Parallel()
	const mismatch = "ProtocolMismatch: Ingress web, shop.test/: Traefik uses TLS to port 443 of Service shop because of its number " +
		"or name, and the proxies would use clear text; set appProtocol: https on the port or, if it is for clear text, annotation " +
		"traefik.ingress.kubernetes.io/service.serversscheme: http on the Service"
	const wired = "Wired: Ingress web, shop.test/"
	of := func(class string) string {
		text := strings.Replace(store("/"), "number: 80", "number: 443", 1)
		return strings.Replace(text, "spec: {", "spec: {"+class, 1)
	}
	port := func(name, protocol string) corev1.ServicePort {
		made := corev1.ServicePort{Name: name, Port: 443}
		if protocol != "" {
			made.AppProtocol = &protocol
		}
		return made
	}
	const public = "ingressClassName: public, "
	tests := map[string]struct {
		class      string // of the Ingress
		controller string // of the class public, which is the default one
		port       corev1.ServicePort
		shop       string // annotations of Service shop
		says       string
	}{
		"open port":           {public, "traefik.io/ingress-controller", port("", ""), "", mismatch},
		"default class":       {"", "traefik.io/ingress-controller", port("web", ""), "", mismatch},
		"no IngressClass":     {"ingressClassName: traefik-internal, ", "k8s.io/ingress-nginx", port("", ""), "", mismatch},
		"HTTP/2":              {public, "traefik.io/ingress-controller", port("grpc", ""), "", mismatch},
		"HTTP/1.1":            {public, "traefik.io/ingress-controller", port("", "http"), "", mismatch},
		"name, not number":    {public, "traefik.io/ingress-controller", port("https", "kubernetes.io/h2c"), "", mismatch},
		"TLS":                 {public, "traefik.io/ingress-controller", port("", "https"), "", wired},
		"TLS by name":         {public, "traefik.io/ingress-controller", port("https-web", ""), "", wired},
		"a scheme":            {public, "traefik.io/ingress-controller", port("", ""), traefik + "service.serversscheme: http", wired},
		"another controller":  {public, "k8s.io/ingress-nginx", port("", ""), "", wired},
		"another one, called": {"ingressClassName: public, ", "haproxy.org/ingress-controller/traefik", port("", ""), "", wired},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t, of(test.class))
			w.Services["shop"] = service(test.shop, test.port)
			w.Classes = autowire.ClassesOf([]networkingv1.IngressClass{{
				ObjectMeta: metav1.ObjectMeta{
					Name: "public", Annotations: map[string]string{networkingv1.AnnotationIsDefaultIngressClass: "true"},
				},
				Spec: networkingv1.IngressClassSpec{Controller: test.controller},
			}})
			w.Targets = []autowire.Target{target("shop", "shop.test")}
			w.Targets[0].Port.Number = 443
			w.expect(t, test.says)
		})
	}
}
