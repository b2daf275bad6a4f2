package coldstart

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
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

// AppPort is the port of the server that all apps share.
const AppPort = 18080

// AppName returns the name of an app and of its Service.
func AppName(i int) string { return fmt.Sprintf("web-%03d", i) }

// AppHost returns the host of an app.
func AppHost(i int) string { return AppName(i) + ".test" }

// AppBody is the response body of an app.
const AppBody = "awake\n"

// BytesPath is a path below which an app responds with as many bytes as the rest of the path says, at most 64 KiB.
const BytesPath = "/bytes/"

// startApp starts the server of all apps.
func startApp(ctx context.Context) (*http.Server, error) {
	address := netip.AddrPortFrom(netspace.Address(), AppPort)
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address.String())
	if err != nil {
		return nil, err
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter,
		r *http.Request,
	) {
		_, _ = io.Copy(io.Discard, r.Body) // Clients may send bodies of any size.
		body := []byte(AppBody)
		if rest, has := strings.CutPrefix(r.URL.Path, BytesPath); has {
			count, _ := strconv.ParseUint(rest, 10, 16) // anything else is 0
			body = bytes.Repeat([]byte("x"), int(count))
		}
		_, _ = w.Write(body)
	})}
	go func() { _ = server.Serve(listener) }() // It returns after Close.
	return server, nil
}

// populate creates the apps without endpoints, and the proxy's EndpointSlice.
func (s *Testbed) populate(ctx context.Context) error {
	if err := s.createSlice(ctx, Namespace, resolve.ProxyService, "http", translate.ListenerPort,
		netspace.Address()); err != nil {
		return err
	}
	return s.ForEachApp(ctx, s.create)
}

// ForEachApp calls do for each app, a few in parallel, until the first error.
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

// publishInterceptor creates or updates the EndpointSlices through which clients find an interceptor.
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

// createSlice creates the EndpointSlice of a Service, with the Service's name.
func (s *Testbed) createSlice(
	ctx context.Context, namespace, service, portName string, port int32, addresses ...netip.Addr,
) error {
	return apiserver.Create(ctx, s.Admin, slicesPath(namespace), &discoveryv1.EndpointSlice{
		TypeMeta: metav1.TypeMeta{APIVersion: discoveryv1.SchemeGroupVersion.String(), Kind: "EndpointSlice"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: service, Labels: map[string]string{discoveryv1.LabelServiceName: service},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: &portName, Port: &port}},
		Endpoints:   endpointsAt(addresses...),
	})
}

// endpointsAt returns the endpoints of ready Pods.
func endpointsAt(addresses ...netip.Addr) []discoveryv1.Endpoint {
	endpoints := make([]discoveryv1.Endpoint, 0, len(addresses))
	for _, address := range addresses {
		endpoints = append(endpoints, discoveryv1.Endpoint{
			Addresses: []string{address.String()}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)},
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: podAt(address)},
		})
	}
	return endpoints
}

// podAt returns the name of the Pod with an address.
func podAt(address netip.Addr) string { return "interceptor-" + address.String() }

// SetReady adds or removes the endpoint of an app.
func (s *Testbed) SetReady(ctx context.Context, app int, isReady bool) error {
	return s.setEndpoint(ctx, AppName(app), isReady)
}

// setEndpoint adds or removes the endpoint of a Service.
func (s *Testbed) setEndpoint(ctx context.Context, service string, hasEndpoint bool) error {
	var endpoints []discoveryv1.Endpoint
	if hasEndpoint {
		endpoints = endpointsAt(netspace.Address())
	}
	return apiserver.Patch(ctx, s.Admin, slicesPath(Namespace)+"/"+service, "test", map[string]any{"endpoints": endpoints})
}

// decoy returns the name of a Service that no app uses.
func decoy(i int) string { return fmt.Sprintf("decoy-%03d", i) }

// CreateDecoys creates an EndpointSlice per app for a Service that no app uses. A write to it costs the API server, and
// its watchers, as much as a write to the app's slice.
func (s *Testbed) CreateDecoys(ctx context.Context) error {
	return s.ForEachApp(ctx, func(ctx context.Context, app int) error {
		return s.createSlice(ctx, Namespace, decoy(app), "http", AppPort)
	})
}

// SetDecoy is SetReady for the Service of CreateDecoys.
func (s *Testbed) SetDecoy(ctx context.Context, app int, isReady bool) error {
	return s.setEndpoint(ctx, decoy(app), isReady)
}

// slicesPath returns the REST path of EndpointSlices.
func slicesPath(namespace string) string {
	return "/apis/" + discoveryv1.SchemeGroupVersion.String() + "/namespaces/" + namespace + "/endpointslices"
}
