package xds

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	gocmp "github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
)

func TestWorldTakesOverWhatIsTheSame(t *testing.T) {
	t.Parallel()
	desired := desiredWorld(t, "a b web>a")
	first, err := nextWorld(nil, desired)
	if err != nil {
		t.Fatal(err)
	}
	for name, next := range map[string]map[string]map[string]proto.Message{
		"the same messages":  desired,
		"equal messages":     desiredWorld(t, "a b web>a"),
		"another order":      desiredWorld(t, "web>a b a"),
		"an empty type more": {resourcev3.ListenerType: {}, resourcev3.ClusterType: desired[resourcev3.ClusterType], resourcev3.EndpointType: desired[resourcev3.EndpointType], resourcev3.RouteType: desired[resourcev3.RouteType]},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			second, err := nextWorld(first, next)
			if err != nil {
				t.Fatal(err)
			}
			if second.changes != first.changes {
				t.Errorf("%d changes were found", second.changes-first.changes)
			}
			for k := range kind(kindCount) {
				for name, res := range second.resources[k] {
					if first.resources[k][name] != res {
						t.Errorf("%s %q was made anew", k, name)
					}
				}
			}
		})
	}
}

func TestWorldNamesItsChanges(t *testing.T) {
	t.Parallel()
	first, err := nextWorld(nil, desiredWorld(t, "a b c web>a"))
	if err != nil {
		t.Fatal(err)
	}
	second, err := nextWorld(first, desiredWorld(t, "a/2.1 b/1.2 d web>a"))
	if err != nil {
		t.Fatal(err)
	}
	got, complete := second.since(first.changes)
	if !complete {
		t.Fatal("the log does not reach back to the world before")
	}
	slices.SortFunc(got, func(a, b change) int { return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.name, b.name)) })
	want := []change{
		{clusterKind, "a"},
		{clusterKind, "c"},
		{clusterKind, "d"},
		{endpointKind, "b"},
		{endpointKind, "c"},
		{endpointKind, "d"},
	}
	if diff := gocmp.Diff(want, got, gocmp.AllowUnexported(change{})); diff != "" {
		t.Errorf("changes differ (-want +got):\n%s", diff)
	}
}

func TestWorldLogIsBounded(t *testing.T) {
	t.Parallel()
	w, err := nextWorld(nil, desiredWorld(t, "a/0.0"))
	if err != nil {
		t.Fatal(err)
	}
	start := w.changes
	for version := range logLimit + 10 {
		endpoints := []string{"a/0.1", "a/0.0"}[version%2]
		if w, err = nextWorld(w, desiredWorld(t, endpoints)); err != nil {
			t.Fatal(err)
		}
	}
	if len(w.log) != logLimit {
		t.Errorf("the log has %d entries, want %d", len(w.log), logLimit)
	}
	if _, complete := w.since(start); complete {
		t.Error("the log claims to reach back to the start")
	}
	if last, complete := w.since(w.changes - logLimit); !complete || len(last) != logLimit {
		t.Errorf("the log has %d of its last %d changes (complete: %v)", len(last), logLimit, complete)
	}
	crowd, err := nextWorld(w, desiredWorld(t, strings.Join(manyNames(logLimit), " ")))
	if err != nil {
		t.Fatal(err)
	}
	if _, complete := crowd.since(w.changes); complete {
		t.Error("the log claims to hold more changes than its limit")
	}
}

func TestWorldRefusesContradictions(t *testing.T) {
	t.Parallel()
	good, err := nextWorld(nil, desiredWorld(t, "a web>a"))
	if err != nil {
		t.Fatal(err)
	}
	without := func(items, typeURL, name string) map[string]map[string]proto.Message {
		w := desiredWorld(t, items)
		delete(w[typeURL], name)
		return w
	}
	for name, test := range map[string]struct {
		desired map[string]map[string]proto.Message
		want    string
	}{
		"route to a cluster that is missing": {
			desiredWorld(t, "a web>a,b"), `route configuration "web": no cluster "b"`,
		},
		"cluster without endpoints": {
			without("a web>a", resourcev3.EndpointType, "a"), `cluster "a": no cluster load assignment "a"`,
		},
		"message of another type": {
			map[string]map[string]proto.Message{resourcev3.ClusterType: {"a": endpointMessage("a", "1")}},
			`"a" is a *endpointv3.ClusterLoadAssignment, which is no cluster`,
		},
		"message under another name": {
			map[string]map[string]proto.Message{resourcev3.ClusterType: {"a": clusterMessage("b", "1", clusterv3.Cluster_STATIC)}},
			`cluster "b" is published as "a"`,
		},
		"type that is not served": {
			map[string]map[string]proto.Message{resourcev3.SecretType: {}}, "is not served",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := nextWorld(good, test.desired)
			if !errors.Is(err, ErrInconsistent) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("the error is %v, want one that says %s", err, test.want)
			}
		})
	}
}

func TestClustersOfRoutes(t *testing.T) {
	t.Parallel()
	mirror := func(name string) []*routev3.RouteAction_RequestMirrorPolicy {
		return []*routev3.RouteAction_RequestMirrorPolicy{{Cluster: name}, {ClusterHeader: "x-mirror"}}
	}
	action := func(a *routev3.RouteAction) *routev3.Route {
		return &routev3.Route{Action: &routev3.Route_Route{Route: a}}
	}
	routes := &routev3.RouteConfiguration{
		Name:                  "web",
		RequestMirrorPolicies: mirror("mirror-of-all"),
		VirtualHosts: []*routev3.VirtualHost{{
			RequestMirrorPolicies: mirror("mirror-of-host"),
			Routes: []*routev3.Route{
				action(&routev3.RouteAction{
					ClusterSpecifier:      &routev3.RouteAction_Cluster{Cluster: "single"},
					RequestMirrorPolicies: mirror("mirror-of-route"),
				}),
				action(&routev3.RouteAction{ClusterSpecifier: &routev3.RouteAction_WeightedClusters{
					WeightedClusters: &routev3.WeightedCluster{Clusters: []*routev3.WeightedCluster_ClusterWeight{
						{Name: "stable"}, {Name: "canary"}, {Name: "single"}, {ClusterHeader: "x-cluster"},
					}},
				}}),
				action(&routev3.RouteAction{ClusterSpecifier: &routev3.RouteAction_ClusterHeader{ClusterHeader: "x-cluster"}}),
				{Action: &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{Status: 404}}},
			},
		}},
	}
	want := []string{"canary", "mirror-of-all", "mirror-of-host", "mirror-of-route", "single", "stable"}
	if diff := gocmp.Diff(want, clustersOf(routes)); diff != "" {
		t.Errorf("clusters differ (-want +got):\n%s", diff)
	}
}

func TestEndpointsOfCluster(t *testing.T) {
	t.Parallel()
	other := clusterMessage("a", "1", clusterv3.Cluster_EDS)
	other.EdsClusterConfig = &clusterv3.Cluster_EdsClusterConfig{ServiceName: "other"}
	for name, test := range map[string]struct {
		cluster *clusterv3.Cluster
		want    string
	}{
		"by its own name":     {clusterMessage("a", "1", clusterv3.Cluster_EDS), "a"},
		"by its service name": {other, "other"},
		"none":                {clusterMessage("a", "1", clusterv3.Cluster_STRICT_DNS), ""},
	} {
		if got := endpointsOf(test.cluster); got != test.want {
			t.Errorf("%s: endpoints %q, want %q", name, got, test.want)
		}
	}
}
