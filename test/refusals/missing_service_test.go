package refusals_test

import (
	"strings"
	"testing"
	"time"

	rolloutstypes "github.com/argoproj/argo-rollouts/utils/plugin/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/router/httpso"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/routertest"
)

// checkUnknownService: a Rollout names a canary Service that does not exist. The router writes the annotation, and the
// interceptor validates the Services. The weight is not verified, so the rollout waits, and continues once the Service
// exists.
func (s *environment) checkUnknownService(t *testing.T) {
	const namespace = "unknown"
	const half = 50 // a new Service has no endpoints at first; at the full weight no other backend could answer
	s.createNamespace(t, namespace)
	host := hostName(namespace, "shop")
	defer startLoad(t, host)()
	rollout := routertest.Rollout(httpso.Type, `{"httpScaledObjectName":"shop"}`)
	rollout.Namespace, rollout.Name = namespace, "shop"
	rollout.Spec.Strategy.Canary.StableService, rollout.Spec.Strategy.Canary.CanaryService = "shop-stable", "shop-next"

	began := time.Now()
	if answer := s.plugin.SetWeight(rollout, half, nil); answer.HasError() {
		t.Fatalf("SetWeight: %v", answer)
	}

	message := `annotation http.kedify.io/weighted-backends: Service "shop-next" not found in namespace "unknown": ` +
		`create it or name another Service of the namespace`
	s.expectConditions(t, namespace, "shop",
		notAccepted(httpv1alpha1.ReasonServiceNotFound, message, "Requests are routed as last published."))
	s.expectEvent(t, began, namespace, "shop", "Warning", httpv1alpha1.ReasonServiceNotFound, message)
	s.checkNeighbour(t, namespace)
	if verified, answer := s.plugin.VerifyWeight(rollout, half, nil); answer.HasError() ||
		verified != rolloutstypes.NotVerified {
		t.Errorf("VerifyWeight: %v, %v; want false without an error", verified, answer)
	}
	expectAnswers(t, host, "canary")

	s.apply(t, namespace, strings.ReplaceAll(s.app("shop-stable"), "shop-stable", "shop-next"))
	s.expectConditions(t, namespace, "shop", accepted())
	await.True(t, "the weight is verified", func() bool {
		verified, answer := s.plugin.VerifyWeight(rollout, half, nil)
		return !answer.HasError() && verified == rolloutstypes.Verified
	})
	expectAnswers(t, host, "stable") // stable is also the app behind shop-next
}
