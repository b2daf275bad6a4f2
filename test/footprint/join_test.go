package footprint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/netspace"
	"github.com/kedify/argo-rollouts-plugin/test/kit/program"
	"github.com/kedify/argo-rollouts-plugin/test/kit/traffic"
)

func TestMain(m *testing.M) {
	os.Exit(netspace.Main(m, func(folder string) error {
		return program.Build(context.Background(), folder, "v9.9.9-test", "interceptor")
	}))
}

func TestJoin(t *testing.T) {
	ctx := t.Context()
	size := size{1, 10_000, 50}
	if v := os.Getenv("JOIN_OBJECTS"); v != "" {
		fmt.Sscan(v, &size.objects)
	}
	binaries, err := apiserver.FromEnvironment(os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	plane, err := apiserver.Start(context.WithoutCancel(ctx), binaries, folder)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = plane.Stop() })
	client, err := plane.Client(apiserver.AdminToken)
	if err != nil {
		t.Fatal(err)
	}
	if err := apiserver.ApplyFiles(ctx, client, "default", "../../config/crd/http.keda.sh_httpscaledobjects.yaml"); err != nil {
		t.Fatal(err)
	}
	for _, n := range []string{"keda", size.fleetName(0)} {
		if err := apiserver.CreateNamespace(ctx, client, n); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	populate(t, client, size)
	t.Logf("populated in %v", time.Since(began))
	kubeconfig := filepath.Join(folder, "kubeconfig")
	if err := plane.WriteKubeconfig(kubeconfig, apiserver.AdminToken); err != nil {
		t.Fatal(err)
	}
	address := netspace.Address()
	at := func(port uint16) string { return netip.AddrPortFrom(address, port).String() }
	binary := filepath.Join(netspace.Folder(), "interceptor")
	if v := os.Getenv("JOIN_INTERCEPTOR"); v != "" {
		binary = v
	}
	process, err := program.StartWith(context.WithoutCancel(ctx), folder, []string{"GOGC=20", "GOMEMLIMIT=800MiB"}, binary,
		"--kubeconfig", kubeconfig, "--xds-address", at(5678), "--proxy-address", at(8081), "--admin-address", at(9090),
		"--metrics-address", at(2223), "--metric-sink-address", at(9901), "--pod-name", "one", "--access-log=false",
		"--max-objects-per-namespace=0", "--max-hosts-per-namespace=0", "--pprof")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = process.Kill() })
	if err := process.Await(ctx, func(ctx context.Context) error {
		answer, err := traffic.Get(ctx, "http://"+at(8081)+"/readyz", "", nil)
		if err == nil && answer.Status != http.StatusOK {
			err = errors.New("not ready")
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	status := func() string {
		data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", process.PID()))
		return string(data)
	}
	_ = status
	dump := func(name string) {
		resp, err := http.Get("http://" + at(9090) + "/debug/pprof/heap")
		if err != nil {
			t.Log(err)
			return
		}
		defer resp.Body.Close()
		out, _ := os.Create("/tmp/x/rep-" + name)
		_, _ = io.Copy(out, resp.Body)
		_ = out.Close()
	}
	mem, err := memoryOf(process.PID())
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(15 * time.Second)
	t.Logf("after start: rss %d peak %d", mem.read("VmRSS"), mem.read("VmHWM"))
	mem.reset()
	began = time.Now()
	var group sync.WaitGroup
	var served atomic.Int64
	pctx, cancel := context.WithCancel(ctx)
	i := &interceptor{tb: t, address: at(5678), isOver: func() bool { return pctx.Err() != nil }}
	i.scopes = func(n int) { served.Add(int64(n)) }
	for p := range size.proxies {
		group.Go(func() { i.runProxy(pctx, proxyAddress(p)) })
	}
	dumped := 0
	maxRSS := 0
	for served.Load() < int64(size.objects*size.proxies) {
		time.Sleep(50 * time.Millisecond)
		now := mem.read("VmRSS")
		maxRSS = max(maxRSS, now)
		if dumped < 9 && os.Getenv("JOIN_DUMP") != "" && time.Since(began) > time.Duration(3+6*dumped)*time.Second {
			dump(fmt.Sprintf("heap-%d", dumped))
			dumped++
		}
		if time.Since(began) > 5*time.Minute {
			t.Errorf("only %d", served.Load())
			break
		}
	}
	t.Logf("joined in %v: rss %d peak %d MB", time.Since(began), mem.read("VmRSS"), mem.read("VmHWM"))
	time.Sleep(5 * time.Second)
	dump("heap-end")
	t.Logf("later: rss %d", mem.read("VmRSS"))
	cancel()
	group.Wait()
	i.running.Wait()
}

func populate(t *testing.T, client rest.Interface, size size) {
	ctx := t.Context()
	jobs := make(chan int)
	var group sync.WaitGroup
	path := "/namespaces/" + size.fleetName(0)
	for range 16 {
		group.Go(func() {
			for i := range jobs {
				var errs error
				for _, side := range []string{"-stable", "-canary"} {
					s := size.service(i, side)
					s.APIVersion, s.Kind = "v1", "Service"
					s.ResourceVersion, s.UID = "", ""
					s.ManagedFields = nil
					s.Spec.ClusterIP, s.Spec.ClusterIPs = "None", nil
					e := size.slice(i, side)
					e.APIVersion, e.Kind = "discovery.k8s.io/v1", "EndpointSlice"
					e.ResourceVersion, e.UID = "", ""
					e.ManagedFields = nil
					errs = errors.Join(errs, apiserver.Create(ctx, client, "/api/v1"+path+"/services", s),
						apiserver.Create(ctx, client, "/apis/discovery.k8s.io/v1"+path+"/endpointslices", e))
				}
				o := size.scaledObject(i, 0, httpv1alpha1.HTTPScaledObjectStatus{})
				o.ResourceVersion, o.UID, o.ManagedFields = "", "", nil
				errs = errors.Join(errs, apiserver.Create(ctx, client, "/apis/"+httpv1alpha1.SchemeGroupVersion.String()+path+"/"+httpv1alpha1.Resource, o))
				if errs != nil {
					t.Error(errs)
				}
			}
		})
	}
	for i := range size.objects {
		jobs <- i
	}
	close(jobs)
	group.Wait()
	e := size.proxiesSlice()
	e.APIVersion, e.Kind = "discovery.k8s.io/v1", "EndpointSlice"
	e.ResourceVersion, e.UID, e.ManagedFields = "", "", nil
	if err := apiserver.Create(ctx, client, "/apis/discovery.k8s.io/v1"+path+"/endpointslices", e); err != nil {
		t.Fatal(err)
	}
}
