package canary

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/e2e/provider"
	"github.com/kedify/argo-rollouts-plugin/e2e/testbed"
)

const (
	interceptors         = "deployment/keda-add-ons-http-interceptor"
	interceptorNamespace = "keda"
	// otherFlag changes every cluster. A flag that changes the listener, such as that of the access log, would drain every
	// connection.
	otherFlag = "KEDIFY_HTTP_PROXY_MAX_UPSTREAM_RETRIES"
)

// Two replicas of the interceptor are replaced one after the other by replicas with another flag, during the promotion
// of a Rollout from 20 % to its end. No request fails. Every weight is verified by the proxies' ACKs.
//
// Every proxy of the cluster receives its listener once more during this test. Other tests count such updates, so this
// one is separate.
func TestRollover(t *testing.T) {
	b := testbed.Up(t, provider.Spec{})
	b.Deploy(t, patient())
	if err := kubectlInKEDA(t.Context(), b, "scale", interceptors, "--replicas=2"); err != nil {
		t.Fatal(err)
	}
	if err := awaitRollover(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, args := range [][]string{
			{"scale", interceptors, "--replicas=1"},
			{"set", "env", interceptors, otherFlag + "-"},
			{"rollout", "status", interceptors, testbed.WaitTimeout()},
		} {
			if err := kubectlInKEDA(context.WithoutCancel(t.Context()), b, args...); err != nil {
				t.Error(err)
			}
		}
	})
	leases := b.WatchLease(t)
	c := testbed.Canary{
		From: deployed, To: "red", Final: "red", Weights: []int{20, 50, 80},
		Requested: []int{0, 20, 50, 80, 100, 0},
	}
	runCanary(t, b, c, func(ctx context.Context, trial *testbed.Trial) error {
		if err := trial.RunSteps(ctx, 20); err != nil {
			return err
		}
		if err := kubectlInKEDA(ctx, b, "set", "env", interceptors, otherFlag+"=4"); err != nil {
			return err
		}
		if err := trial.RunStep(ctx, 1, 50); err != nil {
			return err
		}
		if err := trial.RunStep(ctx, 2, 80); err != nil {
			return err
		}
		if err := awaitRollover(ctx, b); err != nil {
			return err
		}
		return b.Argo(ctx, "promote", testbed.App)
	})
	leases.CheckRouter(t)
}

// awaitRollover waits for the end of a rolling update of the interceptors.
func awaitRollover(ctx context.Context, b *testbed.Testbed) error {
	return kubectlInKEDA(ctx, b, "rollout", "status", interceptors, testbed.WaitTimeout())
}

// kubectlInKEDA runs kubectl in the interceptors' namespace.
func kubectlInKEDA(ctx context.Context, b *testbed.Testbed, args ...string) error {
	if _, err := b.Kubectl(ctx, append([]string{"kubectl", "-n", interceptorNamespace}, args...)...); err != nil {
		return fmt.Errorf("kubectl %s: %w", strings.Join(args, " "), err)
	}
	return nil
}
