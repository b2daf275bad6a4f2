package xds

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
)

// hostsField is the field of a RouteConfiguration that holds its virtual hosts.
const hostsField = "virtual_hosts"

// frameName is the name under which the frame of a table is kept beside its
// virtual hosts. Envoy wants the names of virtual hosts not to be empty.
const frameName = ""

// table is a route configuration taken apart: its virtual hosts, and the frame
// that holds all other fields. One virtual host can then be held back while the
// others go on, and one that didn't change is neither marshalled nor hashed
// again. Envoy chooses a virtual host by its domains, never by its place, so
// they are kept in order of their names. It is immutable.
type table struct {
	frame *part
	hosts []*part
	// clusters are the names of all clusters that the parts name, sorted and
	// without repetition.
	clusters func() []string
}

// part is the frame or one virtual host of a table. It is immutable and shared by
// all tables that hold it.
type part struct {
	name    string // of the virtual host, or frameName
	version string
	// body is the part as it stands in the marshalled route configuration.
	body []byte
	// clusters are the names of the clusters that get its requests, sorted.
	clusters []string
}

// newTable takes a route configuration apart. What didn't change since prev (nil
// for none) is taken over.
func newTable(prev *table, message *routev3.RouteConfiguration) (*table, error) {
	frame, err := newFrame(message)
	if err != nil {
		return nil, err
	}
	hosts := make([]*part, 0, len(message.GetVirtualHosts()))
	for _, source := range message.GetVirtualHosts() {
		host, err := newHost(source)
		if err != nil {
			return nil, err
		}
		if old := prev.host(host.name); old != nil && old.version == host.version {
			host = old
		}
		hosts = append(hosts, host)
	}
	slices.SortFunc(hosts, byName)
	for i := 1; i < len(hosts); i++ {
		if hosts[i].name == hosts[i-1].name {
			return nil, fmt.Errorf("two virtual hosts are named %q: %w", hosts[i].name, ErrInconsistent)
		}
	}
	return makeTable(frame, hosts), nil
}

// edit returns a table in which virtual hosts are others: by name, nil for one that
// goes. The others, and the frame, are the same.
func (t *table) edit(edits map[string]*routev3.VirtualHost) (*table, error) {
	hosts := slices.Clone(t.hosts)
	for name, source := range edits {
		at, found := search(hosts, name)
		if source == nil {
			if !found {
				return nil, fmt.Errorf("virtual host %q is removed and wasn't there: %w", name, ErrInconsistent)
			}
			hosts = slices.Delete(hosts, at, at+1)
			continue
		}
		host, err := newHost(source)
		switch {
		case err != nil:
			return nil, err
		case host.name != name:
			return nil, fmt.Errorf("virtual host %q is published as %q: the names must be equal: %w", host.name, name, ErrInconsistent)
		case !found:
			hosts = slices.Insert(hosts, at, host)
		case hosts[at].version != host.version:
			hosts[at] = host
		default:
		}
	}
	return makeTable(t.frame, hosts), nil
}

// news returns the parts that are not the very same in another table, nil for none.
func (t *table) news(other *table) []*part {
	if other == nil {
		return slices.Collect(t.all())
	}
	var out []*part
	if t.frame != other.frame {
		out = append(out, t.frame)
	}
	rest := other.hosts
	for _, host := range t.hosts {
		for len(rest) > 0 && rest[0] != host && rest[0].name <= host.name {
			rest = rest[1:]
		}
		if len(rest) == 0 || rest[0] != host {
			out = append(out, host)
		}
	}
	return out
}

// byName orders virtual hosts.
func byName(a, b *part) int { return strings.Compare(a.name, b.name) }

// search finds a virtual host, or where it would stand.
func search(hosts []*part, name string) (int, bool) {
	return slices.BinarySearchFunc(hosts, name, func(p *part, name string) int { return strings.Compare(p.name, name) })
}

// makeTable puts parts together, the hosts in order of their names.
func makeTable(frame *part, hosts []*part) *table {
	t := &table{frame: frame, hosts: hosts}
	t.clusters = sync.OnceValue(func() []string {
		var names []string
		for p := range t.all() {
			names = append(names, p.clusters...)
		}
		slices.Sort(names)
		return slices.Clip(slices.Compact(names))
	})
	return t
}

// newFrame makes a part of everything but the virtual hosts.
func newFrame(message *routev3.RouteConfiguration) (*part, error) {
	frame := new(routev3.RouteConfiguration)
	message.ProtoReflect().Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		if field.Name() != hostsField {
			frame.ProtoReflect().Set(field, value)
		}
		return true
	})
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(frame)
	if err != nil {
		return nil, fmt.Errorf("marshal frame: %w", err)
	}
	return &part{name: frameName, version: hashOf(body), body: body, clusters: clustersOf(frame)}, nil
}

// newHost makes a part of a virtual host.
func newHost(source *routev3.VirtualHost) (*part, error) {
	field := (*routev3.RouteConfiguration)(nil).ProtoReflect().Descriptor().Fields().ByName(hostsField).Number()
	if source.GetName() == frameName {
		return nil, fmt.Errorf("a virtual host has no name: %w", ErrInconsistent)
	}
	message, err := proto.MarshalOptions{Deterministic: true}.Marshal(source)
	if err != nil {
		return nil, fmt.Errorf("marshal virtual host %q: %w", source.GetName(), err)
	}
	body := make([]byte, 0, protowire.SizeTag(field)+protowire.SizeBytes(len(message)))
	body = protowire.AppendBytes(protowire.AppendTag(body, field, protowire.BytesType), message)
	return &part{name: source.GetName(), version: hashOf(body), body: body, clusters: clustersOfHost(source)}, nil
}

// all visits the frame and every virtual host.
func (t *table) all() iter.Seq[*part] {
	return func(yield func(*part) bool) {
		if !yield(t.frame) {
			return
		}
		for _, host := range t.hosts {
			if !yield(host) {
				return
			}
		}
	}
}

// find returns the frame or a virtual host by name; nil when there is none.
func (t *table) find(name string) *part {
	if t != nil && name == frameName {
		return t.frame
	}
	return t.host(name)
}

// names tells whether the part may send requests to the cluster.
func (p *part) names(cluster string) bool {
	_, found := slices.BinarySearch(p.clusters, cluster)
	return found
}

// host returns a virtual host by name; nil when there is none, or no table.
func (t *table) host(name string) *part {
	if t == nil {
		return nil
	}
	i, found := search(t.hosts, name)
	if !found {
		return nil
	}
	return t.hosts[i]
}

// differences returns the names of the parts that are not in other in the same
// version: all virtual hosts when there is no other.
func (t *table) differences(other *table) []string {
	var names []string
	if other != nil && other.frame.version != t.frame.version {
		names = append(names, frameName)
	}
	for _, host := range t.hosts {
		if old := other.host(host.name); old == nil || old.version != host.version {
			names = append(names, host.name)
		}
	}
	return names
}

// version is the content hash of the whole table.
func (t *table) version() string {
	sum := sha256.New()
	for p := range t.all() {
		sum.Write([]byte(p.version))
	}
	return hex.EncodeToString(sum.Sum(nil)[:versionBytes])
}

// pack puts the table together as it travels. The order of fields has no meaning,
// https://protobuf.dev/programming-guides/encoding/#order.
func (t *table) pack() *anypb.Any {
	size := 0
	for p := range t.all() {
		size += len(p.body)
	}
	body := make([]byte, 0, size)
	for p := range t.all() {
		body = append(body, p.body...)
	}
	return &anypb.Any{TypeUrl: routeKind.typeURL(), Value: body}
}

// hashOf is a content hash as it is used for versions.
func hashOf(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:versionBytes])
}
