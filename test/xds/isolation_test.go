package test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	gocmp "github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/xds"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/port"
	"github.com/kedify/argo-rollouts-plugin/test/kit/traffic"
)

// publish publishes the resources of the fleet and waits until the proxy has ACKed all of them except the rejected
// ones.
func (f *fleet) publish(server *xds.Server, rejected ...rejection) {
	f.tb.Helper()
	for typeURL, messages := range f.desired {
		for name, message := range messages {
			if err := message.(interface{ ValidateAll() error }).ValidateAll(); err != nil {
				f.tb.Fatalf("%s %s is invalid: %v", typeURL, name, err)
			}
		}
	}
	if err := server.Publish(fleetName, f.desired); err != nil {
		f.tb.Fatal(err)
	}
	f.await(server, rejected...)
}

// await waits until the proxy has ACKed all resources except the rejected ones.
func (f *fleet) await(server *xds.Server, rejected ...rejection) {
	f.tb.Helper()
	want := make([]string, 0, len(rejected))
	for _, r := range rejected {
		want = append(want, r.typeURL+" "+r.resource)
	}
	slices.Sort(want)
	var last string
	defer func() {
		if f.tb.Failed() {
			f.tb.Logf("the last state: %s", last)
		}
	}()
	await.True(f.tb, "everything but the rejected resources is ACKed", func() bool {
		streams, isDone := 0, false
		server.Poll(func(state xds.StreamState) {
			streams++
			behind, got := f.behind(server, state), f.rejected(server, state)
			last = fmt.Sprintf("behind %q, rejected %+v", behind[:min(len(behind), 10)], got)
			isDone = slices.Equal(want, behind) &&
				slices.Equal(rejected, got)
		})
		return streams == 1 && isDone
	})
}

// rejection is a published version of a resource that the proxy rejects.
type rejection struct {
	typeURL, resource string
	// isRetained is true if the proxy keeps an older version.
	isRetained bool
}

// rejected returns the resources that the proxy rejects, in order of type and name.
func (f *fleet) rejected(server *xds.Server, state xds.StreamState) []rejection {
	var all []rejection
	version := server.Versions()
	for typeURL, messages := range f.desired {
		for name := range messages {
			resource := state.Resource(typeURL, name)
			if resource.Nacked != "" && resource.Nacked == version(fleetName, typeURL, name) {
				all = append(all, rejection{typeURL, name, resource.Acked != ""})
			}
		}
	}
	slices.SortFunc(all, func(a, b rejection) int {
		return cmp.Or(strings.Compare(a.typeURL, b.typeURL), strings.Compare(a.resource, b.resource))
	})
	return all
}

// behind returns the resources whose published version the proxy has not ACKed.
func (f *fleet) behind(server *xds.Server, state xds.StreamState) []string {
	var behind []string
	version := server.Versions()
	for typeURL, messages := range f.desired {
		for name := range messages {
			if acked := state.Resource(typeURL, name).Acked; acked == "" || acked != version(fleetName, typeURL, name) {
				behind = append(behind, typeURL+" "+name)
			}
		}
	}
	slices.Sort(behind)
	return behind
}

// TestEnvoyRejectsOneOfAThousand makes one application invalid in each way that the validation of the messages accepts.
// Its last good version stays active, and all others are updated in the same snapshot and in the next one. In state of
// the world all resources are sent again for each rejected one: there are a quarter as many.
func TestEnvoyRejectsOneOfAThousand(t *testing.T) {
	for apiType, applications := range map[string]int{"DELTA_GRPC": 1000, "GRPC": 250} {
		t.Run(apiType, func(t *testing.T) {
			last := fmt.Sprintf("a%d.test", applications-1)
			f := newFleet(t, applications)
			at := port.Open(t)
			server, _ := startServer(t, at, xds.Options{Grace: xds.DefaultGrace})
			if err := server.Publish(fleetName, f.desired); err != nil {
				t.Fatal(err)
			}
			envoy := startProxy(t, apiType, at)
			f.publish(server)

			makeInvalid(f.host(100, "2", "a100"))
			for n := range applications {
				if n != 100 {
					f.host(n, "2", fmt.Sprintf("a%d", n))
				}
			}
			rejectedHost := rejection{typeURL: resourcev3.ScopedRouteType, resource: "a100.test", isRetained: true}
			f.publish(server, rejectedHost)
			checkVersions(t, envoy, map[string]string{
				"a0.test": "2", "a99.test": "2", "a100.test": "1", "a101.test": "2", last: "2",
			})
			f.host(7, "3", "a7")
			f.publish(server, rejectedHost)
			checkVersions(t, envoy, map[string]string{"a7.test": "3", "a100.test": "1"})
			t.Logf("after the scope: %s", envoy.stats())

			cluster := f.cluster("a120")
			cluster.LoadBalancingPolicy = &clusterv3.LoadBalancingPolicy{Policies: []*clusterv3.LoadBalancingPolicy_Policy{{
				TypedExtensionConfig: &corev3.TypedExtensionConfig{
					Name: "unknown", TypedConfig: f.pack(&routerv3.Router{}),
				},
			}}}
			for n := range applications {
				changed := f.cluster(fmt.Sprintf("a%d", n))
				changed.AltStatName = fmt.Sprintf("b%d", n)
				f.put(changed)
			}
			f.put(cluster)
			rejectedCluster := rejection{typeURL: resourcev3.ClusterType, resource: "a120", isRetained: true}
			f.publish(server, rejectedCluster, rejectedHost)
			again := f.cluster("a8")
			again.AltStatName = "c8"
			f.put(again)
			f.publish(server, rejectedCluster, rejectedHost)
			t.Logf("after the cluster: %s", envoy.stats())

			for n := range applications {
				address := f.backend.IP.String()
				if n == 140 {
					address = "not-an-address"
				}
				changed := f.endpoints(fmt.Sprintf("a%d", n), address, f.backend.Port)
				changed.Endpoints[0].LbEndpoints[0].HealthStatus = corev3.HealthStatus_HEALTHY
				f.put(changed)
			}
			rejectedEndpoints := rejection{typeURL: resourcev3.EndpointType, resource: "a140", isRetained: true}
			f.publish(server, rejectedCluster, rejectedEndpoints, rejectedHost)
			f.put(f.endpoints("a9", f.backend.IP.String(), f.backend.Port))
			f.host(9, "4", "a9")
			f.publish(server, rejectedCluster, rejectedEndpoints, rejectedHost)
			checkVersions(t, envoy, map[string]string{
				"a9.test": "4", "a100.test": "1", "a120.test": "2", "a140.test": "2", last: "2",
			})
			t.Logf("after the endpoints: %s", envoy.stats())

			f.host(100, "5", "a100")
			f.put(f.cluster("a120"))
			f.put(f.endpoints("a140", f.backend.IP.String(), f.backend.Port))
			f.publish(server)
			checkVersions(t, envoy, map[string]string{"a100.test": "5"})
		})
	}
}

// checkVersions requires these active versions of hosts.
func checkVersions(t *testing.T, envoy *proxy, want map[string]string) {
	t.Helper()
	got := map[string]string{}
	for host := range want {
		got[host] = envoy.version(host)
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("active versions (-want +got):\n%s", diff)
	}
}

// TestEnvoyRejectsFirstResources has a new Envoy reject some of the first resources that it receives.
func TestEnvoyRejectsFirstResources(t *testing.T) {
	for _, apiType := range apiTypes() {
		t.Run(apiType, func(t *testing.T) {
			f := newFleet(t, 100)
			makeInvalid(f.host(50, "1", "a50"))
			cluster := f.cluster("a60")
			cluster.LoadBalancingPolicy = &clusterv3.LoadBalancingPolicy{Policies: []*clusterv3.LoadBalancingPolicy_Policy{{
				TypedExtensionConfig: &corev3.TypedExtensionConfig{
					Name: "unknown", TypedConfig: f.pack(&routerv3.Router{}),
				},
			}}}
			f.put(cluster)
			at := port.Open(t)
			server, _ := startServer(t, at, xds.Options{Grace: xds.DefaultGrace})
			if err := server.Publish(fleetName, f.desired); err != nil {
				t.Fatal(err)
			}
			envoy := startProxy(t, apiType, at)
			// a60's scope waits for its cluster forever: it is withheld, not rejected.
			await.True(t, "all good resources are ACKed, and the bad ones reported", func() bool {
				isDone := false
				server.Poll(func(state xds.StreamState) {
					want := []rejection{
						{typeURL: resourcev3.ClusterType, resource: "a60"},
						{typeURL: resourcev3.ScopedRouteType, resource: "a50.test"},
					}
					behind := slices.DeleteFunc(f.behind(server, state), func(name string) bool {
						return strings.HasSuffix(name, " a60") || strings.HasSuffix(name, " a60.test") ||
							strings.HasSuffix(name, " a50.test")
					})
					isDone = len(behind) == 0 &&
						slices.Equal(want, f.rejected(server, state))
				})
				return isDone
			})
			want := map[string]string{}
			for n := range 100 {
				if n != 50 && n != 60 {
					want[fmt.Sprintf("a%d.test", n)] = "1"
				}
			}
			checkVersions(t, envoy, want)
		})
	}
}

// TestProxyJoinsWithRejectedHost starts a second Envoy after the first one has rejected a host. Its first response
// contains all other hosts, so that it serves them once it is ready.
func TestProxyJoinsWithRejectedHost(t *testing.T) {
	for _, apiType := range apiTypes() {
		t.Run(apiType, func(t *testing.T) {
			f := newFleet(t, 50)
			at := port.Open(t)
			server, _ := startServer(t, at, xds.Options{Grace: xds.DefaultGrace})
			if err := server.Publish(fleetName, f.desired); err != nil {
				t.Fatal(err)
			}
			first := startProxy(t, apiType, at)
			f.publish(server)
			makeInvalid(f.host(50, "1", "a0")) // a host that is new to both
			f.publish(server, rejection{typeURL: resourcev3.ScopedRouteType, resource: "a50.test"})
			second := startProxy(t, apiType, at) // ready
			want := map[string]string{}
			for n := range 50 {
				want[fmt.Sprintf("a%d.test", n)] = "1"
			}
			checkVersions(t, second, want)
			checkVersions(t, first, want)
		})
	}
}

// rate is the highest number of requests per second during the restarts of the server, and restarts their number.
const rate, restarts = 100, 5

// finalVersion is the version of a host after all restarts.
const finalVersion = "after the restarts"

// versions returns the versions of a host in order.
func versions() []string {
	versions := []string{"1"}
	for round := range restarts {
		versions = append(versions, fmt.Sprintf("%d stable", round), fmt.Sprintf("%d canary", round))
	}
	return append(versions, finalVersion)
}

// TestEnvoyReconnectsWithoutGap kills the server, removes a canary, and starts another server, all under load. No
// request may fail, also not when the canary is removed at the end.
func TestEnvoyReconnectsWithoutGap(t *testing.T) {
	for _, apiType := range apiTypes() {
		t.Run(apiType, func(t *testing.T) {
			f := newFleet(t, 50)
			at := port.Open(t)
			server, stop := startServer(t, at, xds.Options{Grace: xds.DefaultGrace})
			f.put(f.cluster("canary"))
			f.put(f.endpoints("canary", f.backend.IP.String(), f.backend.Port))
			f.host(0, "1", "a0", "canary")
			if err := server.Publish(fleetName, f.desired); err != nil {
				t.Fatal(err)
			}
			envoy := startProxy(t, apiType, at)
			f.publish(server)

			load := traffic.Start(t, envoy.address, "a0.test", rate, versions()...)
			for round := range restarts {
				stop()
				delete(f.desired[resourcev3.ClusterType], "canary")
				delete(f.desired[resourcev3.EndpointType], "canary")
				f.host(0, fmt.Sprintf("%d stable", round), "a0")
				server, stop = startServer(t, at, xds.Options{Grace: xds.DefaultGrace})
				f.publish(server)
				f.put(f.cluster("canary"))
				f.put(f.endpoints("canary", f.backend.IP.String(), f.backend.Port))
				f.host(0, fmt.Sprintf("%d canary", round), "a0", "canary")
				f.publish(server)
			}
			delete(f.desired[resourcev3.ClusterType], "canary")
			delete(f.desired[resourcev3.EndpointType], "canary")
			f.host(0, finalVersion, "a0")
			f.publish(server)
			await.True(t, "the canary's cluster is removed", func() bool { return !envoy.hasCluster("canary") })
			load.Stop()
		})
	}
}
