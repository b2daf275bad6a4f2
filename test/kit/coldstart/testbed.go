// Package coldstart is a testbed for scale-from-zero. It runs an API server, the built interceptor as its
// ServiceAccount, and Envoy with the installed bootstrap, for tests and benchmarks of queued requests. One server of
// this process answers for the Pods of all apps, which begin without endpoints. The package requires the network of
// package netspace.
package coldstart

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/identity"
	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/envoyproc"
	"github.com/kedify/argo-rollouts-plugin/test/kit/netspace"
	"github.com/kedify/argo-rollouts-plugin/test/kit/program"
	"github.com/kedify/argo-rollouts-plugin/test/kit/traffic"
)

const (
	// Namespace is the namespace of the apps and of their proxy.
	Namespace = "apps"
	// Proxy is the address of Envoy's listener.
	Proxy = "127.0.0.1:8080"
	// healthPort is the interceptor's health port: the proxy listens on the default port, on all addresses.
	healthPort = 8081
	// waitingMetric is the interceptor's gauge of queued requests.
	waitingMetric = "kedify_hold_waiting_requests"
)

var errNotReady = errors.New("not ready")

// Options configure a Testbed.
type Options struct {
	// Binaries are the programs of the API server, and Envoy is the path of Envoy.
	Binaries apiserver.Binaries
	Envoy    string
	// Repository is the folder of the repository, for its manifests, and Built the folder of the built interceptor.
	Repository, Built string
	// Folder is an empty folder for files.
	Folder string
	// Apps is the number of apps, and QueueDeadline the limit for which their requests are queued.
	Apps          int
	QueueDeadline time.Duration
	// Workers is the number of Envoy's workers.
	Workers int
	// Arguments are more arguments of the interceptor, and Environment are more environment variables of it, each as
	// NAME=value.
	Arguments, Environment []string
	// Relay returns an address that forwards the interceptors' connections to an address of the API server; nil for none.
	Relay func(target string) string
	// Certificate is the data of the Secret with the interceptor's certificate. The proxies are those of the agent then,
	// which trust its CA and have a token. nil means proxies that connect without TLS.
	Certificate map[string][]byte
	// IsPlaintext means proxies without TLS and without a token, although the interceptor has a certificate.
	IsPlaintext bool
}

// Testbed is the running environment. Create it with Start.
type Testbed struct {
	Options

	// Plane is the API server, and Admin a client with all permissions.
	Plane *apiserver.ControlPlane
	Admin *rest.RESTClient
	// Envoy is the proxy.
	Envoy *envoyproc.Envoy

	app     *http.Server
	service *serviceForwarder
}

// Replica is a running interceptor.
type Replica struct {
	*program.Process

	// Address is the Pod's address. It is unique among the running replicas of a Testbed.
	Address netip.Addr
}

// Start starts everything except interceptors and the proxy: see StartInterceptor and StartProxy.
func Start(ctx context.Context, options Options) (*Testbed, error) {
	s := &Testbed{Options: options}
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

func (s *Testbed) start(ctx context.Context) (err error) {
	if s.app, err = startApp(ctx); err != nil {
		return err
	}
	if s.service, err = listenService(ctx, netspace.Address().String(), "5678", "9901"); err != nil {
		return err
	}
	if s.Plane, err = apiserver.Start(ctx, s.Binaries, s.Folder); err != nil {
		return err
	}
	if s.Admin, err = s.Plane.Client(apiserver.AdminToken); err != nil {
		return err
	}
	config := filepath.Join(s.Repository, "config")
	err = apiserver.ApplyFiles(ctx, s.Admin, "", filepath.Join(config, "crd/http.keda.sh_httpscaledobjects.yaml"),
		filepath.Join(config, "interceptor/namespace.yaml"), filepath.Join(config, "interceptor/rbac.yaml"))
	if err != nil {
		return err
	}
	if err := apiserver.CreateNamespace(ctx, s.Admin, Namespace); err != nil {
		return err
	}
	if s.Certificate != nil {
		err = apiserver.CreateInterceptorCertificate(ctx, s.Admin, s.Certificate)
	}
	if err != nil {
		return err
	}
	return s.populate(ctx)
}

// Stop stops everything except interceptors.
func (s *Testbed) Stop() error {
	var errs error
	if s.Envoy != nil {
		errs = s.Envoy.Kill()
	}
	if s.Plane != nil {
		errs = errors.Join(errs, s.Plane.Stop())
	}
	if s.service != nil {
		errs = errors.Join(errs, s.service.close())
	}
	if s.app != nil {
		errs = errors.Join(errs, s.app.Close())
	}
	return errs
}

// Disconnect closes the connections of the proxy to interceptors.
func (s *Testbed) Disconnect() { s.service.disconnect() }

// ReplicaAddress returns the address of the interceptor with a number from 0 to 100.
func ReplicaAddress(number int) netip.Addr {
	address := netspace.Address().Next()
	for range number {
		address = address.Next()
	}
	return address
}

// DashboardAddress returns the address of the live page of the replica with an address: one on the loopback interface.
func DashboardAddress(replica netip.Addr) string {
	octets := replica.As4()
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, octets[3]}), 9091).String()
}

// StartInterceptor starts the interceptor with a number, waits until it is ready, and forwards new connections of the
// Service to it.
func (s *Testbed) StartInterceptor(ctx context.Context, number int) (*Replica, error) {
	address := ReplicaAddress(number)
	folder, err := os.MkdirTemp(s.Folder, "interceptor")
	if err != nil {
		return nil, err
	}
	kubeconfig := filepath.Join(folder, "kubeconfig")
	apiServer := s.Plane.Address()
	if s.Relay != nil {
		apiServer = s.Relay(apiServer)
	}
	if err := s.Plane.WriteKubeconfigVia(apiServer, kubeconfig, apiserver.InterceptorToken); err != nil {
		return nil, err
	}
	at := func(port int) string { return netip.AddrPortFrom(address, uint16(port)).String() } //nolint:gosec // a port
	variables := append(program.InterceptorVariables(), s.Environment...)
	process, err := program.StartWith(ctx, folder, variables, filepath.Join(s.Built, "interceptor"), append([]string{
		"--kubeconfig=" + kubeconfig, "--pod-ip=" + address.String(), "--pod-name=interceptor-" + address.String(),
		"--access-log=false",
		"--xds-address=" + at(5678), "--metric-sink-address=" + at(9901), "--admin-address=" + at(9090),
		"--proxy-address=" + at(healthPort), "--metrics-address=" + at(2223),
		"--dashboard-address=" + DashboardAddress(address),
	}, s.arguments()...)...)
	if err != nil {
		return nil, err
	}
	r := &Replica{process, address}
	err = process.Await(ctx, func(ctx context.Context) error {
		answer, err := traffic.Get(ctx, "http://"+at(healthPort)+"/readyz", "", nil)
		if err == nil && answer.Status != http.StatusOK {
			err = fmt.Errorf("%w: /readyz answers %d", errNotReady, answer.Status)
		}
		return err
	})
	if err == nil {
		err = s.publishInterceptor(ctx, address)
	}
	if err != nil {
		return nil, errors.Join(err, process.Kill())
	}
	s.service.setTarget(address.String())
	return r, nil
}

// arguments returns the additional arguments of an interceptor.
func (s *Testbed) arguments() []string {
	if s.Certificate != nil { // The Secret has the default name.
		return s.Arguments
	}
	return append(slices.Clone(s.Arguments), "--interceptor-tls-secret=")
}

// Terminate sends SIGTERM, as the kubelet does. It does not wait for the end of the process.
func (r *Replica) Terminate() error { return r.Signal(syscall.SIGTERM) }

// Queued returns the number of requests in the interceptor's queue.
func (r *Replica) Queued(ctx context.Context) (int, error) { return r.Metric(ctx, waitingMetric) }

// Metric returns the value of a metric of the interceptor, by its name with its labels.
func (r *Replica) Metric(ctx context.Context, name string) (int, error) {
	answer, err := traffic.Get(ctx, "http://"+r.Address.String()+":2223/metrics", "", nil)
	if err != nil {
		return 0, err
	}
	number, err := traffic.Metric(answer.Body, name)
	return int(number), err
}

// StartProxy starts or restarts Envoy, and waits until it is ready.
func (s *Testbed) StartProxy(ctx context.Context) error {
	const service = "keda-add-ons-http-interceptor-kedify-proxy-metric-sink." + httpv1alpha1.DefaultInterceptorNamespace
	changes := [][2]string{
		{"{address: " + service, "{address: " + netspace.Address().String()},
		{"address: 0.0.0.0, port_value: 9901", "address: 127.0.0.1, port_value: 0"},
		{"port_value: 9902", "port_value: 0"},
	}
	bootstrap, err := s.bootstrap(ctx, changes)
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp(s.Folder, "envoy")
	if err != nil {
		return err
	}
	s.Envoy, err = envoyproc.Start(ctx, s.Options.Envoy, folder, bootstrap, max(1, s.Workers))
	return err
}

// bootstrap returns the bootstrap of the proxy with changes: the installed one, or with a Certificate that of the
// agent, whose ConfigMap and token are in a new folder.
func (s *Testbed) bootstrap(ctx context.Context, changes [][2]string) (string, error) {
	if s.Certificate == nil || s.IsPlaintext {
		return envoyproc.InstalledBootstrap(s.Repository, changes...)
	}
	folder, err := os.MkdirTemp(s.Folder, "mount")
	if err != nil {
		return "", err
	}
	token, err := apiserver.PodToken(ctx, s.Admin, Namespace, podAt(netspace.Address()), identity.Audience)
	if err != nil {
		return "", err
	}
	return envoyproc.AgentBootstrap(folder, s.Certificate[corev1.ServiceAccountRootCAKey], token, changes...)
}
