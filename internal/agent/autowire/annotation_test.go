package autowire_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/autowire"
)

// Prefixes of annotations.
const (
	nginx   = "nginx.ingress.kubernetes.io/"
	traefik = "traefik.ingress.kubernetes.io/"
	appgw   = "appgw.ingress.kubernetes.io/"
	alb     = "alb.ingress.kubernetes.io/"
)

// store returns an Ingress for shop.test with a path and annotations, given as pairs of names and values.
func store(path string, annotations ...string) string {
	var pairs []string
	for pair := range slices.Chunk(annotations, 2) {
		pairs = append(pairs, fmt.Sprintf("%q: %q", pair[0], pair[1]))
	}
	if len(pairs) == 0 {
		return ingress("shop.test", "Prefix", path, port80)
	}
	return strings.Replace(ingress("shop.test", "Prefix", path, port80), "name: web",
		"name: web, annotations: {"+strings.Join(pairs, ", ")+"}", 1)
}

// expect computes the plan for one object, and compares the condition, as reason and message, with its beginning. It
// also checks that the object is wired or left alone accordingly, and restored to its original without a target.
func (w *fixture) expect(t *testing.T, says string) {
	t.Helper()
	original := w.stored[0]
	condition := w.converge(t).Conditions["shop"]
	if got := condition.Reason + ": " + condition.Message; !strings.HasPrefix(got, says) {
		t.Errorf("condition %q, want %q", got, says)
	}
	if isWired := condition.Reason == "Wired"; proxied(w.stored[0]) > 0 != isWired {
		t.Errorf("wired: %v\n%s", !isWired, asYAML(t, w.stored[0]))
	}
	if diff := cmp.Diff(original, w.unwired(t)[0]); diff != "" {
		t.Errorf("unwired (-want +got):\n%s", diff)
	}
}

// TestRewrittenRequests has annotations that change what the proxies receive.
func TestRewrittenRequests(t *testing.T) {
	t.Parallel()
	const (
		wired    = "Wired: Ingress web, shop.test"
		mismatch = "RequestMismatch: Ingress web, shop.test"
		unknown  = "UnsupportedAnnotation: Ingress web, shop.test"
	)
	tests := map[string]struct {
		ingress  string
		prefixes []string
		says     string
	}{
		"constant path, not matched": {
			store("/store", nginx+"rewrite-target", "/"),
			[]string{"/store"},
			mismatch + `/store: annotation nginx.ingress.kubernetes.io/rewrite-target: "/" makes the proxies receive requests ` +
				`for shop.test/, which HTTPScaledObject "shop" does not match; add "/" to pathPrefixes of its trigger`,
		},
		"constant path, matched":            {store("/store", nginx+"rewrite-target", "/"), []string{"/"}, wired + "/store"},
		"constant path, every path":         {store("/store", nginx+"rewrite-target", "/app"), nil, wired},
		"constant path, below the prefix":   {store("/store", nginx+"rewrite-target", "/app/v1"), []string{"/app"}, wired},
		"a group":                           {store("/store", nginx+"rewrite-target", "/$2"), []string{"/store"}, unknown + `/store: annotation nginx.ingress.kubernetes.io/rewrite-target: "/$2" may change its requests or connections in a way that the agent cannot determine; remove it, or list it in annotation http.kedify.io/autowire-accept of the Ingress if the application does not depend on it`},
		"a group, every path":               {store("/store", nginx+"rewrite-target", "/$1"), nil, unknown},
		"accepted":                          {store("/store", nginx+"rewrite-target", "/$2", "http.kedify.io/autowire-accept", "a, "+nginx+"rewrite-target"), nil, wired},
		"another one accepted":              {store("/store", nginx+"rewrite-target", "/$2", "http.kedify.io/autowire-accept", nginx+"rewrite"), nil, unknown},
		"host, not matched":                 {store("/", nginx+"upstream-vhost", "shop.internal"), nil, mismatch + `/: annotation nginx.ingress.kubernetes.io/upstream-vhost: "shop.internal" makes the proxies receive requests for shop.internal/, which HTTPScaledObject "shop" does not match; add "shop.internal" to hosts of its trigger`},
		"host, unchanged":                   {store("/", nginx+"upstream-vhost", "$host"), nil, wired},
		"host, the same":                    {store("/", nginx+"upstream-vhost", "shop.test"), nil, wired},
		"host by a variable":                {store("/", nginx+"upstream-vhost", "$service_name.team"), nil, unknown},
		"alias, not matched":                {store("/", nginx+"server-alias", "www.shop.test"), nil, mismatch},
		"alias by an expression":            {store("/", nginx+"server-alias", `~^www\d+$`), nil, unknown},
		"regular expressions":               {store("/store", nginx+"use-regex", "true"), []string{"/store"}, wired + "/store"},
		"a regular expression as prefix":    {store("/store/(v1|v2)", nginx+"use-regex", "true"), []string{"/store"}, wired + "/store"},
		"a harmless snippet":                {store("/", nginx+"configuration-snippet", `more_set_headers "X-A: b";`), nil, wired},
		"a snippet with another upstream":   {store("/", nginx+"configuration-snippet", "if ($x) { proxy_pass http://other; }"), nil, unknown},
		"a snippet with another host":       {store("/", nginx+"server-snippet", "location /a {\n proxy_set_header Host a.test; }"), nil, unknown},
		"a snippet with another path":       {store("/", "nginx.org/location-snippets", "rewrite ^/a /b break;"), nil, unknown},
		"TLS to the application":            {store("/", nginx+"ssl-passthrough", "true"), nil, unknown},
		"a client certificate":              {store("/", nginx+"proxy-ssl-secret", "team/client"), nil, unknown},
		"a canary":                          {store("/", nginx+"canary", "true", nginx+"canary-weight", "10"), nil, unknown + `/: annotation nginx.ingress.kubernetes.io/canary: "true" of Ingress web splits its traffic; remove it, and let one component split the traffic`},
		"no canary":                         {store("/", nginx+"canary", "false", nginx+"canary-weight", "10"), nil, wired},
		"F5, rewrites of the Service":       {store("/store", "nginx.org/rewrites", "serviceName=cart rewrite=/;serviceName=shop rewrite=/"), nil, unknown},
		"F5, rewrites of another Service":   {store("/store", "nginx.org/rewrites", "serviceName=shopping rewrite=/"), nil, wired},
		"F5, constant path":                 {store("/store", "nginx.org/rewrite-target", "/"), []string{"/store"}, mismatch},
		"F5, a header":                      {store("/", "nginx.org/proxy-set-headers", "X-A: b,Host: c"), nil, unknown},
		"F5, other headers":                 {store("/", "nginx.org/proxy-set-headers", "X-Host: b"), nil, wired},
		"F5, WebSocket":                     {store("/", "nginx.org/websocket-services", "shop"), nil, unknown},
		"F5, WebSocket, the proxies too":    {store("/", "nginx.org/websocket-services", "shop,kedify-proxy"), nil, wired},
		"Traefik, middlewares":              {store("/", traefik+"router.middlewares", "team-strip@kubernetescrd"), nil, unknown},
		"Traefik, accepted middlewares":     {store("/", traefik+"router.middlewares", "team-retry@kubernetescrd", "http.kedify.io/autowire-accept", traefik+"router.middlewares"), nil, wired},
		"Traefik, entry points":             {store("/", traefik+"router.entrypoints", "web", traefik+"router.priority", "42"), nil, wired},
		"HAProxy, constant path":            {store("/store", "haproxy.org/path-rewrite", "/"), []string{"/store"}, mismatch},
		"HAProxy, constant path, matched":   {store("/store", "haproxy.com/path-rewrite", "/shop"), []string{"/shop"}, wired},
		"HAProxy, an expression":            {store("/store", "ingress.kubernetes.io/path-rewrite", `/store/(.*) /\1`), nil, unknown},
		"HAProxy, host":                     {store("/", "haproxy.org/set-host", "a.test"), nil, mismatch},
		"HAProxy, a header":                 {store("/", "haproxy.org/request-set-header", "X-A b\nHost a.test"), nil, unknown},
		"HAProxy, PROXY protocol":           {store("/", "haproxy.org/send-proxy-protocol", "proxy-v2"), nil, unknown},
		"HAProxy, health checks":            {store("/", "haproxy.org/check-http", "/health"), nil, unknown},
		"HAProxy, a Backend resource":       {store("/", "haproxy.org/cr-backend", "shop/tls"), nil, unknown},
		"HAProxy Ingress, prefix":           {store("/store", "haproxy-ingress.github.io/rewrite-target", "/"), []string{"/store"}, mismatch},
		"HAProxy Ingress, prefix, matched":  {store("/store", "haproxy-ingress.github.io/rewrite-target", "/api"), []string{"/api"}, wired},
		"HAProxy Ingress, legacy prefix":    {store("/store", "ingress.kubernetes.io/rewrite-target", "/"), []string{"/store"}, mismatch},
		"HAProxy Ingress, blue and green":   {store("/", "haproxy-ingress.github.io/blue-green-balance", "group=blue=1,group=green=4"), nil, unknown},
		"HAProxy Ingress, alias":            {store("/", "haproxy-ingress.github.io/server-alias-regex", "^www"), nil, unknown},
		"AWS, conditions of the Service":    {store("/", alb+"conditions.shop", "[]"), nil, unknown},
		"AWS, transforms of the Service":    {store("/", alb+"transforms.shop", "[]"), nil, unknown},
		"Azure, prefix":                     {store("/store", appgw+"backend-path-prefix", "/"), []string{"/store"}, mismatch},
		"Azure, host":                       {store("/", appgw+"backend-hostname", "a.test"), nil, mismatch},
		"Azure, rules":                      {store("/", appgw+"rewrite-rule-set", "a"), nil, unknown},
		"Azure, more hosts":                 {store("/", appgw+"hostname-extension", "a.test, b.test"), nil, mismatch},
		"Kong, stripped path":               {store("/store", "konghq.com/strip-path", "true"), []string{"/store"}, mismatch},
		"Kong, stripped path, matched":      {store("/store", "konghq.com/strip-path", "true"), []string{"/"}, wired},
		"Kong, kept path":                   {store("/store", "konghq.com/strip-path", "false"), []string{"/store"}, wired},
		"Kong, plugins":                     {store("/", "konghq.com/plugins", "rewrite"), nil, unknown},
		"Kong, KongIngress":                 {store("/", "konghq.com/override", "a"), nil, unknown},
		"Kong, the host of the Service":     {store("/", "konghq.com/preserve-host", "false"), nil, unknown},
		"Kong, another path":                {store("/", "konghq.com/rewrite", "/a"), []string{"/b"}, mismatch},
		"Kong, a path with a group":         {store("/", "konghq.com/rewrite", "/a/$1"), nil, unknown},
		"harmless, every family":            {store("/", nginx+"proxy-body-size", "8m", nginx+"ssl-redirect", "true", nginx+"whitelist-source-range", "10.0.0.0/8", nginx+"mirror-target", "https://a.test", nginx+"auth-url", "http://auth.team/check", nginx+"default-backend", "down", "nginx.org/proxy-read-timeout", "5s", "haproxy.org/timeout-server", "5s", "haproxy-ingress.github.io/ssl-redirect", "true", "projectcontour.io/response-timeout", "5s", appgw+"ssl-redirect", "true", "konghq.com/methods", "GET", "konghq.com/connect-timeout", "5"), nil, wired},
		"an unknown annotation of a family": {store("/", nginx+"future", "a"), nil, wired},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t, test.ingress)
			w.Services["kedify-proxy"].Spec.Type = corev1.ServiceTypeNodePort
			w.Targets = []autowire.Target{target("shop", "shop.test")}
			w.Targets[0].PathPrefixes = test.prefixes
			w.expect(t, test.says)
		})
	}
}

// TestRewrittenHosts has targets for the host that the proxies receive.
func TestRewrittenHosts(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"host":    store("/", nginx+"upstream-vhost", "shop.internal"),
		"alias":   store("/", nginx+"server-alias", "shop.internal,www.shop.test"),
		"HAProxy": store("/", "haproxy.org/set-host", "www.shop.test"),
		"aliases": store("/", "konghq.com/host-aliases", "shop.internal"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t, text)
			w.Targets = []autowire.Target{target("shop", "shop.test", "shop.internal", "www.shop.test")}
			w.expect(t, "Wired: Ingress web, shop.test/")
		})
	}
	w := newFixture(t, store("/", nginx+"upstream-vhost", "shop.internal"))
	w.Targets = []autowire.Target{target("shop", "shop.internal")} // it matches only the rewritten requests
	w.expect(t, "Wired: Ingress web, shop.test/")
}

// TestAnnotationsOfServices has annotations that Ingress controllers read on the Service that an Ingress names.
func TestAnnotationsOfServices(t *testing.T) {
	t.Parallel()
	const wired = "Wired: Ingress web, shop.test/"
	tests := map[string]struct {
		shop, proxy string // annotations of the Services
		port        corev1.ServicePort
		says        string
	}{
		"harmless":                       {`traefik.ingress.kubernetes.io/service.nativelb: "true"`, "", corev1.ServicePort{}, wired},
		"Traefik, HTTP/2":                {traefik + "service.serversscheme: h2c", "", corev1.ServicePort{}, `UnsupportedAnnotation: Ingress web, shop.test/: annotation traefik.ingress.kubernetes.io/service.serversscheme: "h2c" of Service shop uses HTTP/2, and would not apply to the proxies`},
		"Traefik, HTTP/2, open port":     {traefik + "service.serversscheme: h2c", traefik + "service.serversscheme: h2c", corev1.ServicePort{}, wired},
		"Traefik, HTTP/2, HTTP/1.1 port": {traefik + "service.serversscheme: h2c", traefik + "service.serversscheme: h2c", corev1.ServicePort{AppProtocol: new("http")}, `ProtocolMismatch: Ingress web, shop.test/: annotation traefik.ingress.kubernetes.io/service.serversscheme: "h2c" of Service shop uses HTTP/2 to the application, and the proxies would use HTTP/1.1; set appProtocol: kubernetes.io/h2c`},
		"Traefik, HTTP/2, appProtocol":   {traefik + "service.serversscheme: h2c", "", corev1.ServicePort{Name: "grpc"}, `UnsupportedAnnotation: Ingress web, shop.test/: annotation traefik.ingress.kubernetes.io/service.serversscheme: "h2c" of Service shop uses HTTP/2, and would not apply to the proxies; add annotation traefik.ingress.kubernetes.io/service.serversscheme, for its ports, to Service kedify-proxy`},
		"Traefik, HTTP/2 to the proxies": {traefik + "service.serversscheme: h2c", traefik + "service.serversscheme: h2c", corev1.ServicePort{Name: "grpc"}, wired},
		"Traefik, TLS":                   {traefik + "service.serversscheme: https", "", corev1.ServicePort{}, "ProtocolMismatch"},
		"Traefik, TLS, appProtocol":      {traefik + "service.serversscheme: https", "", corev1.ServicePort{AppProtocol: new("https")}, wired},
		"Traefik, the host of the Pod":   {traefik + `service.passhostheader: "false"`, "", corev1.ServicePort{}, "UnsupportedAnnotation"},
		"on the proxies' Service":        {"", traefik + `service.passhostheader: "false"`, corev1.ServicePort{}, "UnsupportedAnnotation: Ingress web, shop.test/: annotation traefik.ingress.kubernetes.io/service.passhostheader: \"false\" of Service kedify-proxy"},
		"Traefik, cookie":                {traefik + `service.sticky.cookie: "true"`, "", corev1.ServicePort{}, wired},
		"Traefik, cookie with a name":    {traefik + `service.sticky.cookie.name: route`, "", corev1.ServicePort{}, wired},
		"Traefik, no cookie":             {traefik + `service.sticky.cookie: "false"`, "", corev1.ServicePort{}, wired},
		"HAProxy, cookie":                {"haproxy.org/cookie-persistence: route", "", corev1.ServicePort{}, wired},
		"HAProxy, a hash of the path":    {"haproxy.org/load-balance: uri", "", corev1.ServicePort{}, "AffinityMissing: Ingress web, shop.test/: annotation haproxy.org/load-balance: \"uri\" of Service shop"},
		"Contour, gRPC":                  {"projectcontour.io/upstream-protocol.h2c: 50051,80", "projectcontour.io/upstream-protocol.h2c: http", corev1.ServicePort{}, wired},
		"Contour, gRPC, not the proxies": {"projectcontour.io/upstream-protocol.h2c: 50051,80", "", corev1.ServicePort{}, "UnsupportedAnnotation"},
		"Contour, gRPC, port name":       {"projectcontour.io/upstream-protocol.h2c: web", "projectcontour.io/upstream-protocol.h2c: http", corev1.ServicePort{Name: "web", AppProtocol: new("h2c")}, wired},
		"Contour, another port":          {"projectcontour.io/upstream-protocol.h2c: \"8080\"", "", corev1.ServicePort{}, wired},
		"Google, settings":               {`cloud.google.com/backend-config: '{"default": "a"}'`, "", corev1.ServicePort{}, `UnsupportedAnnotation: Ingress web, shop.test/: annotation cloud.google.com/backend-config: "{\"default\": \"a\"}" of Service shop applies to this Service only, and would not apply to the proxies; add annotation cloud.google.com/backend-config, for its ports, to Service kedify-proxy, and if the BackendConfig has a sessionAffinity, which would then select a proxy instead of a Pod, set sessionAffinity in the trigger of HTTPScaledObject "shop", too`},
		"Google, the same settings":      {`cloud.google.com/backend-config: '{"default": "a"}'`, `cloud.google.com/backend-config: '{"default": "a"}'`, corev1.ServicePort{}, wired},
		"Google, other settings":         {`cloud.google.com/backend-config: '{"default": "a"}'`, `cloud.google.com/backend-config: '{"default": "b"}'`, corev1.ServicePort{}, "UnsupportedAnnotation"},
		"Google, HTTP/2":                 {`cloud.google.com/app-protocols: '{"web": "HTTP2"}'`, "", corev1.ServicePort{Name: "web"}, "ProtocolMismatch"},
		"AWS, authentication":            {alb + "auth-type: oidc", "", corev1.ServicePort{}, "UnsupportedAnnotation"},
		"Kong, plugins":                  {"konghq.com/plugins: auth", "", corev1.ServicePort{}, "UnsupportedAnnotation"},
		"Kong, gRPC":                     {"konghq.com/protocol: grpc", "konghq.com/protocol: grpc", corev1.ServicePort{}, wired},
		"Kong, gRPC over TLS":            {"konghq.com/protocol: grpcs", "", corev1.ServicePort{}, "ProtocolMismatch"},
		"Kong, path":                     {"konghq.com/path: /api", "", corev1.ServicePort{}, "UnsupportedAnnotation"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t, store("/"))
			test.port.Port = 80
			w.Services["shop"] = service(test.shop, test.port)
			w.Services["kedify-proxy"].Annotations = service(test.proxy).Annotations
			w.Targets = []autowire.Target{target("shop", "shop.test")}
			w.expect(t, test.says)
		})
	}
}

// TestServiceTypes has load balancers that need NodePorts.
func TestServiceTypes(t *testing.T) {
	t.Parallel()
	class := func(name string) string {
		return strings.Replace(store("/"), "spec: {", "spec: {ingressClassName: "+name+", ", 1)
	}
	const mismatch, wired = "ServiceTypeMismatch: ", "Wired: Ingress web, shop.test/"
	tests := map[string]struct {
		ingress, proxy string // the Ingress, and the annotations of Service kedify-proxy
		says           string
	}{
		"AWS":                              {store("/", alb+"scheme", "internet-facing"), "", mismatch + `Ingress web, shop.test/: an AWS Application Load Balancer needs a Service of type NodePort, and Service kedify-proxy is none; set its spec.type to NodePort, or annotation alb.ingress.kubernetes.io/target-type: ip on it`},
		"AWS, instances":                   {store("/", alb+"target-type", "instance"), "", mismatch},
		"AWS, Pods":                        {store("/", alb+"target-type", "ip"), "", wired},
		"AWS, Pods by the Service":         {store("/", alb+"scheme", "internal"), alb + "target-type: ip", wired},
		"AWS, instances by the Service":    {store("/", alb+"target-type", "ip"), alb + "target-type: instance", mismatch},
		"AWS by its class":                 {class("alb"), "", mismatch},
		"AWS by its class in a annotation": {store("/", "kubernetes.io/ingress.class", "alb"), "", mismatch},
		"Google by its class":              {store("/", "kubernetes.io/ingress.class", "gce"), "", mismatch},
		"Google, internal":                 {store("/", "kubernetes.io/ingress.class", "gce-internal"), `cloud.google.com/neg: '{"ingress": true}'`, wired},
		"Google by its status":             {store("/", "ingress.kubernetes.io/url-map", "k8s2-um-a"), `cloud.google.com/neg: '{"ingress": false}'`, mismatch},
		"Google, endpoint groups":          {store("/", "networking.gke.io/managed-certificates", "a"), `cloud.google.com/neg: '{"exposed_ports": {}, "ingress":true}'`, wired},
		"another class":                    {class("nginx"), "", wired},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for kind, says := range map[corev1.ServiceType]string{
				"": test.says, corev1.ServiceTypeClusterIP: test.says,
				corev1.ServiceTypeNodePort: wired, corev1.ServiceTypeLoadBalancer: wired,
			} {
				w := newFixture(t, test.ingress)
				w.Services["kedify-proxy"].Annotations = service(test.proxy).Annotations
				w.Services["kedify-proxy"].Spec.Type = kind
				w.Targets = []autowire.Target{target("shop", "shop.test")}
				w.expect(t, says)
			}
		})
	}
}

// TestCanaryIngress has an Ingress whose traffic another Ingress splits.
func TestCanaryIngress(t *testing.T) {
	t.Parallel()
	canary := strings.Replace(store("/", nginx+"canary", "true", nginx+"canary-weight", "20"), "name: shop", "name: shop-canary", 1)
	canary = strings.Replace(canary, "name: web", "name: web-canary", 1)
	tests := map[string]struct{ canary, says string }{
		"same host":    {canary, `UnsupportedAnnotation: Ingress web, shop.test/: annotation nginx.ingress.kubernetes.io/canary: "true" of Ingress web-canary splits its traffic`},
		"longer path":  {strings.Replace(canary, `path: "/"`, `path: "/beta"`, 1), "UnsupportedAnnotation"},
		"another host": {strings.Replace(canary, "shop.test", "cart.test", 1), "Wired: Ingress web, shop.test/"},
		"terminating":  {strings.Replace(canary, "name: web-canary", `name: web-canary, deletionTimestamp: "2026-05-01T12:00:00Z"`, 1), "Wired: Ingress web, shop.test/"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t, store("/"), test.canary)
			w.Targets = []autowire.Target{target("shop", "shop.test")}
			w.expect(t, test.says)
		})
	}
}

// TestIngressOfRollout has an Ingress whose traffic Argo Rollouts splits by a router of its own, which needs the stable
// Service in it.
func TestIngressOfRollout(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ routing, says string }{
		"nginx":           {`{nginx: {stableIngress: web}}`, "ManagedByTrafficRouter: Ingress web, shop.test/: traffic router nginx of Rollout team/shop manages its weights"},
		"nginx, several":  {`{nginx: {stableIngresses: [other, web]}}`, "ManagedByTrafficRouter"},
		"AWS":             {`{alb: {ingress: web, servicePort: 80}}`, "ManagedByTrafficRouter: Ingress web, shop.test/: traffic router alb"},
		"another Ingress": {`{nginx: {stableIngress: other}}`, "Wired"},
		"a plugin":        {`{plugins: {kedify/http: {httpScaledObjectName: shop}}}`, "Wired"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t, strings.Replace(store("/"), "name: web", "name: web, namespace: team", 1))
			rollout := `{metadata: {name: shop, namespace: team}, spec: {strategy: {canary: {trafficRouting: ` + test.routing + `}}}}`
			w.rollouts = make([]apis.Rollout, 1)
			if err := yaml.Unmarshal([]byte(rollout), &w.rollouts[0]); err != nil {
				t.Fatal(err)
			}
			w.Targets = []autowire.Target{target("shop", "shop.test")}
			w.expect(t, test.says)
		})
	}
}

// TestAnnotationWhileWired adds an annotation to a wired Ingress, and removes it again.
func TestAnnotationWhileWired(t *testing.T) {
	t.Parallel()
	w := newFixture(t, store("/store", "team", "a"))
	w.Targets = []autowire.Target{target("shop", "shop.test")}
	w.Targets[0].PathPrefixes = []string{"/store"}
	step := func(value, wantReason string) {
		t.Helper()
		w.stored[0] = edited(t, w.stored[0], func(ingress map[string]any) {
			annotations := ingress["metadata"].(map[string]any)["annotations"].(map[string]any)
			if annotations[nginx+"rewrite-target"] = value; value == "" {
				delete(annotations, nginx+"rewrite-target")
			}
		})
		got := w.converge(t).Conditions["shop"].Reason
		if got != wantReason || strings.Contains(w.stored[0], `"name":"kedify-proxy"`) != (wantReason == "Wired") {
			t.Errorf("rewrite-target %q: %s, want %s\n%s", value, got, wantReason, asYAML(t, w.stored[0]))
		}
	}
	step("", "Wired")
	step("/", "RequestMismatch")
	step("/store", "Wired")
	step("/$1", "UnsupportedAnnotation")
	step("", "Wired")
}

// TestRewrittenHTTPRoute has filters that rewrite only some of the requests to ones that the target matches.
func TestRewrittenHTTPRoute(t *testing.T) {
	t.Parallel()
	rewrite := func(to string) string {
		return route("shop.test", `matches: [{path: {value: /store}}], filters: [{urlRewrite: {path: {replacePrefixMatch: `+to+`}}}], `+toShop)
	}
	tests := map[string]struct{ route, says string }{
		"some requests": {rewrite("/"), `RequestMismatch: HTTPRoute web, shop.test/store: a filter URLRewrite makes the proxies receive requests for shop.test/, which HTTPScaledObject "shop" does not match; add "/" to pathPrefixes of its trigger`},
		"all requests":  {rewrite("/store/v1"), "Wired"},
		"Kong":          {strings.Replace(route("shop.test", `matches: [{path: {value: /store}}], `+toShop), "labels:", "annotations: {konghq.com/strip-path: \"true\"}, labels:", 1), "RequestMismatch"},
		"not Kong":      {strings.Replace(route("shop.test", `matches: [{path: {value: /store}}], `+toShop), "labels:", "annotations: {nginx.ingress.kubernetes.io/rewrite-target: /}, labels:", 1), "Wired"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t, test.route)
			w.Targets = []autowire.Target{target("shop", "shop.test")}
			w.Targets[0].PathPrefixes = []string{"/store"}
			w.expect(t, test.says)
		})
	}
}
