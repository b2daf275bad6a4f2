package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"google.golang.org/protobuf/types/known/anypb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/testkit/controlplane"
	"github.com/kedify/argo-rollouts-plugin/internal/testkit/envoyproc"
	"github.com/kedify/argo-rollouts-plugin/internal/testkit/program"
	"github.com/kedify/argo-rollouts-plugin/internal/testkit/traffic"
	"github.com/kedify/argo-rollouts-plugin/internal/translate"
)

const (
	// startLimit is how long the interceptor may take until it is ready.
	startLimit = time.Minute
	// creators is how many applications are created at a time.
	creators = 8
	// calm is how long everything may calm down between two samples, up to twice as long: the interceptor writes a status when a proxy has taken a weight.
	calm = 60 * time.Millisecond
)

var (
	errNoAddress = errors.New("no address for the pods")
	errNotReady  = errors.New("not ready")
	errPortTaken = errors.New("port is taken")
)

// stage is everything that runs.
type stage struct {
	options

	folder      string
	plane       *controlplane.ControlPlane
	client      *rest.RESTClient
	kubeconfig  string
	binary      string // of the interceptor
	at          map[string]endpoint
	ends        []func() error
	apps        []application
	interceptor *program.Process
	xdsPort     int
	proxies     []*envoyproc.Envoy
	bare        *bare
}

// start starts what is the same for all sizes.
func (s *stage) start(ctx context.Context) error {
	if err := checkFree(ctx, translate.ListenerPort); err != nil {
		return err
	}
	s.binary, s.kubeconfig = filepath.Join(s.folder, "interceptor"), filepath.Join(s.folder, "kubeconfig")
	if err := program.BuildStripped(ctx, s.repo, s.folder, "interceptor"); err != nil {
		return err
	}
	plane := filepath.Join(s.folder, "controlplane")
	err := os.Mkdir(plane, 0o700)
	if err != nil {
		return err
	}
	if s.plane, err = controlplane.Start(ctx, s.binaries, plane); err != nil {
		return err
	}
	if s.client, err = s.plane.Client(controlplane.AdminToken); err != nil {
		return err
	}
	crd, err := os.ReadFile(filepath.Clean(filepath.Join(s.repo, "config/crd/http.keda.sh_httpscaledobjects.yaml")))
	if err != nil {
		return err
	}
	if err := controlplane.Apply(ctx, s.client, metav1.NamespaceDefault, string(crd)); err != nil {
		return err
	}
	for _, name := range []string{namespace, httpv1alpha1.DefaultInterceptorNamespace} {
		if err := controlplane.CreateNamespace(ctx, s.client, name); err != nil {
			return err
		}
	}
	if err := s.plane.WriteKubeconfig(s.kubeconfig, controlplane.AdminToken); err != nil {
		return err
	}
	return s.startPods(ctx)
}

// stop ends everything.
func (s *stage) stop() error {
	errs := s.stopProxies()
	for _, end := range s.ends {
		errs = errors.Join(errs, end())
	}
	if s.plane != nil {
		errs = errors.Join(errs, s.plane.Stop())
	}
	return errs
}

// stopProxies ends the interceptor, the bare server and both proxies.
func (s *stage) stopProxies() error {
	var errs error
	if s.interceptor != nil {
		errs = s.interceptor.Kill()
	}
	for _, proxy := range s.proxies {
		errs = errors.Join(errs, proxy.Kill())
	}
	if s.bare != nil {
		s.bare.server.Stop()
	}
	s.interceptor, s.proxies, s.bare = nil, nil, nil
	return errs
}

// checkFree says whether a port can be listened on: that of the proxy's listener is fixed.
func checkFree(ctx context.Context, port int) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", ":"+strconv.Itoa(port))
	if err != nil {
		return fmt.Errorf("%w: the proxy listens on port %d; stop what uses it, or run this in a network namespace of its own: %w", errPortTaken, port, err)
	}
	return listener.Close()
}

// grow creates applications until there are count. The first one has real pods.
func (s *stage) grow(ctx context.Context, count int) error {
	made, jobs := len(s.apps), make(chan application)
	for i := made; i < count; i++ {
		at := elsewhere(i)
		if i == 0 {
			at = s.at
		}
		s.apps = append(s.apps, newApplication(i, 0, at))
	}
	failed := make(chan error, creators)
	for range creators {
		go func() {
			var errs error
			for app := range jobs {
				errs = errors.Join(errs, app.create(ctx, s.client))
			}
			failed <- errs
		}()
	}
	for _, app := range s.apps[made:] {
		jobs <- app
	}
	close(jobs)
	var errs error
	for range creators {
		errs = errors.Join(errs, <-failed)
	}
	return errs
}

// startInterceptor starts the built interceptor and waits until it serves.
func (s *stage) startInterceptor(ctx context.Context) error {
	ports, err := controlplane.FreePorts(4)
	if err != nil {
		return err
	}
	s.xdsPort = ports[0]
	at := func(i int) string { return "127.0.0.1:" + strconv.Itoa(ports[i]) }
	s.interceptor, err = program.Start(ctx, s.folder, s.binary, "--kubeconfig", s.kubeconfig, "--xds-address", at(0),
		"--proxy-address", at(1), "--admin-address", at(2), "--metrics-address", at(3), "--pod-name", "bench", "--access-log=false")
	if err != nil {
		return err
	}
	return s.interceptor.Await(ctx, startLimit, func(ctx context.Context) error {
		answer, err := traffic.Ask(ctx, "http://"+at(1)+"/readyz", "", nil)
		if err == nil && answer.Status != http.StatusOK {
			err = fmt.Errorf("%w: /readyz answers %d", errNotReady, answer.Status)
		}
		return err
	})
}

// startProxies starts the interceptor and the bare server, a proxy of each, and waits until both serve. It returns pollers of the interceptor's and the bare
// one's, and the scopes of the first application that the bare server can push, by side.
func (s *stage) startProxies(ctx context.Context) (ours, theirs poller, scopes map[string]*anypb.Any, err error) {
	if err := s.startInterceptor(ctx); err != nil {
		return poller{}, poller{}, nil, err
	}
	if s.bare, err = startBare(ctx); err != nil {
		return poller{}, poller{}, nil, err
	}
	if scopes, err = s.prebuild(); err != nil {
		return poller{}, poller{}, nil, err
	}
	for _, port := range []int{s.xdsPort, s.bare.xdsPort} {
		if err := s.startEnvoy(ctx, port); err != nil {
			return poller{}, poller{}, nil, err
		}
	}
	return newPoller(translate.ListenerPort, hostOf(0)), newPoller(s.bare.proxyPort, hostOf(0)), scopes, nil
}

// prebuild makes everything that the bare server sends: the resources that the interceptor makes of the same objects, by the same code.
func (s *stage) prebuild() (map[string]*anypb.Any, error) {
	scopes := map[string]*anypb.Any{}
	chosen := translate.DefaultOptions()
	chosen.AccessLog = false // Nor has the interceptor's proxy one.
	for side, weight := range weights() {
		apps := slices.Clone(s.apps)
		apps[0] = newApplication(0, weight, s.at)
		config, problems := resolve.Build(worldOf(apps))
		if len(problems) > 0 {
			return nil, fmt.Errorf("the objects are wrong: %v", problems)
		}
		resources, err := chosen.Envoy(config)
		if err != nil {
			return nil, err
		}
		if scopes[side], err = anypb.New(resources[resourcev3.ScopedRouteType][hostOf(0)]); err != nil {
			return nil, err
		}
		if err := s.bare.hold(resources); err != nil {
			return nil, err
		}
	}
	return scopes, nil
}

// weights are the canary weights at which a side gets every request.
func weights() map[string]uint32 { return map[string]uint32{"-stable": 0, "-canary": 100} }

// pause lets everything calm down, for a time that is not in step with anything.
func pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(calm + rand.N(calm)): //nolint:gosec // Spreads samples over the interceptor's interval.
	}
}
