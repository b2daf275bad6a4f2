package attacks

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/coldstart"
	"github.com/kedify/argo-rollouts-plugin/test/kit/envoyproc"
	"github.com/kedify/argo-rollouts-plugin/test/kit/netspace"
	"github.com/kedify/argo-rollouts-plugin/test/kit/process"
	"github.com/kedify/argo-rollouts-plugin/test/kit/program"
	"github.com/kedify/argo-rollouts-plugin/test/kit/shipped"
)

const (
	// evil is the namespace of the attackers with a fleet, and evilPods is how many Pods they have.
	evil, evilPods = "evil", 12
	// evilApps is the number of its HTTPScaledObjects, each with a Service, and evilServices that of more Services. All
	// have as many annotations as the API server accepts.
	evilApps, evilServices, evilAnnotations = 300, 1500, 255 << 10
	// unknownPods is the number of Pods without a fleet.
	unknownPods = 100
	// apps is the number of apps of the victim. The last ones have no Pod.
	apps = 4
)

// Ports of the interceptor.
const discoveryPort, metricsPort, adminPort, healthPort, prometheusPort = 5678, 9901, 9090, 8081, 2223

func TestMain(m *testing.M) {
	os.Exit(netspace.Main(m, func(folder string) error {
		return program.Build(context.Background(), folder, "v9.9.9-test", "interceptor")
	}))
}

// scene is the victim, with an interceptor that all attacks have in common.
type scene struct {
	*coldstart.Testbed

	replica *coldstart.Replica
	memory  process.Folder
	limit   int // of the memory, in bytes
	// weight is the last weight of the victim's canary, and peaks are the results of the attacks.
	weight int
	peaks  []string
}

// startTestbed starts a Testbed for interceptors with the settings of the manifest, and returns it with their limit of
// memory in bytes. It ends with the test.
func startTestbed(t *testing.T, options coldstart.Options) (*coldstart.Testbed, int) {
	t.Helper()
	limit, variables, err := shipped.Settings(shipped.Interceptor)
	if err != nil {
		t.Fatal(err)
	}
	if options.Binaries, err = apiserver.FromEnvironment(os.Getenv); err != nil {
		t.Fatal(err)
	}
	options.Repository, options.Built, options.Folder = "../..", netspace.Folder(), t.TempDir()
	options.QueueDeadline, options.Workers, options.Environment = time.Hour, 2, variables
	bed, err := coldstart.Start(context.WithoutCancel(t.Context()), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := bed.Stop(); err != nil {
			t.Error(err)
		}
	})
	return bed, limit
}

// newScene starts everything. It ends with the test.
func newScene(t *testing.T) *scene {
	t.Helper()
	s := new(scene)
	s.Testbed, s.limit = startTestbed(t, coldstart.Options{Envoy: envoyproc.Binary(t), Apps: apps})
	s.createEvil(t)
	ctx := context.WithoutCancel(t.Context())
	var err error
	if s.replica, err = s.StartInterceptor(ctx, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			log, _ := s.replica.Log()
			t.Logf("end of the log of the interceptor:\n%s", log[max(0, len(log)-4000):])
		}
		_ = s.replica.Kill()
	})
	if s.memory, err = process.Find(s.replica.PID()); err != nil {
		t.Fatal(err)
	}
	if err := s.StartProxy(ctx); err != nil {
		t.Fatal(err)
	}
	s.record(t, "its start, with large objects", 0)
	for app := range 2 {
		if err := s.SetReady(ctx, app, true); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// evilAddress and unknownAddress return the addresses of attackers.
func evilAddress(i int) netip.Addr    { return netip.AddrFrom4([4]byte{192, 0, 2, byte(140 + i)}) }
func unknownAddress(i int) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2, byte(30 + i)}) }

// createEvil creates the fleet of the attackers, with apps at zero.
func (s *scene) createEvil(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	if err := apiserver.CreateNamespace(ctx, s.Admin, evil); err != nil {
		t.Fatal(err)
	}
	var addresses []string
	for i := range evilPods {
		addresses = append(addresses, evilAddress(i).String())
	}
	if err := apiserver.Create(ctx, s.Admin, slicesPath(evil),
		kit.NewEndpointSlice(evil, resolve.ProxyService, addresses...)); err != nil {
		t.Fatal(err)
	}
	annotations := map[string]string{"evil.test/notes": strings.Repeat("x", evilAnnotations)}
	for i := range evilApps {
		name := fmt.Sprintf("evil-%03d", i)
		service := kit.NewService(evil, name)
		service.Annotations = annotations
		if err := apiserver.Create(ctx, s.Admin, servicesPath(evil), service); err != nil {
			t.Fatal(err)
		}
		object := kit.NewScaledObject(evil, name, name, 1, name+".test", name+".example.com")
		object.ObjectMeta = metav1.ObjectMeta{Namespace: evil, Name: name, Annotations: annotations}
		if err := apiserver.Create(ctx, s.Admin, objectsPath(evil), object); err != nil {
			t.Fatal(err)
		}
	}
	group, inGroup := errgroup.WithContext(ctx)
	group.SetLimit(4)
	for i := range evilServices {
		group.Go(func() error {
			service := kit.NewService(evil, fmt.Sprintf("large-%04d", i))
			service.Annotations = annotations
			return apiserver.Create(inGroup, s.Admin, servicesPath(evil), service)
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}

// slicesPath, servicesPath, configMapsPath and objectsPath return REST paths.
func slicesPath(namespace string) string {
	return "/apis/discovery.k8s.io/v1/namespaces/" + namespace + "/endpointslices"
}

func servicesPath(namespace string) string { return "/api/v1/namespaces/" + namespace + "/services" }

func configMapsPath(namespace string) string {
	return "/api/v1/namespaces/" + namespace + "/configmaps"
}

func objectsPath(namespace string) string {
	return "/apis/" + httpv1alpha1.SchemeGroupVersion.String() + "/namespaces/" + namespace + "/" + httpv1alpha1.Resource
}

// at returns the address of a port of the interceptor.
func (s *scene) at(port uint16) string { return netip.AddrPortFrom(s.replica.Address, port).String() }

// attack is an attack. start begins it and returns when it has its full effect; it ends with the context. check is
// called while it lasts; it may be nil.
type attack struct {
	name  string
	start func(ctx context.Context, t *testing.T, s *scene) (check func())
}

// during checks the victim and the memory during an attack.
func (s *scene) during(t *testing.T, a attack) {
	t.Helper()
	if err := s.memory.ResetPeak(); err != nil {
		t.Fatal(err)
	}
	before := s.peak(t)
	visitor := s.visit(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	check := a.start(ctx, t, s)
	s.changeWeight(t)
	s.awaitDemand(t)
	s.wake(t)
	if check != nil {
		check()
	}
	visitor.stop(t)
	stop()
	await.True(t, "only the victim is connected", func() bool {
		streams, err := s.replica.Metric(t.Context(), `kedify_xds_streams{mode="delta"}`)
		return err == nil && streams == 1
	})
	s.record(t, a.name, before)
}

// record compares the memory of the interceptor with its limit, at the end of a part of the test.
func (s *scene) record(t *testing.T, part string, before int) {
	t.Helper()
	peak := s.peak(t)
	s.peaks = append(s.peaks, fmt.Sprintf("%-50s %5d MiB before, peak %5d MiB of %d MiB", part, before>>20, peak>>20,
		s.limit>>20))
	if peak > s.limit {
		t.Errorf("%s: the interceptor used %d MiB, and its limit is %d MiB", part, peak>>20, s.limit>>20)
	}
}

// peak returns the largest memory of the interceptor during an attack, in bytes.
func (s *scene) peak(t *testing.T) int {
	t.Helper()
	peak, err := s.memory.Peak()
	if err != nil {
		t.Fatal(err)
	}
	return peak
}

// TestAttacks runs all attacks, one after the other.
func TestAttacks(t *testing.T) {
	s := newScene(t)
	for _, a := range slices.Concat(identityAttacks(), messageAttacks(), connectionAttacks(), storedAttacks()) {
		t.Run(a.name, func(t *testing.T) { s.during(t, a) })
	}
	t.Logf("memory of the interceptor:\n%s", strings.Join(s.peaks, "\n"))
}

// configMap returns a labeled ConfigMap.
func configMap(namespace, name, label, text string) *corev1.ConfigMap {
	object := new(corev1.ConfigMap)
	object.APIVersion, object.Kind = "v1", "ConfigMap"
	object.Namespace, object.Name = namespace, name
	object.Labels, object.Data = map[string]string{label: "true"}, map[string]string{"body": text}
	return object
}
