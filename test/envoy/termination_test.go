package envoy_test

import (
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"

	kedifyproxy "github.com/kedify/argo-rollouts-plugin/config/kedify-proxy"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/xds"
	"github.com/kedify/argo-rollouts-plugin/internal/server/grpcserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/envoyproc"
)

// proxyDeployment returns the Deployment of the installed proxy.
func proxyDeployment(t *testing.T) *appsv1.Deployment {
	t.Helper()
	text, err := kedifyproxy.Files.ReadFile("deployment.yaml")
	if err != nil {
		t.Fatal(err)
	}
	deployment := new(appsv1.Deployment)
	if err := yaml.UnmarshalStrict(text, deployment); err != nil {
		t.Fatal(err)
	}
	return deployment
}

// drainArgs returns the drain arguments of the installed proxy, and the duration of the drain.
func drainArgs(t *testing.T) (args []string, drain time.Duration) {
	t.Helper()
	all := proxyDeployment(t).Spec.Template.Spec.Containers[0].Args
	for _, name := range []string{"--drain-strategy", "--drain-time-s"} {
		index := slices.Index(all, name)
		if index < 0 {
			t.Fatalf("arguments %v", all)
		}
		args = append(args, all[index:index+2]...)
	}
	seconds, err := strconv.Atoi(args[3])
	if err != nil {
		t.Fatal(err)
	}
	return args, time.Duration(seconds) * time.Second
}

// TestTerminationTimes compares the times of the manifest: load balancers remove the Pod and Envoy drains before
// SIGTERM, and Envoy exits before SIGKILL.
func TestTerminationTimes(t *testing.T) {
	pod := proxyDeployment(t).Spec.Template.Spec
	_, drain := drainArgs(t)
	stop := time.Duration(pod.Containers[0].Lifecycle.PreStop.Sleep.Seconds) * time.Second
	killed := time.Duration(*pod.TerminationGracePeriodSeconds) * time.Second
	if quiet := stop - drain - xds.DefaultDrainDelay; quiet < time.Second || killed-stop < 5*time.Second {
		t.Errorf("drained after %v, SIGTERM after %v, SIGKILL after %v", drain+xds.DefaultDrainDelay, stop, killed)
	}
}

// TestTerminatingProxyDrains marks a proxy's Pod as terminating during three requests: one that ends after the listener
// is closed, an active WebSocket, and an idle WebSocket that stays open.
func TestTerminatingProxyDrains(t *testing.T) {
	t.Parallel()
	args, drain := drainArgs(t)
	app := startBackend(t, "plain")
	resources := translated(t, newInputs(t, []*backend{app},
		kit.NewScaledObject(namespace, "plain", "plain", 1, "plain.example.com")),
		translate.DefaultOptions())
	server := xds.NewServer(xds.Options{Grace: xds.DefaultGrace, DrainedListeners: []string{translate.ListenerName}})
	proxyAddress := netip.MustParseAddr("127.0.0.1")
	members := map[netip.Addr][]string{proxyAddress: {namespace}}
	server.SetMembers(xds.Members{Fleets: members})
	grpcServer := grpcserver.New(grpcserver.Options{})
	server.Register(grpcServer)
	envoyproc.Binary(t)
	listener := listen(t)
	serveGRPC(t, grpcServer, listener)
	s := &served{proxy: &proxy{}, server: server, args: args}
	s.publish(t, resources)
	s.run(t, "DELTA_GRPC", listener.Addr().String())
	s.await(t, resources)

	long := s.startWith(t, "HTTP/1.1", "plain.example.com", "/held", nil)
	<-app.arrived
	transports := map[string]*http.Transport{}
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2"} {
		grpcServer := &http.Transport{Protocols: new(http.Protocols)}
		grpcServer.Protocols.SetHTTP1(protocol == "HTTP/1.1")
		grpcServer.Protocols.SetUnencryptedHTTP2(protocol == "HTTP/2")
		defer grpcServer.CloseIdleConnections()
		if first := getOver(t.Context(), grpcServer, s.address, "plain.example.com"); first.status != http.StatusOK {
			t.Fatalf("%s: %+v", protocol, first)
		}
		transports[protocol] = grpcServer
	}
	active, activeReader := openWebSocket(t, s.address)
	defer active.Close()
	idle, idleReader := openWebSocket(t, s.address)
	defer idle.Close()

	began := time.Now()
	server.SetMembers(xds.Members{Fleets: members, Draining: []xds.Member{{Fleet: namespace, Address: proxyAddress}}})
	await.True(t, "new connections are refused", func() bool {
		connection, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.address)
		if err == nil {
			_ = connection.Close()
		}
		return err != nil && strings.Contains(err.Error(), "refused")
	})
	refusedAfter := time.Since(began)
	fail := func(format string, args ...any) {
		t.Helper()
		if time.Since(began) > drain { // Envoy may have closed the connection by then, so the verdict is void
			format = "void after the drain time: " + format
			t.Logf(format, args...)
			return
		}
		t.Errorf(format, args...)
	}
	for protocol, grpcServer := range transports {
		if again := getOver(t.Context(), grpcServer, s.address, "plain.example.com"); again.status != http.StatusOK ||
			again.err != nil {
			fail("%s: an open connection is not served: %+v", protocol, again)
		}
		await.True(t, protocol+": the connection is closed", func() bool {
			return getOver(t.Context(), grpcServer, s.address, "plain.example.com").err != nil
		})
	}
	close(app.release)
	if answer := <-long; answer.err != nil || answer.status != http.StatusOK {
		fail("the request that ends after the listener: %+v", answer)
	}
	if _, err := io.WriteString(active, "hello\n"); err != nil {
		fail("the WebSocket: %v", err)
	}
	if line, err := activeReader.ReadString('\n'); err != nil || !strings.Contains(line, "hello") {
		fail("the WebSocket received %q, %v", line, err)
	}
	if _, err := idleReader.ReadString('\n'); err == nil {
		t.Error("the idle WebSocket received a line")
	}
	ended := time.Since(began)
	t.Logf("no new connections after %v, the last connection was closed after %v", refusedAfter, ended)
	if ended < drain-time.Second { // measured from before Envoy's drain began, so a slow machine only makes it longer
		t.Errorf("the idle WebSocket was closed after %v, want %v at least", ended, drain)
	}
	ctx := await.Context(t)
	if _, err := s.Admin(ctx, "/ready"); err != nil {
		t.Errorf("Envoy must run until SIGTERM: %v", err)
	}
}
