package xds

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
)

// A script is the specification of a session, one line per event. Lines that
// begin with > go in, lines that begin with < are what comes out of them; a
// number sign begins a comment line.
//
//	> world ITEM...            a new desired world
//	> after 5s                 time passes, then the session is ticked
//	> TYPE *                   subscribe to all (cluster, listener, scope)
//	> TYPE +a -b have c/1      delta: subscribe, unsubscribe, initial versions
//	> TYPE = a b               state of the world: all names of the subscription
//	> TYPE returns a b         the same, of a proxy that had a connection before
//	> TYPE ack N               the answer to response N
//	> TYPE nack N REASON
//	< TYPE N: a/1 -b           response N with version 1 of a and the removal of b
//	< wake 5s                  at the end of a step: a tick is due then
//
// Items of a world: "a" or "a/2" is an EDS cluster with its endpoints, both in
// that version; "a/2.1" has endpoints in another version than the cluster;
// in "a/2.none" none of them serves; "static:a" has no use for endpoints; "listener:web" is a
// listener with scoped routes, "demand:tls" one that asks for certificates by the names that clients send, and
// "secret:a.test" the certificate of a host; "web>a,b" or "web/2>a,b" is a scope with routes to a and b. A version
// is followed by an apostrophe where the scope comes in other bytes than it was published in.

const scriptGrace = 5 * time.Second

// desiredWorld reads the items of a world.
func desiredWorld(tb testing.TB, items string) map[string]map[string]proto.Message {
	tb.Helper()
	w := map[string]map[string]proto.Message{}
	put := func(typeURL, name string, message proto.Message) {
		if w[typeURL] == nil {
			w[typeURL] = map[string]proto.Message{}
		}
		w[typeURL][name] = message
	}
	for item := range strings.FieldsSeq(items) {
		subject, targets, isRoute := strings.Cut(item, ">")
		head, version, versioned := strings.Cut(subject, "/")
		if !versioned {
			version = "1"
		}
		if isRoute {
			put(resourcev3.ScopedRouteType, head, scopeMessage(head, version, targets))
			continue
		}
		prefix, name, prefixed := strings.Cut(head, ":")
		switch {
		case !prefixed:
			ofCluster, ofEndpoints, differ := strings.Cut(version, ".")
			if !differ {
				ofEndpoints = ofCluster
			}
			put(resourcev3.ClusterType, head, clusterMessage(head, ofCluster, clusterv3.Cluster_EDS))
			put(resourcev3.EndpointType, head, endpointMessage(head, ofEndpoints))
		case prefix == "static":
			put(resourcev3.ClusterType, name, clusterMessage(name, version, clusterv3.Cluster_STATIC))
		case prefix == "listener":
			put(resourcev3.ListenerType, name, listenerMessage(tb, name, version))
		case prefix == "demand":
			put(resourcev3.ListenerType, name, onDemand(tb, listenerMessage(tb, name, version)))
		case prefix == "secret":
			put(resourcev3.SecretType, name, secretMessage(name, version))
		default:
			tb.Fatalf("what is %q?", item)
		}
	}
	return w
}

// The version of a test resource is hidden in one of its fields, and labelOf
// reads it back.

func clusterMessage(name, version string, discovery clusterv3.Cluster_DiscoveryType) *clusterv3.Cluster {
	return &clusterv3.Cluster{
		Name:                 name,
		AltStatName:          version,
		ConnectTimeout:       durationpb.New(time.Second),
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: discovery},
	}
}

// noneServes is the version of endpoints of which none takes requests.
const noneServes = "none"

func endpointMessage(name, version string) *endpointv3.ClusterLoadAssignment {
	group := &endpointv3.LocalityLbEndpoints{Locality: &corev3.Locality{Zone: version}}
	if version != noneServes {
		group.LbEndpoints = []*endpointv3.LbEndpoint{{HealthStatus: corev3.HealthStatus_DRAINING}, {}}
	}
	return &endpointv3.ClusterLoadAssignment{ClusterName: name, Endpoints: []*endpointv3.LocalityLbEndpoints{group}}
}

func listenerMessage(tb testing.TB, name, version string) *listenerv3.Listener {
	tb.Helper()
	connections, err := anypb.New(&hcmv3.HttpConnectionManager{
		RouteSpecifier: &hcmv3.HttpConnectionManager_ScopedRoutes{ScopedRoutes: &hcmv3.ScopedRoutes{Name: name}},
	})
	if err != nil {
		tb.Fatal(err)
	}
	return &listenerv3.Listener{
		Name:       name,
		StatPrefix: version,
		FilterChains: []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{{
			Name: "http", ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: connections},
		}}}},
	}
}

// onDemand has a listener ask for certificates by the names that clients send.
func onDemand(tb testing.TB, listener *listenerv3.Listener) *listenerv3.Listener {
	tb.Helper()
	config, err := anypb.New(&tlsv3.DownstreamTlsContext{CommonTlsContext: &tlsv3.CommonTlsContext{
		CustomTlsCertificateSelector: &corev3.TypedExtensionConfig{Name: "on-demand"},
	}})
	if err != nil {
		tb.Fatal(err)
	}
	listener.GetFilterChains()[0].TransportSocket = &corev3.TransportSocket{
		ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: config},
	}
	return listener
}

func secretMessage(name, version string) *tlsv3.Secret {
	return &tlsv3.Secret{Name: name, Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: &tlsv3.TlsCertificate{
		CertificateChain: &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: version}},
	}}}
}

func scopeMessage(name, version, targets string) *routev3.ScopedRouteConfiguration {
	host := &routev3.VirtualHost{Name: name, RequestHeadersToRemove: []string{version}}
	for cluster := range strings.SplitSeq(targets, ",") {
		host.Routes = append(host.Routes, &routev3.Route{Action: &routev3.Route_Route{Route: &routev3.RouteAction{
			ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: cluster},
		}}})
	}
	return &routev3.ScopedRouteConfiguration{
		Name:               name,
		RouteConfiguration: &routev3.RouteConfiguration{Name: name, VirtualHosts: []*routev3.VirtualHost{host}},
	}
}

// scopeVersion is the version of a scopeMessage, with an apostrophe if its route configuration has
// another name.
func scopeVersion(m *routev3.ScopedRouteConfiguration) string {
	version := m.GetRouteConfiguration().GetVirtualHosts()[0].GetRequestHeadersToRemove()[0]
	if m.GetRouteConfiguration().GetName() != m.GetName() {
		version += "'"
	}
	return version
}

// labelOf is a resource as scripts write it: its name and its version.
func labelOf(tb testing.TB, res *resource) string {
	tb.Helper()
	message, err := res.wrapped().UnmarshalNew()
	if err != nil {
		tb.Fatal(err)
	}
	version := ""
	switch m := message.(type) {
	case *clusterv3.Cluster:
		version = m.GetAltStatName()
	case *endpointv3.ClusterLoadAssignment:
		version = m.GetEndpoints()[0].GetLocality().GetZone()
	case *listenerv3.Listener:
		version = m.GetStatPrefix()
	case *routev3.ScopedRouteConfiguration:
		version = scopeVersion(m)
	case *tlsv3.Secret:
		if m.GetName() != res.name {
			tb.Errorf("secret %s travels as %q", res.name, m.GetName())
		}
		version = m.GetTlsCertificate().GetCertificateChain().GetInlineString()
	}
	return res.name + "/" + version
}

// script runs one script against one session.
type script struct {
	tb      testing.TB
	session *session
	world   *snapshot
	now     time.Time
	names   map[kind][]string // the last subscription in state of the world
	early   []request         // those before the first world, which the stream doesn't read yet
}

// runScript plays the inputs of a script and compares what comes out.
func runScript(t *testing.T, mode Mode, text string) {
	t.Helper()
	s := &script{
		tb: t, session: newSession(mode, scriptGrace, "salt", &rejections{}), names: map[kind][]string{},
		now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	var want, got []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "> "):
			want, got = append(want, line), append(got, line)
			got = append(got, s.play(strings.Fields(line)[1:])...)
		default:
			want = append(want, line)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the session differs from its script (-want +got):\n%s", diff)
	}
}

// play carries out one input line and returns the lines that come out.
func (s *script) play(words []string) []string {
	var out output
	switch words[0] {
	case "world":
		before := s.world
		if before == nil {
			before = new(snapshot)
		}
		w, err := before.replace(desiredWorld(s.tb, strings.Join(words[1:], " ")))
		if err != nil {
			s.tb.Fatal(err)
		}
		s.world = w
		out = s.session.publish(s.now, w)
		for _, r := range s.early {
			more, err := s.session.receive(s.now, r)
			if err != nil {
				return []string{"< error " + err.Error()}
			}
			out.responses = append(out.responses, more.responses...)
		}
		s.early = nil
	case "after":
		d, err := time.ParseDuration(words[1])
		if err != nil {
			s.tb.Fatal(err)
		}
		s.now = s.now.Add(d)
		out = s.session.tick(s.now)
	default:
		r := s.request(words)
		if s.world == nil {
			s.early = append(s.early, r)
			return nil
		}
		var err error
		if out, err = s.session.receive(s.now, r); err != nil {
			return []string{"< error " + err.Error()}
		}
	}
	var lines []string
	for _, r := range out.responses {
		lines = append(lines, s.describe(r))
	}
	if at, due := s.session.wake(); due {
		lines = append(lines, "< wake "+at.Sub(s.now).String())
	}
	return lines
}

// describe writes a response as a line.
func (s *script) describe(r response) string {
	words := []string{"<", r.kind.String(), r.nonce + ":"}
	for _, res := range r.resources {
		words = append(words, labelOf(s.tb, res))
	}
	if s.session.mode == ModeDelta {
		for _, name := range r.removed {
			words = append(words, "-"+name)
		}
	}
	return strings.Join(words, " ")
}

// request reads the words of a request.
func (s *script) request(words []string) request {
	r := request{typeURL: words[0]}
	k, served := kind(0), false
	for candidate := range kind(kindCount) {
		if candidate.String() == words[0] {
			k, served, r.typeURL = candidate, true, candidate.typeURL()
		}
	}
	switch words[1] {
	case "ack", "nack":
		r.nonce, r.refused, r.message = words[2], words[1] == "nack", strings.Join(words[3:], " ")
	case "=":
		s.names[k] = words[2:]
		if served {
			r.nonce = s.session.subs[k].nonce
		}
	case "returns":
		s.names[k], r.version = words[2:], "known"
	case "*":
	default:
		r.subscribe, r.unsubscribe = changesOf(words[1:])
	}
	if i := slices.Index(words, "have"); i >= 0 {
		r.initial = s.versions(k, words[i+1:])
	}
	if s.session.mode == ModeStateOfTheWorld {
		r.names = s.names[k]
	}
	return r
}

// changesOf sorts the +a and -b of a delta request.
func changesOf(words []string) (subscribe, unsubscribe []string) {
	for _, word := range words {
		switch {
		case word == "have":
			return subscribe, unsubscribe
		case word[0] == '+':
			subscribe = append(subscribe, word[1:])
		case word[0] == '-':
			unsubscribe = append(unsubscribe, word[1:])
		}
	}
	return subscribe, unsubscribe
}

// versions are the content hashes of items, as a proxy would present them.
func (s *script) versions(k kind, items []string) map[string]string {
	versions := map[string]string{}
	for _, item := range items {
		for name, message := range desiredWorld(s.tb, item)[k.typeURL()] {
			res, err := newResource(k, name, message)
			if err != nil {
				s.tb.Fatal(err)
			}
			versions[name] = res.version.String()
		}
	}
	return versions
}

// manyNames returns n names.
func manyNames(n int) []string {
	names := map[string]struct{}{}
	for i := range n {
		names["c"+strconv.Itoa(i)] = struct{}{}
	}
	return slices.Sorted(maps.Keys(names))
}
