package coldstart

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/status/peers"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/netspace"
)

// AppPort is where the one server answers that all apps have.
const AppPort = 18080

// AppName is the name of an app and of its Service, and Host its host.
func AppName(i int) string { return fmt.Sprintf("web-%03d", i) }

// AppHost is the host of an app.
func AppHost(i int) string { return AppName(i) + ".test" }

// AppBody is what an app answers.
const AppBody = "awake\n"

// startApp starts the server.
func startApp(ctx context.Context) (*http.Server, error) {
	address := netip.AddrPortFrom(netspace.Address(), AppPort)
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address.String())
	if err != nil {
		return nil, err
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // What a client sends doesn't matter, only that it may.
		_, _ = io.WriteString(w, AppBody)
	})}
	go func() { _ = server.Serve(listener) }() // It ends with Close.
	return server, nil
}

// populate creates the apps, none of which has an endpoint, and the proxy's EndpointSlice.
func (s *Testbed) populate(ctx context.Context) error {
	if err := s.createSlice(ctx, Namespace, resolve.ProxyService, "http", translate.ListenerPort, netspace.Address()); err != nil {
		return err
	}
	return s.ForEachApp(ctx, s.create)
}

// ForEachApp does something for each app, a few at a time, up to the first error.
func (s *Testbed) ForEachApp(ctx context.Context, do func(ctx context.Context, app int) error) error {
	const atOnce = 8
	group, inGroup := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i := range s.Apps {
		group.Go(func() error { return do(inGroup, i) })
	}
	return group.Wait()
}

// create creates an app without an endpoint.
func (s *Testbed) create(ctx context.Context, i int) error {
	object := kit.NewScaledObject(Namespace, AppName(i), AppName(i), 1, AppHost(i))
	object.ObjectMeta = metav1.ObjectMeta{Namespace: Namespace, Name: AppName(i)}
	object.Spec.Timeouts = &httpv1alpha1.Timeouts{ConditionWait: &metav1.Duration{Duration: s.QueueDeadline}}
	service := kit.NewService(Namespace, AppName(i))
	service.Spec.ClusterIP = corev1.ClusterIPNone
	if err := apiserver.Create(ctx, s.Admin, "/api/v1/namespaces/"+Namespace+"/services", service); err != nil {
		return err
	}
	if err := s.createSlice(ctx, Namespace, AppName(i), "http", AppPort); err != nil {
		return err
	}
	path := "/apis/" + httpv1alpha1.SchemeGroupVersion.String() + "/namespaces/" + Namespace + "/" + httpv1alpha1.Resource
	return apiserver.Create(ctx, s.Admin, path, object)
}

// publishInterceptor creates the EndpointSlices by which others find an interceptor, unless they are there.
func (s *Testbed) publishInterceptor(ctx context.Context, address netip.Addr) error {
	const namespace = httpv1alpha1.DefaultInterceptorNamespace
	for service, port := range map[string]struct {
		name   string
		number int32
	}{
		peers.ServiceName: {peers.PortName, 5678}, "keda-add-ons-http-interceptor-admin": {"admin", 9090},
	} {
		slice := slicesPath(namespace) + "/" + service
		err := s.Admin.Get().AbsPath(slice).Do(ctx).Error()
		if err != nil {
			err = s.createSlice(ctx, namespace, service, port.name, port.number, address)
		} else {
			err = apiserver.Patch(ctx, s.Admin, slice, "test", map[string]any{"endpoints": endpointsAt(address)})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// createSlice creates the EndpointSlice of a Service, of its name.
func (s *Testbed) createSlice(ctx context.Context, namespace, service, portName string, port int32, addresses ...netip.Addr) error {
	return apiserver.Create(ctx, s.Admin, slicesPath(namespace), &discoveryv1.EndpointSlice{
		TypeMeta:    metav1.TypeMeta{APIVersion: discoveryv1.SchemeGroupVersion.String(), Kind: "EndpointSlice"},
		ObjectMeta:  metav1.ObjectMeta{Namespace: namespace, Name: service, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: &portName, Port: &port}},
		Endpoints:   endpointsAt(addresses...),
	})
}

// endpointsAt are ready Pods.
func endpointsAt(addresses ...netip.Addr) []discoveryv1.Endpoint {
	endpoints := make([]discoveryv1.Endpoint, 0, len(addresses))
	for _, address := range addresses {
		endpoints = append(endpoints, discoveryv1.Endpoint{
			Addresses: []string{address.String()}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)},
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: "interceptor-" + address.String()},
		})
	}
	return endpoints
}

// SetReady gives an app its endpoint, or takes it.
func (s *Testbed) SetReady(ctx context.Context, app int, isReady bool) error {
	return s.setEndpoint(ctx, AppName(app), isReady)
}

// setEndpoint gives a Service its endpoint, or takes it.
func (s *Testbed) setEndpoint(ctx context.Context, service string, hasEndpoint bool) error {
	var endpoints []discoveryv1.Endpoint
	if hasEndpoint {
		endpoints = endpointsAt(netspace.Address())
	}
	return apiserver.Patch(ctx, s.Admin, slicesPath(Namespace)+"/"+service, "test", map[string]any{"endpoints": endpoints})
}

// decoy is the name of a Service that no app has.
func decoy(i int) string { return fmt.Sprintf("decoy-%03d", i) }

// CreateDecoys creates the EndpointSlice of a Service beside each app's that no app has: what is written to it costs the API server, and whoever watches, as much as
// what is written to the app's.
func (s *Testbed) CreateDecoys(ctx context.Context) error {
	return s.ForEachApp(ctx, func(ctx context.Context, app int) error {
		return s.createSlice(ctx, Namespace, decoy(app), "http", AppPort)
	})
}

// SetDecoy is SetAwake for the Service beside an app's.
func (s *Testbed) SetDecoy(ctx context.Context, app int, isReady bool) error {
	return s.setEndpoint(ctx, decoy(app), isReady)
}

// slicesPath is the REST path of EndpointSlices.
func slicesPath(namespace string) string {
	return "/apis/" + discoveryv1.SchemeGroupVersion.String() + "/namespaces/" + namespace + "/endpointslices"
}
