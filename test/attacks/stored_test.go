package attacks

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding/page"
	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
)

// storedAttacks store objects that the interceptor reads, again after each restart.
func storedAttacks() []attack {
	return []attack{{"1000 ConfigMaps of 256 KiB with the label of pages", createPages}}
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
			return apiserver.Create(inGroup, s.Admin, configMapsPath(evil),
				configMap(evil, fmt.Sprintf("page-%03d", i), page.Label, text))
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
