package httpso_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/internal/router/httpso"
	"github.com/kedify/argo-rollouts-plugin/test/kit/routertest"
)

// TestRollbackIsLimitedToReadyPods: the controller has skipped the steps and requests the last weight for a canary of
// which one of four Pods is ready.
func TestRollbackIsLimitedToReadyPods(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		`{"httpScaledObjectName":"web"}`:                                "weight: 75\n- service: web-canary\n  weight: 25\n",
		`{"httpScaledObjectName":"web","limitWeightToReadyPods":true}`:  "weight: 75\n- service: web-canary\n  weight: 25\n",
		`{"httpScaledObjectName":"web","limitWeightToReadyPods":false}`: "weight: 20\n- service: web-canary\n  weight: 80\n",
	} {
		synctest.Test(t, func(t *testing.T) {
			api := routertest.NewInMemory(t, reported("", nil))
			ready(api, "web-canary", "10.0.0.2")
			router, rollout := watching(t, api), inCanary(1, v1alpha1.CanaryStep{SetWeight: new(int32(80))})
			rollout.Spec.Strategy.Canary.TrafficRouting.Plugins[httpso.Type] = []byte(given)
			rollout.Spec.Replicas = new(int32(4))
			rollout.Status.Canary.Weights = &v1alpha1.TrafficWeights{Canary: v1alpha1.WeightDestination{
				PodTemplateHash: rollout.Status.CurrentPodHash,
			}}
			for range 2 {
				if err := router.SetWeight(deadlined(t), rollout, 80, nil); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
			}
			verified, err := router.VerifyWeight(deadlined(t), rollout, 80, nil)
			isLimited := !strings.Contains(given, "false")
			if err != nil || verified == isLimited || !strings.HasSuffix(annotationOf(api, "web"), want) {
				t.Errorf("%s: VerifyWeight %v, %v; annotation %q, want %q", given, verified, err, annotationOf(api, "web"), want)
			}
			if writes := len(api.Requests(http.MethodPatch)); writes != 1 {
				t.Errorf("%s: %d writes, want one", given, writes)
			}
			if isLimited {
				ready(api, "web-canary", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5")
				if err := router.SetWeight(deadlined(t), rollout, 80, nil); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if verified, err = router.VerifyWeight(deadlined(t), rollout, 80, nil); err != nil || !verified {
					t.Errorf("%s: VerifyWeight with all Pods: %v, %v", given, verified, err)
				}
			}
		})
	}
}
