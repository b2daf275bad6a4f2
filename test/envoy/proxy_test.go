package envoy_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	discoveryxdsv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/envoyproc"
)

// proxy is a running Envoy that reads its resources from files.
type proxy struct {
	*envoyproc.Envoy

	address string            // of the listener
	files   string            // folder of the resources
	names   map[string]string // files of the endpoints, by cluster
}

// start starts Envoy with resources. Envoy stops with the test.
func start(t *testing.T, resources translate.Resources) *proxy {
	t.Helper()
	p := &proxy{files: t.TempDir(), names: map[string]string{}}
	p.publish(t, resources)
	bootstrap, err := protojson.Marshal(&bootstrapv3.Bootstrap{
		Node: &corev3.Node{Id: "kedify-proxy", Cluster: "xds_cluster"},
		Admin: &bootstrapv3.Admin{Address: &corev3.Address{Address: &corev3.Address_SocketAddress{
			SocketAddress: &corev3.SocketAddress{
				Address: "127.0.0.1", PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: 0},
			},
		}}},
		DynamicResources: &bootstrapv3.Bootstrap_DynamicResources{
			LdsConfig: p.file("listeners"),
			CdsConfig: p.file("clusters"),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	p.Envoy = envoyproc.Run(t, string(bootstrap), 2)
	if p.address, err = p.ListenerAddress(t.Context(), translate.ListenerName); err != nil {
		t.Fatal(err)
	}
	return p
}

// stat returns a counter or gauge of Envoy, or 0 if Envoy does not have it.
func (p *proxy) stat(t *testing.T, name string) int {
	t.Helper()
	stats, err := p.Admin(t.Context(), "/stats?filter="+name)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(stats)) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+": "); ok {
			number, err := strconv.Atoi(value)
			if err != nil {
				t.Fatalf("stat %s: %v", name, err)
			}
			return number
		}
	}
	return 0
}

// update publishes resources and waits until Envoy increments stat, the counter of applied updates.
func (p *proxy) update(t *testing.T, resources translate.Resources, stat string) {
	t.Helper()
	before := p.stat(t, stat)
	p.publish(t, resources)
	await.True(t, stat+" grows", func() bool { return p.stat(t, stat) > before })
}

// publish writes resources into files that Envoy watches, endpoints first and scopes last. Equal files stay unchanged.
func (p *proxy) publish(t *testing.T, resources translate.Resources) {
	t.Helper()
	config := kit.NewEnvoyConfig(t, resources)
	for _, assignment := range config.Endpoints {
		p.writeResources(t, p.endpointsFile(assignment.GetClusterName()), assignment)
	}
	var clusters []proto.Message
	for _, cluster := range config.Clusters {
		cluster = proto.CloneOf(cluster)
		cluster.GetEdsClusterConfig().EdsConfig = p.file(p.endpointsFile(cluster.GetName()))
		clusters = append(clusters, cluster)
	}
	p.writeResources(t, "clusters", clusters...)
	var scopes []proto.Message
	for _, scope := range config.Scopes {
		scopes = append(scopes, scope)
	}
	p.writeResources(t, "scopes", scopes...)
	p.writeResources(t, "listeners", p.localListener(t, config.Listeners[0]))
}

// localListener returns a copy of listener with scopes from a file and any free local port.
func (p *proxy) localListener(t *testing.T, listener *listenerv3.Listener) *listenerv3.Listener {
	t.Helper()
	listener = proto.CloneOf(listener)
	socket := listener.GetAddress().GetSocketAddress()
	socket.Address, socket.PortSpecifier = "127.0.0.1", &corev3.SocketAddress_PortValue{PortValue: 0}
	changeManager(t, listener, func(manager *hcmv3.HttpConnectionManager) {
		scoped := manager.GetScopedRoutes()
		scoped.RdsConfigSource, scoped.GetScopedRds().ScopedRdsConfigSource = p.file("scopes"), p.file("scopes")
	})
	return listener
}

// endpointsFile returns the file of a cluster's endpoints.
func (p *proxy) endpointsFile(cluster string) string {
	if _, ok := p.names[cluster]; !ok {
		p.names[cluster] = fmt.Sprintf("endpoints-%d", len(p.names))
	}
	return p.names[cluster]
}

// file returns a config source that reads a file.
func (p *proxy) file(name string) *corev3.ConfigSource {
	return &corev3.ConfigSource{
		ConfigSourceSpecifier: &corev3.ConfigSource_PathConfigSource{PathConfigSource: &corev3.PathConfigSource{
			Path: filepath.Join(p.files, name+".json"),
		}},
		ResourceApiVersion: corev3.ApiVersion_V3,
	}
}

// writeResources writes resources in a file as Envoy reads them.
func (p *proxy) writeResources(t *testing.T, name string, messages ...proto.Message) {
	t.Helper()
	response := new(discoveryxdsv3.DiscoveryResponse)
	for _, message := range messages {
		packed, err := anypb.New(message)
		if err != nil {
			t.Fatal(err)
		}
		response.Resources = append(response.Resources, packed)
	}
	p.write(t, name+".json", response)
}

// write replaces a file atomically: Envoy watches for files that are moved to the path.
func (p *proxy) write(t *testing.T, name string, message proto.Message) {
	t.Helper()
	text, err := protojson.Marshal(message)
	if err != nil {
		t.Fatal(err)
	}
	var compact bytes.Buffer // protojson adds spaces at random
	if err := json.Compact(&compact, text); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(p.files, name)
	if present, err := os.ReadFile(path); err == nil && bytes.Equal(present, compact.Bytes()) {
		return
	}
	if err := os.WriteFile(path+".new", compact.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// changeManager changes the connection manager of a listener.
func changeManager(t *testing.T, listener *listenerv3.Listener, change func(*hcmv3.HttpConnectionManager)) {
	t.Helper()
	filter := listener.GetFilterChains()[0].GetFilters()[0]
	manager := new(hcmv3.HttpConnectionManager)
	if err := filter.GetTypedConfig().UnmarshalTo(manager); err != nil {
		t.Fatal(err)
	}
	change(manager)
	packed, err := anypb.New(manager)
	if err != nil {
		t.Fatal(err)
	}
	filter.ConfigType = &listenerv3.Filter_TypedConfig{TypedConfig: packed}
}
