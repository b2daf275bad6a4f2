package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/bench/internal/bareserver"
	"github.com/kedify/argo-rollouts-plugin/bench/internal/pace"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/identity"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/transport"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/envoyproc"
	"github.com/kedify/argo-rollouts-plugin/test/kit/loopback"
	"github.com/kedify/argo-rollouts-plugin/test/kit/netspace"
	"github.com/kedify/argo-rollouts-plugin/test/kit/process"
	"github.com/kedify/argo-rollouts-plugin/test/kit/program"
	"github.com/kedify/argo-rollouts-plugin/test/kit/traffic"
)

const (
	// creators is the number of applications that are created in parallel.
	creators = 8
	// xdsPort, sinkPort, healthPort, adminPort and metricsPort are the interceptor's. Envoy Gateway uses its own default,
	// 8081, on all addresses.
	xdsPort, sinkPort, healthPort, adminPort, metricsPort = 5678, 9901, 8082, 9090, 2223
	// calm is the minimum pause between two samples. The maximum is twice as long.
	calm = 25 * time.Millisecond
)

var errNotReady = errors.New("not ready")

// environment contains all running processes of one shape.
type environment struct {
	options
	shape

	began       time.Time
	folder      string
	plane       *apiserver.ControlPlane
	client      *rest.RESTClient
	kubeconfig  string
	binary      string // of the interceptor
	at          map[string]endpoint
	ends        []func() error
	apps        []application
	interceptor *program.Process
	// interceptorAt and proxiesAt are their folders in /proc.
	interceptorAt process.Folder
	proxiesAt     []process.Folder
	xdsAt, sinkAt netip.AddrPort
	metricsURL    string
	certificate   map[string][]byte // of the interceptor, with --tls
	proxies       []*envoyproc.Envoy
	bare          *bareserver.Server
	side          int // of the measured host
}

// start starts the components that do not depend on the size.
func (s *environment) start(ctx context.Context) error {
	s.began = time.Now()
	s.kubeconfig = filepath.Join(s.folder, "kubeconfig")
	plane := filepath.Join(s.folder, "controlplane")
	err := os.Mkdir(plane, 0o700)
	if err != nil {
		return err
	}
	if s.plane, err = apiserver.Start(ctx, s.Binaries, plane); err != nil {
		return err
	}
	if s.client, err = s.plane.Client(apiserver.AdminToken); err != nil {
		return err
	}
	crd, err := os.ReadFile(filepath.Clean(filepath.Join(s.Repository, "config/crd/http.keda.sh_httpscaledobjects.yaml")))
	if err != nil {
		return err
	}
	if err := apiserver.Apply(ctx, s.client, metav1.NamespaceDefault, string(crd)); err != nil {
		return err
	}
	if s.envoyGateway.Part != "" {
		if err := s.envoyGateway.Install(ctx, s.client); err != nil {
			return err
		}
	}
	namespaces := []string{httpv1alpha1.DefaultInterceptorNamespace}
	for fleet := range s.Fleets {
		namespaces = append(namespaces, fleetName(fleet))
	}
	for _, name := range namespaces {
		if err := apiserver.CreateNamespace(ctx, s.client, name); err != nil {
			return err
		}
	}
	if s.tls {
		name := transport.Name(httpv1alpha1.DefaultInterceptorNamespace)
		if s.certificate, err = kit.CreateServerCertificate(name); err != nil {
			return err
		}
		if err := apiserver.CreateInterceptorCertificate(ctx, s.client, s.certificate); err != nil {
			return err
		}
	}
	if err := s.plane.WriteKubeconfig(s.kubeconfig, apiserver.AdminToken); err != nil {
		return err
	}
	if err := s.startPods(ctx); err != nil {
		return err
	}
	return errors.Join(
		apiserver.Create(ctx, s.client, slicesPath(fleetName(0)), proxySlice("", true, netspace.Address())),
		apiserver.Create(ctx, s.client, slicesPath(fleetName(0)), proxySlice("-joining", false, relayAddresses()...)),
	)
}

// stop stops everything.
func (s *environment) stop() error {
	errs := s.stopProxies()
	for _, end := range s.ends {
		errs = errors.Join(errs, end())
	}
	if s.plane != nil {
		errs = errors.Join(errs, s.plane.Stop())
	}
	return errs
}

// stopProxies stops the interceptor, the bare server and both proxies.
func (s *environment) stopProxies() error {
	var errs error
	if s.interceptor != nil {
		errs = s.interceptor.Kill()
	}
	for _, proxy := range s.proxies {
		errs = errors.Join(errs, proxy.Kill())
	}
	if s.bare != nil {
		s.bare.Stop()
	}
	s.interceptor, s.proxies, s.bare = nil, nil, nil
	return errs
}

// populate creates the applications. All have the same pods.
func (s *environment) populate(ctx context.Context) error {
	for i := range s.Objects {
		s.apps = append(s.apps, s.application(i, 0, s.at))
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(creators)
	for i, app := range s.apps {
		group.Go(func() error {
			if err := app.create(ctx, s.client); err != nil || s.envoyGateway.Part == "" {
				return err
			}
			return createRoute(ctx, s.client, i)
		})
	}
	return group.Wait()
}

// startInterceptor starts the built interceptor and waits until it serves.
func (s *environment) startInterceptor(ctx context.Context) error {
	// The proxy's source address is its destination address, which an EndpointSlice may contain.
	s.xdsAt = netip.AddrPortFrom(netspace.Address(), xdsPort)
	s.sinkAt = netip.AddrPortFrom(netspace.Address(), sinkPort)
	address := loopback.Address()
	at := func(port uint16) string { return netip.AddrPortFrom(address, port).String() }
	secret := "" // no TLS
	if s.tls {
		secret = httpv1alpha1.InterceptorTLSSecret
	}
	var err error
	s.interceptor, err = program.StartWith(ctx, s.folder, program.InterceptorVariables(), s.binary, "--kubeconfig",
		s.kubeconfig, "--xds-address", s.xdsAt.String(),
		"--proxy-address", at(healthPort), "--admin-address", at(adminPort), "--metrics-address", at(metricsPort),
		"--metric-sink-address", s.sinkAt.String(), "--dashboard-address=127.0.0.1:0", "--pod-name", "bench",
		"--access-log=false", "--interceptor-tls-secret="+secret, "--max-objects-per-namespace=0", "--max-hosts-per-namespace=0")
	if err != nil {
		return err
	}
	if s.interceptorAt, err = process.Find(s.interceptor.PID()); err != nil {
		return err
	}
	s.metricsURL = "http://" + at(metricsPort) + "/metrics"
	return s.interceptor.Await(ctx, func(ctx context.Context) error {
		answer, err := traffic.Get(ctx, "http://"+at(healthPort)+"/readyz", "", nil)
		if err == nil && answer.Status != http.StatusOK {
			err = fmt.Errorf("%w: /readyz answers %d", errNotReady, answer.Status)
		}
		return err
	})
}

// measuredProxy returns the address of the interceptor's proxy.
func measuredProxy() netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), translate.ListenerPort)
}

// startProxies starts the interceptor and the bare server with a proxy each, and waits until both serve. It returns
// pollers of the interceptor's proxy and of the bare server's.
func (s *environment) startProxies(ctx context.Context) (ours, theirs poller, err error) {
	if err := s.startInterceptor(ctx); err != nil {
		return poller{}, poller{}, err
	}
	if s.bare, err = bareserver.Start(ctx); err != nil {
		return poller{}, poller{}, err
	}
	if err := s.buildForms(); err != nil {
		return poller{}, poller{}, err
	}
	measured := bareserver.Proxy{Binary: s.Envoy, Repository: s.Repository, Folder: s.folder, Discovery: s.xdsAt}
	bare := measured
	bare.Discovery = s.bare.Address
	if s.sink {
		measured.Sink = s.sinkAt
	}
	if s.tls {
		measured.CA = s.certificate[corev1.ServiceAccountRootCAKey]
		if measured.Token, err = apiserver.PodToken(ctx, s.client, fleetName(0), "bench", identity.Audience); err != nil {
			return poller{}, poller{}, err
		}
	}
	for _, configured := range []bareserver.Proxy{measured, bare} {
		proxy, err := configured.Start(ctx)
		if err != nil {
			return poller{}, poller{}, err
		}
		at, err := process.Find(proxy.PID())
		if err != nil {
			return poller{}, poller{}, err
		}
		s.proxies, s.proxiesAt = append(s.proxies, proxy), append(s.proxiesAt, at)
	}
	return newPoller(measuredProxy(), hostOf(0)), newPoller(s.bare.Proxy, hostOf(0)), nil
}

// buildForms builds all resources of the bare server: those that the interceptor computes from the same objects, by the
// same code. There are two forms, with the weights of either side; in all applications but the first the endpoints
// differ, too.
func (s *environment) buildForms() error {
	var local []int
	for i := 0; i < s.Objects; i += s.Fleets {
		local = append(local, i)
	}
	var forms [2]translate.Resources
	for form, weight := range []uint32{0, 100} {
		var apps []application
		for _, i := range local {
			at := s.at
			if form == 1 && i > 0 {
				at = unreachable(i)
			}
			apps = append(apps, s.application(i, weight, at))
		}
		var err error
		if forms[form], err = resourcesOf(apps); err != nil {
			return err
		}
	}
	return s.bare.SetForms(forms[:]...)
}

// resourcesOf translates applications.
func resourcesOf(apps []application) (translate.Resources, error) {
	config, problems := resolve.Build(inputsOf(apps))
	if len(problems) > 0 {
		return nil, fmt.Errorf("invalid objects: %v", problems)
	}
	chosen := translate.DefaultOptions()
	chosen.AccessLog = false // Nor has the interceptor's proxy one.
	return chosen.Envoy(config)
}

// weights are the canary weights at which a side receives every request, by the number of the side.
func weights() [2]uint32 { return [2]uint32{0, 100} }

// pause waits for a random time, so that samples are not in step with anything.
func pause(ctx context.Context) {
	_ = pace.Wait(ctx, calm+rand.N(calm)) //nolint:gosec // Spreads samples over the interceptor's interval. The next step notices the end of ctx.
}
