package xds

import (
	"fmt"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"google.golang.org/protobuf/proto"
)

// Difference is how a world differs from the one before it.
type Difference struct {
	// Changed are the messages that came or changed, by type URL and resource name.
	// Beside the served types there may be virtual hosts, named <route configuration>/<virtual host>
	// as in VHDS; they change that route configuration, whose others stay. A
	// route configuration takes the place of the one before with all its virtual hosts.
	Changed map[string]map[string]proto.Message
	// Removed are the names of those that are gone, by type URL.
	Removed map[string][]string
}

// check refuses types that are not served.
func (d Difference) check() error {
	isKnown := func(typeURL string) bool {
		_, served := kindOf(typeURL)
		return served || typeURL == resourcev3.VirtualHostType
	}
	for typeURL := range d.Changed {
		if !isKnown(typeURL) {
			return fmt.Errorf("type URL %q is not served: %w", typeURL, ErrInconsistent)
		}
	}
	for typeURL := range d.Removed {
		if !isKnown(typeURL) {
			return fmt.Errorf("type URL %q is not served: %w", typeURL, ErrInconsistent)
		}
	}
	return nil
}

// hosts returns the virtual hosts that change, by route configuration and name; nil
// for one that goes.
func (d Difference) hosts() (map[string]map[string]*routev3.VirtualHost, error) {
	edits := map[string]map[string]*routev3.VirtualHost{}
	edit := func(name string, host *routev3.VirtualHost) error {
		table, own, isWhole := strings.Cut(name, "/")
		if !isWhole {
			return fmt.Errorf("%q names no virtual host of a route configuration: %w", name, ErrInconsistent)
		}
		if edits[table] == nil {
			edits[table] = map[string]*routev3.VirtualHost{}
		}
		edits[table][own] = host
		return nil
	}
	for _, name := range d.Removed[resourcev3.VirtualHostType] {
		if err := edit(name, nil); err != nil {
			return nil, err
		}
	}
	for name, message := range d.Changed[resourcev3.VirtualHostType] {
		host, is := message.(*routev3.VirtualHost)
		if !is || host == nil {
			return nil, fmt.Errorf("%q is a %T, which is no virtual host: %w", name, message, ErrInconsistent)
		}
		if err := edit(name, host); err != nil {
			return nil, err
		}
	}
	return edits, nil
}
