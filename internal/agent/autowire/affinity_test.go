package autowire_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/agent/autowire"
)

// TestAffinity has session affinity that the proxies lack, and none.
func TestAffinity(t *testing.T) {
	t.Parallel()
	const missing = `AffinityMissing: `
	tests := map[string]struct{ object, says string }{
		"hash of the path":         {store("/", nginx+"upstream-hash-by", "$request_uri"), missing + `Ingress web, shop.test/: annotation nginx.ingress.kubernetes.io/upstream-hash-by: "$request_uri" sends a client to the same Pod, and the proxies would not; set sessionAffinity in the trigger of HTTPScaledObject "shop", or its annotation http.kedify.io/session-affinity, for example to {cookie: {name: kedify-session}}`},
		"hash of an argument":      {store("/", nginx+"upstream-hash-by", "$arg_user"), missing},
		"hash of the app's cookie": {store("/", nginx+"upstream-hash-by", "$cookie_session"), missing},
		"hash of two things":       {store("/", nginx+"upstream-hash-by", "$remote_addr$http_x_user"), missing},
		"hash of the host":         {store("/", nginx+"upstream-hash-by", "$http_host"), missing},
		"F5":                       {store("/", "nginx.org/lb-method", "hash $request_uri consistent"), missing},
		"HAProxy, path":            {store("/", "haproxy.org/load-balance", "uri depth 1"), missing},
		"HAProxy, parameter":       {store("/", "haproxy.org/load-balance", "url_param user"), missing},
		"HAProxy, RDP":             {store("/", "haproxy-ingress.github.io/balance-algorithm", "rdp-cookie(mstshash)"), missing},
		"HAProxy, host":            {store("/", "haproxy.org/load-balance", "hdr(Host)"), missing},
		"HAProxy, part of a host":  {store("/", "haproxy.org/load-balance", "hdr(Host) use_domain_only"), missing},
		"HAProxy, all cookies":     {store("/", "haproxy.org/load-balance", "hdr(cookie)"), missing},
		"HAProxy, stick table":     {store("/", "haproxy.org/backend-config-snippet", "stick-table type ip size 1m\nstick on src"), missing},
		"HAProxy, table, address":  {store("/", "haproxy.org/load-balance", "source", "haproxy.org/backend-config-snippet", "stick on src"), missing},
		"HTTPRoute, by a header":   {route("shop.test", "sessionPersistence: {sessionName: X-Session, type: Header}, "+toShop), missing + "HTTPRoute web, shop.test/: sessionPersistence of its rule sends"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t, test.object)
			w.Targets = []autowire.Target{target("shop", "shop.test")}
			w.expect(t, test.says)
			w.Targets[0].HasAffinity = true
			w.expect(t, "Wired: ")
		})
	}
	for name, text := range map[string]string{
		"no affinity":              store("/", nginx+"affinity", ""),
		"round robin":              store("/", "haproxy.org/load-balance", "roundrobin"),
		"no stickiness":            store("/", alb+"target-type", "ip", alb+"target-group-attributes", "stickiness.enabled=false"),
		"cookie of another app":    store("/", "nginx.com/sticky-cookie-services", "serviceName=cart srv_id"),
		"HTTPRoute without":        route("shop.test", toShop),
		"name without the cookie":  store("/", nginx+"session-cookie-name", "route"),
		"HTTPRoute with a null":    route("shop.test", "sessionPersistence: null, "+toShop),
		"Contour's retries, no LB": store("/", "projectcontour.io/num-retries", "3"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t, text)
			w.Targets = []autowire.Target{target("shop", "shop.test")}
			w.expect(t, "Wired: ")
		})
	}
}

// Texts of settings.
const (
	byCookie  = `{"sessionAffinity":{"cookie":{"name":"kedify-session","path":"/","secure":false,"httpOnly":true,"sameSite":"Lax"}}}`
	byUser    = `{"sessionAffinity":{"header":"x-user"}}`
	byAddress = `{"sessionAffinity":{"sourceAddress":{}}}`
	inH2C     = `{"protocol":"h2c"}`
)

// TestAffinityIsTakenOver has session affinity of every family. Nothing is wired until every proxy has it.
func TestAffinityIsTakenOver(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ object, shop, want string }{ // shop are the annotations of Service shop
		"cookie":                   {store("/", nginx+"affinity", "cookie", nginx+"session-cookie-name", "route"), "", byCookie},
		"cookie and a hash":        {store("/", nginx+"upstream-hash-by", "$request_uri", nginx+"affinity", "cookie"), "", byCookie},
		"hash of the address":      {store("/", nginx+"upstream-hash-by", "$binary_remote_addr"), "", byAddress},
		"hash of the text address": {store("/", nginx+"upstream-hash-by", "${remote_addr}"), "", byAddress},
		"hash of a header":         {store("/", nginx+"upstream-hash-by", "$http_X_User"), "", byUser},
		"hash in braces":           {store("/", nginx+"upstream-hash-by", "${http_x_user}"), "", byUser},
		"F5, cookie":               {store("/", "nginx.com/sticky-cookie-services", "serviceName=shop srv_id expires=1h path=/"), "", byCookie},
		"F5, by address":           {store("/", "nginx.org/lb-method", "ip_hash"), "", byAddress},
		"F5, hash of the address":  {store("/", "nginx.org/lb-method", "hash $remote_addr consistent"), "", byAddress},
		"F5, hash of a header":     {store("/", "nginx.org/lb-method", "hash $http_x_user"), "", byUser},
		"Traefik":                  {store("/"), traefik + `service.sticky.cookie: "true"`, byCookie},
		"HAProxy, cookie":          {store("/", "haproxy.org/cookie-persistence", "route"), "", byCookie},
		"HAProxy, of the Service":  {store("/"), "haproxy.com/cookie-persistence-no-dynamic: route", byCookie},
		"HAProxy, by address":      {store("/", "haproxy.org/load-balance", "source"), "", byAddress},
		"HAProxy, header":          {store("/", "haproxy.org/load-balance", "hdr(X-User)"), "", byUser},
		"HAProxy, snippet":         {store("/", "haproxy.org/backend-config-snippet", "option a\n cookie srv insert"), "", byCookie},
		"HAProxy, cookie, path":    {store("/", "haproxy.org/load-balance", "uri", "haproxy.org/cookie-persistence", "route"), "", byCookie},
		"HAProxy Ingress":          {store("/", "haproxy-ingress.github.io/affinity", "cookie"), "", byCookie},
		"HAProxy Ingress, header":  {store("/", "ingress.kubernetes.io/balance-algorithm", "hdr(x-user)"), "", byUser},
		"AWS":                      {store("/", alb+"target-type", "ip", alb+"target-group-attributes", "deregistration_delay.timeout_seconds=30,stickiness.enabled=true,stickiness.lb_cookie.duration_seconds=60"), "", byCookie},
		"Azure":                    {store("/", appgw+"cookie-based-affinity", "true"), "", byCookie},
		"HTTPRoute":                {route("shop.test", "sessionPersistence: {sessionName: route, type: Cookie}, "+toShop), "", byCookie},
		"HTTPRoute, default type":  {route("shop.test", "sessionPersistence: {absoluteTimeout: 1h}, "+toShop), "", byCookie},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t, test.object)
			if test.shop != "" {
				w.Services["shop"] = service(test.shop, w.Services["shop"].Spec.Ports...)
			}
			w.Targets = []autowire.Target{target("shop", "shop.test")}
			w.expectPending(t, test.want)
			w.expect(t, "Wired: ")
			w.Targets[0].HasAffinity = true
			if found := w.converge(t); found.Conditions["shop"].Reason != "Wired" || w.Targets[0].Settings != "" {
				t.Errorf("with a session affinity of its own: %+v, settings %s", found.Conditions["shop"], w.Targets[0].Settings)
			}
		})
	}
}

// expectPending expects that target shop takes over settings, and that nothing is wired before all proxies have them.
func (w *fixture) expectPending(t *testing.T, want string) {
	t.Helper()
	const says = `not every Ready proxy has acknowledged annotation http.kedify.io/autowire-settings of HTTPScaledObject "shop"; ` +
		`if this persists, upgrade the interceptor`
	check := func(what string, settings map[string]string) {
		t.Helper()
		found := w.plan(t)
		condition := found.Conditions["shop"]
		if len(found.Changes) > 0 || fmt.Sprint(found.Settings) != fmt.Sprint(settings) ||
			condition.Reason != "NotProgrammed" || !strings.HasSuffix(condition.Message, ": "+says) {
			t.Errorf("%s: %+v; settings %v, want %v\n%+v", what, found.Changes, found.Settings, settings, condition)
		}
	}
	check("before the annotation", map[string]string{"shop": want})
	w.applySettings(map[string]string{"shop": want})
	w.Targets[0].AreSettingsPending = true
	check("before the acknowledgment", nil)
	w.Targets[0].AreSettingsPending = false
}
