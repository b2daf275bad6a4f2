package engine_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/internal/router/engine"
	"github.com/kedify/argo-rollouts-plugin/test/kit/routertest"
)

// TestConfigCacheParsesOnce: a valid configuration is parsed once per namespace, an invalid one on each call.
func TestConfigCacheParsesOnce(t *testing.T) {
	t.Parallel()
	const kind = "test/router"
	reads := 0
	errInvalid := errors.New("invalid")
	cache := engine.NewConfigCache(kind, func(rollout *v1alpha1.Rollout) (string, error) {
		reads++
		text := string(engine.ConfigOf(rollout, kind))
		if text == "{}" {
			return "", errInvalid
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
		{"shop", `{}`, "", errInvalid, 4},
		{"shop", `{}`, "", errInvalid, 5},
		{"shop", `{"a":1}`, `shop {"a":1}`, nil, 5},
	} {
		rollout := routertest.Rollout(kind, step.config)
		rollout.Namespace = step.namespace
		rollout.Spec.Strategy.Canary.TrafficRouting.Plugins["another/router"] = json.RawMessage(`{}`)
		got, err := cache.Get(rollout)
		if got != step.want || !errors.Is(err, step.err) || reads != step.reads {
			t.Errorf("%s in %s: %q, %v after %d reads, want %q, %v and %d", step.config, step.namespace, got, err, reads,
				step.want, step.err, step.reads)
		}
	}
}
