package translate_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	streamlogv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/stream/v3"
	rbacfilterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	earlyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/http/early_header_mutation/header_mutation/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// managers returns the connection managers of all listeners, by the names of the listeners.
func managers(tb testing.TB) map[string]*hcmv3.HttpConnectionManager {
	tb.Helper()
	return managersOf(tb, holdOptions())
}

// managersOf returns the connection managers of all listeners with options.
func managersOf(tb testing.TB, options translate.Options) map[string]*hcmv3.HttpConnectionManager {
	tb.Helper()
	options.TLS = true
	resources, err := options.Envoy(model.Config{})
	if err != nil {
		tb.Fatal(err)
	}
	all := map[string]*hcmv3.HttpConnectionManager{}
	for name, message := range resources[resourcev3.ListenerType] {
		listener, _ := message.(*listenerv3.Listener)
		manager := new(hcmv3.HttpConnectionManager)
		if err := listener.GetFilterChains()[0].GetFilters()[0].GetTypedConfig().UnmarshalTo(manager); err != nil {
			tb.Fatal(err)
		}
		all[name] = manager
	}
	if len(all) != 3 {
		tb.Fatalf("%d listeners, want 3", len(all))
	}
	return all
}

// TestNoClientIsInternal: Envoy applies x-envoy-* headers of internal clients, and without any range all private
// addresses are internal.
func TestNoClientIsInternal(t *testing.T) {
	t.Parallel()
	for name, manager := range managers(t) {
		internal := manager.GetInternalAddressConfig()
		ranges := internal.GetCidrRanges()
		if internal.GetUnixSockets() || len(ranges) != 1 || ranges[0].GetAddressPrefix() != "255.255.255.255" ||
			ranges[0].GetPrefixLen().GetValue() != 32 {
			t.Errorf("%s: internal clients: %v", name, internal)
		}
	}
}

// TestHeadersOfClients: the listeners for clients remove x-envoy-*. The fallback listener keeps what they have set.
func TestHeadersOfClients(t *testing.T) {
	t.Parallel()
	for name, manager := range managers(t) {
		early := new(earlyv3.HeaderMutation)
		if err := manager.GetEarlyHeaderMutationExtensions()[0].GetTypedConfig().UnmarshalTo(early); err != nil {
			t.Fatal(err)
		}
		var removed []string
		for _, mutation := range early.GetMutations() {
			if match := mutation.GetRemoveOnMatch(); match != nil {
				removed = append(removed, match.GetKeyMatcher().GetPrefix())
			}
		}
		want := []string{"x-envoy-"}
		if name == translate.HoldName {
			want = nil
		}
		if !slices.Equal(removed, want) {
			t.Errorf("%s: removed prefixes %q, want %q", name, removed, want)
		}
	}
}

// TestFallbackLimits: a request in the fallback listener contains more headers than it had for the first listener.
func TestFallbackLimits(t *testing.T) {
	t.Parallel()
	all := managers(t)
	first, fallback := all[translate.ListenerName], all[translate.HoldName]
	if first.GetMaxRequestHeadersKb().GetValue() >= fallback.GetMaxRequestHeadersKb().GetValue() ||
		first.GetCommonHttpProtocolOptions().GetMaxHeadersCount().GetValue() >=
			fallback.GetCommonHttpProtocolOptions().GetMaxHeadersCount().GetValue() {
		t.Errorf("limits of the listeners: %v and %v KiB", first.GetMaxRequestHeadersKb(), fallback.GetMaxRequestHeadersKb())
	}
}

// TestAccessLogIsBounded: what a client sends is in the access log up to a length only.
func TestAccessLogIsBounded(t *testing.T) {
	t.Parallel()
	headers := 0
	for name, manager := range managers(t) {
		for _, log := range manager.GetAccessLog() {
			config := new(streamlogv3.StdoutAccessLog)
			if err := log.GetTypedConfig().UnmarshalTo(config); err != nil {
				t.Fatal(err)
			}
			for field, format := range config.GetLogFormat().GetJsonFormat().GetFields() {
				text := format.GetStringValue()
				if !strings.HasPrefix(text, "%REQ(") {
					continue
				}
				if headers++; !strings.HasSuffix(text, "):4096%") {
					t.Errorf("%s: field %s is %s", name, field, text)
				}
			}
		}
	}
	if headers == 0 {
		t.Error("the access logs contain no header")
	}
}

// ignoredUpgrades returns the expression for the upgrades that are ignored, as Go's regular expressions write it.
func ignoredUpgrades(tb testing.TB, manager *hcmv3.HttpConnectionManager) *regexp.Regexp {
	tb.Helper()
	matchers := manager.GetHttpProtocolOptions().GetIgnoreHttp_11Upgrade()
	if len(matchers) != 1 {
		tb.Fatalf("%d matchers, want 1", len(matchers))
	}
	// \C is a byte, which Go does not have.
	expression := strings.ReplaceAll(matchers[0].GetSafeRegex().GetRegex(), `\C`, ".")
	return regexp.MustCompile("(?s)^(?:" + expression + ")$")
}

// TestIgnoredUpgrades: every upgrade is ignored, except for a WebSocket in any letter case.
func TestIgnoredUpgrades(t *testing.T) {
	t.Parallel()
	for name, manager := range managers(t) {
		ignored := ignoredUpgrades(t, manager)
		for _, text := range []string{"websocket", "WebSocket", "WEBSOCKET", "wEBSOCKEt"} {
			if ignored.MatchString(text) {
				t.Errorf("%s: %q is ignored", name, text)
			}
		}
		for _, text := range []string{
			"", "w", "websocke", "websockets", "websocket ", " websocket", "xwebsocket", "webXocket", "websocket/13", "h2c",
			"TLS/1.2", "foo/1", "websocketwebsocket", "w\nebsocket", "ẅebsocket",
		} {
			if !ignored.MatchString(text) {
				t.Errorf("%s: %q is not ignored", name, text)
			}
		}
	}
}

func FuzzIgnoredUpgrades(f *testing.F) {
	ignored := ignoredUpgrades(f, managers(f)[translate.ListenerName])
	for _, text := range []string{"websocket", "WebSocket", "websockets", "webs", "h2c"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		lower := strings.Map(func(c rune) rune {
			if c >= 'A' && c <= 'Z' {
				c += 'a' - 'A'
			}
			return c
		}, text)
		if got, want := ignored.MatchString(text), lower != "websocket"; got != want {
			t.Errorf("%q: ignored: %t, want %t", text, got, want)
		}
	})
}

// TestInvalidHosts: the filter of the listeners for clients denies a Host that is no host with an optional port.
func TestInvalidHosts(t *testing.T) {
	t.Parallel()
	for name, manager := range managers(t) {
		rules, first := new(rbacfilterv3.RBAC), manager.GetHttpFilters()[0]
		isFallback := name == translate.HoldName // Its requests have passed another listener.
		if err := first.GetTypedConfig().UnmarshalTo(rules); (err == nil) == isFallback {
			t.Fatalf("%s: the first filter is %s: %v", name, first.GetName(), err)
		}
		if isFallback {
			continue
		}
		policy := rules.GetRules().GetPolicies()["invalid-host"]
		text := policy.GetPermissions()[0].GetHeader().GetStringMatch().GetSafeRegex().GetRegex()
		denied := regexp.MustCompile("(?s)^(?:" + text + ")$")
		for _, host := range []string{
			"", "a", "a.test", "a.test:", "a.test:80", "A.test.:8080", "*", "*.a.test", "[::1]", "[::1]:80", "[2001:db8::1]",
			"10.0.0.1:80", "under_score", "a%2cb", "a;b", "no-host.invalid",
		} {
			if denied.MatchString(host) {
				t.Errorf("%s: %q is denied", name, host)
			}
		}
		for _, host := range []string{
			"a,b", "a,", ",", "a:80,b", "a:80:b", "a:b", "a::80", "u@a", "u:p@a:80", "@", "::1", ":x", "[::1],a",
			"[::1]:80,[::2]",
		} {
			if !denied.MatchString(host) {
				t.Errorf("%s: %q is not denied", name, host)
			}
		}
	}
}
