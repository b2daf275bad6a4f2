package attacks

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/coldstart"
	"github.com/kedify/argo-rollouts-plugin/test/kit/process"
)

// largeObjects is the number of HTTPScaledObjects of nearly the largest size that the schema allows, and objectBytes
// the size of the texts of each. Most are above the limits of the interceptor.
const largeObjects, objectBytes = 700, 256*(200+1024) + 16*(256+4096)

// TestLargeObjects starts the interceptor with these objects, and adds half of them again while it runs. It never
// needs the memory that the first ones take.
func TestLargeObjects(t *testing.T) {
	ctx := context.WithoutCancel(t.Context())
	bed, limit := startTestbed(t, coldstart.Options{Apps: 1})
	if err := apiserver.CreateNamespace(ctx, bed.Admin, evil); err != nil {
		t.Fatal(err)
	}
	createLargeObjects(t, bed, 0, largeObjects)
	replica, err := bed.StartInterceptor(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = replica.Kill() }()
	await.True(t, "the interceptor serves the object of the other namespace", func() bool {
		served, err := replica.Metric(ctx, "kedify_ingest_routes")
		return err == nil && served == 1
	})
	expectMemory(t, "at a start with the objects", replica, limit)
	createLargeObjects(t, bed, largeObjects, largeObjects*3/2)
	awaitNamespaceLimit(t, bed, largeObjects*3/2-1)
	expectMemory(t, "with more objects", replica, limit)
}

// createLargeObjects creates the objects with numbers from first to end.
func createLargeObjects(t *testing.T, bed *coldstart.Testbed, first, end int) {
	t.Helper()
	value := strings.Repeat("v", 4096)
	var headers []httpv1alpha1.Header
	for i := range resolve.MaxHeaders {
		headers = append(headers, httpv1alpha1.Header{Name: fmt.Sprint(strings.Repeat("n", 250), i), Value: &value})
	}
	label := strings.Repeat("x", 60)
	group, inGroup := errgroup.WithContext(t.Context())
	group.SetLimit(4)
	for i := first; i < end; i++ {
		group.Go(func() error {
			object := kit.NewScaledObject(evil, fmt.Sprintf("large-%04d", i), "shop", 1)
			for host := range resolve.MaxHosts {
				object.Spec.Hosts = append(object.Spec.Hosts, fmt.Sprintf("h%d-%d.%s.%s.%s", host, i, label, label, label))
				object.Spec.PathPrefixes = append(object.Spec.PathPrefixes, fmt.Sprintf("/%d%s", host, strings.Repeat("p", 1020)))
			}
			object.Spec.Headers = headers
			return apiserver.Create(inGroup, bed.Admin, objectsPath(evil), object)
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}

// awaitNamespaceLimit waits until an object reports that it is above a limit.
func awaitNamespaceLimit(t *testing.T, bed *coldstart.Testbed, number int) {
	t.Helper()
	var status httpv1alpha1.HTTPScaledObjectStatus
	await.Described(t, "an object reports a limit", func() bool {
		object := new(httpv1alpha1.HTTPScaledObject)
		err := apiserver.Get(t.Context(), bed.Admin, fmt.Sprintf("%s/large-%04d", objectsPath(evil), number), object)
		status = object.Status
		accepted := meta.FindStatusCondition(status.Conditions, httpv1alpha1.ConditionAccepted)
		return err == nil && accepted != nil && accepted.Reason == httpv1alpha1.ReasonNamespaceLimit
	}, func() string { return fmt.Sprintf("%+v", status) })
}

// expectMemory compares the peak of the memory with the limit, and with the size of the objects.
func expectMemory(t *testing.T, part string, replica *coldstart.Replica, limit int) {
	t.Helper()
	folder, err := process.Find(replica.PID())
	if err != nil {
		t.Fatal(err)
	}
	peak, err := folder.Peak()
	if err != nil {
		t.Fatal(err)
	}
	const stored = largeObjects * objectBytes
	t.Logf("%s of %d MiB: peak %d MiB of %d MiB", part, stored>>20, peak>>20, limit>>20)
	if peak > min(limit, stored) {
		t.Errorf("%s: the interceptor used %d MiB, its limit is %d MiB, and the first objects have %d MiB", part, peak>>20,
			limit>>20, stored>>20)
	}
}
