package autowire_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/autowire"
	"github.com/kedify/argo-rollouts-plugin/internal/model/affinity"
	"github.com/kedify/argo-rollouts-plugin/internal/model/inherited"
	"github.com/kedify/argo-rollouts-plugin/internal/trigger"
)

// rule returns a DestinationRule for a host with a trafficPolicy, given as YAML. Each one is a second older than the
// one whose name precedes its own.
func rule(t *testing.T, name, host, policy string) apis.DestinationRule {
	t.Helper()
	made := apis.DestinationRule{ObjectMeta: metav1.ObjectMeta{Name: name}}
	made.CreationTimestamp = metav1.NewTime(noon().Add(-time.Duration(name[0]) * time.Second))
	made.Spec.Host = host
	if err := yaml.UnmarshalStrict([]byte(policy), &made.Spec.TrafficPolicy); err != nil {
		t.Fatal(err)
	}
	return made
}

// TestDestinationRule has DestinationRules for the application, for the proxies, and for both.
func TestDestinationRule(t *testing.T) {
	t.Parallel()
	const (
		inClear  = "Wired: VirtualService web, shop.test/"
		secured  = "Wired: VirtualService web, shop.test/ over TLS"
		mismatch = "ProtocolMismatch: VirtualService web, shop.test/: DestinationRule shop uses TLS to the application, and the " +
			"proxies would use clear text; set appProtocol: https on port 80 of Service shop"
		noMesh = "UnsupportedSetting: VirtualService web, shop.test/: DestinationRule mesh requires tls.mode ISTIO_MUTUAL for port " +
			"8080 of Service kedify-proxy, whose Pods are outside of the mesh; add a DestinationRule with host kedify-proxy and " +
			"trafficPolicy.tls.mode: DISABLE"
		tls, mutual, mesh, off = `{tls: {mode: SIMPLE}}`, `{tls: {mode: MUTUAL}}`, `{tls: {mode: ISTIO_MUTUAL}}`, `{tls: {mode: DISABLE}}`
	)
	of := func(name, host, policy string) apis.DestinationRule {
		t.Helper()
		return rule(t, name, host, policy)
	}
	port := func(name, protocol string) corev1.ServicePort {
		made := corev1.ServicePort{Name: name, Port: 80}
		if protocol != "" {
			made.AppProtocol = &protocol
		}
		return made
	}
	type rules = []apis.DestinationRule
	tests := map[string]struct {
		rules rules
		port  corev1.ServicePort
		says  string
	}{
		"TLS":                              {rules{of("shop", "shop", tls)}, port("web", ""), mismatch},
		"TLS with a client certificate":    {rules{of("shop", "shop.team.svc.cluster.local", mutual)}, port("web", ""), mismatch},
		"TLS, with appProtocol":            {rules{of("shop", "shop", tls)}, port("web", "https"), inClear},
		"HTTP/2 over TLS":                  {rules{of("shop", "shop", tls)}, port("grpc", ""), "ProtocolMismatch: VirtualService web, shop.test/: DestinationRule shop uses HTTP/2 over TLS to the application"},
		"no TLS":                           {rules{of("shop", "shop", off)}, port("web", ""), inClear},
		"no settings":                      {rules{of("shop", "shop", `{}`)}, port("web", ""), inClear},
		"no policy":                        {rules{{Spec: apis.DestinationRuleSpec{Host: "shop"}}}, port("web", ""), inClear},
		"the TLS of the mesh":              {rules{of("shop", "shop", mesh)}, port("web", ""), inClear},
		"another Service":                  {rules{of("shop", "shopping", tls)}, port("web", ""), inClear},
		"another namespace":                {rules{of("shop", "shop.other.svc.cluster.local", tls)}, port("web", ""), inClear},
		"this port":                        {rules{of("shop", "shop", `{portLevelSettings: [{port: {number: 80}, tls: {mode: SIMPLE}}]}`)}, port("web", ""), mismatch},
		"another port":                     {rules{of("shop", "shop", `{portLevelSettings: [{port: {number: 81}, tls: {mode: SIMPLE}}]}`)}, port("web", ""), inClear},
		"a port without its settings":      {rules{of("shop", "shop", `{tls: {mode: SIMPLE}, portLevelSettings: [{port: {number: 80}}]}`)}, port("web", ""), inClear},
		"all Services":                     {rules{of("shop", "*.local", tls)}, port("web", "https"), secured},
		"all Services of the namespace":    {rules{of("shop", "*.team.svc.corp", tls), of("off", "kedify-proxy", off)}, port("web", ""), mismatch},
		"all Services of another one":      {rules{of("shop", "*.other.svc.cluster.local", tls)}, port("web", ""), inClear},
		"the most specific, exact":         {rules{of("all", "*.local", tls), of("shop", "shop", off), of("off", "kedify-proxy", off)}, port("web", ""), inClear},
		"the most specific wildcard":       {rules{of("all", "*", off), of("shop", "*.team.svc.cluster.local", tls), of("off", "kedify-proxy", off)}, port("web", ""), mismatch},
		"the older one":                    {rules{of("a", "shop", off), of("shop", "shop.team.svc.cluster.local", tls)}, port("web", ""), mismatch},
		"the first policy":                 {rules{{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: apis.DestinationRuleSpec{Host: "shop"}}, of("shop", "shop", tls)}, port("web", ""), mismatch},
		"HTTP/2 instead of HTTP/1.1":       {rules{of("shop", "shop", `{connectionPool: {http: {h2UpgradePolicy: UPGRADE}}}`)}, port("web", ""), "Wired: VirtualService web, shop.test/ over HTTP/2"},
		"HTTP/1.1 instead of HTTP/2":       {rules{of("shop", "shop", `{connectionPool: {http: {h2UpgradePolicy: DO_NOT_UPGRADE}}}`)}, port("web", ""), inClear},
		"HTTP/2, although HTTP/1.1 is set": {rules{of("shop", "shop", `{connectionPool: {http: {h2UpgradePolicy: UPGRADE}}}`)}, port("web", "http"), "ProtocolMismatch: VirtualService web, shop.test/: DestinationRule shop with h2UpgradePolicy uses HTTP/2 to the application, and the proxies would use HTTP/1.1; set appProtocol: kubernetes.io/h2c on port 80 of Service shop"},
		"the proxies":                      {rules{of("shop", "kedify-proxy", tls)}, port("web", ""), secured},
		"the proxies' port for TLS":        {rules{of("shop", "kedify-proxy", `{portLevelSettings: [{port: {number: 8443}, tls: {mode: SIMPLE}}]}`)}, port("web", ""), inClear},
		"the proxies' port in clear text":  {rules{of("shop", "kedify-proxy", `{portLevelSettings: [{port: {number: 8080}, tls: {mode: SIMPLE}}]}`)}, port("web", ""), "UnsupportedSetting: VirtualService web, shop.test/: DestinationRule shop uses TLS to port 8080 of Service kedify-proxy"},
		"the mesh's TLS to the proxies":    {rules{of("mesh", "*.local", mesh)}, port("web", ""), noMesh},
		"the fix of it":                    {rules{of("mesh", "*.local", mesh), of("proxies", "kedify-proxy", off)}, port("web", ""), inClear},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t, virtualService("shop.test", destinationShop))
			w.HasTLSProxy, w.HasHTTP2Proxy = true, true
			w.Services["shop"], w.Services["kedify-proxy"] = service("", test.port), http2Proxies("")
			w.Targets = []autowire.Target{target("shop", "shop.test")}
			w.Targets[0].Certificate = autowire.CertificateActive
			w.DestinationRules = test.rules
			w.expect(t, test.says)
		})
	}
}

// TestAffinityOfDestinationRule has session affinity of DestinationRules, which the agent takes over.
func TestAffinityOfDestinationRule(t *testing.T) {
	t.Parallel()
	const cannot = `AffinityMissing: VirtualService web, shop.test/: DestinationRule shop with consistentHash sends a client to the ` +
		`same Pod, and the proxies would not; set sessionAffinity in the trigger of HTTPScaledObject "shop"`
	tests := map[string]struct {
		hash string
		want affinity.Key
		says string
	}{
		"a cookie":         {`{httpCookie: {name: user, ttl: 0s}}`, affinity.Key{Cookie: affinity.DefaultCookie()}, "Wired"},
		"a header":         {`{httpHeaderName: X-User}`, affinity.Key{Header: "x-user"}, "Wired"},
		"the address":      {`{useSourceIp: true}`, affinity.Key{SourceAddress: true}, "Wired"},
		"a parameter":      {`{httpQueryParameterName: user}`, affinity.Key{}, cannot},
		"only a ring":      {`{minimumRingSize: 1024}`, affinity.Key{}, "Wired"},
		"a useless header": {`{httpHeaderName: host}`, affinity.Key{}, cannot},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t, virtualService("shop.test", destinationShop))
			w.Targets = []autowire.Target{target("shop", "shop.test")}
			var made apis.DestinationRule
			text := `{metadata: {name: shop}, spec: {host: shop, trafficPolicy: {loadBalancer: {consistentHash: ` + test.hash + `}}}}`
			if err := yaml.Unmarshal([]byte(text), &made); err != nil {
				t.Fatal(err)
			}
			w.DestinationRules = []apis.DestinationRule{made}
			w.expect(t, test.says)
			if want := inherited.Format(inherited.Settings{Affinity: test.want}); w.Targets[0].Settings != want {
				t.Errorf("settings %q, want %q", w.Targets[0].Settings, want)
			}
		})
	}
}

// TestUnreadableDestinationRules has an agent without the permission for DestinationRules: what is wired stays, with its
// settings, and nothing else is wired.
func TestUnreadableDestinationRules(t *testing.T) {
	t.Parallel()
	const problem = "kind DestinationRule cannot be read"
	w := newFixture(t, virtualService("shop.test", destinationShop))
	w.Targets = []autowire.Target{target("shop", "shop.test")}
	w.Unreadable = map[trigger.AutowireKind]string{trigger.AutowireVirtualService: problem}
	w.expect(t, "PermissionMissing: VirtualService web, shop.test/: "+problem)

	w.Unreadable = nil
	w.DestinationRules = []apis.DestinationRule{rule(t, "shop", "shop", `{loadBalancer: {consistentHash: {useSourceIp: true}}}`)}
	w.converge(t)
	settings := w.Targets[0].Settings
	if settings == "" {
		t.Fatal("the affinity is not taken over")
	}
	w.Unreadable = map[trigger.AutowireKind]string{trigger.AutowireVirtualService: problem}
	w.DestinationRules = nil
	if reason := w.converge(t).Conditions["shop"].Reason; reason != "Wired" || !strings.Contains(w.stored[0], `"kedify-proxy"`) {
		t.Errorf("a wired one: %s\n%s", reason, w.stored[0])
	}
	if w.Targets[0].Settings != settings {
		t.Errorf("settings %q, want %q", w.Targets[0].Settings, settings)
	}
	w.HasProxy = false
	w.converge(t)
	w.HasProxy, w.Now = true, w.Now.Add(time.Hour)
	if reason := w.converge(t).Conditions["shop"].Reason; reason != "PermissionMissing" {
		t.Errorf("after an outage of the proxies: %s", reason)
	}
}
