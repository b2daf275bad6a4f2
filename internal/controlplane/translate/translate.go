// Package translate converts the model of package model to Envoy configuration.
//
// It is pure and deterministic: equal Configs give byte-identical resources, so that a hash detects changes. The
// listeners are the same for every Config. There is a scope for each exact host, one scope for all wildcards, and a
// secret for each host with a certificate. A Config without routes has the listener and the wildcard scope too,
// because Envoy is not ready before it has received them. Each backend of an HTTPScaledObject has its own cluster and
// load assignment, named <namespace>/<httpscaledobject>/<service>.
//
// What changes often is separate from what is expensive to change. Endpoints are in load assignments and weights in
// routes, not in clusters. The listener contains nothing of a tenant, because its change would drain every
// connection.
//
// Every message is validated by the rules of Envoy's API (ValidateAll) when it is created.
//
// References are to the v3 API of Envoy 1.40, https://www.envoyproxy.io/docs/envoy/v1.40.0/api-v3/api.
package translate

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// Resources are messages by type URL and resource name: the xDS types Listener, ScopedRouteConfiguration, Cluster,
// ClusterLoadAssignment and Secret. Each type has an entry even without messages. Messages may share memory and may
// not be modified.
type Resources map[string]map[string]proto.Message

// Options are the operator's options for all proxies. The zero value allows no connection; start from DefaultOptions.
type Options struct {
	// AccessLog enables one line per request on the proxy's standard output, as AccessLogSettings configure.
	AccessLog         bool
	AccessLogSettings AccessLog
	// TrustedHops is the number of trusted proxies in front of the fleet's proxies, counted from the latter. They are
	// trusted to set X-Forwarded-For and X-Forwarded-Proto. With 0 the client is the peer of the connection, and
	// X-Forwarded-Proto is overwritten with http. With 1 or more an incoming X-Forwarded-Proto is preserved, which an
	// Ingress that terminates TLS needs. X-Forwarded-For is always appended to.
	TrustedHops uint32
	// RequestHeadersTimeout is the time from the first byte of a request to the end of its headers; 0 means no limit. It
	// applies to all clients, because the route of a request is unknown until its headers are complete.
	RequestHeadersTimeout time.Duration
	// Strictness configures how the proxy handles requests that an application may interpret differently.
	Strictness Strictness
	// MaxConnections, MaxPendingRequests and MaxRequests are the circuit breakers of each cluster in each proxy. A
	// request above one of these limits is answered with 503.
	MaxConnections, MaxPendingRequests, MaxRequests uint32
	// MaxRetries is the number of concurrent retries that are always possible. More are possible within the retry
	// budget. With 0, only retries of requests that a workload may have received have limits.
	MaxRetries uint32
	// TLS enables the listener on TLSPort for the hosts that have a certificate.
	TLS bool
	// IPv6 enables IPv6Listeners, for a discovery server that sends them to proxies with an IPv6 address only.
	IPv6 bool
	// TopologyHints applies the hints of endpoints, see hintedGroups.
	TopologyHints bool
	// Hold configures the queueing of requests that have no endpoint yet.
	Hold Hold
	// Tracing configures the spans of requests.
	Tracing Tracing
}

// DefaultOptions returns the default Options, without the features that need more than this package: TLS, which needs
// Secrets, IPv6, which needs a discovery server with the proxies' addresses, and Hold, which needs an address.
func DefaultOptions() Options {
	return Options{
		AccessLog:             true,
		RequestHeadersTimeout: requestHeadersTimeout,
		Strictness:            Strictness{UnderscoreHeaders: Keep, EscapedSlashes: Keep},
		AccessLogSettings:     AccessLog{Format: FormatJSON},
		Tracing:               Tracing{Sampling: 1},
		TopologyHints:         true,
		MaxConnections:        8192,
		MaxPendingRequests:    8192,
		MaxRequests:           8192,
	}
}

// Envoy translates the Config of one fleet with DefaultOptions.
func Envoy(config model.Config) (Resources, error) { return DefaultOptions().Envoy(config) }

// Envoy translates the Config of one fleet. Every result of resolve.Build can be translated, so an error is a bug;
// the caller keeps the last good configuration.
func (o Options) Envoy(config model.Config) (Resources, error) {
	translator, err := NewTranslator(o)
	if err != nil {
		return nil, err
	}
	update, err := translator.Update(updateOf(config))
	if err != nil {
		return nil, err
	}
	return update.Changed, nil
}

// updateOf returns the Update from an empty Config to config.
func updateOf(config model.Config) model.Update {
	update := model.Update{
		Objects: map[model.Key]model.Config{}, Hosts: map[model.Host]model.Config{}, Certificates: config.Certificates,
	}
	for _, route := range config.Routes {
		ofObject := update.Objects[route.Owner]
		ofObject.Routes, ofObject.Services = append(ofObject.Routes, route), config.Services
		update.Objects[route.Owner] = ofObject
		ofHost := update.Hosts[route.Match.Host]
		ofHost.Routes, ofHost.Services = append(ofHost.Routes, route), config.Services
		update.Hosts[route.Match.Host] = ofHost
	}
	return update
}

// ClusterName returns the name of the cluster, and of its load assignment, for requests from the HTTPScaledObject
// owner to service: <namespace>/<httpscaledobject>/<service>. The name is an identity: no other cluster ever has it.
func ClusterName(owner, service model.Key) string { return owner.String() + "/" + service.Name }

// OwnerOf returns the HTTPScaledObject of a cluster by the name from ClusterName. For any other name the Key belongs
// to no object.
func OwnerOf(cluster string) model.Key {
	namespace, rest, _ := strings.Cut(cluster, "/")
	name, _, _ := strings.Cut(rest, "/")
	return model.Key{Namespace: namespace, Name: name}
}

// validate checks message against the rules of Envoy's API. Messages packed inside of it were checked by pack.
func validate(message proto.Message) error {
	validator, ok := message.(interface{ ValidateAll() error })
	if !ok {
		return nil
	}
	if err := validator.ValidateAll(); err != nil {
		return fmt.Errorf("%s: %w", message.ProtoReflect().Descriptor().FullName(), err)
	}
	return nil
}

// pack packs message into an Any. Serialization is deterministic, because an Any contains bytes and the order of map
// fields is otherwise random.
func pack(message proto.Message) (*anypb.Any, error) {
	if err := validate(message); err != nil {
		return nil, err
	}
	packed := new(anypb.Any)
	if err := anypb.MarshalFrom(packed, message, proto.MarshalOptions{Deterministic: true}); err != nil {
		return nil, fmt.Errorf("pack %s: %w", message.ProtoReflect().Descriptor().FullName(), err)
	}
	return packed, nil
}
