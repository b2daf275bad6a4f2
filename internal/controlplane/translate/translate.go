// Package translate turns the model of package ir into what Envoy is configured with.
//
// It is pure and deterministic: equal Configs give resources that are equal byte by byte, so a hash
// of them tells whether anything changed. The listeners are the same whatever the Config holds; there is a scope
// for each exact host, one for all wildcards, and a secret for each host that has a certificate; a Config without routes has the listener and the
// latter too, because Envoy isn't ready before it has heard of them. Each backend of an
// HTTPScaledObject has a cluster and a load assignment of its own, named
// <namespace>/<httpscaledobject>/<service>.
//
// What changes often is kept away from what is expensive to change: endpoints are in load
// assignments and weights in routes, neither in a cluster, and nothing of a tenant is in the
// listener, whose change would drain every connection.
//
// Every message is held against the rules of Envoy's API (ValidateAll) when it is made.
//
// References are to the v3 API of Envoy 1.40,
// https://www.envoyproxy.io/docs/envoy/v1.40.0/api-v3/api.
package translate

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// Resources are messages by type URL and resource name: the xDS types Listener,
// ScopedRouteConfiguration, Cluster, ClusterLoadAssignment and Secret, each of which has an entry even
// when there are none of it. Messages may share parts, so they must not be changed.
type Resources map[string]map[string]proto.Message

// Options are the choices of an operator that hold for every proxy. The zero value allows no
// connection; start from DefaultOptions.
type Options struct {
	// AccessLog writes a line of JSON per request to the proxy's standard output.
	AccessLog bool
	// TrustedHops is how many proxies in front of ours, counted from it, are trusted to tell the truth
	// in X-Forwarded-For and X-Forwarded-Proto. With 0 the client is whoever connects, and
	// X-Forwarded-Proto is overwritten with http; with 1 or more a header X-Forwarded-Proto that comes
	// in is kept, which an Ingress that terminates TLS needs. X-Forwarded-For is appended to in any
	// case.
	TrustedHops uint32
	// MaxConnections, MaxPendingRequests, MaxRequests and MaxRetries are the circuit breakers of each
	// cluster in each proxy. A request above one of the first three is answered with 503.
	MaxConnections, MaxPendingRequests, MaxRequests, MaxRetries uint32
	// TLS has proxies listen on TLSPort too, for the hosts that have a certificate.
	TLS bool
	// Hold says how requests are held that have no endpoint yet.
	Hold Hold
}

// DefaultOptions are the Options of an operator who chooses nothing, but for what needs more than this
// package: TLS, which needs Secrets, and Hold, which needs an address.
func DefaultOptions() Options {
	return Options{
		AccessLog:          true,
		MaxConnections:     8192,
		MaxPendingRequests: 8192,
		MaxRequests:        8192,
		MaxRetries:         3,
	}
}

// Envoy translates the Config of one fleet with DefaultOptions.
func Envoy(config model.Config) (Resources, error) { return DefaultOptions().Envoy(config) }

// Envoy translates the Config of one fleet. What resolve.Build makes can always be translated, so an error is a bug;
// the caller keeps what was last good.
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

// updateOf is the Update that leads from nothing to config.
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

// ClusterName returns the name of the cluster, and of its load assignment, that carries the
// requests which the HTTPScaledObject owner sends to service:
// <namespace>/<httpscaledobject>/<service>. It is an identity: nothing else ever has it, whatever
// comes and goes.
func ClusterName(owner, service model.Key) string { return owner.String() + "/" + service.Name }

// OwnerOf returns the HTTPScaledObject that a cluster belongs to, by the name that ClusterName gave it. Of
// another name the Key is nobody's.
func OwnerOf(cluster string) model.Key {
	namespace, rest, _ := strings.Cut(cluster, "/")
	name, _, _ := strings.Cut(rest, "/")
	return model.Key{Namespace: namespace, Name: name}
}

// validate holds message against the rules of Envoy's API. Of a message that is packed inside of it
// pack has done so.
func validate(message proto.Message) error {
	checked, can := message.(interface{ ValidateAll() error })
	if !can {
		return nil
	}
	if err := checked.ValidateAll(); err != nil {
		return fmt.Errorf("%s: %w", message.ProtoReflect().Descriptor().FullName(), err)
	}
	return nil
}

// pack puts message into an Any. The order of the fields of a map is otherwise random, and an Any
// keeps the bytes.
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
