// Package envoygateway runs Envoy Gateway for benchmarks, as plain processes: the control plane, and one Envoy with the
// bootstrap that the control plane renders. Its configuration is that of its chart.
package envoygateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/envoyproc"
	"github.com/kedify/argo-rollouts-plugin/test/kit/program"
	"github.com/kedify/argo-rollouts-plugin/test/kit/traffic"
)

const (
	// namespace is the namespace of the chart's objects and of the proxies. serviceAddress is the address of the control
	// plane in the bootstrap of the proxies.
	namespace      = "envoy-gateway-system"
	serviceAddress = "envoy-gateway." + namespace + ".svc.cluster.local."
	// healthURL is the URL of the control plane's readiness.
	healthURL = "http://127.0.0.1:8081/readyz"
	// proxyPort is the port of the Gateway's listener in Envoy: privileged ports are moved by 10,000.
	proxyPort = 10080
)

var (
	errPart     = errors.New("not the folder of the part envoy-gateway")
	errNotReady = errors.New("not ready")
)

// Files are the files of Envoy Gateway.
type Files struct {
	// Part is the folder of the built part envoy-gateway. CRDs is the folder of the Gateway API's
	// CustomResourceDefinitions.
	Part, CRDs string
}

// Install applies the CRDs and the chart's objects. No controller starts their Pods.
func (f Files) Install(ctx context.Context, client rest.Interface) error {
	crds, err := filepath.Glob(filepath.Join(f.CRDs, "gateway.networking.k8s.io_*.yaml"))
	if err != nil {
		return err
	}
	own, err := filepath.Glob(filepath.Join(f.Part, "share", "crds", "*.yaml"))
	if err != nil {
		return err
	}
	if len(crds) == 0 || len(own) == 0 {
		return fmt.Errorf("%w, or no CustomResourceDefinitions of the Gateway API: %q, %q", errPart, f.Part, f.CRDs)
	}
	if err := apiserver.ApplyFiles(ctx, client, metav1.NamespaceDefault, slices.Concat(crds, own)...); err != nil {
		return err
	}
	if err := apiserver.CreateNamespace(ctx, client, namespace); err != nil {
		return err
	}
	return apiserver.ApplyFiles(ctx, client, namespace, f.manifest())
}

// manifest returns the file with the chart's objects.
func (f Files) manifest() string { return filepath.Join(f.Part, "share", "install.yaml") }

// Gateway is a running control plane, and its proxy.
type Gateway struct {
	// Control is the control plane. Proxy is its Envoy, nil until StartProxy.
	Control *program.Process
	Proxy   *envoyproc.Envoy

	client rest.Interface
	folder string
	secret map[string][]byte // of the proxy: ca.crt, tls.crt, tls.key
}

// Start creates the certificates as the chart's Job does, and starts the control plane in a root folder of its own,
// which has its certificates in /certs. It returns when the control plane is ready. folder is an existing folder for
// its files. kubeconfig is a file with all permissions.
func (f Files) Start(ctx context.Context, client rest.Interface, folder, kubeconfig string) (*Gateway, error) {
	root := filepath.Join(folder, "envoy-gateway-root")
	if err := f.writeRoot(root, kubeconfig); err != nil {
		return nil, err
	}
	certgen, err := start(ctx, folder, root, "certgen")
	if err != nil {
		return nil, err
	}
	<-certgen.Ended()
	g := &Gateway{client: client, folder: folder}
	certificate, err := g.readSecret(ctx, "envoy-gateway")
	if err != nil {
		text, _ := certgen.Log() // an explanation of the error
		return nil, fmt.Errorf("certificate of Envoy Gateway: %w\n%s", err, text)
	}
	if g.secret, err = g.readSecret(ctx, "envoy"); err != nil {
		return nil, err
	}
	if err := writeFiles(filepath.Join(root, "certs"), certificate); err != nil {
		return nil, err
	}
	if g.Control, err = start(ctx, folder, root, "server", "--config-path=/config/envoy-gateway.yaml"); err != nil {
		return nil, err
	}
	err = g.Control.Await(ctx, func(ctx context.Context) error {
		answer, err := traffic.Get(ctx, healthURL, "", nil)
		if err == nil && answer.Status != http.StatusOK {
			err = fmt.Errorf("%w: %s answers %d", errNotReady, healthURL, answer.Status)
		}
		return err
	})
	if err != nil {
		return nil, errors.Join(err, g.Stop())
	}
	return g, nil
}

// start starts a command of Envoy Gateway in a root folder.
func start(ctx context.Context, folder, root string, args ...string) (*program.Process, error) {
	return program.StartWith(ctx, folder, []string{"KUBECONFIG=/kubeconfig", "TMPDIR=/tmp"}, "chroot",
		slices.Concat([]string{root, "/envoy-gateway"}, args)...)
}

// Stop stops the processes, and removes the root folder.
func (g *Gateway) Stop() error {
	err := g.Control.Kill()
	if g.Proxy != nil {
		err = errors.Join(err, g.Proxy.Kill())
	}
	return errors.Join(err, os.RemoveAll(filepath.Join(g.folder, "envoy-gateway-root")))
}

// StartProxy starts an Envoy with one worker for a Gateway, as the Deployment that the control plane has created
// configures it. It returns the address of the Gateway's listener, whose port is 80, when Envoy is ready.
func (g *Gateway) StartProxy(ctx context.Context, binary, gatewayName string) (netip.AddrPort, error) {
	created, err := g.deployment(ctx, gatewayName)
	if err != nil {
		return netip.AddrPort{}, err
	}
	folder := filepath.Join(g.folder, "envoy-gateway-proxy")
	certs, sds := filepath.Join(folder, "certs"), filepath.Join(folder, "sds")
	if err := writeFiles(certs, g.secret); err != nil {
		return netip.AddrPort{}, err
	}
	if err := g.writeSDS(ctx, created.name, sds, certs); err != nil {
		return netip.AddrPort{}, err
	}
	bootstrap, err := envoyproc.Change(created.argument("--config-yaml"),
		[2]string{"address: " + serviceAddress, "address: 127.0.0.1"},
		[2]string{"/sds/", sds + "/"},
		[2]string{"$(ENVOY_SERVICE_ZONE)", "''"},
		// The control plane has the same ports in its own Pod.
		[2]string{"port_value: 19000", "port_value: 0"},
		[2]string{"port_value: 19001", "port_value: 0"},
	)
	if err != nil {
		return netip.AddrPort{}, err
	}
	g.Proxy, err = envoyproc.Start(ctx, binary, folder, bootstrap, 1,
		"--service-cluster", created.argument("--service-cluster"), "--service-node", "bench")
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), proxyPort), err
}
