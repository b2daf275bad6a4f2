package autowire_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/autowire"
)

// policy returns a BackendTLSPolicy with target references, given as YAML.
func policy(t *testing.T, name, targets string) apis.BackendTLSPolicy {
	t.Helper()
	made := apis.BackendTLSPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := yaml.UnmarshalStrict([]byte(targets), &made.Spec.TargetRefs); err != nil {
		t.Fatal(err)
	}
	return made
}

// TestBackendTLSPolicy has Gateways that use TLS to the application, or to the proxies, because of a policy.
func TestBackendTLSPolicy(t *testing.T) {
	t.Parallel()
	const (
		inClear  = "Wired: HTTPRoute web, shop.test/"
		secured  = "Wired: HTTPRoute web, shop.test/ over TLS"
		mismatch = `ProtocolMismatch: HTTPRoute web, shop.test/: BackendTLSPolicy shop-tls uses TLS to the application, and the ` +
			`proxies would use clear text; set appProtocol: https on port 80 of Service shop`
		noHTTP2 = `ProtocolMismatch: HTTPRoute web, shop.test/: BackendTLSPolicy shop-tls uses HTTP/2 over TLS to the ` +
			`application, which the proxies do not support; let port 80 of Service shop serve HTTP/1.1 over TLS and set its ` +
			`appProtocol: https, or HTTP/2 in clear text and set its appProtocol: kubernetes.io/h2c`
	)
	port := func(name, protocol string) corev1.ServicePort {
		made := corev1.ServicePort{Name: name, Port: 80}
		if protocol != "" {
			made.AppProtocol = &protocol
		}
		return made
	}
	tests := map[string]struct {
		targets string // of the policy
		port    corev1.ServicePort
		object  string
		says    string
	}{
		"every port":            {`[{group: "", kind: Service, name: shop}]`, port("web", ""), "", mismatch},
		"port without a name":   {`[{group: "", kind: Service, name: shop}]`, port("", ""), "", mismatch},
		"this port":             {`[{group: "", kind: Service, name: shop, sectionName: web}]`, port("web", ""), "", mismatch},
		"this port by number":   {`[{group: "", kind: Service, name: shop, sectionName: "80"}]`, port("web", "http"), "", mismatch},
		"another port":          {`[{group: "", kind: Service, name: shop, sectionName: admin}]`, port("web", ""), "", inClear},
		"another Service":       {`[{group: "", kind: Service, name: shopping}]`, port("web", ""), "", inClear},
		"one of several":        {`[{group: "", kind: Service, name: cart}, {group: "", kind: Service, name: shop}]`, port("web", ""), "", mismatch},
		"another kind":          {`[{group: gateway.envoyproxy.io, kind: Backend, name: shop}]`, port("web", ""), "", inClear},
		"appProtocol for TLS":   {`[{group: "", kind: Service, name: shop}]`, port("web", "https"), "", inClear},
		"secure WebSocket":      {`[{group: "", kind: Service, name: shop}]`, port("web", "kubernetes.io/wss"), "", inClear},
		"port name for TLS":     {`[{group: "", kind: Service, name: shop}]`, port("https-web", ""), "", inClear},
		"HTTP/2":                {`[{group: "", kind: Service, name: shop}]`, port("web", "kubernetes.io/h2c"), "", noHTTP2},
		"HTTP/2 by name":        {`[{group: "", kind: Service, name: shop}]`, port("grpc", ""), "", noHTTP2},
		"an Ingress":            {`[{group: "", kind: Service, name: shop}]`, port("web", ""), store("/"), "Wired: Ingress web, shop.test/"},
		"the proxies":           {`[{group: "", kind: Service, name: kedify-proxy}]`, port("web", ""), "", secured},
		"the proxies' TLS port": {`[{group: "", kind: Service, name: kedify-proxy, sectionName: https}]`, port("web", ""), "", inClear},
		"the proxies in clear": {
			`[{group: "", kind: Service, name: kedify-proxy, sectionName: http}]`, port("web", ""), "",
			"UnsupportedSetting: HTTPRoute web, shop.test/: BackendTLSPolicy shop-tls uses TLS to port 8080 of Service kedify-proxy, " +
				"which is for clear text; let it apply to port 8443 only",
		},
		"the proxies' HTTP/2 port": {
			`[{group: "", kind: Service, name: kedify-proxy, sectionName: h2c}]`, port("grpc", ""), "",
			"UnsupportedSetting: HTTPRoute web, shop.test/: BackendTLSPolicy shop-tls uses TLS to port 8081",
		},
		"both": {`[{group: "", kind: Service, name: kedify-proxy}, {group: "", kind: Service, name: shop}]`, port("web", "https"), "", secured},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := test.object
			if object == "" {
				object = route("shop.test", toShop)
			}
			w := newFixture(t, object)
			w.HasTLSProxy, w.HasHTTP2Proxy = true, true
			w.Services["shop"], w.Services["kedify-proxy"] = service("", test.port), http2Proxies("")
			w.Targets = []autowire.Target{target("shop", "shop.test")}
			w.Targets[0].Certificate = autowire.CertificateActive
			w.TLSPolicies = []apis.BackendTLSPolicy{policy(t, "shop-tls", test.targets)}
			w.expect(t, test.says)
		})
	}
}

// TestBackendTLSPolicyOfProxies has a policy for the proxies, which have no certificate, and a policy that is being
// deleted.
func TestBackendTLSPolicyOfProxies(t *testing.T) {
	t.Parallel()
	w := newFixture(t, route("shop.test", toShop))
	w.HasTLSProxy = true
	w.Targets = []autowire.Target{target("shop", "shop.test")}
	w.TLSPolicies = []apis.BackendTLSPolicy{policy(t, "proxies", `[{group: "", kind: Service, name: kedify-proxy}]`)}
	w.expect(t, `UnsupportedSetting: HTTPRoute web, shop.test/: BackendTLSPolicy proxies requires TLS to the backends, and `+
		`HTTPScaledObject "shop" has no certificate; set tlsSecretName in its trigger`)
	w.TLSPolicies[0].DeletionTimestamp = &metav1.Time{Time: noon()}
	w.expect(t, "Wired: HTTPRoute web, shop.test/")
}

// TestBackendTLSPolicyWhileWired adds a policy for the application of a wired HTTPRoute, and removes it.
func TestBackendTLSPolicyWhileWired(t *testing.T) {
	t.Parallel()
	w := newFixture(t, route("shop.test", toShop))
	w.Targets = []autowire.Target{target("shop", "shop.test")}
	for _, step := range []struct {
		policies []apis.BackendTLSPolicy
		want     string
	}{
		{nil, "Wired"},
		{[]apis.BackendTLSPolicy{policy(t, "shop-tls", `[{group: "", kind: Service, name: shop}]`)}, "ProtocolMismatch"},
		{nil, "Wired"},
	} {
		w.TLSPolicies = step.policies
		got := w.converge(t).Conditions["shop"].Reason
		if got != step.want || strings.Contains(w.stored[0], "kedify-proxy") != (step.want == "Wired") {
			t.Errorf("%v: %s, want %s\n%s", step.policies, got, step.want, asYAML(t, w.stored[0]))
		}
	}
}

// TestGoogleGateway has Gateways of Google Cloud, for which appProtocol: HTTP2 means HTTP/2 over TLS.
func TestGoogleGateway(t *testing.T) {
	t.Parallel()
	const google, other = "networking.gke.io/gateway", "gateway.envoyproxy.io/gatewayclass-controller"
	const noHTTP2 = `ProtocolMismatch: HTTPRoute web, shop.test/: appProtocol: HTTP2 behind a Gateway of Google Cloud uses HTTP/2 ` +
		`over TLS to the application, which the proxies do not support; let port 80 of Service shop serve HTTP/1.1 over TLS and ` +
		`set its appProtocol: https, or HTTP/2 in clear text and set its appProtocol: kubernetes.io/h2c`
	tests := map[string]struct {
		controllers []string
		protocol    string
		says        string
	}{
		"HTTP2":                  {[]string{google}, "HTTP2", noHTTP2},
		"in lower case":          {[]string{google}, "http2", "ProtocolMismatch: HTTPRoute web, shop.test/: appProtocol: http2 behind"},
		"one of several":         {[]string{other, google}, "HTTP2", noHTTP2},
		"another controller":     {[]string{other}, "HTTP2", "Wired: HTTPRoute web, shop.test/ over HTTP/2"},
		"not accepted yet":       {nil, "HTTP2", "Wired: HTTPRoute web, shop.test/ over HTTP/2"},
		"HTTP/2 in clear text":   {[]string{google}, "kubernetes.io/h2c", "Wired: HTTPRoute web, shop.test/ over HTTP/2"},
		"HTTP/1.1 over TLS":      {[]string{google}, "HTTPS", "Wired: HTTPRoute web, shop.test/"},
		"HTTP/1.1 in clear text": {[]string{google}, "HTTP", "Wired: HTTPRoute web, shop.test/"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var parents []string
			for _, controller := range test.controllers {
				parents = append(parents, "{parentRef: {name: outer}, controllerName: "+controller+"}")
			}
			text := strings.TrimSuffix(route("shop.test", toShop), "}")
			w := newFixture(t, text+", status: {parents: ["+strings.Join(parents, ", ")+"]}}")
			w.HasHTTP2Proxy, w.Services["kedify-proxy"] = true, http2Proxies("")
			w.Services["shop"] = service("", corev1.ServicePort{Name: "web", Port: 80, AppProtocol: &test.protocol})
			w.Targets = []autowire.Target{target("shop", "shop.test")}
			w.expect(t, test.says)
		})
	}
}
