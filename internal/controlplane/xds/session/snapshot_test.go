package session

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	gocmp "github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/kedify/argo-rollouts-plugin/test/kit/envoyresources"
)

func TestReplaceSharesUnchangedResources(t *testing.T) {
	t.Parallel()
	desired := envoyresources.Parse(t, "a b web>a")
	first, err := new(Snapshot).Replace(desired)
	if err != nil {
		t.Fatal(err)
	}
	for name, next := range map[string]map[string]map[string]proto.Message{
		"the same messages":  desired,
		"equal messages":     envoyresources.Parse(t, "a b web>a"),
		"another order":      envoyresources.Parse(t, "web>a b a"),
		"an empty type more": {resourcev3.ListenerType: {}, resourcev3.ClusterType: desired[resourcev3.ClusterType], resourcev3.EndpointType: desired[resourcev3.EndpointType], resourcev3.ScopedRouteType: desired[resourcev3.ScopedRouteType]},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			second, err := first.Replace(next)
			if err != nil {
				t.Fatal(err)
			}
			if changes := second.changesSince(first); len(changes) > 0 {
				t.Errorf("these changes were found: %v", changes)
			}
			for k := range Kind(KindCount) {
				for name, res := range second.resources[k].all() {
					if first.resources[k].get(name) != res {
						t.Errorf("%s %q was created again", k, name)
					}
				}
			}
		})
	}
}

func TestChangesSince(t *testing.T) {
	t.Parallel()
	first, err := new(Snapshot).Replace(envoyresources.Parse(t, "a b c web>a"))
	if err != nil {
		t.Fatal(err)
	}
	second, err := first.Replace(envoyresources.Parse(t, "a/2.1 b/1.2 d web>a"))
	if err != nil {
		t.Fatal(err)
	}
	got := second.changesSince(first)
	want := []change{
		{ClusterKind, "a"},
		{ClusterKind, "c"},
		{ClusterKind, "d"},
		{EndpointKind, "b"},
		{EndpointKind, "c"},
		{EndpointKind, "d"},
	}
	if diff := gocmp.Diff(want, got, gocmp.AllowUnexported(change{})); diff != "" {
		t.Errorf("changes differ (-want +got):\n%s", diff)
	}
}

func TestReplaceRejectsInconsistentResources(t *testing.T) {
	t.Parallel()
	good, err := new(Snapshot).Replace(envoyresources.Parse(t, "a web>a"))
	if err != nil {
		t.Fatal(err)
	}
	without := func(items, typeURL, name string) map[string]map[string]proto.Message {
		w := envoyresources.Parse(t, items)
		delete(w[typeURL], name)
		return w
	}
	for name, test := range map[string]struct {
		desired map[string]map[string]proto.Message
		want    string
	}{
		"route to a cluster that is missing": {
			envoyresources.Parse(t, "a web>a,b"), `scope "web": no cluster "b"`,
		},
		"cluster without endpoints": {
			without("a web>a", resourcev3.EndpointType, "a"), `cluster "a": no cluster load assignment "a"`,
		},
		"message of another type": {
			map[string]map[string]proto.Message{resourcev3.ClusterType: {"a": envoyresources.Endpoints("a", "1")}},
			`"a" is a *endpointv3.ClusterLoadAssignment, which is no cluster`,
		},
		"message under another name": {
			map[string]map[string]proto.Message{
				resourcev3.ClusterType: {"a": envoyresources.Cluster("b", "1", clusterv3.Cluster_STATIC)},
			},
			`cluster "b" is published as "a"`,
		},
		"scope whose routes come separately": {
			map[string]map[string]proto.Message{resourcev3.ScopedRouteType: {"a": &routev3.ScopedRouteConfiguration{
				Name: "a", RouteConfigurationName: "a",
			}}},
			`which is no scope with content`,
		},
		"type that is not served": {
			map[string]map[string]proto.Message{resourcev3.RuntimeType: {}}, "is not served",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := good.Replace(test.desired)
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
				action(&routev3.RouteAction{
					ClusterSpecifier: &routev3.RouteAction_ClusterHeader{ClusterHeader: "x-cluster"},
				}),
				{Action: &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{Status: 404}}},
			},
		}},
	}
	want := []string{"canary", "mirror-of-all", "mirror-of-host", "mirror-of-route", "single", "stable"}
	if diff := gocmp.Diff(want, clustersOf(routes)); diff != "" {
		t.Errorf("clusters differ (-want +got):\n%s", diff)
	}
}

// TestWithSalt requires other bytes with the same content: a reader finds only another name of the route configuration.
func TestWithSalt(t *testing.T) {
	t.Parallel()
	message := envoyresources.Scope("web", "1", "a,b")
	message.RouteConfiguration.RequestHeadersToRemove = []string{"x"}
	res, err := newResource(ScopeKind, "web", message)
	if err != nil {
		t.Fatal(err)
	}
	other := res.withSalt("salt.1")
	got := new(routev3.ScopedRouteConfiguration)
	if err := other.Any(nil).UnmarshalTo(got); err != nil {
		t.Fatal(err)
	}
	message.RouteConfiguration.Name = "web@salt.1"
	if diff := gocmp.Diff(message, got, protocmp.Transform()); diff != "" {
		t.Errorf("what is read differs (-want +got):\n%s", diff)
	}
	if !other.equals(res) || bytes.Equal(other.appendMessage(nil), res.appendMessage(nil)) {
		t.Error("the version is another one, or the bytes are the same")
	}
}

// TestRejectionsLimit has one proxy, and then many, reject everything. The rejections of another proxy that are in use
// still count, and so do the latest ones.
func TestRejectionsLimit(t *testing.T) {
	t.Parallel()
	all := &Rejections{}
	inUse := &Resource{name: "in use", version: version{1}}
	all.Of("10.0.0.1").add(ScopeKind, inUse.name, inUse.version)
	for i, name := range envoyresources.Names(10 * rejectionsLimit) {
		proxy := all.Of("10.0.0.2")
		if i >= 2*rejectionsLimit {
			proxy = all.Of(fmt.Sprint("10.0.1.", i))
		}
		proxy.add(ScopeKind, name, version{1})
		latest := &Resource{name: name, version: version{1}}
		if !all.Of("10.0.0.3").has(ScopeKind, inUse) || !all.Of("10.0.0.3").has(ScopeKind, latest) {
			t.Fatalf("after %d rejections: the one in use counts: %v, the latest one: %v", i+1,
				all.Of("10.0.0.3").has(ScopeKind, inUse), all.Of("10.0.0.3").has(ScopeKind, latest))
		}
		if i == 2*rejectionsLimit-1 && all.Len() != 1+proxyRejectionsLimit || all.Len() > rejectionsLimit {
			t.Fatalf("after %d rejections %d count", i+1, all.Len())
		}
	}
	if all.Of("10.0.0.3").has(ScopeKind, &Resource{name: inUse.name, version: version{2}}) {
		t.Error("another version counts")
	}
	all.Retain(&Snapshot{})
	if len(all.versions) > 0 {
		t.Errorf("%d versions are stored that are not published", len(all.versions))
	}
}

func TestInspectCluster(t *testing.T) {
	t.Parallel()
	ofOther := envoyresources.Cluster("a", "1", clusterv3.Cluster_EDS)
	ofOther.EdsClusterConfig = &clusterv3.Cluster_EdsClusterConfig{ServiceName: "other"}
	for name, test := range map[string]struct {
		cluster *clusterv3.Cluster
		usesEDS bool
		wrong   error
	}{
		"by its own name": {envoyresources.Cluster("a", "1", clusterv3.Cluster_EDS), true, nil},
		"by another one":  {ofOther, true, ErrInconsistent},
		"none":            {envoyresources.Cluster("a", "1", clusterv3.Cluster_STRICT_DNS), false, nil},
	} {
		got, err := newResource(ClusterKind, "a", test.cluster)
		if !errors.Is(err, test.wrong) || err == nil && got.usesEDS != test.usesEDS {
			t.Errorf("%s: by EDS %v, %v", name, got, err)
		}
	}
}
