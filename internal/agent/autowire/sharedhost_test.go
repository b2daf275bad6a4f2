package autowire_test

import (
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/agent/autowire"
)

// other returns an Ingress for shop.test and Service cart with annotations, given as pairs of names and values.
func other(annotations ...string) string {
	text := strings.Replace(store("/api", annotations...), "name: web", "name: api", 1)
	return strings.Replace(text, "name: shop", "name: cart", 1)
}

// TestOtherIngressOfHost has annotations of another Ingress with the same host.
func TestOtherIngressOfHost(t *testing.T) {
	t.Parallel()
	const (
		wired    = "Wired: Ingress web, shop.test/"
		mismatch = "RequestMismatch: Ingress web, shop.test/"
		unknown  = "UnsupportedAnnotation: Ingress web, shop.test/"
		alias    = nginx + "server-alias"
		accept   = "http.kedify.io/autowire-accept"
	)
	class := func(text, name string) string {
		return strings.Replace(text, "spec: {", "spec: {ingressClassName: "+name+", ", 1)
	}
	tests := map[string]struct {
		web, other string
		prefixes   []string
		says       string
	}{
		"alias, not matched": {
			store("/"), other(alias, "www.shop.test"), nil,
			mismatch + `: annotation nginx.ingress.kubernetes.io/server-alias: "www.shop.test" of Ingress api makes the proxies receive ` +
				`requests for shop.test/ and others, which HTTPScaledObject "shop" does not match; add "www.shop.test" to hosts of its trigger`,
		},
		"alias, matched":             {store("/"), other(alias, "a.shop.test, b.shop.test"), nil, wired},
		"alias, one not matched":     {store("/"), other(alias, "a.shop.test,shop.internal"), nil, mismatch},
		"alias, accepted":            {store("/", accept, alias), other(alias, "www.shop.test"), nil, wired},
		"alias, accepted by another": {store("/"), other(alias, "www.shop.test", accept, alias), nil, mismatch},
		"alias by an expression":     {store("/"), other(alias, `~^www\d+\.shop`), nil, unknown + `: annotation nginx.ingress.kubernetes.io/server-alias: "~^www\\d+\\.shop" of Ingress api may change`},
		"alias, the host is set":     {store("/", nginx+"upstream-vhost", "shop.test"), other(alias, "www.shop.test"), nil, wired},
		"alias of both": {
			store("/", alias, "a.shop.test"), other(alias, "shop.internal"), nil,
			mismatch + `: annotation nginx.ingress.kubernetes.io/server-alias: "a.shop.test", with annotation ` +
				`nginx.ingress.kubernetes.io/server-alias: "shop.internal" of Ingress api, makes`,
		},
		"alias, HAProxy Ingress":  {store("/"), other("haproxy-ingress.github.io/server-alias", "shop.internal"), nil, mismatch},
		"alias, another host":     {store("/"), strings.Replace(other(alias, "shop.internal"), "shop.test", "cart.test", 1), nil, wired},
		"alias, wildcard host":    {store("/"), strings.Replace(other(alias, "shop.internal"), "shop.test", "*.test", 1), nil, wired},
		"alias, other spelling":   {store("/"), strings.Replace(other(alias, "shop.internal"), "shop.test", "Shop.TEST", 1), nil, mismatch},
		"alias, another class":    {class(store("/"), "nginx"), class(other(alias, "shop.internal"), "internal"), nil, wired},
		"alias, the same class":   {class(store("/"), "nginx"), class(other(alias, "shop.internal"), "nginx"), nil, mismatch},
		"alias, terminating":      {store("/"), strings.Replace(other(alias, "shop.internal"), "name: api", `name: api, deletionTimestamp: "2026-05-01T12:00:00Z"`, 1), nil, wired},
		"alias, no path":          {store("/"), `{metadata: {name: api, annotations: {"` + alias + `": shop.internal}}, spec: {rules: [{host: shop.test}]}}`, nil, mismatch},
		"alias expression, other": {store("/"), other("haproxy-ingress.github.io/server-alias-regex", "^www"), nil, unknown},
		"an HTTPRoute":            {route("shop.test", toShop), other(alias, "shop.internal"), nil, "Wired: HTTPRoute web"},
		"expressions": {
			store("/store"), other(nginx+"use-regex", "true"),
			[]string{"/store"},
			mismatch + `store: annotation nginx.ingress.kubernetes.io/use-regex: "true" of Ingress api makes its path a regular ` +
				`expression, so the proxies receive requests for shop.test/, which HTTPScaledObject "shop" does not match; add "/" to ` +
				`pathPrefixes of its trigger, or list the annotation in annotation http.kedify.io/autowire-accept of the Ingress if the ` +
				`application receives no other path`,
		},
		"expressions, every path":      {store("/store"), other(nginx+"use-regex", "true"), nil, wired},
		"expressions, matched":         {store("/store"), other(nginx+"use-regex", "true"), []string{"/"}, wired},
		"expressions, root":            {store("/"), other(nginx+"use-regex", "true"), []string{"/store"}, wired},
		"expressions, a segment's end": {store("/store/"), other(nginx+"use-regex", "true"), []string{"/store"}, wired},
		"expressions, two segments":    {store("/store/v1"), other(nginx+"use-regex", "true"), []string{"/store"}, wired},
		"no expressions":               {store("/store"), other(nginx+"use-regex", "false"), []string{"/store"}, wired},
		"a rewrite":                    {store("/store"), other(nginx+"rewrite-target", "/$2"), []string{"/store"}, mismatch + "store: annotation nginx.ingress.kubernetes.io/rewrite-target"},
		"a constant rewrite":           {store("/store"), other(nginx+"rewrite-target", "/"), []string{"/store"}, mismatch},
		"a rewrite, accepted":          {store("/store", accept, nginx+"rewrite-target"), other(nginx+"rewrite-target", "/$2"), []string{"/store"}, wired},
		"a rewrite of F5":              {store("/store"), other("nginx.org/rewrite-target", "/"), []string{"/store"}, wired},
		"own expressions, too":         {store("/store", nginx+"use-regex", "true"), other(nginx+"use-regex", "true"), []string{"/store"}, wired},
		"a snippet of the server":      {store("/"), other(nginx+"server-snippet", "rewrite ^/old/(.*) /$1 last;"), nil, unknown + `: annotation nginx.ingress.kubernetes.io/server-snippet: "rewrite ^/old/(.*) /$1 last;" of Ingress api may change`},
		"a harmless snippet":           {store("/"), other(nginx+"server-snippet", "add_header X-A b;"), nil, wired},
		"a snippet of a location":      {store("/"), other(nginx+"configuration-snippet", "rewrite ^/a /b break;"), nil, wired},
		"TLS to the application":       {store("/"), other(nginx+"ssl-passthrough", "true"), nil, unknown},
		"TLS, HAProxy Ingress":         {store("/"), other("haproxy-ingress.github.io/ssl-passthrough", "true"), nil, unknown},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t, test.web, test.other)
			w.Targets = []autowire.Target{target("shop", "shop.test", "*.shop.test")}
			w.Targets[0].PathPrefixes = test.prefixes
			if strings.Contains(test.says, `"www.shop.test"`) || test.says == mismatch && strings.Contains(test.other, "www.") ||
				strings.Contains(test.web, accept) {
				w.Targets[0].Hosts = []string{"shop.test"}
			}
			w.expect(t, test.says)
		})
	}
}

// TestMergeableIngresses has minions of the F5 NGINX Ingress Controller, with annotations of their master.
func TestMergeableIngresses(t *testing.T) {
	t.Parallel()
	const kind, method = "nginx.org/mergeable-ingress-type", "nginx.org/lb-method"
	web := func(annotations ...string) string { return store("/", append(annotations, kind, "minion")...) }
	from := func(host, name, value string) string {
		return `{metadata: {name: outer, annotations: {` + kind + `: master, ` + name + `: "` + value + `"}}, spec: {rules: [{host: ` + host + `}]}}`
	}
	const missing, unknown = "AffinityMissing: Ingress web, shop.test/: ", "UnsupportedAnnotation: Ingress web, shop.test/: "
	const wired = "Wired: Ingress web, shop.test/"
	tests := map[string]struct{ web, from, says string }{
		"method":                   {web(), from("shop.test", method, "hash $request_uri consistent"), missing + `annotation nginx.org/lb-method: "hash $request_uri consistent" of Ingress outer sends`},
		"method, overridden":       {web(method, "least_conn"), from("shop.test", method, "hash $request_uri"), wired},
		"method, harmless":         {web(), from("shop.test", method, "round_robin"), wired},
		"snippet":                  {web(), from("shop.test", "nginx.org/location-snippets", "rewrite ^/a /b break;"), unknown + `annotation nginx.org/location-snippets: "rewrite ^/a /b break;" of Ingress outer`},
		"snippet of the server":    {web(), from("shop.test", "nginx.org/server-snippets", "location /x { proxy_pass http://a; }"), unknown},
		"snippet, accepted":        {web("http.kedify.io/autowire-accept", "nginx.org/location-snippets"), from("shop.test", "nginx.org/location-snippets", "rewrite ^/a /b break;"), wired},
		"not inherited":            {web(), from("shop.test", "nginx.org/proxy-set-headers", "Host: a.test"), wired},
		"another host":             {web(), from("cart.test", method, "hash $request_uri"), wired},
		"no minion":                {store("/"), from("shop.test", method, "hash $request_uri"), wired},
		"no master":                {web(), strings.Replace(from("shop.test", method, "hash $request_uri"), ": master", ": minion", 1), wired},
		"cookie affinity of nginx": {web(), from("shop.test", nginx+"affinity", "cookie"), wired},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t, test.web, test.from)
			w.Targets = []autowire.Target{target("shop", "shop.test")}
			w.expect(t, test.says)
		})
	}
}
