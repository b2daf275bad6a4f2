package footprint

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/netspace"
	"github.com/kedify/argo-rollouts-plugin/test/kit/process"
	"github.com/kedify/argo-rollouts-plugin/test/kit/program"
	"github.com/kedify/argo-rollouts-plugin/test/kit/shipped"
	"github.com/kedify/argo-rollouts-plugin/test/kit/traffic"
)

const (
	// joinLimit is the limit of the memory of TestJoin, in bytes.
	joinLimit = 400_000_000
	// creators is the number of objects that are created in parallel.
	creators = 16
	// Ports of the interceptor.
	discoveryPort, sinkPort, adminPort, healthPort, metricsPort = 5678, 9901, 9090, 8081, 2223
)

// errNotReady means that the interceptor is not ready.
var errNotReady = errors.New("not ready")

func TestMain(m *testing.M) {
	os.Exit(netspace.Main(m, func(folder string) error {
		return program.Build(context.Background(), folder, "v9.9.9-test", "interceptor")
	}))
}

// TestJoin has 50 proxies of one fleet connect to the built interceptor at the same time, with 10,000 objects on a real
// API server. The interceptor has the settings of its manifest.
func TestJoin(t *testing.T) {
	size := size{fleets: 1, objects: 10_000, proxies: 50}
	started, address := size.startBuilt(t, size.startAPIServer(t))
	memory, err := process.Find(started.PID())
	if err != nil {
		t.Fatal(err)
	}
	limit, _, err := shipped.Settings(shipped.Interceptor)
	if err != nil {
		t.Fatal(err)
	}
	peakInMB := func() float64 {
		peak, err := memory.Peak()
		if err != nil {
			t.Fatal(err)
		}
		return float64(peak) / 1e6
	}
	atStart := peakInMB()
	before, err := memory.Memory()
	if err = errors.Join(err, memory.ResetPeak()); err != nil {
		t.Fatal(err)
	}
	size.join(t, address)
	peak := peakInMB()
	t.Logf(`memory of the interceptor with %d objects, in MB
peak at its start           %4.0f
before the proxies          %4.0f
peak while %d proxies join  %4.0f, at most %.0f are allowed, the container's limit is %.0f`,
		size.objects, atStart, before.Resident, size.proxies, peak, joinLimit/1e6, float64(limit)/1e6)
	if peak > joinLimit/1e6 {
		t.Errorf("%.0f MB while proxies join, want at most %.0f", peak, joinLimit/1e6)
	}
}

// join connects the proxies and waits until each has received the scope of every object.
func (s size) join(t *testing.T, address string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var received atomic.Int64
	joining := &interceptor{
		tb: t, address: address, isOver: func() bool { return ctx.Err() != nil },
		onScopes: func(count int) { received.Add(int64(count)) },
	}
	for i := range s.proxies {
		joining.running.Go(func() { joining.runProxy(ctx, proxyAddress(i)) })
	}
	for i := range s.proxies { // Each has its own patience.
		await.Described(t, fmt.Sprintf("%d proxies to receive every scope", i+1), func() bool {
			return received.Load() >= int64((i+1)*s.objects)
		}, func() string { return fmt.Sprintf("%d scopes", received.Load()) })
	}
	cancel()
	joining.running.Wait()
}

// startAPIServer starts an API server with the objects, and returns a kubeconfig. It stops with the test.
func (s size) startAPIServer(t *testing.T) (kubeconfig string) {
	t.Helper()
	binaries, err := apiserver.FromEnvironment(os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	binaries.Environment = nil // Otherwise the API server takes gigabytes.
	folder := t.TempDir()
	plane, err := apiserver.Start(context.WithoutCancel(t.Context()), binaries, folder)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	})
	admin, err := plane.Client(apiserver.AdminToken)
	if err == nil {
		err = s.populate(t.Context(), admin)
	}
	kubeconfig = filepath.Join(folder, "kubeconfig")
	if err = errors.Join(err, plane.WriteKubeconfig(kubeconfig, apiserver.AdminToken)); err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

// startBuilt starts the built interceptor, and returns the address of its port for proxies. It stops with the test.
func (s size) startBuilt(t *testing.T, kubeconfig string) (started *program.Process, address string) {
	t.Helper()
	at := func(port uint16) string { return netip.AddrPortFrom(netspace.Address(), port).String() }
	_, variables, err := shipped.Settings(shipped.Interceptor)
	if err != nil {
		t.Fatal(err)
	}
	started, err = program.StartWith(context.WithoutCancel(t.Context()), t.TempDir(), variables,
		filepath.Join(netspace.Folder(), "interceptor"), "--kubeconfig="+kubeconfig, "--pod-name=interceptor",
		"--access-log=false", "--max-objects-per-namespace=0", "--max-hosts-per-namespace=0",
		"--xds-address="+at(discoveryPort), "--metric-sink-address="+at(sinkPort), "--admin-address="+at(adminPort),
		"--proxy-address="+at(healthPort), "--metrics-address="+at(metricsPort),
		"--dashboard-address=127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	started.StopWithTest(t)
	if err := started.Await(t.Context(), func(ctx context.Context) error {
		answer, err := traffic.Get(ctx, "http://"+at(healthPort)+"/readyz", "", nil)
		if err == nil && answer.Status != http.StatusOK {
			err = fmt.Errorf("%w: /readyz answers %d", errNotReady, answer.Status)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return started, at(discoveryPort)
}

// populate creates the CRD, the namespaces, and all objects.
func (s size) populate(ctx context.Context, admin rest.Interface) error {
	err := apiserver.ApplyFiles(ctx, admin, metav1.NamespaceDefault,
		"../../config/crd/http.keda.sh_httpscaledobjects.yaml")
	namespaces := []string{httpv1alpha1.DefaultInterceptorNamespace}
	for i := range s.fleets {
		namespaces = append(namespaces, s.fleetName(i))
	}
	for _, name := range namespaces {
		err = errors.Join(err, apiserver.CreateNamespace(ctx, admin, name))
	}
	if err = errors.Join(err, create(ctx, admin, "/apis/discovery.k8s.io/v1", "endpointslices", s.proxiesSlice())); err != nil {
		return err
	}
	jobs, failed := make(chan int), make(chan error, creators)
	for range creators {
		go func() {
			var errs error
			for i := range jobs {
				errs = errors.Join(errs, s.createObject(ctx, admin, i))
			}
			failed <- errs
		}()
	}
	for i := range s.objects {
		jobs <- i
	}
	close(jobs)
	for range creators {
		err = errors.Join(err, <-failed)
	}
	return err
}

// createObject creates object i with its Services and their endpoints.
func (s size) createObject(ctx context.Context, admin rest.Interface, i int) error {
	var errs error
	for _, side := range []string{"-stable", "-canary"} {
		service := s.service(i, side)
		service.Spec.ClusterIP, service.Spec.ClusterIPs = corev1.ClusterIPNone, nil // Each address belongs to one Service.
		errs = errors.Join(errs, create(ctx, admin, "/api/v1", "services", service),
			create(ctx, admin, "/apis/discovery.k8s.io/v1", "endpointslices", s.slice(i, side)))
	}
	object := s.scaledObject(i, 0, httpv1alpha1.HTTPScaledObjectStatus{})
	return errors.Join(errs, create(ctx, admin, "/apis/"+httpv1alpha1.SchemeGroupVersion.String(), httpv1alpha1.Resource,
		object))
}

// create creates an object, without the metadata that the API server sets.
func create(ctx context.Context, admin rest.Interface, group, resource string, object metav1.Object) error {
	object.SetResourceVersion("")
	object.SetUID("")
	object.SetManagedFields(nil)
	return apiserver.Create(ctx, admin, group+"/namespaces/"+object.GetNamespace()+"/"+resource, object)
}
