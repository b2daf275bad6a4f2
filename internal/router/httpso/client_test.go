package httpso_test

import (
	"errors"
	"log/slog"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/internal/router/httpso"
	"github.com/kedify/argo-rollouts-plugin/test/kit/routertest"
)

func TestClientConnectsAsSoonAsItCan(t *testing.T) {
	t.Parallel()
	api := routertest.NewAPIServer(t, routertest.ScaledObject(nil))
	missing := errors.New("no kubeconfig yet")
	calls := 0
	client := httpso.NewClient(func() (*rest.Config, error) {
		if calls++; calls == 1 {
			return nil, missing
		}
		return api.Config(), nil
	})
	router := httpso.New(client, lease, slog.New(slog.DiscardHandler))
	rollout := routertest.Rollout(httpso.Type, config)
	if err := router.SetWeight(t.Context(), rollout, 20, nil); !errors.Is(err, missing) {
		t.Fatalf("error is %v, want %v", err, missing)
	}
	for _, weight := range []int32{20, 50} {
		if err := router.SetWeight(t.Context(), rollout, weight, nil); err != nil {
			t.Fatal(err)
		}
	}
	if calls != 2 {
		t.Errorf("the configuration was looked up %d times, want 2: a failure and a success", calls)
	}
}
