package engine_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/internal/router/engine"
	"github.com/kedify/argo-rollouts-plugin/test/kit/routertest"
)

// A configuration is read once in each namespace, and one that is wrong each time.
func TestAMemoReadsOnce(t *testing.T) {
	t.Parallel()
	const kind = "test/router"
	reads := 0
	wrong := errors.New("wrong")
	memo := engine.NewMemo(kind, func(rollout *v1alpha1.Rollout) (string, error) {
		reads++
		text := string(engine.ConfigOf(rollout, kind))
		if text == "{}" {
			return "", wrong
		}
		return rollout.Namespace + " " + text, nil
	})
	for _, step := range []struct {
		namespace, config, want string
		err                     error
		reads                   int
	}{
		{"shop", `{"a":1}`, `shop {"a":1}`, nil, 1},
		{"shop", `{"a":1}`, `shop {"a":1}`, nil, 1},
		{"shop", `{"a":2}`, `shop {"a":2}`, nil, 2},
		{"cafe", `{"a":1}`, `cafe {"a":1}`, nil, 3},
		{"shop", `{}`, "", wrong, 4},
		{"shop", `{}`, "", wrong, 5},
		{"shop", `{"a":1}`, `shop {"a":1}`, nil, 5},
	} {
		rollout := routertest.Rollout(kind, step.config)
		rollout.Namespace = step.namespace
		rollout.Spec.Strategy.Canary.TrafficRouting.Plugins["another/router"] = json.RawMessage(`{}`)
		got, err := memo.Read(rollout)
		if got != step.want || !errors.Is(err, step.err) || reads != step.reads {
			t.Errorf("%s in %s: %q, %v after %d reads, want %q, %v and %d", step.config, step.namespace, got, err, reads, step.want, step.err, step.reads)
		}
	}
}
