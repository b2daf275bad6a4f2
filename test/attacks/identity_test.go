package attacks

import (
	"bytes"
	"context"
	"net"
	"net/netip"
	"strings"
	"testing"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	metricsv3 "github.com/envoyproxy/go-control-plane/envoy/service/metrics/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/identity"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/status/peers/peerspb"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/coldstart"
	"github.com/kedify/argo-rollouts-plugin/test/kit/netspace"
	"github.com/kedify/argo-rollouts-plugin/test/kit/rawgrpc"
)

// identityAttacks use what belongs to others.
func identityAttacks() []attack {
	return []attack{
		{"discovery for hosts of another fleet", stealConfiguration},
		{"questions about requests of another fleet", askForOthers},
		{"metrics of another fleet", reportForOthers},
		{"the stream between replicas", watchReplicas},
		{"every port, by a Pod of no fleet", comeFromNowhere},
		{"an EndpointSlice with the address of a proxy", forgeSlices},
		{"the same, of a proxy that connects again", forgeAndDisconnect},
	}
}

// client returns a gRPC client from an address. It ends with the context.
func (s *scene) client(ctx context.Context, t *testing.T, from netip.Addr, port uint16) *grpc.ClientConn {
	t.Helper()
	dialer := &net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))}
	conn, err := grpc.NewClient("passthrough:///"+s.at(port), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return dialer.DialContext(ctx, "tcp", address)
		}))
	if err != nil {
		t.Fatal(err)
	}
	context.AfterFunc(ctx, func() { _ = conn.Close() })
	return conn
}

// discover opens a discovery stream of a Pod of the attackers, which ends with the context.
func (s *scene) discover(
	ctx context.Context, t *testing.T, from netip.Addr,
) discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient {
	t.Helper()
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(s.client(ctx, t, from, discoveryPort)).
		DeltaAggregatedResources(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

// subscribe subscribes to names, and returns the first response.
func subscribe(
	t *testing.T, stream discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient, typeURL string,
	names ...string,
) *discoveryv3.DeltaDiscoveryResponse {
	t.Helper()
	if err := stream.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURL, ResourceNamesSubscribe: names}); err != nil {
		t.Fatal(err)
	}
	response, err := stream.Recv()
	if err != nil {
		t.Fatalf("subscribe to %s: %v", typeURL, err)
	}
	return response
}

// victimCluster returns the cluster of an app of the victim.
func victimCluster(app int) string {
	return coldstart.Namespace + "/" + coldstart.AppName(app) + "/" + coldstart.AppName(app)
}

// stealConfiguration subscribes to all clusters, and to endpoints, scopes and certificates of the victim by their names.
func stealConfiguration(ctx context.Context, t *testing.T, s *scene) func() {
	t.Helper()
	stream := s.discover(ctx, t, evilAddress(0))
	clusters := subscribe(t, stream, resourcev3.ClusterType, "*")
	if len(clusters.GetResources()) < evilApps {
		t.Errorf("only %d own clusters were received", len(clusters.GetResources()))
	}
	for _, resource := range clusters.GetResources() {
		if strings.HasPrefix(resource.GetName(), coldstart.Namespace+"/") {
			t.Errorf("received the cluster %s", resource.GetName())
		}
	}
	for typeURL, name := range map[string]string{
		resourcev3.EndpointType: victimCluster(canaryApp), resourcev3.SecretType: coldstart.AppHost(canaryApp),
	} {
		stream := s.discover(ctx, t, evilAddress(1))
		response := subscribe(t, stream, typeURL, name)
		if len(response.GetResources()) > 0 || strings.Join(response.GetRemovedResources(), ",") != name {
			t.Errorf("%s: received %v", name, response)
		}
	}
	return nil
}

// ask makes a call about a request to a cluster.
func (s *scene) ask(ctx context.Context, t *testing.T, from netip.Addr, cluster string) (*authv3.CheckResponse, error) {
	t.Helper()
	ctx = metadata.AppendToOutgoingContext(ctx, translate.ClusterKey, cluster)
	return authv3.NewAuthorizationClient(s.client(ctx, t, from, discoveryPort)).Check(ctx, new(authv3.CheckRequest))
}

// askForOthers asks about a request to an app of the victim, which would wake it.
func askForOthers(ctx context.Context, t *testing.T, s *scene) func() {
	t.Helper()
	subscribe(t, s.discover(ctx, t, evilAddress(0)), resourcev3.ClusterType, "*")
	answer, err := s.ask(ctx, t, evilAddress(0), victimCluster(sleepingApp))
	if err != nil || answer.GetDeniedResponse().GetBody() != "no workload for this request\n" {
		t.Errorf("%v, %v", answer, err)
	}
	return func() { //nolint:contextcheck // it uses the context of the test
		if queued := s.queued(t, sleepingApp); queued > 0 {
			t.Errorf("%d requests count for the victim", queued)
		}
	}
}

// reportForOthers reports requests to an app of the victim, next to those of an app of its own.
func reportForOthers(ctx context.Context, t *testing.T, s *scene) func() {
	t.Helper()
	stream, err := metricsv3.NewMetricsServiceClient(s.client(ctx, t, evilAddress(0), metricsPort)).StreamMetrics(ctx)
	if err != nil {
		t.Fatal(err)
	}
	own := "evil/evil-000/evil-000"
	flush := func(time string) {
		text := strings.NewReplacer("TIME", time, "VICTIM", victimCluster(sleepingApp), "OWN", own).Replace(`{"envoyMetrics": [
			{"name": "cluster_manager.cluster_added", "metric": [{"counter": {"value": 0}, "timestampMs": "TIME"}]},
			{"name": "cluster.VICTIM.upstream_rq_total", "metric": [{"counter": {"value": 1000}, "timestampMs": "TIME"}]},
			{"name": "cluster.OWN.upstream_rq_total", "metric": [{"counter": {"value": 1000}, "timestampMs": "TIME"}]}]}`)
		message := new(metricsv3.StreamMetricsMessage)
		if err := protojson.Unmarshal([]byte(text), message); err != nil {
			t.Fatal(err)
		}
		if err := stream.Send(message); err != nil {
			t.Fatal(err)
		}
	}
	metric := func(namespace, app string) int { //nolint:contextcheck // it uses the context of the test
		count, _ := s.replica.Metric(t.Context(), `kedify_backend_requests_total{backend="`+app+`",httpscaledobject="`+app+
			`",object_namespace="`+namespace+`"}`)
		return count
	}
	flush("1000")
	flush("2000")
	//nolint:contextcheck // that of the test
	await.True(t, "the report of the attackers counts", func() bool { return metric(evil, "evil-000") > 0 })
	if count := metric(coldstart.Namespace, coldstart.AppName(sleepingApp)); count > 0 {
		t.Errorf("%d requests count for the victim", count)
	}
	return nil
}

// watchReplicas opens the stream between replicas, which contains the names of all tenants' objects.
func watchReplicas(ctx context.Context, t *testing.T, s *scene) func() {
	t.Helper()
	stream, err := peerspb.NewReplicasClient(s.client(ctx, t, evilAddress(0), discoveryPort)).
		Watch(ctx, new(peerspb.WatchRequest))
	if err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.PermissionDenied {
		t.Errorf("%v, want PermissionDenied", err)
	}
	return nil
}

// Paths of the methods of the interceptor.
const (
	discoverPath = "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources"
	checkPath    = "/envoy.service.auth.v3.Authorization/Check"
	watchPath    = peerspb.Replicas_Watch_FullMethodName
	metricsPath  = "/envoy.service.metrics.v3.MetricsService/StreamMetrics"
)

// comeFromNowhere uses each port from an address without a fleet: the connection ends without an answer.
func comeFromNowhere(ctx context.Context, t *testing.T, s *scene) func() {
	t.Helper()
	for path, port := range map[string]uint16{
		discoverPath: discoveryPort, checkPath: discoveryPort, watchPath: discoveryPort, metricsPath: metricsPort,
	} {
		conn := s.dial(ctx, t, unknownAddress(0), port)
		if err := conn.Start(); err != nil {
			t.Fatal(err)
		}
		_ = conn.Headers(1, path, translate.ClusterKey, victimCluster(sleepingApp)) // It may be closed already.
		if got := conn.Status(1); got != "" || !conn.IsOver() {
			t.Errorf("%s: status %q", path, got)
		}
	}
	return nil
}

// dial opens a connection that ends with the context.
func (s *scene) dial(ctx context.Context, t *testing.T, from netip.Addr, port uint16) *rawgrpc.Conn {
	t.Helper()
	conn, err := rawgrpc.Dial(ctx, from, s.at(port))
	if err != nil {
		t.Fatal(err)
	}
	context.AfterFunc(ctx, func() { _ = conn.Close() })
	return conn
}

// forgeSlices claims the address of the victim's proxy for the attackers' fleet. The proxy stays connected.
func forgeSlices(ctx context.Context, t *testing.T, s *scene) func() {
	t.Helper()
	slice := kit.NewEndpointSlice(evil, resolve.ProxyService, netspace.Address().String())
	slice.Name = "forged"
	if err := apiserver.Create(ctx, s.Admin, slicesPath(evil), slice); err != nil {
		t.Fatal(err)
	}
	return func() { //nolint:contextcheck // it uses the context of the test
		if err := apiserver.Delete(t.Context(), s.Admin, slicesPath(evil)+"/forged"); err != nil {
			t.Error(err)
		}
	}
}

// forgeAndDisconnect claims the address of the victim's proxy, and lets the proxy connect again. It has no token, so
// its Pod decides.
func forgeAndDisconnect(ctx context.Context, t *testing.T, s *scene) func() {
	t.Helper()
	s.allowPods(ctx, t)
	s.createPod(ctx, t)
	end := forgeSlices(ctx, t, s)
	count := func(text string) int {
		log, err := s.replica.Log()
		if err != nil {
			t.Fatal(err)
		}
		return bytes.Count(log, []byte(text))
	}
	//nolint:contextcheck // that of the test
	await.True(t, "the claim is known", func() bool { return count("several fleets claim the address of a proxy") > 0 })
	before := count(`"proxy connected"`)
	s.Disconnect()
	//nolint:contextcheck // that of the test
	await.True(t, "the proxy is connected again", func() bool { return count(`"proxy connected"`) > before })
	return end
}

// allowPods binds the role to read Pods.
func (s *scene) allowPods(ctx context.Context, t *testing.T) {
	t.Helper()
	if err := apiserver.ApplyFiles(ctx, s.Admin, "", "../../config/interceptor/pods.yaml"); err != nil {
		t.Fatal(err)
	}
	if err := apiserver.Apply(ctx, s.Admin, "", `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: kedify-http-interceptor-pods}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: kedify-http-interceptor-pods}
subjects: [{kind: ServiceAccount, name: kedify-http-interceptor, namespace: keda}]
`); err != nil {
		t.Fatal(err)
	}
}

// createPod creates the Pod of the victim's proxy, with its address.
func (s *scene) createPod(ctx context.Context, t *testing.T) {
	t.Helper()
	slice := new(discoveryv1.EndpointSlice)
	if err := apiserver.Get(ctx, s.Admin, slicesPath(coldstart.Namespace)+"/"+resolve.ProxyService, slice); err != nil {
		t.Fatal(err)
	}
	name := slice.Endpoints[0].TargetRef.Name
	if _, err := apiserver.PodToken(ctx, s.Admin, coldstart.Namespace, name, identity.Audience); err != nil {
		t.Fatal(err)
	}
	path := "/api/v1/namespaces/" + coldstart.Namespace + "/pods/" + name + "/status"
	address := netspace.Address().String()
	if err := apiserver.Patch(ctx, s.Admin, path, "test", map[string]any{"status": map[string]any{
		"phase": "Running", "podIP": address, "podIPs": []map[string]string{{"ip": address}},
	}}); err != nil {
		t.Fatal(err)
	}
}
