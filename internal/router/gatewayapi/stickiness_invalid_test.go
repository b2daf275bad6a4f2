package gatewayapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/router/gatewayapi"
	"github.com/kedify/argo-rollouts-plugin/test/kit/routertest"
)

// TestInvalidStickiness: an error names the key, the problem and the fix, and nothing is written. Programs that inspect
// the Rollout get it, too.
func TestInvalidStickiness(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ config, want string }{
		"a text": {
			`"httpRoute":"web","stickiness":"cookie"`,
			`.stickiness is "cookie": write {cookie: {}} or {sessionHeader: <name>}`,
		},
		"nothing": {`"httpRoute":"web","stickiness":{}`, ".stickiness has 0 of the keys cookie and sessionHeader: write one"},
		"both": {
			`"httpRoute":"web","stickiness":{"cookie":{},"sessionHeader":"x"}`,
			".stickiness has 2 of the keys cookie and sessionHeader: write one",
		},
		"an unknown key": {
			`"httpRoute":"web","stickiness":{"cokie":{}}`,
			`.stickiness has the unknown key "cokie": remove it, the keys are cookie and sessionHeader`,
		},
		"a field of the Gateway API": {
			`"httpRoute":"web","stickiness":{"cookie":{"idleTimeout":"1h"}}`,
			`.stickiness.cookie has the unknown key "idleTimeout": remove it, the keys are maxAge and name`,
		},
		"a header that identifies users": {
			`"httpRoute":"web","stickiness":{"header":"x-user"}`,
			".stickiness.header: the Gateway API cannot express it",
		},
		"the source address": {
			`"httpRoute":"web","stickiness":{"sourceAddress":{}}`,
			".stickiness.sourceAddress: the Gateway API cannot express it",
		},
		"a path": {
			`"httpRoute":"web","stickiness":{"cookie":{"path":"/"}}`,
			".stickiness.cookie.path: the Gateway API cannot express it",
		},
		"secure": {
			`"httpRoute":"web","stickiness":{"cookie":{"secure":true}}`,
			".stickiness.cookie.secure: the Gateway API cannot express it",
		},
		"httpOnly": {
			`"httpRoute":"web","stickiness":{"cookie":{"httpOnly":false}}`,
			".stickiness.cookie.httpOnly: the Gateway API cannot express it",
		},
		"sameSite": {
			`"httpRoute":"web","stickiness":{"cookie":{"sameSite":"Lax"}}`,
			".stickiness.cookie.sameSite: the Gateway API cannot express it",
		},
		"a cookie that is none": {
			`"httpRoute":"web","stickiness":{"cookie":true}`,
			".stickiness.cookie is true: write {} or {name: <name>, maxAge: <seconds>}",
		},
		"a lifetime that is text": {
			`"httpRoute":"web","stickiness":{"cookie":{"maxAge":"1d"}}`,
			`.stickiness.cookie.maxAge is "1d": write a number of seconds, from 1 to 34560000, or remove`,
		},
		"no lifetime": {
			`"httpRoute":"web","stickiness":{"cookie":{"maxAge":0}}`,
			".stickiness.cookie.maxAge is 0: write a number of seconds",
		},
		"a negative lifetime": {
			`"httpRoute":"web","stickiness":{"cookie":{"maxAge":-1}}`,
			".stickiness.cookie.maxAge is -1: write a number of seconds",
		},
		"half a second": {
			`"httpRoute":"web","stickiness":{"cookie":{"maxAge":0.5}}`,
			".stickiness.cookie.maxAge is 0.5: write a number of seconds",
		},
		"no name": {
			`"httpRoute":"web","stickiness":{"cookie":{"name":""}}`,
			`.stickiness.cookie.name is "": write 1 to 64 letters, digits, - and _`,
		},
		"a list": {`"httpRoute":"web","stickiness":[]`, ".stickiness is []: write {cookie: {}} or"},
		"a cookie that is null": {
			`"httpRoute":"web","stickiness":{"cookie":null}`,
			".stickiness.cookie is null: write {} or",
		},
		"a lifetime of years": {
			`"httpRoute":"web","stickiness":{"cookie":{"maxAge":34560001}}`,
			".stickiness.cookie.maxAge is 34560001: write a number of seconds",
		},
		"a name with a space": {
			`"httpRoute":"web","stickiness":{"cookie":{"name":"a b"}}`,
			`.stickiness.cookie.name is "a b": write 1 to 64 letters, digits, - and _`,
		},
		"a prefix that needs Secure": {
			`"httpRoute":"web","stickiness":{"cookie":{"name":"__Host-side"}}`,
			`.stickiness.cookie.name is "__Host-side": browsers accept this prefix only with the attribute Secure`,
		},
		"the header Cookie": {
			`"httpRoute":"web","stickiness":{"sessionHeader":"cookie"}`,
			`.stickiness.sessionHeader is "cookie": write the name of a header that nothing else uses`,
		},
		"a TCPRoute": {
			`"tcpRoute":"db","httpRoute":"web","stickiness":{"cookie":{}}`,
			`.stickiness: TCPRoute "shop/db" (` + field + `.tcpRoute) has no sessions: only HTTPRoutes and GRPCRoutes have`,
		},
		"a selector of UDPRoutes": {
			`"udpRouteSelector":{"matchLabels":{"app":"web"}},"stickiness":{"cookie":{}}`,
			`.stickiness: UDPRoutes (` + field + `.udpRouteSelector) have no sessions: only HTTPRoutes and GRPCRoutes have`,
		},
		"a list of TLSRoutes": {
			`"tlsRoutes":[{"name":"db"}],"stickiness":{"cookie":{}}`,
			`.stickiness: TLSRoute "shop/db" (` + field + `.tlsRoutes[0]) has no sessions`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := routertest.NewRoutesServer(t, experimental(), httpRoute("web"), routeOf("TCPRoute", "db"),
				routeOf("TLSRoute", "db"), routeOf("UDPRoute", "web"))
			rollout := routertest.Rollout(gatewayapi.Type, "{"+test.config+"}")
			err := newRouter(api).SetWeight(t.Context(), rollout, 20, nil)
			if want := field + test.want; err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error is\n%v, want in it\n%s", err, want)
			}
			_, err = gatewayapi.ConfiguredOf(rollout)
			if want := `rollout "shop/web": ` + field + test.want; err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("ConfiguredOf: error is\n%v, want\n%s…", err, want)
			}
			if writes := len(api.Requests(http.MethodPut, "")); writes != 0 {
				t.Errorf("%d writes, want none", writes)
			}
		})
	}
}
