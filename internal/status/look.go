package status

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"

	"github.com/kedify/argo-rollouts-plugin/internal/ir"
)

// standing is what is known of one stream.
type standing struct {
	address netip.Addr // not valid when it is unknown whose stream it is
	// published are the objects of which another Part was recorded since the last look.
	published map[ir.Key]struct{}
	// behind are the objects that it has not confirmed, each with why it may have refused it, or "".
	behind map[ir.Key]string
}

// Look compares what is published with what a stream has confirmed, and returns the objects for
// which the answer is not what it was. The first look at a stream returns all.
func (l *Ledger) Look(stream Stream) map[ir.Key]struct{} {
	is, known := l.streams[stream.Number]
	if !known {
		is = &standing{address: addressOf(stream), behind: map[ir.Key]string{}, published: map[ir.Key]struct{}{}}
		l.streams[stream.Number] = is
	}
	news := make(map[ir.Key]struct{}, len(is.behind))
	for key := range l.suspects(stream, is, known) {
		was, wasBehind := is.behind[key]
		refusal, isTaken := l.parts[key].judge(stream)
		if isTaken {
			delete(is.behind, key)
		} else {
			is.behind[key] = refusal
		}
		if !known || isTaken == wasBehind || refusal != was {
			news[key] = struct{}{}
		}
	}
	clear(is.published)
	return news
}

// suspects are the objects for which the answer may be another one: those that the stream has not
// confirmed, and those of which the published form or a confirmation is new.
func (l *Ledger) suspects(stream Stream, is *standing, known bool) map[ir.Key]struct{} {
	keys := make(map[ir.Key]struct{}, len(is.behind))
	if !known || stream.Changed == nil {
		for key := range l.parts {
			keys[key] = struct{}{}
		}
		return keys
	}
	for key := range is.behind {
		keys[key] = struct{}{}
	}
	maps.Copy(keys, is.published)
	for _, typeURL := range [...]string{resourcev3.ClusterType, resourcev3.EndpointType, resourcev3.ScopedRouteType} {
		for name := range stream.Changed(typeURL) {
			for _, key := range l.owners[name] {
				keys[key] = struct{}{}
			}
		}
	}
	return keys
}

// judge says whether a stream has confirmed an object as it is published, and if not, why it may
// have refused it: what travelled in a response that it refused. Good resources beside the culprit
// are among those until the proxy confirms them.
func (p Part) judge(stream Stream) (refusal string, isTaken bool) {
	isTaken = true
	for _, resource := range p.Resources {
		is := stream.Confirmed(resource.TypeURL, resource.Name)
		if !is.InSync || resource.Version == "" || is.Acked != resource.Version {
			isTaken = false
		}
		if is.Nacked != "" && is.Nacked == resource.Version && refusal == "" {
			refusal = cmp.Or(is.Message, noReason)
		}
	}
	if isTaken {
		return "", true
	}
	for _, culprit := range stream.Refused {
		if slices.Contains(p.Resources, culprit.Resource) {
			refusal = cmp.Or(culprit.Message, noReason)
			break
		}
	}
	if refusal != "" {
		refusal = shorten(refusal, maxRefusal)
	}
	return refusal, false
}

// addressOf returns the address of the proxy of a stream, one that is not valid when it cannot be
// read.
func addressOf(stream Stream) netip.Addr {
	peer, err := netip.ParseAddrPort(stream.Peer)
	if err != nil {
		return netip.Addr{}
	}
	return peer.Addr().Unmap().WithZone("")
}
