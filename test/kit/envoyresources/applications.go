package envoyresources

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"google.golang.org/protobuf/proto"
)

// Names returns the sorted names c0, c1, ... of n clusters.
func Names(n int) []string {
	names := make([]string, 0, n)
	for i := range n {
		names = append(names, "c"+strconv.Itoa(i))
	}
	slices.Sort(names)
	return names
}

// Applications returns the resources of n applications, each with a cluster, endpoints and a scope of its own, and a
// listener.
func Applications(tb testing.TB, n int) Resources {
	tb.Helper()
	names := Names(n)
	resources := Parse(tb, strings.Join(names, " ")+" listener:web")
	resources[resourcev3.ScopedRouteType] = map[string]proto.Message{}
	for _, name := range names {
		resources[resourcev3.ScopedRouteType][name] = Scope(name, "1", name)
	}
	return resources
}

// AddCanary adds a canary to the application c7.
func AddCanary(resources Resources) {
	resources[resourcev3.ClusterType]["canary"] = Cluster("canary", "1", clusterv3.Cluster_EDS)
	resources[resourcev3.EndpointType]["canary"] = Endpoints("canary", "1")
	resources[resourcev3.ScopedRouteType]["c7"] = Scope("c7", "2", "c7,canary")
}
