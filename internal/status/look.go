package status

import (
	"cmp"
	"net/netip"
	"slices"

	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"

	"github.com/kedify/argo-rollouts-plugin/internal/ir"
	"github.com/kedify/argo-rollouts-plugin/internal/translate"
)

// standing is what is known of one stream.
type standing struct {
	address netip.Addr // not valid when it is unknown whose stream it is
	// seen and edition are the count of records and the number of the publication at the last look.
	seen, edition uint64
	// complete is the count of records when the stream was last seen to have everything.
	complete uint64
	// behind are the objects that it has not confirmed, each with why it may have refused it, or "".
	behind map[ir.Key]string
}

// Look compares what is published with what a stream has confirmed, and returns the objects for which the answer is not what it was. The first look at a
// stream returns all.
func (l *Ledger) Look(stream Stream) map[ir.Key]struct{} {
	is, known := l.streams[stream.Number]
	if !known {
		is = &standing{address: addressOf(stream), behind: map[ir.Key]string{}}
		l.streams[stream.Number] = is
	}
	table := stream.Confirmed(resourcev3.RouteType, translate.RouteConfigName)
	news := make(map[ir.Key]struct{}, len(is.behind))
	for key := range l.suspects(stream, is, known, l.editionOf(table)) {
		was, wasBehind := is.behind[key]
		refusal, isTaken := l.judge(l.parts[key], stream, table, is.complete)
		if isTaken {
			delete(is.behind, key)
		} else {
			is.behind[key] = refusal
		}
		if !known || isTaken == wasBehind || refusal != was {
			news[key] = struct{}{}
		}
	}
	is.seen, is.edition = l.records, l.edition
	if len(is.behind) == 0 {
		is.complete = l.records
	}
	return news
}

// suspects are the objects for which the answer may be another one: those that the stream has not confirmed, those of which the published form or a
// confirmation is new, and those that are not in the table which it has, when that is another one.
func (l *Ledger) suspects(stream Stream, is *standing, known bool, has uint64) map[ir.Key]struct{} {
	keys := make(map[ir.Key]struct{}, len(is.behind))
	if !known || stream.News == nil {
		for key := range l.parts {
			keys[key] = struct{}{}
		}
		return keys
	}
	for key := range is.behind {
		keys[key] = struct{}{}
	}
	for _, typeURL := range [...]string{resourcev3.ClusterType, resourcev3.EndpointType} {
		for name := range stream.News(typeURL) {
			if key, owned := l.owners[name]; owned {
				keys[key] = struct{}{}
			}
		}
	}
	hasMoved := is.edition != l.edition
	for range stream.News(resourcev3.RouteType) {
		hasMoved = true
	}
	for _, each := range slices.Backward(l.log) {
		if each.record <= is.seen && (!hasMoved || each.edition <= has) {
			break
		}
		if _, published := l.parts[each.key]; published {
			keys[each.key] = struct{}{}
		}
	}
	return keys
}

// judge says whether a stream has confirmed an object as it is wanted, and if not, why it may have refused it: what travelled in a response that it refused,
// and has changed since it last had everything. Good ones beside the culprit are among them until the proxy confirms them.
func (l *Ledger) judge(wanted entry, stream Stream, table Confirmation, complete uint64) (refusal string, isTaken bool) {
	isTaken, refusal = clustersTaken(wanted.Clusters, stream.Confirmed)
	if isTaken && (l.editionOf(table) >= wanted.since || confirmsHosts(table, wanted.Hosts)) {
		return "", true
	}
	if refusal == "" && table.Nacked != "" && l.tables[table.Nacked].last >= wanted.since {
		refusal = cmp.Or(table.Message, noReason)
	}
	if wanted.changed <= complete {
		refusal = ""
	}
	if found := slices.IndexFunc(stream.Refused, wanted.has); found >= 0 {
		refusal = cmp.Or(stream.Refused[found].Message, noReason)
	}
	if refusal != "" {
		refusal = shorten(refusal, maxRefusal)
	}
	return refusal, false
}

// confirmsHosts says whether the table that a proxy uses, and nothing newer is under way, has virtual hosts as they are published.
func confirmsHosts(table Confirmation, hosts []string) bool {
	return table.Acked != "" && table.InSync && table.Unconfirmed != nil && !slices.ContainsFunc(hosts, func(host string) bool {
		_, missing := slices.BinarySearch(table.Unconfirmed, host)
		return missing
	})
}

// has says whether a culprit is a part of the object.
func (p Part) has(culprit Culprit) bool {
	if culprit.TypeURL == resourcev3.RouteType {
		return slices.Contains(p.Hosts, culprit.Host)
	}
	return slices.ContainsFunc(p.Clusters, func(cluster PublishedCluster) bool { return cluster.Name == culprit.Name })
}

// editionOf returns the number of the oldest publication whose table the proxy may be using, 0 when that is not known.
//
// Later tables may be on their way to it, and it may be using one of those already; they have everything that has not changed since. But a table that has
// come back has several numbers, and while something is on its way it is not known which of them was confirmed: then the lowest counts.
func (l *Ledger) editionOf(table Confirmation) uint64 {
	found := l.tables[table.Acked]
	if table.InSync {
		return found.last
	}
	return found.first
}

// clustersTaken says whether a proxy has confirmed clusters and their load assignments in their published versions, and if it refused one, why.
func clustersTaken(wanted []PublishedCluster, confirmed func(typeURL, name string) Confirmation) (taken bool, refusal string) {
	taken = true
	for _, each := range wanted {
		for _, resource := range [...]struct {
			version string
			is      Confirmation
		}{
			{each.Cluster, confirmed(resourcev3.ClusterType, each.Name)}, {each.Assignment, confirmed(resourcev3.EndpointType, each.Name)},
		} {
			if !resource.is.InSync || resource.version == "" || resource.is.Acked != resource.version {
				taken = false
			}
			if resource.is.Nacked != "" && resource.is.Nacked == resource.version && refusal == "" {
				refusal = cmp.Or(resource.is.Message, noReason)
			}
		}
	}
	return taken, refusal
}

// addressOf returns the address of the proxy of a stream, one that is not valid when it cannot be read.
func addressOf(stream Stream) netip.Addr {
	peer, err := netip.ParseAddrPort(stream.Peer)
	if err != nil {
		return netip.Addr{}
	}
	return peer.Addr().Unmap().WithZone("")
}
