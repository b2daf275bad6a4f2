package session

import (
	"slices"
	"strings"
	"time"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/encoding/protowire"
)

// groupsField and priorityField are the numbers of ClusterLoadAssignment.endpoints and LocalityLbEndpoints.priority.
const groupsField, priorityField = protowire.Number(2), protowire.Number(5)

// Topology is where a proxy runs. Empty fields are unknown.
type Topology struct {
	// Zone and Node are the names of the zone and of the node.
	Zone, Node string
}

// preference is what proxies prefer of the endpoints of a cluster, which are in groups. The locality of a group names
// the proxies that its endpoints are intended for. A group without a locality has the lowest priority.
type preference struct {
	groups []hint // of each group of the message
	// topology is that of the proxy for which the priorities are set. The zero value is none: all are equal.
	topology Topology
}

// hint are the zones and the nodes in the locality of a group (zone and sub_zone), separated by commas.
type hint struct{ zones, nodes string }

// preferenceOf returns the preference in the message, nil if no group has a locality.
func preferenceOf(a *endpointv3.ClusterLoadAssignment) *preference {
	hasLocality := func(group *endpointv3.LocalityLbEndpoints) bool { return group.GetLocality() != nil }
	if !slices.ContainsFunc(a.GetEndpoints(), hasLocality) {
		return nil
	}
	p := &preference{groups: make([]hint, 0, len(a.GetEndpoints()))}
	for _, group := range a.GetEndpoints() {
		p.groups = append(p.groups, hint{group.GetLocality().GetZone(), group.GetLocality().GetSubZone()})
	}
	return p
}

// priorities returns the priority of each group, from 0, the highest, without a gap. A proxy prefers endpoints that are
// intended for its node, then those for its zone. If there are none, all priorities are equal, except that of a group
// without a locality.
func (p *preference) priorities() []uint64 {
	const node, zone, other, last = 0, 1, 2, 3
	ranks := make([]int, 0, len(p.groups))
	for _, group := range p.groups {
		switch {
		case contains(group.nodes, p.topology.Node):
			ranks = append(ranks, node)
		case contains(group.zones, p.topology.Zone):
			ranks = append(ranks, zone)
		case group != hint{}:
			ranks = append(ranks, other)
		default:
			ranks = append(ranks, last)
		}
	}
	var priorityOf [last + 1]uint64
	next := uint64(0)
	for rank := range priorityOf {
		if slices.Contains(ranks, rank) {
			priorityOf[rank] = next
			next++
		}
	}
	priorities := make([]uint64, 0, len(ranks))
	for _, rank := range ranks {
		priorities = append(priorities, priorityOf[rank])
	}
	return priorities
}

// contains reports whether a list, separated by commas, contains a name that is not empty.
func contains(list, name string) bool {
	return name != "" && slices.Contains(strings.Split(list, ","), name)
}

// apply returns the marshalled message with the priorities. It appends them to the groups without unmarshalling their
// endpoints: the last value of a field counts, see withSalt.
func (p *preference) apply(message []byte) []byte {
	priorities := p.priorities()
	applied := make([]byte, 0, len(message)+8*len(priorities))
	for len(message) > 0 {
		number, _, size := protowire.ConsumeField(message)
		field := message[:size]
		message = message[size:]
		if number != groupsField {
			applied = append(applied, field...)
			continue
		}
		_, _, start := protowire.ConsumeTag(field)
		group, _ := protowire.ConsumeBytes(field[start:])
		group = protowire.AppendTag(slices.Clip(group), priorityField, protowire.VarintType)
		group = protowire.AppendVarint(group, priorities[0])
		priorities = priorities[1:]
		applied = protowire.AppendBytes(protowire.AppendTag(applied, groupsField, protowire.BytesType), group)
	}
	return applied
}

// forTopology returns the resource as it is sent to a proxy. The version is the same.
func (r *Resource) forTopology(topology Topology) *Resource {
	if r.preference == nil || r.preference.topology == topology {
		return r
	}
	other := *r
	other.preference = &preference{r.preference.groups, topology}
	return &other
}

// sentVersion returns the version of the resource on the wire, which identifies the topology too.
func (r *Resource) sentVersion() version {
	if r.preference == nil || r.preference.topology == (Topology{}) {
		return r.version
	}
	topology := r.preference.topology
	return hashOf(slices.Concat(r.version[:], []byte(topology.Zone), []byte{0}, []byte(topology.Node)))
}

// SetTopology sets where the proxy runs. The endpoints with hints that the proxy has are sent again, because their
// priorities may change.
func (s *Session) SetTopology(now time.Time, topology Topology) Output {
	sub := &s.subs[EndpointKind]
	for name := range sub.names {
		if want := s.desired(EndpointKind, name); want != nil && want.preference != nil {
			s.ensureRecord(EndpointKind, name).resend = true
			sub.dirty.add(name)
		}
	}
	s.topology = topology
	return s.Tick(now)
}
