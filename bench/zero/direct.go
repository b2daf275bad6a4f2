package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/kedify/argo-rollouts-plugin/bench/internal/bareserver"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding/extauthz"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/ingest"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/xds"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/server/grpcserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
	"github.com/kedify/argo-rollouts-plugin/test/kit/coldstart"
	"github.com/kedify/argo-rollouts-plugin/test/kit/envoyproc"
	"github.com/kedify/argo-rollouts-plugin/test/kit/netspace"
)

// directPort is the port of a direct's proxy. directXDS is the port of its discovery server.
const directPort, directXDS = 8090, 15678

// direct serves a second Envoy with the interceptor's own discovery and checks, and without the stages before them: the
// resources are built in advance.
type direct struct {
	server *xds.Server
	over   *grpcserver.Server
	checks *extauthz.Server
	envoy  *envoyproc.Envoy
	// forms are the resources while all apps are at zero, and while all are awake.
	forms [2]translate.Resources
}

// startDirect starts one, with all apps at zero.
func startDirect(ctx context.Context, chosen options, folder string) (*direct, error) {
	d := new(direct)
	if err := d.start(ctx, chosen, folder); err != nil {
		return nil, errors.Join(err, d.stop())
	}
	return d, nil
}

func (d *direct) start(ctx context.Context, chosen options, folder string) (err error) {
	most := mostApps * mostApps
	d.checks, err = extauthz.New(extauthz.Options{
		Limits: holding.Limits{Object: most, Namespace: most, Proxy: most, Total: most}, Registerer: prometheus.NewRegistry(),
		Notify: func(model.Key, holding.Reason) {},
	})
	if err != nil {
		return err
	}
	holding := &controlplane.Holding{Server: d.checks, Timeout: 2 * timeout}
	at := netip.AddrPortFrom(netspace.Address(), directXDS)
	d.server = xds.NewServer(xds.Options{Grace: xds.DefaultGrace, Callbacks: holding})
	d.server.SetMembers(xds.Members{Fleets: map[netip.Addr][]string{netspace.Address(): {coldstart.Namespace}}})
	d.over = grpcserver.New(grpcserver.Options{})
	d.server.Register(d.over)
	d.checks.Register(d.over) //nolint:contextcheck // the call has the context of its stream
	if err := d.buildForms(at, holding); err != nil {
		return err
	}
	if err := d.server.Publish(coldstart.Namespace, d.forms[0]); err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", at.String())
	if err != nil {
		return err
	}
	go func() { _ = d.over.Serve(listener) }() // It ends with stop. A failure shows as a proxy that is never ready.
	d.envoy, err = bareserver.Proxy{
		Binary: chosen.Envoy, Repository: chosen.Repository, Folder: folder, Discovery: at,
	}.Start(ctx)
	return err
}

// buildForms builds both forms of the resources, and configures the request queue for the apps.
func (d *direct) buildForms(at netip.AddrPort, holding *controlplane.Holding) error {
	options := translate.DefaultOptions()
	options.AccessLog = false
	options.Hold = translate.Hold{Checks: at, Socket: translate.DefaultHoldSocket + "-direct"}
	objects := map[model.Key]ingest.Object{}
	for form, addresses := range [][]string{nil, {netspace.Address().String()}} {
		var inputs resolve.Inputs
		for i := range mostApps {
			slice := kit.NewEndpointSlice(coldstart.Namespace, coldstart.AppName(i), addresses...)
			slice.Ports[0].Port = new(int32(coldstart.AppPort))
			inputs.ScaledObjects = append(inputs.ScaledObjects,
				kit.NewScaledObject(coldstart.Namespace, coldstart.AppName(i), coldstart.AppName(i), 1, coldstart.AppHost(i)))
			inputs.Services = append(inputs.Services,
				kit.ResolveServices(kit.NewService(coldstart.Namespace, coldstart.AppName(i)))...)
			inputs.EndpointSlices = append(inputs.EndpointSlices,
				kit.ResolveEndpointSlices([]*discoveryv1.EndpointSlice{slice}...)...)
		}
		config, problems := resolve.Build(inputs)
		if len(problems) > 0 {
			return fmt.Errorf("invalid objects: %v", problems)
		}
		for i, route := range config.Routes {
			objects[route.Owner] = ingest.Object{ScaledObject: inputs.ScaledObjects[i], Published: model.Config{
				Routes: []model.Route{route}, Services: config.Services,
			}}
		}
		var err error
		if d.forms[form], err = options.Envoy(config); err != nil {
			return err
		}
		moveListener(d.forms[form])
	}
	holding.Observe(ingest.Pass{Objects: objects})
	return nil
}

// moveListener sets the listener's port to this proxy's.
func moveListener(resources translate.Resources) {
	message := proto.Clone(resources[resourcev3.ListenerType][translate.ListenerName])
	if listener, ok := message.(*listenerv3.Listener); ok {
		listener.GetAddress().GetSocketAddress().PortSpecifier = &corev3.SocketAddress_PortValue{PortValue: directPort}
	}
	resources[resourcev3.ListenerType][translate.ListenerName] = message
}

// setReady pushes the endpoints and the scope of an app. It returns the time of the start of the push.
func (d *direct) setReady(app int, isAwake bool) (time.Time, error) {
	form := d.forms[0]
	if isAwake {
		form = d.forms[1]
	}
	delta := xds.Delta{Fleet: coldstart.Namespace, Changed: map[string]map[string]proto.Message{
		resourcev3.EndpointType: {}, resourcev3.ScopedRouteType: {},
	}}
	cluster, host := coldstart.Namespace+"/"+coldstart.AppName(app)+"/"+coldstart.AppName(app), coldstart.AppHost(app)
	delta.Changed[resourcev3.EndpointType][cluster] = form[resourcev3.EndpointType][cluster]
	delta.Changed[resourcev3.ScopedRouteType][host] = form[resourcev3.ScopedRouteType][host]
	began := time.Now()
	return began, d.server.ApplyDelta(delta)
}

// path returns the path through it.
func (d *direct) path() path {
	return path{name: "a direct push", proxy: net.JoinHostPort("127.0.0.1", strconv.Itoa(directPort)), held: d.held}
}

// held returns the number of queued requests.
func (d *direct) held(context.Context) (int, error) {
	counts, _ := d.checks.Counts()
	sum := 0
	for _, count := range counts {
		sum += count.Waiting
	}
	return sum, nil
}

// stop stops it.
func (d *direct) stop() error {
	var err error
	if d.envoy != nil {
		err = d.envoy.Kill()
	}
	if d.over != nil {
		d.checks.Close()
		d.server.Close()
		d.over.Stop()
	}
	return err
}
