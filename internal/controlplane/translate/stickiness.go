package translate

import (
	"fmt"
	"slices"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	commonlbv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/common/v3"
	maglevv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/maglev/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/model/affinity"
)

// A client stays on one backend of a split (stickiness) or on one endpoint (session affinity) because Envoy selects
// both by the hash of a part of the request, the Key, instead of a random number. Proxies store nothing, so all proxies
// decide alike, also after a restart.
//
//   - The hash of a cookie equals the hash of a header with the same value. A request without the cookie is therefore
//     decided by its request id, and the response sets the cookie to this id: later requests have the same hash.
//   - Only the route decides which headers Envoy adds to a response. So there are two routes: one for requests with the
//     cookie, and one for the others, which sets it. Envoy's own cookie of a hash policy does not work: it is only set
//     after the backend has been selected, and its value derives from the connection, which an Ingress shares between
//     clients.
//   - Every listener selects the same backend and endpoint for a request. So a queued request stays on its side, also
//     in the fallback listener, to which the first one forwards cookies, X-Request-Id and X-Forwarded-For. Both
//     listeners then set the same cookie, with the same value.
const (
	// requestIDHeader is the header with the id of a request. Envoy sets it unless the client has.
	requestIDHeader = "x-request-id"
	// maglevName is the name of the load balancing policy.
	maglevName = "envoy.load_balancing_policies.maglev"
)

// splitOf returns the clusters of a split in Envoy's order, with their effective weights.
func splitOf(route model.Route, services map[model.ServicePort]model.Endpoints) []model.Range {
	if !route.SplitKey().IsZero() {
		return model.StickyRanges(route.Backends, services)
	}
	parts := make([]model.Range, len(route.Backends))
	for i, weight := range model.EffectiveWeights(route.Backends, services) {
		parts[i] = model.Range{Backend: i, Weight: weight}
	}
	return parts
}

// makeSticky selects the cluster by the hash of key instead of a random number.
func makeSticky(action *routev3.RouteAction, weighted *routev3.WeightedCluster, key affinity.Key) {
	if key.IsZero() {
		return
	}
	action.HashPolicy = hashPolicy(key)
	weighted.RandomValueSpecifier = &routev3.WeightedCluster_UseHashPolicy{UseHashPolicy: wrapperspb.Bool(true)}
}

// hashPolicy returns how the hash of a request is calculated: from key, or from the request's id if it has no such
// part.
func hashPolicy(key affinity.Key) []*routev3.RouteAction_HashPolicy {
	header := func(name string) *routev3.RouteAction_HashPolicy_Header_ {
		return &routev3.RouteAction_HashPolicy_Header_{Header: &routev3.RouteAction_HashPolicy_Header{HeaderName: name}}
	}
	policy := &routev3.RouteAction_HashPolicy{Terminal: true}
	switch {
	case key.HasCookie():
		policy.PolicySpecifier = &routev3.RouteAction_HashPolicy_Cookie_{
			Cookie: &routev3.RouteAction_HashPolicy_Cookie{Name: key.Cookie.Name},
		}
	case key.SourceAddress:
		policy.PolicySpecifier = &routev3.RouteAction_HashPolicy_ConnectionProperties_{
			ConnectionProperties: &routev3.RouteAction_HashPolicy_ConnectionProperties{SourceIp: true},
		}
	default:
		policy.PolicySpecifier = header(key.Header)
	}
	return []*routev3.RouteAction_HashPolicy{policy, {PolicySpecifier: header(requestIDHeader)}}
}

// withCookies returns routes for all requests that a route matches. They differ in which of the cookies the request
// has; the others are set in the response.
func withCookies(route *routev3.Route, cookies []affinity.Cookie) []*routev3.Route {
	routes := []*routev3.Route{route}
	for _, cookie := range cookies {
		var next []*routev3.Route
		for _, without := range routes {
			match := proto.CloneOf(without.GetMatch())
			match.Cookies = append(match.Cookies, cookieMatcher(cookie))
			with := &routev3.Route{
				Name: without.GetName(), Match: match, Action: without.GetAction(),
				TypedPerFilterConfig: without.GetTypedPerFilterConfig(),
				ResponseHeadersToAdd: slices.Clone(without.GetResponseHeadersToAdd()),
			}
			without.ResponseHeadersToAdd = append(without.ResponseHeadersToAdd, setCookie(cookie))
			next = append(next, with, without)
		}
		routes = next
	}
	return routes
}

// cookieMatcher matches requests with a value of the cookie, which is what the hash policy requires.
func cookieMatcher(cookie affinity.Cookie) *routev3.CookieMatcher {
	return &routev3.CookieMatcher{Name: cookie.Name, StringMatch: &matcherv3.StringMatcher{
		MatchPattern: &matcherv3.StringMatcher_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: ".+"}},
	}}
}

// setCookie sets a cookie to the id of the request (RFC 6265, section 4.1).
func setCookie(cookie affinity.Cookie) *corev3.HeaderValueOption {
	literal := func(text string) string { return strings.ReplaceAll(text, "%", "%%") }
	var value strings.Builder
	fmt.Fprintf(&value, "%s=%%REQ(%s)%%; Path=%s", literal(cookie.Name), requestIDHeader, literal(cookie.Path))
	if cookie.MaxAge > 0 {
		fmt.Fprintf(&value, "; Max-Age=%d", cookie.MaxAge)
	}
	if cookie.Secure {
		value.WriteString("; Secure")
	}
	if cookie.HTTPOnly {
		value.WriteString("; HttpOnly")
	}
	value.WriteString("; SameSite=" + string(cookie.SameSite))
	return &corev3.HeaderValueOption{
		Header:       &corev3.HeaderValue{Key: "set-cookie", Value: value.String()},
		AppendAction: corev3.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD,
	}
}

// applyAffinity selects the endpoint of a cluster by the hash of key; without a key it changes nothing. It replaces the
// load balancing policy of the settings.
//
// Maglev distributes clients evenly, and a change of endpoints moves hardly any client that needs not move: below 0.5 %,
// where Envoy's ring hash moves up to 11 %. The ring has about the same size for any number of endpoints, so each change
// of their number adds or removes entries of all others.
//
// The policy has its own hash policy. The one of the route decides which backend receives the request, and a Rollout
// may configure another Key for that.
func applyAffinity(cluster *clusterv3.Cluster, key affinity.Key) error {
	if key.IsZero() {
		return nil
	}
	config, err := pack(&maglevv3.Maglev{
		ConsistentHashingLbConfig: &commonlbv3.ConsistentHashingLbConfig{HashPolicy: hashPolicy(key)},
	})
	if err != nil {
		return err
	}
	cluster.LbPolicy, cluster.LbConfig = 0, nil // replaced by LoadBalancingPolicy
	cluster.LoadBalancingPolicy = &clusterv3.LoadBalancingPolicy{Policies: []*clusterv3.LoadBalancingPolicy_Policy{{
		TypedExtensionConfig: &corev3.TypedExtensionConfig{Name: maglevName, TypedConfig: config},
	}}}
	// Envoy rejects them together. Locality does not matter for a client that stays on its endpoint.
	cluster.GetCommonLbConfig().LocalityConfigSpecifier = nil
	return nil
}
