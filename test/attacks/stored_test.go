package attacks

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding/page"
	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
)

// storedAttacks store objects that the interceptor reads, again after each restart.
func storedAttacks() []attack {
	return []attack{{"1000 ConfigMaps of 256 KiB with the label of pages", createPages}}
}

// createConfigMap creates a ConfigMap. etcd answers that a request has timed out if the disk is slow; the ConfigMap may exist
// then.
func createConfigMap(ctx context.Context, s *scene, object *corev1.ConfigMap) error {
	for {
		err := apiserver.Create(ctx, s.Admin, configMapsPath(evil), object)
		if err == nil || apierrors.IsAlreadyExists(err) {
			return nil
		}
		if ctx.Err() != nil || !strings.Contains(err.Error(), "etcdserver: request timed out") {
			return err
		}
	}
}

// createPages creates labeled ConfigMaps, and names 100 of them in objects.
func createPages(ctx context.Context, t *testing.T, s *scene) func() {
	t.Helper()
	const count, named = 1000, 100
	text := strings.Repeat("x", page.MaxBody)
	group, inGroup := errgroup.WithContext(ctx)
	group.SetLimit(4)
	for i := range count {
		group.Go(func() error {
			return createConfigMap(inGroup, s, configMap(evil, fmt.Sprintf("page-%03d", i), page.Label, text))
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	for i := range named {
		path := fmt.Sprintf("%s/evil-%03d", objectsPath(evil), i)
		change := map[string]any{"metadata": map[string]any{"annotations": map[string]string{
			httpv1alpha1.AnnotationWaitingPage: "true", httpv1alpha1.AnnotationWaitingPageConfigMap: fmt.Sprintf("page-%03d", i),
		}}}
		if err := apiserver.Patch(ctx, s.Admin, path, "test", change); err != nil {
			t.Fatal(err)
		}
	}
	return nil
}
